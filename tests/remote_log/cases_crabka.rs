//! Crabka's cases, as far as its answers agree with the interface's own words.

use std::collections::HashSet;

use tidelog::remote_log::{
    RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, RemoteStorageError, TopicIdPartition, Uuid,
};

use crate::support::*;

#[test]
fn crabka_started_segment_is_invisible_until_finished() {
    let store = Store::new();
    store.add(10, [0, 99], &[(0, 0)]);
    assert_eq!(store.at(0, 50), None);
    store.to(10, FINISHED);
    assert_eq!(store.at(0, 50), Some(10));
}

#[test]
fn crabka_offset_lookup_across_segments_of_an_epoch() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    store.add_finished(11, [100, 199], &[(0, 100)]);
    let found = [0, 99, 100, 199, 200].map(|offset| store.at(0, offset));
    assert_eq!(found, [Some(10), Some(10), Some(11), Some(11), None]);
}

#[test]
fn crabka_list_by_epoch() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    assert_eq!((store.by_epoch(0), store.by_epoch(7)), (vec![10], vec![]));
}

#[test]
fn crabka_deletion_lowers_the_highest_offset() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    assert_eq!(store.highest(0), Some(99));
    store.to(10, DELETING);
    assert_eq!(store.highest(0), None);
}

#[test]
fn crabka_offset_lookup_respects_the_epoch() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0), (1, 50)]);
    store.add_finished(11, [100, 199], &[(1, 100)]);
    let answers = [
        ((0, 10), Some(10)),
        ((0, 49), Some(10)),
        ((0, 50), None),
        ((0, 150), None),
        ((1, 49), None),
        ((1, 50), Some(10)),
        ((1, 60), Some(10)),
        ((1, 150), Some(11)),
    ];
    for ((epoch, offset), expected) in answers {
        assert_eq!(store.at(epoch, offset), expected, "epoch {epoch}, offset {offset}");
    }
}

#[test]
fn crabka_highest_is_the_highest_end() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    store.add_finished(11, [100, 199], &[(0, 100)]);
    assert_eq!((store.highest(0), store.highest(7)), (Some(199), None));
}

#[test]
fn crabka_deletion_hides_then_drops() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    store.to(10, DELETING);
    assert_eq!((store.at(0, 50), store.list()), (None, vec![10]));
    store.to(10, DELETED);
    assert_eq!(store.list(), []);
}

#[test]
fn crabka_update_of_an_unknown_segment() {
    assert_not_found(Store::new().try_to(404, FINISHED), 404);
}

#[test]
fn crabka_add_in_a_later_state() {
    let finished = segment_in(FINISHED, 10, [0, 99], &[(0, 0)]).unwrap();
    assert_invalid_add(Store::new().try_add(finished), 10);
}

#[test]
fn crabka_duplicate_add() {
    let store = Store::new();
    let metadata = segment(10, [0, 99], &[(0, 0)]);
    store.try_add(metadata.clone()).unwrap();
    assert_invalid_add(store.try_add(metadata), 10);
}

#[test]
fn crabka_list_is_ordered() {
    let store = Store::new();
    store.add(11, [100, 199], &[(0, 100)]);
    store.add(10, [0, 99], &[(0, 0)]);
    let starts: Vec<i64> = store.all().iter().map(RemoteLogSegmentMetadata::start_offset).collect();
    assert_eq!(starts, [0, 100]);
}

#[test]
fn crabka_below_the_start() {
    let store = Store::new();
    store.add_finished(10, [100, 199], &[(0, 0)]);
    assert_eq!((store.at(0, 50), store.at(0, 100)), (None, Some(10)));
}

/// Crabka finds nothing at the far end: there a segment spans 32 bits of offsets at most.
#[test]
fn crabka_extreme_span_is_found_to_its_end() {
    let store = Store::new();
    store.add_finished(11, [i64::MIN, i64::MAX], &[(1, i64::MIN)]);
    let found = [i64::MIN, -1, 0, i64::MAX].map(|offset| store.at(1, offset));
    assert_eq!(found, [Some(11); 4]);
    assert_eq!(store.highest(1), Some(i64::MAX));
}

/// Crabka accepts a repeated `DeleteSegmentFinished`; here the segment is not known any more.
#[test]
fn crabka_exact_retry() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    store.to(10, FINISHED);
    assert_eq!(store.highest(0), Some(99));
    let other_time = RemoteLogSegmentMetadataUpdate { event_timestamp_ms: 1, ..update(10, FINISHED) };
    assert_refused(store.try_update(other_time), FINISHED, FINISHED);
    let other_custom =
        RemoteLogSegmentMetadataUpdate { custom_metadata: Some(custom(&[1])), ..update(10, FINISHED) };
    assert_refused(store.try_update(other_custom), FINISHED, FINISHED);
    store.to(10, DELETING);
    store.to(10, DELETED);
    assert_not_found(store.try_to(10, DELETED), 10);
}

