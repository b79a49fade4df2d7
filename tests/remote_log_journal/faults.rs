//! Faults that other stores of this kind had, as far as a journal can have them and no other file here shows them.
//!
//! Those that no test shows have no counterpart here: 16 and 36 are about a reader and a test of Kafka's, 25 about a
//! snapshot file, 31 about the time that a list takes. 23 and 30 are about power cuts too, which the tests of the log
//! cover.

use std::fs;
use std::path::Path;
use std::thread;

use tidelog::remote_log::{
    Journal, JournalOptions, RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId,
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata,
    TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};
use tidelog::{Log, Options, ReadOptions, ReadUpTo};

use crate::segments::*;
use crate::support::{Env, STREAM, add_finished, at, journal, list, manual, payments};

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// KAFKA-16105: what was recorded of a partition before it was taken on was passed over for ever.
#[test]
fn fault_11_a_partition_that_is_taken_on_late() {
    let env = Env::new();
    let log = env.log();
    let manager = TideRemoteLogMetadataManager::with_partitions(journal(&log), [payments()]);
    add_finished(&manager, 1, [0, 99]);
    let other = RemoteLogSegmentId::new(payments(), Uuid::from_u128(2));
    let details = RemoteLogSegmentDetails::new(1, STARTED, epochs(&[(0, 0)]));
    let metadata = RemoteLogSegmentMetadata::new(other, 0, 9, -1, 0, 0, details).unwrap();
    manager.add_remote_log_segment_metadata(metadata).unwrap();
    assert!(manager.caught_up(&payments()).unwrap());
    assert_eq!(list(&manager), []);
    manager.assign(orders());
    assert!(manager.caught_up(&orders()).unwrap());
    assert_eq!(at(&manager, 50), Some(1));
}

/// KAFKA-15241: the highest offset of an epoch is that of its segments, whatever later epochs say.
#[test]
fn fault_12_the_highest_offset_of_an_old_epoch() {
    let env = Env::new();
    let (log, manager) = env.open();
    manager.add_remote_log_segment_metadata(segment(1, [0, 200], &[(0, 0)])).unwrap();
    manager.update_remote_log_segment_metadata(update(1, FINISHED)).unwrap();
    manager.add_remote_log_segment_metadata(segment(2, [150, 400], &[(1, 150), (2, 300)])).unwrap();
    manager.update_remote_log_segment_metadata(update(2, FINISHED)).unwrap();
    let highest = |manager: &TideRemoteLogMetadataManager| {
        [0, 1, 2, 3].map(|epoch| manager.highest_offset_for_epoch(&orders(), epoch.into()).unwrap())
    };
    let expected = [Some(200), Some(400), Some(400), None];
    assert_eq!(highest(&manager), expected);
    manager.journal().checkpoint().unwrap();
    drop((log, manager));
    assert_eq!(highest(&env.open().1), expected);
}

/// KAFKA-17062: what is not finished counted as copied.
#[test]
fn fault_14_states_survive() {
    let env = Env::new();
    let (log, manager) = env.open();
    for number in 1..=3 {
        manager.add_remote_log_segment_metadata(segment(number, [0, 99], &[(0, 0)])).unwrap();
    }
    manager.update_remote_log_segment_metadata(update(2, FINISHED)).unwrap();
    manager.update_remote_log_segment_metadata(update(3, DELETING)).unwrap();
    for checkpoint in [false, true] {
        if checkpoint {
            manager.journal().checkpoint().unwrap();
        }
        let states: Vec<_> = list(&manager).iter().map(RemoteLogSegmentMetadata::state).collect();
        assert_eq!(states, [STARTED, FINISHED, DELETING]);
    }
    drop((log, manager));
    let states: Vec<_> = list(&env.open().1).iter().map(RemoteLogSegmentMetadata::state).collect();
    assert_eq!(states, [STARTED, FINISHED, DELETING]);
}

/// KAFKA-16711: what was known of a log was kept when it moved to another directory.
#[test]
fn fault_21_a_log_in_another_directory() {
    let env = Env::new();
    let (log, manager) = env.open();
    add_finished(&manager, 1, [0, 99]);
    log.close().unwrap();
    let moved = Env::new();
    copy(env.dir.path(), moved.dir.path());
    // The handles on the old one are still there.
    let (_log, elsewhere) = moved.open();
    add_finished(&elsewhere, 2, [100, 199]);
    assert_eq!((at(&elsewhere, 50), at(&elsewhere, 150)), (Some(1), Some(2)));
    assert_eq!(elsewhere.highest_offset_for_epoch(&orders(), 0.into()).unwrap(), Some(199));
    assert_eq!(
        (at(&manager, 150), manager.highest_offset_for_epoch(&orders(), 0.into()).unwrap()),
        (None, Some(99))
    );
}

