//! Several managers, several threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidelog::remote_log::{
    Journal, RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata, RemoteStorageError, TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};

use crate::segments::*;
use crate::support::{Env, add_finished, at, journal, list, manual, payments};

#[test]
fn what_was_acknowledged_survives_without_a_close() {
    let env = Env::new();
    let (log, manager) = env.open();
    for number in 0..3 {
        let start = number as i64 * 100;
        add_finished(&manager, number, [start, start + 99]);
    }
    let before = list(&manager);
    drop((log, manager));
    let (_log, manager) = env.open();
    assert_eq!(list(&manager), before);
    assert_eq!(manager.highest_offset_for_epoch(&orders(), 0.into()).unwrap(), Some(299));
    add_finished(&manager, 3, [300, 399]);
    assert_eq!(list(&manager).len(), 4);
}

#[test]
fn two_partitions_survive_and_go_on() {
    let env = Env::new();
    let (log, manager) = env.open();
    let other = RemoteLogSegmentId::new(payments(), Uuid::from_u128(5));
    let details = RemoteLogSegmentDetails::new(1, STARTED, epochs(&[(0, 0)]));
    let follower = RemoteLogSegmentMetadata::new(other, 0, 100, -1, 0, 0, details).unwrap();
    manager.add_remote_log_segment_metadata(segment(1, [0, 100], &[(0, 0)])).unwrap();
    manager.add_remote_log_segment_metadata(follower.clone()).unwrap();
    log.close().unwrap();
    drop((log, manager));
    let (_log, manager) = env.open();
    assert_eq!(list(&manager), [segment(1, [0, 100], &[(0, 0)])]);
    assert_eq!(manager.list_remote_log_segments(&payments()).unwrap(), [follower]);
    manager.add_remote_log_segment_metadata(segment(2, [101, 200], &[(0, 101)])).unwrap();
    assert_eq!(list(&manager).len(), 2);
}

#[test]
fn fault_38_a_refusal_writes_nothing() {
    let env = Env::new();
    let (log, manager) = env.open();
    add_finished(&manager, 1, [0, 99]);
    let last = log.stream(manager.journal().stream()).unwrap().last;
    assert_invalid_add(manager.add_remote_log_segment_metadata(segment(1, [0, 99], &[(0, 0)])), 1);
    assert_not_found(manager.update_remote_log_segment_metadata(update(2, FINISHED)), 2);
    assert_refused(manager.update_remote_log_segment_metadata(update(1, DELETED)), FINISHED, DELETED);
    let delete = RemotePartitionDeleteMetadata::new(orders(), DELETE_STARTED, 0, 0);
    assert_delete_refused(manager.put_remote_partition_delete_metadata(delete), None, DELETE_STARTED);
    // Neither does a retry.
    manager.update_remote_log_segment_metadata(update(1, FINISHED)).unwrap();
    assert_eq!(log.stream(manager.journal().stream()).unwrap().last, last);
}

#[test]
fn a_stream_has_one_journal() {
    let env = Env::new();
    let log = env.log();
    let one = TideRemoteLogMetadataManager::new(journal(&log));
    let other = TideRemoteLogMetadataManager::new(journal(&log.clone()));
    let elsewhere = TideRemoteLogMetadataManager::new(Journal::open(&log, 2, manual()).unwrap());
    add_finished(&one, 1, [0, 99]);
    assert_eq!(at(&other, 50), Some(1));
    assert_eq!(at(&elsewhere, 50), None);
    assert_invalid_add(other.add_remote_log_segment_metadata(segment(1, [0, 99], &[(0, 0)])), 1);
}

#[test]
fn of_many_threads_one_adds_a_segment() {
    let env = Env::new();
    let log = env.log();
    let added: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let manager = TideRemoteLogMetadataManager::new(journal(&log));
                scope.spawn(move || {
                    (0..20)
                        .filter(|number| {
                            let metadata = segment(*number, [0, 99], &[(0, 0)]);
                            manager.add_remote_log_segment_metadata(metadata).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(added, 20);
}

/// A retry that meets the first try on its way comes back when that one is durable.
#[test]
fn a_retry_waits_for_what_it_repeats() {
    let env = Env::new();
    let (log, manager) = env.open();
    for number in 0..50 {
        manager.add_remote_log_segment_metadata(segment(number, [0, 99], &[(0, 0)])).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    manager.update_remote_log_segment_metadata(update(number, FINISHED)).unwrap();
                    assert_eq!(at(&manager, 50), Some(number));
                });
            }
        });
    }
    assert_eq!(log.stream(manager.journal().stream()).unwrap().last, Some(100));
}

