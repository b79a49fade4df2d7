//! Faults that other stores of this kind had. The numbers follow no order of importance.

use tidelog::remote_log::{
    RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata, TopicIdPartition, Uuid,
};

use crate::support::*;

/// KAFKA-15168: the shorter of two segments answered.
#[test]
fn fault_01_shorter_duplicate() {
    let store = Store::new();
    store.add_finished(1, [10, 90], &[(0, 10)]);
    store.add_finished(2, [5, 100], &[(0, 5)]);
    store.add_finished(3, [101, 200], &[(0, 101)]);
    assert_eq!([5, 50, 95, 150].map(|offset| store.at(0, offset)), [Some(2), Some(2), Some(2), Some(3)]);
}

/// KAFKA-20932: a segment with the same start was lost from the lists.
#[test]
fn fault_02_same_start_stays_listed() {
    let store = Store::with_finished(&[[0, 100], [101, 200], [0, 150]]);
    assert_eq!(store.by_epoch(0), [1, 3, 2]);
    store.to(1, FINISHED);
    assert_eq!(store.by_epoch(0), [1, 3, 2]);
    assert_eq!([50, 120, 160].map(|offset| store.at(0, offset)), [Some(3), Some(3), Some(2)]);
}

#[test]
fn fault_03_nested_hole() {
    let store = Store::with_finished(&[[0, 200], [50, 100]]);
    assert_eq!([0, 60, 150].map(|offset| store.at(0, offset)), [Some(1), Some(2), Some(1)]);
}

#[test]
fn fault_04_replayed_finish_does_not_win() {
    let store = Store::with_finished(&[[10, 100], [5, 150]]);
    store.to(1, FINISHED);
    assert_eq!([50, 120].map(|offset| store.at(0, offset)), [Some(2), Some(2)]);
}

#[test]
fn fault_05_superseded_segment_answers_again() {
    let store = Store::with_finished(&[[10, 100], [5, 150]]);
    store.to(2, DELETING);
    assert_eq!([7, 50, 120].map(|offset| store.at(0, offset)), [None, Some(1), None]);
    assert_eq!(store.highest(0), Some(100));
}

/// KAFKA-15479: a segment of several epochs is in the list of each, and is the same in all.
#[test]
fn fault_13_segment_of_two_epochs() {
    let store = Store::new();
    store.add_finished(1, [0, 99], &[(0, 0), (1, 50)]);
    assert_eq!((store.by_epoch(0), store.by_epoch(1), store.list()), (vec![1], vec![1], vec![1]));
}

/// KAFKA-17428: a deletion that failed could not be tried again.
#[test]
fn fault_15_deletion_is_retried() {
    let store = Store::new();
    store.add(1, [0, 99], &[(0, 0)]);
    for time in [1, 2] {
        let update = RemoteLogSegmentMetadataUpdate { event_timestamp_ms: time, ..update(1, DELETING) };
        store.try_update(update).unwrap();
    }
    store.to(1, DELETED);
    assert_eq!(store.list(), []);
}

/// KAFKA-16890: the list is by start; a lower end may come later.
#[test]
fn fault_17_list_is_not_by_end() {
    let store = Store::new();
    store.add(2, [0, 104], &[(0, 0)]);
    store.add(1, [0, 99], &[(0, 0)]);
    store.add(3, [-7, 500], &[(0, 0)]);
    let list: Vec<_> =
        store.all().iter().map(|segment| (segment.start_offset(), segment.end_offset())).collect();
    assert_eq!(list, [(-7, 500), (0, 99), (0, 104)]);
}

/// KAFKA-15802: lists hold segments that cannot be read yet, and say so.
#[test]
fn fault_18_unfinished_segments_tell_their_state() {
    let store = Store::new();
    store.add(1, [0, 99], &[(0, 0)]);
    assert_eq!((store.list(), store.states(), store.at(0, 50)), (vec![1], vec![STARTED], None));
}

/// KAFKA-15351: after a peer's deletion began, reads no longer find the segment.
#[test]
fn fault_19_deletion_is_visible_at_once() {
    let store = Store::with_finished(&[[0, 99], [100, 199]]);
    store.to(1, DELETING);
    assert!(store.0.caught_up(&orders()).unwrap());
    assert_eq!((store.at(0, 50), store.states()), (None, vec![DELETING, FINISHED]));
}