#[test]
fn crabka_stale_finish_after_deletion_began() {
    let store = Store::new();
    store.add_finished(10, [0, 99], &[(0, 0)]);
    store.to(10, DELETING);
    assert_refused(store.try_to(10, FINISHED), DELETING, FINISHED);
    assert_eq!((store.at(0, 50), store.highest(0)), (None, None));
}

#[test]
fn crabka_round_trip() {
    let store = Store::new();
    let metadata = segment(10, [0, 99], &[(0, 0)]);
    store.try_add(metadata.clone()).unwrap();
    let finish = RemoteLogSegmentMetadataUpdate::new(id(10), 200, Some(custom(&[7])), FINISHED, 0);
    store.try_update(finish.clone()).unwrap();
    assert_eq!(store.found(0, 42), Some(metadata.with_update(&finish).unwrap()));
    assert_eq!(store.highest(0), Some(99));
}

#[test]
fn crabka_unknown_partition() {
    let store = Store::new();
    assert_eq!((store.found(0, 0), store.highest(0)), (None, None));
    assert_eq!((store.list(), store.by_epoch(0)), (vec![], vec![]));
    assert_not_found(store.try_to(1, DELETED), 1);
}

#[test]
fn crabka_in_memory_is_always_ready() {
    let store = Store::new();
    assert!(store.0.caught_up(&orders()).unwrap());
    assert_eq!(store.at(0, 10_000), None);
    store.add_finished(10, [0, 99], &[(0, 0)]);
    assert!(store.0.caught_up(&orders()).unwrap());
    assert_eq!(store.at(0, 10_000), None);
}

#[test]
fn crabka_partition_deletion() {
    let store = Store::new();
    assert_delete_refused(store.put_delete(DELETE_FINISHED), None, DELETE_FINISHED);
    for state in [MARKED, DELETE_STARTED, DELETE_FINISHED] {
        store.put_delete(state).unwrap();
    }
}

#[test]
fn crabka_identity_ignores_the_name() {
    let alpha = TopicIdPartition::new(Uuid::from_u128(7), "alpha", 3);
    let renamed = TopicIdPartition::new(Uuid::from_u128(7), "renamed", 3);
    let other = TopicIdPartition::new(Uuid::from_u128(7), "alpha", 4);
    assert_eq!(alpha, renamed);
    assert_ne!(alpha, other);
    assert_eq!(HashSet::from([alpha.clone(), renamed.clone(), other]).len(), 2);
    let segment = Uuid::from_u128(1);
    assert_eq!(RemoteLogSegmentId::new(alpha, segment), RemoteLogSegmentId::new(renamed, segment));
}

#[test]
fn crabka_constructor_checks() {
    let refused = |range, of: &[(i32, i64)]| {
        matches!(segment_in(STARTED, 1, range, of), Err(RemoteStorageError::InvalidArgument(_)))
    };
    assert!(refused([0, 9], &[]));
    assert!(refused([10, 5], &[(0, 10)]));
    let details = |size| RemoteLogSegmentDetails::new(size, STARTED, epochs(&[(0, 0)]));
    let sized = |size| RemoteLogSegmentMetadata::new(id(1), 0, 9, -1, 0, 0, details(size));
    assert!(matches!(sized(-1), Err(RemoteStorageError::InvalidArgument(_))));
    assert_eq!(sized(0).unwrap().segment_size_in_bytes(), 0);
    // What a look-up can cope with is accepted.
    for (range, of) in [([-5, 9], (0, -5)), ([0, 9], (-1, 0)), ([0, 9], (0, 500)), ([7, 7], (0, 7))] {
        assert!(!refused(range, &[of]), "{range:?} {of:?}");
    }
}

#[test]
fn crabka_with_update() {
    let metadata = segment(1, [10, 20], &[(0, 10)]).with_custom_metadata(custom(&[9]));
    let finish = RemoteLogSegmentMetadataUpdate::new(id(1), 789, Some(custom(&[1, 2, 3])), FINISHED, 2);
    let updated = metadata.with_update(&finish).unwrap();
    assert_eq!((updated.state(), updated.event_timestamp_ms(), updated.broker_id()), (FINISHED, 789, 2));
    assert_eq!((updated.start_offset(), updated.end_offset()), (10, 20));
    assert_eq!(updated.custom_metadata(), Some(&custom(&[1, 2, 3])));

    let kept = metadata.with_update(&update(1, FINISHED)).unwrap();
    assert_eq!(kept.custom_metadata(), Some(&custom(&[9])));
    assert_refused(metadata.with_update(&update(1, DELETED)).map(drop), STARTED, DELETED);
    let mismatched = metadata.with_update(&update(2, FINISHED));
    assert!(matches!(mismatched, Err(RemoteStorageError::InvalidArgument(_))));
}

#[test]
fn crabka_transaction_index_flag_survives_updates() {
    let store = Store::new();
    let metadata = segment(1, [0, 9], &[(0, 0)]);
    assert!(!metadata.txn_index_empty());
    store.try_add(metadata.with_txn_index_empty(true)).unwrap();
    store.to(1, FINISHED);
    assert!(store.found(0, 5).unwrap().txn_index_empty());
}