#[test]
fn threads_share_flushes() {
    let env = Env::new();
    let (log, manager) = env.open();
    let (threads, each) = (16u128, 40);
    let before = log.stats().frames;
    thread::scope(|scope| {
        for thread in 0..threads {
            let manager = &manager;
            scope.spawn(move || {
                for number in 0..each {
                    let metadata = segment(thread * each + number, [0, 99], &[(0, 0)]);
                    manager.add_remote_log_segment_metadata(metadata).unwrap();
                }
            });
        }
    });
    let frames = log.stats().frames - before;
    let events = (threads * each) as u64;
    assert_eq!(list(&manager).len() as u64, events);
    assert!(frames * 2 < events, "{frames} frames for {events} events");
}

/// A mutation for a partition that is not assigned is recorded, and does not hang;
/// every query is empty.
#[test]
fn faults_39_40_an_unassigned_partition() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), [payments()]);
    add_finished(&manager, 1, [0, 99]);
    assert_eq!((at(&manager, 50), list(&manager)), (None, vec![]));
    assert_eq!(manager.highest_offset_for_epoch(&orders(), 0.into()).unwrap(), None);
    assert_eq!(manager.list_remote_log_segments_by_epoch(&orders(), 0.into()).unwrap(), []);
    assert!(!manager.caught_up(&orders()).unwrap());
    assert!(manager.caught_up(&payments()).unwrap());

    manager.assign(orders());
    assert_eq!(at(&manager, 50), Some(1));
    assert!(manager.caught_up(&orders()).unwrap());
    assert!(manager.unassign(&orders()));
    assert!(!manager.unassign(&orders()));
    assert_eq!(at(&manager, 50), None);
}

/// Giving up a partition and taking it on again does not bring back what is gone.
#[test]
fn fault_41_taking_on_again_shows_no_past() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), [orders()]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                manager.unassign(&orders());
                manager.assign(orders());
            }
        });
        for number in 0..200 {
            add_finished(&manager, number, [0, 99]);
            manager.update_remote_log_segment_metadata(update(number, DELETING)).unwrap();
            manager.update_remote_log_segment_metadata(update(number, DELETED)).unwrap();
            assert_eq!((at(&manager, 50), list(&manager)), (None, vec![]));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn fault_19_a_peer_that_is_caught_up_sees_what_was_acknowledged() {
    let env = Env::new();
    let log = env.log();
    let one = TideRemoteLogMetadataManager::new(journal(&log));
    let peer = TideRemoteLogMetadataManager::new(journal(&log));
    for number in 0..50 {
        add_finished(&one, number, [0, 99]);
        one.update_remote_log_segment_metadata(update(number, DELETING)).unwrap();
        assert!(peer.caught_up(&orders()).unwrap());
        assert_eq!(at(&peer, 50), None);
    }
}

#[test]
fn a_purge_is_durable() {
    let env = Env::new();
    let (log, manager) = env.open();
    for number in 0..600 {
        let start = number as i64 * 10;
        manager.add_remote_log_segment_metadata(segment(number, [start, start + 9], &[(0, start)])).unwrap();
    }
    manager.update_remote_log_segment_metadata(update(7, DELETING)).unwrap();
    let invalid = manager.purge_partition(&orders());
    assert!(matches!(invalid, Err(RemoteStorageError::InvalidArgument(_))));
    for state in [MARKED, DELETE_STARTED, DELETE_FINISHED] {
        let delete = RemotePartitionDeleteMetadata::new(orders(), state, 0, 0);
        manager.put_remote_partition_delete_metadata(delete).unwrap();
    }
    assert_eq!(manager.deleted_partitions_with_segments().unwrap(), [orders()]);
    assert_eq!(manager.purge_partition(&orders()).unwrap(), 600);
    assert_eq!(manager.purge_partition(&orders()).unwrap(), 0);
    drop((log, manager));
    let (_log, manager) = env.open();
    assert_eq!(list(&manager), []);
    assert_eq!(manager.deleted_partitions_with_segments().unwrap(), []);
    // The deletion is still finished.
    assert_eq!(manager.purge_partition(&orders()).unwrap(), 0);
    assert_eq!(manager.journal().report().unwrap().refused, 0);
}

#[test]
fn managers_are_objects_of_any_partition() {
    let env = Env::new();
    let log = env.log();
    let managers: Vec<Box<dyn RemoteLogMetadataManager>> = vec![
        Box::new(TideRemoteLogMetadataManager::new(journal(&log))),
        Box::new(TideRemoteLogMetadataManager::with_partitions(journal(&log), [])),
    ];
    let unknown = TopicIdPartition::new(Uuid::from_u128(77), "unknown", -1);
    for manager in &managers {
        assert_eq!(manager.list_remote_log_segments(&unknown).unwrap(), []);
    }
    assert!(managers[0].caught_up(&unknown).unwrap());
    assert!(!managers[1].caught_up(&unknown).unwrap());
}