/// KAFKA-16161: opening, asking and being refused made something.
#[test]
fn fault_22_what_records_nothing_writes_nothing() {
    let env = Env::new();
    let (log, manager) = env.open();
    assert_eq!(list(&manager), []);
    let finish = manager.update_remote_log_segment_metadata(update(1, FINISHED));
    assert_not_found(finish, 1);
    assert!(manager.caught_up(&orders()).unwrap());
    assert_eq!(log.stream(STREAM), None);
    assert_eq!(log.stats().frames, 0);

    // Neither does a partition that is gone come back as an empty one.
    for state in [MARKED, DELETE_STARTED, DELETE_FINISHED] {
        let delete = RemotePartitionDeleteMetadata::new(orders(), state, 0, 0);
        manager.put_remote_partition_delete_metadata(delete).unwrap();
    }
    let last = log.stream(STREAM).unwrap().last;
    assert_eq!(manager.purge_partition(&orders()).unwrap(), 0);
    drop((log, manager));
    let (log, manager) = env.open();
    assert_eq!((list(&manager), manager.deleted_partitions_with_segments().unwrap()), (vec![], vec![]));
    assert_eq!(log.stream(STREAM).unwrap().last, last);
}

/// KAFKA-16541, KAFKA-19858: what was acknowledged was in a cache only.
#[test]
fn faults_23_30_what_is_acknowledged_is_durable() {
    let env = Env::new();
    let (log, manager) = env.open();
    let durable = || {
        let entries = log.read(STREAM, .., ReadOptions::new().up_to(ReadUpTo::Durable)).unwrap();
        entries.map(|entry| entry.unwrap().id).last()
    };
    for number in 0..20 {
        manager.add_remote_log_segment_metadata(segment(number, [0, 99], &[(0, 0)])).unwrap();
        assert_eq!(durable(), Some(number as u64 + 1));
    }
    manager.journal().checkpoint().unwrap();
    // Begin, twenty states, end.
    assert_eq!(durable(), Some(42));
}

/// Of several partitions, one that is busy or idle keeps no other from being written down.
#[test]
fn fault_42_a_checkpoint_holds_every_partition() {
    let env = Env::new();
    let log = env.log();
    let options = JournalOptions::new().checkpoint_after(Some(30));
    let manager = TideRemoteLogMetadataManager::new(Journal::open(&log, STREAM.id, options).unwrap());
    let idle: Vec<_> =
        (0..10).map(|number| TopicIdPartition::new(Uuid::from_u128(3), "idle", number)).collect();
    for tp in &idle {
        let id = RemoteLogSegmentId::new(tp.clone(), Uuid::from_u128(1));
        let details = RemoteLogSegmentDetails::new(1, STARTED, epochs(&[(0, 0)]));
        let metadata = RemoteLogSegmentMetadata::new(id.clone(), 0, 9, -1, 0, 0, details).unwrap();
        manager.add_remote_log_segment_metadata(metadata).unwrap();
        let finish = RemoteLogSegmentMetadataUpdate::new(id, 0, None, FINISHED, 0);
        manager.update_remote_log_segment_metadata(finish).unwrap();
    }
    while manager.journal().stats().last_checkpoint < 3 {
        add_finished(&manager, 1, [0, 99]);
        manager.update_remote_log_segment_metadata(update(1, DELETING)).unwrap();
        manager.update_remote_log_segment_metadata(update(1, DELETED)).unwrap();
    }
    drop((log, manager));
    let (_log, manager) = env.open();
    assert!(manager.journal().report().unwrap().checkpoint.is_some());
    for tp in &idle {
        assert_eq!(manager.highest_offset_for_epoch(tp, 0.into()).unwrap(), Some(9));
    }
}

/// More events at once than any buffer holds: none is passed over.
#[test]
fn fault_43_a_burst_of_events() {
    let env = Env::new();
    let (log, manager) = env.open();
    let each = 150u128;
    thread::scope(|scope| {
        for thread in 0..16u128 {
            let manager = &manager;
            scope.spawn(move || {
                for number in thread * each..(thread + 1) * each {
                    manager.add_remote_log_segment_metadata(segment(number, [0, 99], &[(0, 0)])).unwrap();
                }
            });
        }
    });
    let numbers =
        |manager: &TideRemoteLogMetadataManager| list(manager).iter().map(number).collect::<Vec<_>>();
    let expected: Vec<u128> = (0..16 * each).collect();
    assert_eq!(numbers(&manager), expected);
    drop((log, manager));
    let log = Log::open(env.dir.path(), Options::new()).unwrap();
    let manager = TideRemoteLogMetadataManager::new(Journal::open(&log, STREAM.id, manual()).unwrap());
    assert_eq!(numbers(&manager), expected);
}
