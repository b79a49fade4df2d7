//! Kafka's cases. Where its answers differ by design, ours are checked: the highest offset is the
//! highest end of what is finished now, and a superseded segment answers again once the other goes.

use tidelog::remote_log::{
    RemoteLogSegmentDetails, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
};

use crate::support::*;

#[test]
fn kafka_segment_life_cycle() {
    let store = Store::new();
    store.add(10, [0, 100], &[(0, 0), (1, 20), (2, 80)]);
    assert_eq!(store.at(1, 40), None);
    for epoch in 0..3 {
        assert_eq!(store.highest(epoch), None);
    }
    store.to(10, FINISHED);
    store.add_finished(11, [101, 200], &[(2, 101)]);
    store.add_finished(12, [201, 300], &[(2, 201), (3, 240)]);
    store.add_finished(13, [250, 400], &[(3, 250), (4, 370)]);

    let answers = [
        ((0, 19), Some(10)),
        ((0, 20), None),
        ((1, 40), Some(10)),
        ((1, 79), Some(10)),
        ((1, 80), None),
        ((1, 110), None),
        ((2, 80), Some(10)),
        ((2, 110), Some(11)),
        ((3, 240), Some(12)),
        ((3, 249), Some(12)),
        ((3, 250), Some(13)),
        ((3, 260), Some(13)),
        ((4, 375), Some(13)),
        ((4, 401), None),
        ((5, 301), None),
    ];
    for ((epoch, offset), expected) in answers {
        assert_eq!(store.at(epoch, offset), expected, "epoch {epoch}, offset {offset}");
    }
    let highest = |store: &Store| [0, 1, 2, 3, 4, 5].map(|epoch| store.highest(epoch));
    assert_eq!(highest(&store), [Some(100), Some(100), Some(300), Some(400), Some(400), None]);

    store.to(10, DELETING);
    assert_eq!(store.at(0, 10), None);
    store.to(10, DELETED);
    assert_eq!(store.at(0, 10), None);
    assert_eq!(highest(&store), [None, None, Some(300), Some(400), Some(400), None]);
}

#[test]
fn kafka_copy_started_is_listed_only() {
    let store = Store::new();
    store.add(1, [0, 50], &[(0, 0)]);
    assert_eq!(store.at(0, 0), None);
    assert_eq!((store.by_epoch(0), store.list()), (vec![1], vec![1]));
}

#[test]
fn kafka_copy_finished_is_found() {
    let store = Store::new();
    store.add_finished(1, [101, 200], &[(0, 101)]);
    assert_eq!(store.at(0, 150), Some(1));
    assert_eq!((store.by_epoch(0), store.list()), (vec![1], vec![1]));
}

#[test]
fn kafka_delete_started_is_listed_only() {
    let store = Store::new();
    store.add(1, [201, 300], &[(0, 201)]);
    store.to(1, DELETING);
    assert_eq!(store.at(0, 250), None);
    assert_eq!((store.by_epoch(0), store.list()), (vec![1], vec![1]));
    assert_eq!(store.states(), [DELETING]);
}

#[test]
fn kafka_delete_finished_is_gone() {
    let store = Store::new();
    store.add(1, [301, 400], &[(0, 301)]);
    store.to(1, DELETING);
    assert_eq!(store.at(0, 350), None);
    store.to(1, DELETED);
    assert_eq!((store.by_epoch(0), store.list()), (vec![], vec![]));
}

#[test]
fn kafka_lists_by_partition_and_by_epoch() {
    let store = Store::new();
    store.add_finished(1, [0, 100], &[(0, 0)]);
    store.add_finished(2, [101, 200], &[(0, 101)]);
    store.add_finished(3, [201, 400], &[(0, 201), (1, 301)]);
    assert_eq!(store.by_epoch(0), [1, 2, 3]);
    assert_eq!(store.list(), [1, 2, 3]);
    assert_eq!(store.by_epoch(1), [3]);
}

#[test]
fn kafka_add_takes_copy_started_alone() {
    for state in [FINISHED, DELETING, DELETED] {
        let store = Store::new();
        let metadata = segment_in(state, 1, [0, 100], &[(0, 0)]).unwrap();
        assert_invalid_add(store.try_add(metadata), 1);
        assert_eq!(store.0.partitions(), []);
    }
}

#[test]
fn kafka_update_of_an_unknown_segment() {
    let store = Store::new();
    for state in [FINISHED, DELETING, DELETED] {
        assert_not_found(store.try_to(7, state), 7);
    }
    store.add(1, [0, 100], &[(0, 0)]);
    for state in [FINISHED, DELETING, DELETED] {
        assert_not_found(store.try_to(7, state), 7);
    }
}

#[test]
fn kafka_invalid_transitions_change_nothing() {
    let store = Store::new();
    store.add(1, [10, 100], &[(5, 10)]);
    let steps = [
        (DELETED, STARTED),
        (FINISHED, FINISHED),
        (DELETED, FINISHED),
        (STARTED, FINISHED),
        (DELETING, DELETING),
        (FINISHED, DELETING),
        (STARTED, DELETING),
    ];
    let mut state = STARTED;
    for (to, after) in steps {
        let outcome = store.try_to(1, to);
        if to == after {
            outcome.unwrap();
        } else {
            assert_refused(outcome, state, to);
        }
        state = after;
        assert_eq!((store.states(), store.by_epoch(5)), (vec![state], vec![1]));
    }
    store.to(1, DELETED);
    assert_eq!(store.by_epoch(5), []);
}

