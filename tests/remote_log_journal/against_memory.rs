//! A journal that is closed, dropped and compacted at any moment answers as the store in memory does, and so does what
//! is read of it without its log being opened.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidelog::Error;
use tidelog::readonly::ReadOnlyLog;
use tidelog::remote_log::{
    CustomMetadata, InmemoryRemoteLogMetadataManager, Journal, JournalOptions, JournalView, LeaderEpoch,
    RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState, RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState, RemoteStorageError, TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};

use crate::segments::{DELETED, DELETING, FINISHED, STARTED, orders};
use crate::support::{Env, STREAM, payments};

/// Neighbours, and both ends of what there is: segments overlap, nest, and start alike.
const OFFSETS: [i64; 14] =
    [i64::MIN, i64::MIN + 1, -64, -1, 0, 1, 2, 3, 7, 8, 64, 1 << 40, i64::MAX - 1, i64::MAX];
const EPOCHS: [i32; 8] = [i32::MIN, -1, 0, 1, 2, 3, i32::MAX - 1, i32::MAX];
const NUMBERS: u128 = 6;

#[derive(Clone, Debug)]
enum Step {
    Add(RemoteLogSegmentMetadata),
    Update(RemoteLogSegmentMetadataUpdate),
    /// The last update once more.
    Retry,
    Delete(RemotePartitionDeleteMetadata),
    Purge(TopicIdPartition),
    Checkpoint,
    /// Closed in good order, or just dropped.
    Reopen {
        close: bool,
        /// A checkpoint is due after so many dead entries, and goes a step with each mutation.
        checkpoint_after: Option<u64>,
    },
}

fn any_partition() -> impl Strategy<Value = TopicIdPartition> {
    prop_oneof![3 => Just(orders()), 1 => Just(payments())]
}

fn any_offset() -> impl Strategy<Value = i64> {
    proptest::sample::select(&OFFSETS[..])
}

fn any_id() -> impl Strategy<Value = RemoteLogSegmentId> {
    (any_partition(), 0..NUMBERS)
        .prop_map(|(tp, number)| RemoteLogSegmentId::new(tp, Uuid::from_u128(number)))
}

fn any_add() -> impl Strategy<Value = Step> {
    let epochs = proptest::collection::btree_map(
        proptest::sample::select(&EPOCHS[..]),
        any_offset(),
        1..=EPOCHS.len(),
    );
    let states = proptest::sample::select(&RemoteLogSegmentState::ALL[..]);
    let states = prop_oneof![19 => Just(STARTED), 1 => states];
    let custom = proptest::option::weighted(0.3, proptest::collection::vec(any::<u8>(), 0..3));
    (any_id(), any_offset(), any_offset(), epochs, states, custom).prop_map(
        |(id, one, other, epochs, state, custom)| {
            let epochs: BTreeMap<_, _> =
                epochs.into_iter().map(|(epoch, offset)| (LeaderEpoch(epoch), offset)).collect();
            let details = RemoteLogSegmentDetails::new(i32::MAX, state, epochs);
            let (start, end) = (one.min(other), one.max(other));
            let metadata =
                RemoteLogSegmentMetadata::new(id, start, end, i64::MIN, 0, i64::MAX, details).unwrap();
            Step::Add(match custom {
                Some(custom) => metadata.with_custom_metadata(custom.into()).with_txn_index_empty(true),
                None => metadata,
            })
        },
    )
}

