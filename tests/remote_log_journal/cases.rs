//! Cases of Kafka's and Crabka's that need a store that is shared and kept.
//!
//! Left out, since the interface has nothing like it: null arguments and metadata missing from a map; sizes, topics,
//! leaders and followers, and a lineage's epochs, which are the broker's business; metadata partitions, their number,
//! committed offsets and high watermarks; polls that fail; export, import and snapshot files (checkpoints stand for
//! them); stand-ins for a manager that is not there yet.

use std::thread;

use tidelog::remote_log::{
    Journal, RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};

use crate::segments::*;
use crate::support::{Env, STREAM, add_finished, at, journal, list, manual, payments};

fn follower(number: i32) -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(0xfeed), "follower", number)
}

fn add(manager: &dyn RemoteLogMetadataManager, tp: &TopicIdPartition, number: u128) {
    let id = RemoteLogSegmentId::new(tp.clone(), Uuid::from_u128(number));
    let details = RemoteLogSegmentDetails::new(1, STARTED, epochs(&[(0, 0)]));
    let metadata = RemoteLogSegmentMetadata::new(id, 0, 100, -1, 0, 0, details).unwrap();
    manager.add_remote_log_segment_metadata(metadata).unwrap();
}

fn count(manager: &dyn RemoteLogMetadataManager, tp: &TopicIdPartition) -> usize {
    manager.list_remote_log_segments(tp).unwrap().len()
}

#[test]
fn kafka_new_partitions_after_their_updates() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), []);
    let both = [orders(), follower(0)];
    for tp in &both {
        add(&manager, tp, 1);
        assert_eq!((count(&manager, tp), manager.caught_up(tp).unwrap()), (0, false));
    }
    for tp in &both {
        manager.assign(tp.clone());
        assert_eq!((count(&manager, tp), manager.caught_up(tp).unwrap()), (1, true));
    }
}

#[test]
fn kafka_multiple_subscriptions() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), []);
    let (leader, other, empty) = (orders(), follower(0), follower(1));
    add(&manager, &leader, 1);
    add(&manager, &other, 1);
    let counts = || [&leader, &other, &empty].map(|tp| (count(&manager, tp), manager.caught_up(tp).unwrap()));
    assert_eq!(counts(), [(0, false), (0, false), (0, false)]);
    manager.assign(leader.clone());
    assert_eq!(counts(), [(1, true), (0, false), (0, false)]);
    manager.assign(other.clone());
    manager.assign(empty.clone());
    assert_eq!(counts(), [(1, true), (1, true), (0, true)]);
}

#[test]
fn kafka_snapshot_of_nothing() {
    let env = Env::new();
    let (log, manager) = env.open();
    manager.journal().checkpoint().unwrap();
    assert_eq!(manager.journal().stats().live, 0);
    drop((log, manager));
    let (_log, manager) = env.open();
    let report = manager.journal().report().unwrap();
    assert_eq!((report.entries, report.checkpoint, report.refused), (2, Some(1), 0));
    assert_eq!(list(&manager), []);
}

#[test]
fn kafka_snapshot_of_a_hundred() {
    let env = Env::new();
    let (log, manager) = env.open();
    let mut start = 0;
    for number in 0..100u8 {
        let metadata = segment(number.into(), [start, start + 100], &[(number.into(), start)]);
        manager.add_remote_log_segment_metadata(metadata.with_custom_metadata(custom(&[number]))).unwrap();
        manager.update_remote_log_segment_metadata(update(number.into(), FINISHED)).unwrap();
        start += 101;
    }
    let before = list(&manager);
    manager.journal().checkpoint().unwrap();
    // The mark that drops the events is durable by now.
    log.close().unwrap();
    drop((log, manager));
    let (_log, manager) = env.open();
    assert_eq!(manager.journal().report().unwrap().entries, 102);
    assert_eq!(list(&manager), before);
    let found = manager.remote_log_segment_metadata(&orders(), 99.into(), 99 * 101).unwrap().unwrap();
    assert_eq!(found.custom_metadata(), Some(&custom(&[99])));
}

#[test]
fn kafka_a_partition_that_is_given_up_leaves_the_others() {
    let env = Env::new();
    let log = env.log();
    let all = [follower(0), follower(1), follower(2)];
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), all.clone());
    for tp in &all {
        add(&manager, tp, 1);
    }
    manager.unassign(&all[1]);
    assert_eq!(all.each_ref().map(|tp| count(&manager, tp)), [1, 0, 1]);
    assert_eq!(all.each_ref().map(|tp| manager.caught_up(tp).unwrap()), [true, false, true]);
}