#[test]
fn kafka_finished_does_not_go_to_delete_finished() {
    let store = Store::with_finished(&[[0, 100]]);
    assert_refused(store.try_to(1, DELETED), FINISHED, DELETED);
}

#[test]
fn kafka_epoch_without_segments() {
    let store = Store::new();
    assert_eq!((store.by_epoch(0), store.highest(0), store.at(0, 0)), (vec![], None, None));
}

#[test]
fn kafka_list_by_epoch_holds_started_finished_and_superseded() {
    let store = Store::new();
    store.add(1, [0, 4], &[(0, 0)]);
    store.add_finished(2, [5, 10], &[(0, 5)]);
    store.add_finished(3, [11, 100], &[(0, 11)]);
    store.add_finished(4, [9, 150], &[(0, 9)]);
    assert_eq!(store.by_epoch(0), [1, 2, 4, 3]);
    assert_eq!(
        [3, 5, 9, 11, 150].map(|offset| store.at(0, offset)),
        [None, Some(2), Some(4), Some(4), Some(4)]
    );
}

#[test]
fn kafka_two_segments_side_by_side() {
    let store = Store::with_finished(&[[10, 100], [101, 200]]);
    assert_eq!((store.at(0, 90), store.at(0, 150), store.highest(0)), (Some(1), Some(2), Some(200)));
}

#[test]
fn kafka_a_longer_segment_supersedes() {
    let store = Store::with_finished(&[[10, 100], [5, 150]]);
    assert_eq!((store.at(0, 11), store.highest(0)), (Some(2), Some(150)));
    assert_eq!(store.by_epoch(0), [2, 1]);
}

#[test]
fn kafka_one_segment_supersedes_several() {
    let store = Store::with_finished(&[[10, 100], [5, 150], [148, 155], [4, 200]]);
    assert!((4..=200).all(|offset| store.at(0, offset) == Some(4)));
    assert_eq!(store.highest(0), Some(200));
    assert_eq!(store.by_epoch(0), [4, 2, 1, 3]);
}

#[test]
fn kafka_the_same_range_twice() {
    let store = Store::with_finished(&[[10, 100], [10, 100]]);
    assert_eq!((store.at(0, 11), store.highest(0), store.by_epoch(0)), (Some(2), Some(100), vec![1, 2]));
}

#[test]
fn kafka_the_same_start_with_a_later_end() {
    let store = Store::with_finished(&[[10, 100], [10, 150]]);
    assert_eq!((store.at(0, 11), store.at(0, 111), store.highest(0)), (Some(2), Some(2), Some(150)));
}

#[test]
fn kafka_deletion_of_all_that_was_found() {
    let store = Store::with_finished(&[[10, 100], [101, 200]]);
    store.to(1, DELETING);
    store.to(2, DELETING);
    assert_eq!([90, 150].map(|offset| store.at(0, offset)), [None, None]);
    assert_eq!(store.by_epoch(0), [1, 2]);
}

#[test]
fn kafka_deletion_of_what_never_finished() {
    let store = Store::new();
    store.add(1, [10, 100], &[(0, 10)]);
    store.to(1, DELETING);
    store.to(1, DELETED);
    assert_eq!(store.by_epoch(0), []);
}

#[test]
fn kafka_fetch_gives_the_updated_metadata() {
    let store = Store::new();
    store.add(1, [101, 200], &[(0, 101)]);
    assert_eq!(store.at(0, 150), None);
    let finish = RemoteLogSegmentMetadataUpdate::new(id(1), 77, Some(custom(&[0, 1, 2, 3])), FINISHED, 1);
    store.try_update(finish.clone()).unwrap();
    let expected = segment(1, [101, 200], &[(0, 101)]).with_update(&finish).unwrap();
    assert_eq!(store.found(0, 150), Some(expected));
}

#[test]
fn kafka_partition_deletion_leaves_segments() {
    let store = Store::new();
    store.add_finished(1, [0, 100], &[(0, 0), (1, 20), (2, 50), (3, 80)]);
    assert_eq!(store.at(1, 30), Some(1));
    for state in [MARKED, DELETE_STARTED, DELETE_FINISHED] {
        store.put_delete(state).unwrap();
        assert_eq!(store.at(1, 30), Some(1));
    }
}

#[test]
fn kafka_create_with_updates() {
    let details = RemoteLogSegmentDetails::new(123, STARTED, epochs(&[(0, 0)]));
    let original = RemoteLogSegmentMetadata::new(id(1), 0, 100, -1, 0, 0, details).unwrap();
    let update = RemoteLogSegmentMetadataUpdate::new(id(1), 1, Some(custom(&[0, 1, 2, 3])), FINISHED, 1);
    let updated = original.with_update(&update).unwrap();
    assert_eq!((updated.state(), updated.event_timestamp_ms(), updated.broker_id()), (FINISHED, 1, 1));
    assert_eq!(updated.custom_metadata(), Some(&custom(&[0, 1, 2, 3])));
    assert_eq!(updated.segment_size_in_bytes(), 123);
    assert_eq!((original.state(), original.event_timestamp_ms(), original.broker_id()), (STARTED, 0, 0));
    assert_eq!(original.custom_metadata(), None);
}

#[test]
fn kafka_size_retention_sees_states_in_the_list() {
    let store = Store::new();
    store.add(1, [0, 99], &[(0, 0)]);
    store.add(2, [100, 199], &[(0, 100)]);
    store.to(2, DELETING);
    store.add_finished(3, [200, 299], &[(0, 200)]);
    assert_eq!(store.states(), [STARTED, DELETING, FINISHED]);
}