/// KAFKA-12641: the highest offset after deletions.
#[test]
fn fault_28_highest_offset_falls() {
    let store = Store::with_finished(&[[0, 99], [100, 199], [50, 150]]);
    assert_eq!(store.highest(0), Some(199));
    store.to(2, DELETING);
    assert_eq!(store.highest(0), Some(150));
    store.to(3, DELETING);
    store.to(2, DELETED);
    assert_eq!(store.highest(0), Some(99));
    store.to(1, DELETING);
    assert_eq!(store.highest(0), None);
}

/// KAFKA-16780: the flag that spares reads of transaction indexes.
#[test]
fn fault_32_transaction_index_flag() {
    let store = Store::new();
    store.try_add(segment(1, [0, 99], &[(0, 0)]).with_txn_index_empty(true)).unwrap();
    store.add(2, [100, 199], &[(0, 100)]);
    for number in [1, 2] {
        store.to(number, FINISHED);
        store.to(number, DELETING);
    }
    let flags: Vec<bool> = store.all().iter().map(RemoteLogSegmentMetadata::txn_index_empty).collect();
    assert_eq!(flags, [true, false]);
}

/// KAFKA-15107: an update without custom metadata lost what was there.
#[test]
fn fault_33_custom_metadata_is_kept() {
    let store = Store::new();
    store.try_add(segment(1, [0, 99], &[(0, 0)]).with_custom_metadata(custom(&[7]))).unwrap();
    store.to(1, FINISHED);
    assert_eq!(store.found(0, 5).unwrap().custom_metadata(), Some(&custom(&[7])));
    let emptied =
        RemoteLogSegmentMetadataUpdate { custom_metadata: Some(custom(&[])), ..update(1, DELETING) };
    store.try_update(emptied).unwrap();
    assert_eq!(store.all()[0].custom_metadata(), Some(&custom(&[])));
}

/// KAFKA-15130: a topic that is deleted and made again has the name of the old one.
#[test]
fn fault_34_same_name_other_topic() {
    let store = Store::new();
    let again = TopicIdPartition::new(Uuid::from_u128(2), "orders", 0);
    for state in [MARKED, DELETE_STARTED, DELETE_FINISHED] {
        store.put_delete(state).unwrap();
    }
    let mark = RemotePartitionDeleteMetadata::new(again.clone(), MARKED, 0, 0);
    store.0.put_remote_partition_delete_metadata(mark).unwrap();
    let id = RemoteLogSegmentId::new(again.clone(), Uuid::from_u128(1));
    let details = RemoteLogSegmentDetails::new(1, STARTED, epochs(&[(0, 0)]));
    let metadata = RemoteLogSegmentMetadata::new(id, 0, 9, -1, 0, 0, details).unwrap();
    store.try_add(metadata).unwrap();
    assert_eq!(store.list(), []);
    assert_eq!(store.0.list_remote_log_segments(&again).unwrap().len(), 1);
}

/// KAFKA-15388: behind a segment's end the next one answers, or none where there is a gap.
#[test]
fn fault_35_steps_to_the_next_segment() {
    let store = Store::with_finished(&[[0, 99], [100, 149], [160, 199]]);
    assert_eq!(
        [99, 100, 149, 150, 160].map(|offset| store.at(0, offset)),
        [Some(1), Some(2), Some(2), None, Some(3)]
    );
}

#[test]
fn fault_37_same_start_shorter_later() {
    let store = Store::with_finished(&[[0, 200], [0, 99]]);
    assert_eq!((store.at(0, 50), store.at(0, 150), store.highest(0)), (Some(2), Some(1), Some(200)));
    store.to(2, DELETING);
    assert_eq!((store.at(0, 50), store.at(0, 150), store.highest(0)), (Some(1), Some(1), Some(200)));
}

#[test]
fn fault_37_below_the_start_and_beyond_the_epoch() {
    let store = Store::new();
    store.add_finished(1, [100, 199], &[(0, 0)]);
    store.add_finished(2, [0, 99], &[(1, 0), (2, 50)]);
    assert_eq!((store.at(0, 50), store.at(0, 150)), (None, Some(1)));
    assert_eq!([49, 50].map(|offset| store.at(1, offset)), [Some(2), None]);
    assert_eq!([49, 50].map(|offset| store.at(2, offset)), [None, Some(2)]);
    assert_eq!((store.highest(1), store.highest(2)), (Some(99), Some(99)));
}

