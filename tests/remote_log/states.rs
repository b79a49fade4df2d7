//! Every transition, and what surrounds it.

use tidelog::remote_log::{
    RemoteLogMetadataManager, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    RemotePartitionDeleteState, RemoteStorageError, TopicIdPartition, Uuid,
};

use crate::support::*;

/// A store whose segment 1 is in a state.
fn store_in(state: RemoteLogSegmentState) -> Store {
    let store = Store::new();
    store.add(1, [0, 9], &[(0, 0)]);
    match state {
        STARTED => {}
        FINISHED => store.to(1, FINISHED),
        DELETING | DELETED => store.to(1, DELETING),
    }
    if state == DELETED {
        store.to(1, DELETED);
    }
    store
}

#[test]
fn segment_transitions() {
    let valid = [(STARTED, FINISHED), (STARTED, DELETING), (FINISHED, DELETING), (DELETING, DELETED)];
    for from in RemoteLogSegmentState::ALL {
        for to in RemoteLogSegmentState::ALL {
            assert_eq!(from.is_valid_transition(to), valid.contains(&(from, to)), "{from:?} to {to:?}");
            let store = store_in(from);
            // Another broker, so that nothing is a retry.
            let outcome = store.try_update(RemoteLogSegmentMetadataUpdate { broker_id: 9, ..update(1, to) });
            if from == DELETED {
                assert_not_found(outcome, 1);
            } else if from.is_valid_transition(to) || (from, to) == (DELETING, DELETING) {
                outcome.unwrap();
                assert_eq!(store.states(), if to == DELETED { vec![] } else { vec![to] });
            } else {
                assert_refused(outcome, from, to);
                assert_eq!(store.states(), [from]);
            }
        }
    }
}

#[test]
fn retries_of_the_same_segment_state() {
    for state in [STARTED, FINISHED, DELETING] {
        let store = store_in(state);
        let before = store.all();
        let retry = store.try_to(1, state);
        if state == STARTED {
            assert_refused(retry, STARTED, STARTED);
        } else {
            retry.unwrap();
        }
        assert_eq!(store.all(), before);
    }
}

#[test]
fn a_retry_compares_all_that_it_carries() {
    let store = Store::new();
    store.add(1, [0, 9], &[(0, 0)]);
    let finish = RemoteLogSegmentMetadataUpdate::new(id(1), 5, Some(custom(&[])), FINISHED, 2);
    store.try_update(finish.clone()).unwrap();
    store.try_update(finish.clone()).unwrap();
    store.try_update(RemoteLogSegmentMetadataUpdate { custom_metadata: None, ..finish.clone() }).unwrap();
    for other in [
        RemoteLogSegmentMetadataUpdate { event_timestamp_ms: 6, ..finish.clone() },
        RemoteLogSegmentMetadataUpdate { broker_id: 3, ..finish.clone() },
        RemoteLogSegmentMetadataUpdate { custom_metadata: Some(custom(&[1])), ..finish },
    ] {
        assert_refused(store.try_update(other), FINISHED, FINISHED);
    }
    let found = store.found(0, 0).unwrap();
    assert_eq!((found.event_timestamp_ms(), found.broker_id()), (5, 2));
    assert_eq!(found.custom_metadata(), Some(&custom(&[])));
}

#[test]
fn empty_custom_metadata_is_not_absent() {
    let store = Store::new();
    store.add(1, [0, 9], &[(0, 0)]);
    // Absent is recorded, so empty is no retry.
    store.to(1, FINISHED);
    let empty = RemoteLogSegmentMetadataUpdate { custom_metadata: Some(custom(&[])), ..update(1, FINISHED) };
    assert_refused(store.try_update(empty), FINISHED, FINISHED);
}

#[test]
fn another_broker_takes_over_a_deletion() {
    let store = store_in(DELETING);
    let take_over = RemoteLogSegmentMetadataUpdate::new(id(1), 50, Some(custom(&[4])), DELETING, 8);
    store.try_update(take_over).unwrap();
    let listed = &store.all()[0];
    assert_eq!((listed.event_timestamp_ms(), listed.broker_id()), (50, 8));
    assert_eq!(listed.custom_metadata(), Some(&custom(&[4])));
    store.to(1, DELETED);
}

