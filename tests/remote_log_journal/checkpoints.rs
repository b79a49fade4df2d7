//! Checkpoints: what they keep, what they drop, and what half of one is worth.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::remote_log::{
    Event, Journal, JournalOptions, RemoteLogMetadataManager, RemoteLogSegmentState,
    RemotePartitionDeleteMetadata, TideRemoteLogMetadataManager,
};

use crate::segments::*;
use crate::support::{Env, STREAM, add_finished, append_raw, at, list};

fn delete(manager: &dyn RemoteLogMetadataManager, number: u128) {
    manager.update_remote_log_segment_metadata(update(number, DELETING)).unwrap();
    manager.update_remote_log_segment_metadata(update(number, DELETED)).unwrap();
}

#[test]
fn a_checkpoint_holds_what_is_live() {
    let env = Env::new();
    let (log, manager) = env.open();
    for number in 0..100 {
        add_finished(&manager, number, [0, 99]);
        delete(&manager, number);
    }
    let flagged = segment(200, [0, 9], &[(0, 0), (1, 5), (2, 7)]);
    let flagged = flagged.with_custom_metadata(custom(&[])).with_txn_index_empty(true);
    manager.add_remote_log_segment_metadata(flagged).unwrap();
    add_finished(&manager, 201, [0, 99]);
    // Its first event is dropped with the rest; all that it said is kept.
    add_finished(&manager, 202, [100, 199]);
    manager.update_remote_log_segment_metadata(update(202, DELETING)).unwrap();
    let marked = RemotePartitionDeleteMetadata::new(orders(), MARKED, 12, 3);
    manager.put_remote_partition_delete_metadata(marked).unwrap();
    let before = list(&manager);
    assert_eq!(manager.journal().stats().live, 4);
    assert!(manager.journal().stats().entries > 400);

    manager.journal().checkpoint().unwrap();
    // Begin, three segments, the deletion, end.
    assert_eq!((manager.journal().stats().entries, manager.journal().stats().last_checkpoint), (6, 1));
    assert_eq!(list(&manager), before);
    log.close().unwrap();
    drop((log, manager));

    let (_log, manager) = env.open();
    let report = manager.journal().report().unwrap();
    assert_eq!((report.entries, report.refused, report.checkpoint), (6, 0, Some(1)));
    assert_eq!(list(&manager), before);
    manager.update_remote_log_segment_metadata(update(202, DELETED)).unwrap();
    let again = RemotePartitionDeleteMetadata::new(orders(), DELETE_FINISHED, 0, 0);
    let refused = manager.put_remote_partition_delete_metadata(again);
    assert_delete_refused(refused, Some(MARKED), DELETE_FINISHED);
}

/// Whatever of it is read, the segment that finished last answers.
#[test]
fn fault_24_the_winner_stays_the_winner() {
    let env = Env::new();
    let (log, manager) = env.open();
    // They finish in another order than they are added and numbered in.
    for number in [3, 1, 2] {
        manager.add_remote_log_segment_metadata(segment(number, [0, 99], &[(0, 0)])).unwrap();
    }
    for number in [2, 3, 1] {
        manager.update_remote_log_segment_metadata(update(number, FINISHED)).unwrap();
    }
    manager.journal().checkpoint().unwrap();
    manager.journal().checkpoint().unwrap();
    drop((log, manager));
    let (log, manager) = env.open();
    assert_eq!(at(&manager, 50), Some(1));
    add_finished(&manager, 4, [50, 60]);
    manager.journal().checkpoint().unwrap();
    for (number, next) in [(4, 1), (1, 3), (3, 2)] {
        assert_eq!(at(&manager, 50), Some(number));
        delete(&manager, number);
        assert_eq!(at(&manager, 50), Some(next));
    }
    drop((log, manager));
    assert_eq!(at(&env.open().1, 50), Some(2));
}