fn any_update() -> impl Strategy<Value = Step> {
    // Most lead on; some are out of turn.
    let states = prop_oneof![
        6 => Just(FINISHED),
        3 => Just(DELETING),
        2 => Just(DELETED),
        1 => Just(STARTED),
    ];
    let custom = proptest::option::weighted(0.3, proptest::collection::vec(any::<u8>(), 0..3));
    (any_id(), states, 0..2i64, 0..2i32, custom).prop_map(|(id, state, timestamp, broker, custom)| {
        let custom = custom.map(CustomMetadata);
        Step::Update(RemoteLogSegmentMetadataUpdate::new(id, timestamp, custom, state, broker))
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let deletes = (any_partition(), proptest::sample::select(&RemotePartitionDeleteState::ALL[..]), 0..2i64);
    let deletes = deletes
        .prop_map(|(tp, state, time)| Step::Delete(RemotePartitionDeleteMetadata::new(tp, state, time, 0)));
    let after = prop_oneof![Just(None), (0..4u64).prop_map(Some)];
    prop_oneof![
        12 => any_add(),
        24 => any_update(),
        3 => Just(Step::Retry),
        5 => deletes,
        1 => any_partition().prop_map(Step::Purge),
        3 => Just(Step::Checkpoint),
        2 => (any::<bool>(), after)
            .prop_map(|(close, checkpoint_after)| Step::Reopen { close, checkpoint_after }),
    ]
}

/// What both can do.
fn take(
    manager: &dyn RemoteLogMetadataManager,
    purge: impl FnOnce(&TopicIdPartition) -> Result<usize, RemoteStorageError>,
    step: &Step,
) -> Result<usize, String> {
    let outcome = match step.clone() {
        Step::Add(metadata) => manager.add_remote_log_segment_metadata(metadata).map(|()| 0),
        Step::Update(update) => manager.update_remote_log_segment_metadata(update).map(|()| 0),
        Step::Delete(delete) => manager.put_remote_partition_delete_metadata(delete).map(|()| 0),
        Step::Purge(tp) => purge(&tp),
        Step::Retry | Step::Checkpoint | Step::Reopen { .. } => Ok(0),
    };
    outcome.map_err(|error| error.to_string())
}

fn compare(one: &dyn RemoteLogMetadataManager, other: &dyn RemoteLogMetadataManager) {
    let both = [one, other];
    for tp in &[orders(), payments()] {
        let [one, other] = both.map(|manager| manager.list_remote_log_segments(tp).unwrap());
        assert_eq!(one, other);
        for epoch in EPOCHS.map(LeaderEpoch) {
            let [one, other] =
                both.map(|manager| manager.list_remote_log_segments_by_epoch(tp, epoch).unwrap());
            assert_eq!(one, other);
            let [one, other] = both.map(|manager| manager.highest_offset_for_epoch(tp, epoch).unwrap());
            assert_eq!(one, other);
            for offset in OFFSETS {
                let [one, other] =
                    both.map(|manager| manager.remote_log_segment_metadata(tp, epoch, offset).unwrap());
                assert_eq!(one, other, "epoch {epoch}, offset {offset}");
            }
        }
    }
}

/// What is read of the files, beside the log that is open.
fn compare_view(env: &Env, memory: &InmemoryRemoteLogMetadataManager) {
    let log = match ReadOnlyLog::open(env.dir.path()) {
        // Nothing was written yet.
        Err(Error::NotALog { .. }) => return assert_eq!(memory.partitions(), []),
        log => log.unwrap(),
    };
    let view = JournalView::read(&log, STREAM.id).unwrap();
    assert_eq!((view.damage(), view.report().refused), (&[][..], 0));
    let partitions = view.partitions();
    assert!(partitions.iter().map(|partition| partition.topic_id_partition()).eq(&memory.partitions()));
    for partition in partitions {
        let tp = partition.topic_id_partition();
        assert_eq!(partition.segments(), memory.list_remote_log_segments(tp).unwrap());
        let mut carried = 0;
        for epoch in partition.epochs() {
            carried += epoch.segments;
            let list = memory.list_remote_log_segments_by_epoch(tp, epoch.epoch).unwrap();
            assert_eq!(epoch.segments, list.len());
            assert_eq!(epoch.finished, list.iter().filter(|segment| segment.state() == FINISHED).count());
            assert_eq!(epoch.highest, memory.highest_offset_for_epoch(tp, epoch.epoch).unwrap());
            assert!(
                epoch.spans.windows(2).all(|two| two[0].end().saturating_add(1) < *two[1].start()),
                "{epoch:?}"
            );
            for offset in OFFSETS {
                let found = memory.remote_log_segment_metadata(tp, epoch.epoch, offset).unwrap();
                assert_eq!(partition.segment_at(epoch.epoch, offset), found);
                let is_in_span = epoch.spans.iter().any(|span| span.contains(&offset));
                assert_eq!(is_in_span, found.is_some(), "{offset} in {epoch:?}");
            }
        }
        let epochs = partition.segments().iter().map(|segment| segment.segment_leader_epochs().len()).sum();
        assert_eq!(carried, epochs);
    }
}

fn open(env: &Env, checkpoint_after: Option<u64>) -> (tidelog::Log, TideRemoteLogMetadataManager) {
    let log = env.log();
    let options = JournalOptions::new().checkpoint_after(checkpoint_after);
    let manager = TideRemoteLogMetadataManager::new(Journal::open(&log, STREAM.id, options).unwrap());
    (log, manager)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn answers_alike(
        steps in proptest::collection::vec(any_step(), 1..80),
        checkpoint_after in proptest::option::of(0..4u64),
    ) {
        let env = Env::new();
        let memory = InmemoryRemoteLogMetadataManager::new();
        let (mut log, mut manager) = open(&env, checkpoint_after);
        let mut last = None;
        for (count, step) in steps.into_iter().enumerate() {
            let step = match (step, &last) {
                (Step::Retry, Some(update)) => Step::Update(RemoteLogSegmentMetadataUpdate::clone(update)),
                (step, _) => step,
            };
            match step {
                Step::Checkpoint => manager.journal().checkpoint().unwrap(),
                Step::Reopen { close, checkpoint_after } => {
                    if close {
                        log.close().unwrap();
                    }
                    drop((log, manager));
                    (log, manager) = open(&env, checkpoint_after);
                    prop_assert_eq!(manager.journal().report().unwrap().refused, 0);
                }
                step => {
                    let expected = take(&memory, |tp| memory.purge_partition(tp), &step);
                    let outcome = take(&manager, |tp| manager.purge_partition(tp), &step);
                    prop_assert_eq!(outcome, expected, "{:?}", step);
                    if let Step::Update(update) = step {
                        last = Some(update);
                    }
                }
            }
            compare(&manager, &memory);
            if count % 5 == 0 {
                compare_view(&env, &memory);
            }
            for tp in [orders(), payments()] {
                prop_assert!(manager.caught_up(&tp).unwrap());
            }
        }
        drop((log, manager));
        compare_view(&env, &memory);
        compare(&env.open().1, &memory);
    }
}