#[test]
fn a_deleted_id_can_be_added_again() {
    let store = store_in(DELETED);
    assert_eq!(store.0.partitions(), []);
    store.add_finished(1, [50, 59], &[(3, 50)]);
    assert_eq!((store.at(0, 5), store.at(3, 55)), (None, Some(1)));
}

#[test]
fn partition_delete_transitions() {
    let states = [None, Some(MARKED), Some(DELETE_STARTED), Some(DELETE_FINISHED)];
    let valid = [(None, MARKED), (Some(MARKED), DELETE_STARTED), (Some(DELETE_STARTED), DELETE_FINISHED)];
    for (reached, from) in states.into_iter().enumerate() {
        for to in RemotePartitionDeleteState::ALL {
            let allowed = valid.contains(&(from, to));
            assert_eq!(RemotePartitionDeleteState::is_valid_transition(from, to), allowed);
            let store = Store::new();
            for state in RemotePartitionDeleteState::ALL.into_iter().take(reached) {
                store.put_delete(state).unwrap();
            }
            let outcome = store.put_delete(to);
            if allowed || from == Some(to) {
                outcome.unwrap();
            } else {
                assert_delete_refused(outcome, from, to);
            }
        }
    }
}

#[test]
fn segments_are_added_after_the_deletion() {
    let store = Store::new();
    for state in RemotePartitionDeleteState::ALL {
        store.put_delete(state).unwrap();
    }
    store.add_finished(1, [0, 9], &[(0, 0)]);
    assert_eq!(store.at(0, 5), Some(1));
}

#[test]
fn purge_needs_a_finished_deletion() {
    let store = Store::new();
    let refused = |store: &Store| {
        matches!(store.0.purge_partition(&orders()), Err(RemoteStorageError::InvalidArgument(_)))
    };
    assert!(refused(&store));
    store.add(1, [0, 9], &[(0, 0)]);
    store.add_finished(2, [10, 19], &[(0, 10)]);
    assert!(refused(&store));
    for state in [MARKED, DELETE_STARTED] {
        store.put_delete(state).unwrap();
        assert!(refused(&store));
        assert_eq!(store.0.deleted_partitions_with_segments(), []);
    }
    store.put_delete(DELETE_FINISHED).unwrap();
    assert_eq!(store.0.deleted_partitions_with_segments(), [orders()]);
    assert_eq!(store.0.purge_partition(&orders()).unwrap(), 2);
    assert_eq!((store.list(), store.at(0, 15), store.highest(0)), (vec![], None, None));
    assert_eq!(store.0.deleted_partitions_with_segments(), []);
    assert_eq!(store.0.partitions(), [orders()]);
    assert_delete_refused(store.put_delete(MARKED), Some(DELETE_FINISHED), MARKED);
    assert_eq!(store.0.purge_partition(&orders()).unwrap(), 0);
}

#[test]
fn partitions_are_independent() {
    let store = Store::new();
    store.add_finished(1, [0, 9], &[(0, 0)]);
    let same_name = TopicIdPartition::new(Uuid::from_u128(2), "orders", 0);
    assert_eq!(store.0.list_remote_log_segments(&same_name).unwrap(), []);
    let renamed = TopicIdPartition::new(Uuid::from_u128(1), "renamed", 0);
    assert_eq!(store.0.list_remote_log_segments(&renamed).unwrap().len(), 1);
}

#[test]
fn the_manager_is_an_object_that_threads_share() {
    let manager: Box<dyn RemoteLogMetadataManager> = Box::new(Store::new().0);
    std::thread::scope(|scope| {
        for number in 0..4u8 {
            let manager = &manager;
            scope.spawn(move || {
                let offset = i64::from(number) * 10;
                let metadata = segment(number.into(), [offset, offset + 9], &[(0, offset)]);
                manager.add_remote_log_segment_metadata(metadata).unwrap();
            });
        }
    });
    assert_eq!(manager.list_remote_log_segments(&orders()).unwrap().len(), 4);
}