/// The journal stays short.
#[test]
fn fault_29_checkpoints_come_when_most_is_dead() {
    let env = Env::new();
    let log = env.log();
    let options = JournalOptions::new().checkpoint_after(Some(100));
    let manager = TideRemoteLogMetadataManager::new(Journal::open(&log, 1, options).unwrap());
    for number in 0..10 {
        add_finished(&manager, 1000 + number, [0, 99]);
    }
    let before = list(&manager);
    for number in 0..500 {
        add_finished(&manager, number, [0, 99]);
        delete(&manager, number);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while manager.journal().stats().entries > 1000 {
        assert!(Instant::now() < deadline, "{:?}", manager.journal().stats());
        // Each cycle of a segment's life makes a checkpoint due if none is being written.
        add_finished(&manager, 1, [0, 99]);
        delete(&manager, 1);
    }
    assert!(manager.journal().stats().last_checkpoint > 0);
    assert_eq!(manager.journal().stats().failed_checkpoints, 0);
    assert_eq!(list(&manager), before);
    drop((log, manager));
    let (_log, manager) = env.open();
    assert!(manager.journal().report().unwrap().entries <= 1100);
    assert_eq!(list(&manager), before);
}

#[test]
fn nothing_is_lost_while_checkpoints_are_written() {
    let env = Env::new();
    let (log, manager) = env.open();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !done.load(Ordering::Relaxed) {
                manager.journal().checkpoint().unwrap();
                written += 1;
            }
            written
        });
        let threads: Vec<_> = (0..4u128)
            .map(|thread| {
                let manager = &manager;
                scope.spawn(move || {
                    for round in 0..60u128 {
                        // The same ids come again and again, at different ages.
                        let number = thread * 100 + round % 7;
                        if round >= 7 {
                            delete(manager, number);
                        }
                        let end = (thread * 1000 + round) as i64;
                        add_finished(manager, number, [0, end]);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0);
    });
    let before = list(&manager);
    assert_eq!(before.len(), 28);
    let winners: Vec<_> = (0..4000).step_by(50).map(|offset| at(&manager, offset)).collect();
    drop((log, manager));
    let (_log, manager) = env.open();
    assert!(manager.journal().report().unwrap().checkpoint.is_some());
    assert_eq!(list(&manager), before);
    assert_eq!((0..4000).step_by(50).map(|offset| at(&manager, offset)).collect::<Vec<_>>(), winners);
}

/// The records of checkpoints, byte by byte.
fn record(kind: u8, checkpoint: u64, rest: &[u8]) -> Vec<u8> {
    [&[0, kind], &checkpoint.to_be_bytes()[..], rest].concat()
}

fn state(checkpoint: u64, position: u64, number: u128) -> Vec<u8> {
    state_in(FINISHED, checkpoint, position, number)
}

fn state_in(state: RemoteLogSegmentState, checkpoint: u64, position: u64, number: u128) -> Vec<u8> {
    let metadata = segment_in(state, number, [0, 99], &[(0, 0)]).unwrap();
    let event = Event::AddSegment(metadata).encode().unwrap();
    record(2, checkpoint, &[&position.to_be_bytes(), &event[..]].concat())
}

#[test]
fn a_checkpoint_without_end_is_ignored() {
    let env = Env::new();
    let (log, manager) = env.open();
    add_finished(&manager, 1, [0, 99]);
    drop(manager);
    append_raw(&log, &[record(1, 1, &[]), state(1, 2, 5)]);
    drop(log);
    let (log, manager) = env.open();
    assert_eq!(list(&manager).len(), 1);
    add_finished(&manager, 2, [100, 199]);
    // The next one has a number of its own.
    manager.journal().checkpoint().unwrap();
    assert_eq!(manager.journal().stats().last_checkpoint, 2);
    drop((log, manager));
    assert_eq!(list(&env.open().1).len(), 2);
}

/// What came before a complete checkpoint and was not dropped says the same.
#[test]
fn a_mark_that_was_lost_does_no_harm() {
    let env = Env::new();
    let log = env.log();
    let add = |number| Event::AddSegment(segment(number, [0, 99], &[(0, 0)])).encode().unwrap().to_vec();
    let end = record(3, 1, &1u64.to_be_bytes());
    append_raw(&log, &[add(1), record(1, 1, &[]), add(2), state(1, 1, 1), end, add(3)]);
    drop(log);
    let (log, manager) = env.open();
    assert_eq!(list(&manager).iter().map(number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(manager.journal().report().unwrap().checkpoint, None);
    // The mark is made good.
    assert_eq!((log.stream(STREAM).unwrap().first, manager.journal().stats().entries), (Some(2), 5));
    log.close().unwrap();
    drop((log, manager));
    let (_log, manager) = env.open();
    let report = manager.journal().report().unwrap();
    assert_eq!((report.checkpoint, report.entries), (Some(1), 5));
    assert_eq!(list(&manager).iter().map(number).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Nothing is given up for a checkpoint that no journal could begin with.
#[test]
fn a_checkpoint_that_is_no_start_does_not_take_the_place_of_what_came_before() {
    let add = || Event::AddSegment(segment(1, [0, 99], &[(0, 0)])).encode().unwrap().to_vec();
    let (begin, end) = (|| record(1, 1, &[]), |count: u64| record(3, 1, &count.to_be_bytes()));
    let cases = [
        vec![add(), begin(), state_in(DELETED, 1, 1, 1), end(1)],
        vec![add(), begin(), state(1, 1, 1), state(2, 1, 1), end(1)],
    ];
    for records in cases {
        let env = Env::new();
        let log = env.log();
        append_raw(&log, &records);
        drop(log);
        for _ in 0..2 {
            let (log, manager) = env.open();
            assert_eq!(list(&manager).iter().map(number).collect::<Vec<_>>(), [1]);
            assert_eq!(log.stream(STREAM).unwrap().first, Some(1));
            log.close().unwrap();
        }
    }
}

#[test]
fn a_checkpoint_that_is_not_whole_is_no_start() {
    let count = |count: u64| record(3, 1, &count.to_be_bytes());
    let begin = || record(1, 1, &[]);
    let cases = [
        (vec![begin()], "no end"),
        (vec![begin(), state(1, 1, 1), count(2)], "states are missing"),
        (vec![begin(), state(2, 1, 1)], "another checkpoint"),
        (vec![begin(), record(1, 2, &[])], "another checkpoint"),
        (vec![begin(), state_in(DELETED, 1, 1, 1)], "a segment that is gone"),
        (vec![state(1, 1, 1)], "no begin"),
        (vec![count(0)], "no begin"),
    ];
    for (records, what) in cases {
        let env = Env::new();
        let log = env.log();
        append_raw(&log, &records);
        let error = Journal::open(&log, STREAM.id, JournalOptions::new()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}
