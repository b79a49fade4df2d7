//! A journal that is closed, dropped and compacted at any moment answers as the store in memory does.

use proptest::prelude::*;
use tidelog::remote_log::{
    CustomMetadata, InmemoryRemoteLogMetadataManager, LeaderEpoch, RemoteLogMetadataManager,
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    RemotePartitionDeleteMetadata, RemotePartitionDeleteState, RemoteStorageError,
    TideRemoteLogMetadataManager,
};

use crate::segments::{id, orders, segment};
use crate::support::Env;

#[derive(Clone, Debug)]
enum Step {
    Add(RemoteLogSegmentMetadata),
    Update(RemoteLogSegmentMetadataUpdate),
    Delete(RemotePartitionDeleteState),
    Purge,
    Checkpoint,
    /// Closed in good order, or just dropped.
    Reopen {
        close: bool,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let epochs = proptest::collection::btree_map(0..3i32, 0..20i64, 1..3);
    let add = (0..6u128, 0..20i64, 0..20i64, epochs).prop_map(|(number, one, other, epochs)| {
        let epochs: Vec<_> = epochs.into_iter().collect();
        Step::Add(segment(number, [one.min(other), one.max(other)], &epochs))
    });
    let custom = proptest::option::weighted(0.3, proptest::collection::vec(any::<u8>(), 0..3));
    let states = proptest::sample::select(&RemoteLogSegmentState::ALL[..]);
    let update = (0..6u128, states, 0..2i64, custom).prop_map(|(number, state, timestamp, custom)| {
        let custom = custom.map(CustomMetadata);
        Step::Update(RemoteLogSegmentMetadataUpdate::new(id(number), timestamp, custom, state, 0))
    });
    let deletes = proptest::sample::select(&RemotePartitionDeleteState::ALL[..]);
    prop_oneof![
        10 => add,
        20 => update,
        2 => deletes.prop_map(Step::Delete),
        1 => Just(Step::Purge),
        2 => Just(Step::Checkpoint),
        1 => any::<bool>().prop_map(|close| Step::Reopen { close }),
    ]
}

/// What both can do.
fn take(
    manager: &dyn RemoteLogMetadataManager,
    purge: impl FnOnce() -> Result<usize, RemoteStorageError>,
    step: &Step,
) -> Result<usize, String> {
    let outcome = match step.clone() {
        Step::Add(metadata) => manager.add_remote_log_segment_metadata(metadata).map(|()| 0),
        Step::Update(update) => manager.update_remote_log_segment_metadata(update).map(|()| 0),
        Step::Delete(state) => {
            let delete = RemotePartitionDeleteMetadata::new(orders(), state, 0, 0);
            manager.put_remote_partition_delete_metadata(delete).map(|()| 0)
        }
        Step::Purge => purge(),
        Step::Checkpoint | Step::Reopen { .. } => Ok(0),
    };
    outcome.map_err(|error| error.to_string())
}

fn compare(one: &dyn RemoteLogMetadataManager, other: &dyn RemoteLogMetadataManager) {
    let tp = &orders();
    let both = [one, other];
    let [one, other] = both.map(|manager| manager.list_remote_log_segments(tp).unwrap());
    assert_eq!(one, other);
    for epoch in (0..3).map(LeaderEpoch) {
        let [one, other] = both.map(|manager| manager.list_remote_log_segments_by_epoch(tp, epoch).unwrap());
        assert_eq!(one, other);
        let [one, other] = both.map(|manager| manager.highest_offset_for_epoch(tp, epoch).unwrap());
        assert_eq!(one, other);
        for offset in 0..20 {
            let [one, other] =
                both.map(|manager| manager.remote_log_segment_metadata(tp, epoch, offset).unwrap());
            assert_eq!(one, other, "epoch {epoch}, offset {offset}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn answers_alike(steps in proptest::collection::vec(any_step(), 1..80)) {
        let env = Env::new();
        let memory = InmemoryRemoteLogMetadataManager::new();
        let (mut log, mut manager): (_, TideRemoteLogMetadataManager) = env.open();
        for step in steps {
            match step {
                Step::Checkpoint => manager.journal().checkpoint().unwrap(),
                Step::Reopen { close } => {
                    if close {
                        log.close().unwrap();
                    }
                    drop((log, manager));
                    (log, manager) = env.open();
                    prop_assert_eq!(manager.journal().report().unwrap().refused, 0);
                }
                step => {
                    let expected = take(&memory, || memory.purge_partition(&orders()), &step);
                    let outcome = take(&manager, || manager.purge_partition(&orders()), &step);
                    prop_assert_eq!(outcome, expected, "{:?}", step);
                }
            }
            compare(&manager, &memory);
            prop_assert!(manager.caught_up(&orders()).unwrap());
        }
        drop((log, manager));
        compare(&env.open().1, &memory);
    }
}
