//! Reading a journal: in the background, with strange entries, and with others in its stream.

use std::io;
use std::time::Duration;

use tidelog::remote_log::{
    Event, Journal, JournalError, RemoteLogMetadataManager, RemoteStorageError, TideRemoteLogMetadataManager,
};
use tidelog::{Batch, Log};

use crate::segments::*;
use crate::support::{
    Env, STREAM, add_finished, append_raw, assert_failed, assert_io, at, journal, list, manual, payments,
};

fn bytes(event: &Event) -> Vec<u8> {
    event.encode().unwrap().to_vec()
}

/// Cycles of a segment's life, a hundred at a time.
fn fill(log: &Log, hundreds: usize) {
    let add = bytes(&Event::AddSegment(segment(1, [0, 99], &[(0, 0)])));
    let updates = [FINISHED, DELETING, DELETED].map(|state| bytes(&Event::UpdateSegment(update(1, state))));
    let cycle = [&[add], &updates[..]].concat();
    let many: Vec<_> = cycle.iter().cloned().cycle().take(100 * cycle.len()).collect();
    for _ in 0..hundreds {
        append_raw(log, &many);
    }
}

/// Not ready is not the same as nothing there, nor as a failure; who cannot go on can wait.
#[test]
fn faults_07_08_09_10_20_not_ready_while_it_is_read() {
    let env = Env::new();
    let log = env.log();
    fill(&log, 100);
    append_raw(&log, &[bytes(&Event::AddSegment(segment(1, [0, 99], &[(0, 0)])))]);
    let journal = Journal::open_in_background(&log, STREAM.id, manual()).unwrap();
    let all = TideRemoteLogMetadataManager::new(journal.clone());
    let none = TideRemoteLogMetadataManager::with_partitions(journal.clone(), []);
    let not_ready = |outcome: Result<(), RemoteStorageError>| {
        assert!(matches!(outcome, Err(RemoteStorageError::NotReady { partition: 0 })), "{outcome:?}");
    };
    let tp = &orders();
    not_ready(all.remote_log_segment_metadata(tp, 0.into(), 0).map(drop));
    not_ready(all.highest_offset_for_epoch(tp, 0.into()).map(drop));
    not_ready(all.list_remote_log_segments(tp).map(drop));
    not_ready(all.list_remote_log_segments_by_epoch(tp, 0.into()).map(drop));
    not_ready(all.caught_up(tp).map(drop));
    not_ready(all.add_remote_log_segment_metadata(segment(2, [0, 99], &[(0, 0)])));
    not_ready(all.purge_partition(tp).map(drop));
    assert_eq!(list(&none), []);
    assert!(!none.caught_up(tp).unwrap());
    assert_eq!(journal.report(), None);
    assert!(!journal.wait_ready(Some(Duration::ZERO)).unwrap());

    // For a partition that is not assigned a mutation waits.
    none.update_remote_log_segment_metadata(update(1, FINISHED)).unwrap();
    assert!(journal.wait_ready(Some(Duration::from_secs(60))).unwrap());
    assert_eq!(at(&all, 50), Some(1));
    assert_eq!(journal.report().unwrap().entries, 40_001);
}

/// What is given up while it is read lets the log go, and can be opened again.
#[test]
fn a_journal_that_is_dropped_while_it_is_read() {
    let env = Env::new();
    let log = env.log();
    fill(&log, 40);
    for _ in 0..20 {
        drop(Journal::open_in_background(&log, STREAM.id, manual()).unwrap());
    }
    let manager = TideRemoteLogMetadataManager::new(journal(&log));
    add_finished(&manager, 1, [0, 99]);
    assert_eq!(at(&manager, 50), Some(1));
}

/// Events without what they build on, as in a topic whose beginning was cut off.
#[test]
fn fault_06_events_that_do_not_fit_are_left_out_and_counted() {
    let env = Env::new();
    let log = env.log();
    append_raw(
        &log,
        &[
            bytes(&Event::UpdateSegment(update(1, FINISHED))),
            bytes(&Event::AddSegment(segment(2, [0, 99], &[(0, 0)]))),
            bytes(&Event::UpdateSegment(update(2, DELETED))),
            bytes(&Event::UpdateSegment(update(2, FINISHED))),
        ],
    );
    let manager = TideRemoteLogMetadataManager::new(journal(&log));
    assert_eq!(manager.journal().report().unwrap().refused, 2);
    assert_eq!(at(&manager, 50), Some(2));
    add_finished(&manager, 1, [100, 199]);
    assert_eq!(list(&manager).len(), 2);
}

/// What cannot be decoded is never passed over.
#[test]
fn faults_27_45_an_entry_that_is_no_record_fails_the_journal() {
    let env = Env::new();
    let log = env.log();
    append_raw(&log, &[bytes(&Event::AddSegment(segment(1, [0, 99], &[(0, 0)]))), vec![1, 9, 9]]);
    let error = assert_io(Journal::open(&log, STREAM.id, manual()));
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<JournalError>());
    assert!(matches!(inner, Some(JournalError::Record { stream: STREAM, id: 2, .. })), "{inner:?}");

    // It stays so, on every call.
    let journal = Journal::open_in_background(&log, STREAM.id, manual()).unwrap();
    assert_io(journal.wait_ready(None));
    assert_failed(&TideRemoteLogMetadataManager::new(journal.clone()));
    assert_failed(&TideRemoteLogMetadataManager::with_partitions(journal.clone(), [payments()]));
    assert_io(journal.checkpoint());
}

#[test]
fn somebody_else_in_the_stream_fails_the_journal() {
    let env = Env::new();
    let (log, manager) = env.open();
    add_finished(&manager, 1, [0, 99]);
    let mut batch: Batch<&[u8]> = Batch::new();
    batch.append(STREAM, 3, b"?".as_slice());
    log.append_durable(&batch).unwrap();
    assert_io(manager.add_remote_log_segment_metadata(segment(2, [0, 99], &[(0, 0)])));
    assert_failed(&manager);
}

#[test]
fn a_closed_log_takes_nothing_and_still_answers() {
    let env = Env::new();
    let (log, manager) = env.open();
    add_finished(&manager, 1, [0, 99]);
    log.close().unwrap();
    assert_io(manager.add_remote_log_segment_metadata(segment(2, [0, 99], &[(0, 0)])));
    assert_eq!(at(&manager, 50), Some(1));
    assert_eq!(list(&manager).len(), 1);
}

/// Closing while others open, read and write ends, and loses nothing.
#[test]
fn fault_26_closing_at_any_moment() {
    let env = Env::new();
    let mut expected = 0;
    for round in 0..10u128 {
        let log = env.log();
        let added = std::thread::scope(|scope| {
            let journal = Journal::open_in_background(&log, STREAM.id, manual()).unwrap();
            let manager = TideRemoteLogMetadataManager::with_partitions(journal, []);
            let adder = scope.spawn(move || {
                let mut added = 0;
                for number in 0..50 {
                    let metadata = segment(round * 100 + number, [0, 99], &[(0, 0)]);
                    match manager.add_remote_log_segment_metadata(metadata) {
                        Ok(()) => added += 1,
                        Err(RemoteStorageError::Io(_)) => break,
                        Err(other) => panic!("{other}"),
                    }
                }
                added
            });
            std::thread::sleep(Duration::from_millis(round as u64));
            log.close().unwrap();
            adder.join().unwrap()
        });
        drop(log);
        let (log, manager) = env.open();
        let found = list(&manager).len();
        assert!(found >= expected + added, "{found} of {expected} and {added}");
        expected = found;
        drop((log, manager));
    }
}