#[test]
fn fault_38_refusals_reach_the_caller() {
    let store = Store::new();
    store.add(1, [0, 99], &[(0, 0)]);
    assert_invalid_add(store.try_add(segment(1, [0, 99], &[(0, 0)])), 1);
    assert_not_found(store.try_to(2, FINISHED), 2);
    assert_refused(store.try_to(1, DELETED), STARTED, DELETED);
    assert_delete_refused(store.put_delete(DELETE_STARTED), None, DELETE_STARTED);
}

#[test]
fn fault_44_a_refused_call_leaves_no_partition() {
    let store = Store::new();
    store.put_delete(DELETE_FINISHED).unwrap_err();
    store.try_to(1, FINISHED).unwrap_err();
    store.try_add(segment_in(FINISHED, 1, [0, 9], &[(0, 0)]).unwrap()).unwrap_err();
    assert_eq!(store.0.partitions(), []);
}

#[test]
fn fault_46_collision_does_not_hide_the_longer_segment() {
    let store = Store::with_finished(&[[0, 99], [0, 200]]);
    assert_eq!((store.at(0, 50), store.at(0, 150), store.highest(0)), (Some(2), Some(2), Some(200)));
}

#[test]
fn fault_46_list_by_epoch_shows_any_state() {
    let store = Store::new();
    store.add(1, [0, 9], &[(0, 0)]);
    store.add_finished(2, [10, 19], &[(0, 10)]);
    store.add(3, [20, 29], &[(0, 20)]);
    store.to(3, DELETING);
    assert_eq!(store.by_epoch(0), [1, 2, 3]);
}

#[test]
fn fault_47_leftovers_do_not_block_a_new_copy() {
    let store = Store::new();
    store.add(1, [0, 99], &[(0, 0)]);
    store.to(1, DELETING);
    store.add_finished(2, [0, 99], &[(0, 0)]);
    assert_eq!((store.at(0, 50), store.list()), (Some(2), vec![1, 2]));
    store.to(1, DELETED);
    assert_eq!((store.at(0, 50), store.list()), (Some(2), vec![2]));
}

#[test]
fn fault_48_overlapping_and_identical_segments() {
    let store = Store::with_finished(&[[0, 99], [0, 99], [50, 149], [0, 99]]);
    assert_eq!([0, 75, 120].map(|offset| store.at(0, offset)), [Some(4), Some(4), Some(3)]);
    store.to(4, DELETING);
    assert_eq!([0, 75, 120].map(|offset| store.at(0, offset)), [Some(2), Some(3), Some(3)]);
}

#[test]
fn fault_49_overlap_below_does_not_hide_what_was() {
    let store = Store::with_finished(&[[1, 10], [11, 20], [10, 20]]);
    assert_eq!([1, 9, 10, 20].map(|offset| store.at(0, offset)), [Some(1), Some(1), Some(3), Some(3)]);
}

#[test]
fn fault_50_extreme_offsets_and_epochs() {
    let store = Store::new();
    store.add_finished(1, [i64::MIN, -1], &[(i32::MIN, i64::MIN), (i32::MAX, i64::MIN)]);
    store.add_finished(2, [i64::MAX, i64::MAX], &[(i32::MAX, i64::MAX)]);
    store.add_finished(3, [i64::MIN, i64::MIN], &[(0, i64::MAX)]);
    store.add_finished(4, [i64::MIN, i64::MIN], &[(5, i64::MIN)]);
    // The next epoch begins where this one does: it has no offset of its own.
    assert_eq!([i64::MIN, 0, i64::MAX].map(|offset| store.at(i32::MIN, offset)), [None; 3]);
    let last = [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX].map(|offset| store.at(i32::MAX, offset));
    assert_eq!(last, [Some(1), Some(1), None, None, Some(2)]);
    assert_eq!((store.at(0, i64::MIN), store.at(0, i64::MAX)), (None, None));
    assert_eq!((store.at(5, i64::MIN), store.at(5, i64::MIN + 1)), (Some(4), None));
    assert_eq!(store.highest(i32::MIN), Some(-1));
    assert_eq!(store.by_epoch(i32::MAX), [1, 2]);
}

#[test]
fn fault_51_gaps() {
    let store = Store::with_finished(&[[0, 9], [20, 29]]);
    assert_eq!([9, 10, 19, 20].map(|offset| store.at(0, offset)), [Some(1), None, None, Some(2)]);
}