#[test]
fn kafka_partitions_are_taken_on_while_events_come() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), []);
    thread::scope(|scope| {
        for half in 0..2 {
            let manager = &manager;
            scope.spawn(move || {
                (half * 50..half * 50 + 50).for_each(|number| manager.assign(follower(number)));
            });
            scope.spawn(move || {
                (half * 50..half * 50 + 50).for_each(|number| add(manager, &follower(number), 1));
            });
        }
    });
    for number in 0..100 {
        let tp = follower(number);
        assert_eq!((count(&manager, &tp), manager.caught_up(&tp).unwrap()), (1, true), "{tp}");
    }
}

#[test]
fn kafka_only_assigned_partitions_are_seen_of_a_shared_journal() {
    let env = Env::new();
    let log = env.log();
    let all = [follower(0), follower(1), follower(2)];
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), [all[0].clone()]);
    let seen = || all.iter().map(|tp| count(&manager, tp)).sum::<usize>();
    add(&manager, &all[0], 1);
    add(&manager, &all[0], 2);
    assert_eq!(seen(), 2);
    add(&manager, &all[1], 3);
    assert_eq!(seen(), 2);
    manager.assign(all[1].clone());
    assert_eq!(seen(), 3);
    add(&manager, &all[2], 4);
    assert_eq!(seen(), 3);
    assert!(manager.caught_up(&all[0]).unwrap());
}

/// Without a backlog there is nothing to wait for; nor is there where all of it is gone.
#[test]
fn kafka_an_empty_journal_is_ready() {
    let env = Env::new();
    let (log, manager) = env.open();
    assert!(manager.caught_up(&orders()).unwrap());
    add_finished(&manager, 1, [0, 9]);
    manager.update_remote_log_segment_metadata(update(1, DELETING)).unwrap();
    manager.update_remote_log_segment_metadata(update(1, DELETED)).unwrap();
    manager.journal().checkpoint().unwrap();
    drop((log, manager));
    let log = env.log();
    let journal = Journal::open_in_background(&log, STREAM.id, manual()).unwrap();
    assert!(journal.wait_ready(None).unwrap());
    let manager = TideRemoteLogMetadataManager::with_partitions(journal, [payments()]);
    assert!(manager.caught_up(&payments()).unwrap());
}

#[test]
fn crabka_an_add_in_a_later_state_writes_nothing() {
    let env = Env::new();
    let (log, manager) = env.open();
    let finished = segment_in(FINISHED, 1, [0, 99], &[(0, 0)]).unwrap();
    assert_invalid_add(manager.add_remote_log_segment_metadata(finished), 1);
    assert_eq!(log.stream(STREAM), None);
}

#[test]
fn crabka_two_managers_share_the_partitions_out() {
    let env = Env::new();
    let log = env.log();
    let own = [follower(0), follower(1)];
    let managers =
        own.each_ref().map(|tp| TideRemoteLogMetadataManager::with_partitions(journal(&log), [tp.clone()]));
    for (manager, tp) in managers.iter().zip(&own) {
        add(manager, tp, 1);
        let id = RemoteLogSegmentId::new(tp.clone(), Uuid::from_u128(1));
        let finish = RemoteLogSegmentMetadataUpdate::new(id, 0, None, FINISHED, 0);
        manager.update_remote_log_segment_metadata(finish).unwrap();
    }
    let at = |manager: &TideRemoteLogMetadataManager, tp| {
        manager.remote_log_segment_metadata(tp, 0.into(), 50).unwrap().is_some()
    };
    assert_eq!(own.each_ref().map(|tp| at(&managers[0], tp)), [true, false]);
    assert_eq!(own.each_ref().map(|tp| at(&managers[1], tp)), [false, true]);
}

#[test]
fn crabka_given_up_and_taken_on_again() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), [orders()]);
    add_finished(&manager, 1, [0, 99]);
    manager.unassign(&orders());
    assert_eq!(list(&manager), []);
    manager.assign(orders());
    assert_eq!((list(&manager).len(), at(&manager, 50)), (1, Some(1)));
    assert_eq!(manager.highest_offset_for_epoch(&orders(), 0.into()).unwrap(), Some(99));
}
