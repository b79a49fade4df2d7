//! Segments by small numbers, and a store to put them in.
#![allow(clippy::needless_pass_by_value, reason = "outcomes are made on the spot")]

use std::collections::BTreeMap;

use tidelog::remote_log::{
    CustomMetadata, InmemoryRemoteLogMetadataManager, LeaderEpoch, RemoteLogMetadataManager,
    RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState, RemotePartitionDeleteMetadata, RemotePartitionDeleteState, RemoteStorageError,
    TopicIdPartition, Uuid,
};

pub(crate) const STARTED: RemoteLogSegmentState = RemoteLogSegmentState::CopySegmentStarted;
pub(crate) const FINISHED: RemoteLogSegmentState = RemoteLogSegmentState::CopySegmentFinished;
pub(crate) const DELETING: RemoteLogSegmentState = RemoteLogSegmentState::DeleteSegmentStarted;
pub(crate) const DELETED: RemoteLogSegmentState = RemoteLogSegmentState::DeleteSegmentFinished;

pub(crate) const MARKED: RemotePartitionDeleteState = RemotePartitionDeleteState::DeletePartitionMarked;
pub(crate) const DELETE_STARTED: RemotePartitionDeleteState =
    RemotePartitionDeleteState::DeletePartitionStarted;
pub(crate) const DELETE_FINISHED: RemotePartitionDeleteState =
    RemotePartitionDeleteState::DeletePartitionFinished;

pub(crate) type Outcome = Result<(), RemoteStorageError>;

pub(crate) fn orders() -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(1), "orders", 0)
}

pub(crate) fn id(number: u128) -> RemoteLogSegmentId {
    RemoteLogSegmentId::new(orders(), Uuid::from_u128(number))
}

pub(crate) fn epochs(epochs: &[(i32, i64)]) -> BTreeMap<LeaderEpoch, i64> {
    epochs.iter().map(|(epoch, offset)| (LeaderEpoch(*epoch), *offset)).collect()
}

/// A segment of `orders` in a state.
pub(crate) fn segment_in(
    state: RemoteLogSegmentState,
    number: u128,
    [start, end]: [i64; 2],
    of: &[(i32, i64)],
) -> Result<RemoteLogSegmentMetadata, RemoteStorageError> {
    let details = RemoteLogSegmentDetails::new(1_048_576, state, epochs(of));
    RemoteLogSegmentMetadata::new(id(number), start, end, -1, 0, 0, details)
}

pub(crate) fn segment(number: u128, range: [i64; 2], of: &[(i32, i64)]) -> RemoteLogSegmentMetadata {
    segment_in(STARTED, number, range, of).expect("a valid segment")
}

pub(crate) fn update(number: u128, state: RemoteLogSegmentState) -> RemoteLogSegmentMetadataUpdate {
    RemoteLogSegmentMetadataUpdate::new(id(number), 0, None, state, 0)
}

pub(crate) fn custom(bytes: &[u8]) -> CustomMetadata {
    CustomMetadata(bytes.to_vec())
}

/// A store with the one partition `orders`.
#[derive(Default)]
pub(crate) struct Store(pub(crate) InmemoryRemoteLogMetadataManager);

impl Store {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A store with these segments of epoch 0, finished in this order; the first has number 1.
    pub(crate) fn with_finished(ranges: &[[i64; 2]]) -> Self {
        let store = Self::new();
        for (number, range) in (1..).zip(ranges) {
            store.add_finished(number, *range, &[(0, range[0])]);
        }
        store
    }

    pub(crate) fn add(&self, number: u128, range: [i64; 2], of: &[(i32, i64)]) {
        self.try_add(segment(number, range, of)).expect("a new segment");
    }

    pub(crate) fn try_add(&self, metadata: RemoteLogSegmentMetadata) -> Outcome {
        self.0.add_remote_log_segment_metadata(metadata)
    }

    pub(crate) fn add_finished(&self, number: u128, range: [i64; 2], of: &[(i32, i64)]) {
        self.add(number, range, of);
        self.to(number, FINISHED);
    }

    pub(crate) fn to(&self, number: u128, state: RemoteLogSegmentState) {
        self.try_to(number, state).expect("a valid transition");
    }

    pub(crate) fn try_to(&self, number: u128, state: RemoteLogSegmentState) -> Outcome {
        self.try_update(update(number, state))
    }

    pub(crate) fn try_update(&self, update: RemoteLogSegmentMetadataUpdate) -> Outcome {
        self.0.update_remote_log_segment_metadata(update)
    }

    pub(crate) fn put_delete(&self, state: RemotePartitionDeleteState) -> Outcome {
        let delete = RemotePartitionDeleteMetadata::new(orders(), state, 0, 0);
        self.0.put_remote_partition_delete_metadata(delete)
    }

    /// The metadata that answers for an offset.
    pub(crate) fn found(&self, epoch: i32, offset: i64) -> Option<RemoteLogSegmentMetadata> {
        self.0.remote_log_segment_metadata(&orders(), LeaderEpoch(epoch), offset).expect("a look-up")
    }

    /// The number of the segment that answers for an offset.
    pub(crate) fn at(&self, epoch: i32, offset: i64) -> Option<u128> {
        self.found(epoch, offset).as_ref().map(number)
    }

    pub(crate) fn highest(&self, epoch: i32) -> Option<i64> {
        self.0.highest_offset_for_epoch(&orders(), LeaderEpoch(epoch)).expect("a look-up")
    }

    pub(crate) fn all(&self) -> Vec<RemoteLogSegmentMetadata> {
        self.0.list_remote_log_segments(&orders()).expect("a list")
    }

    pub(crate) fn list(&self) -> Vec<u128> {
        self.all().iter().map(number).collect()
    }

    pub(crate) fn states(&self) -> Vec<RemoteLogSegmentState> {
        self.all().iter().map(RemoteLogSegmentMetadata::state).collect()
    }

    pub(crate) fn by_epoch(&self, epoch: i32) -> Vec<u128> {
        let list = self.0.list_remote_log_segments_by_epoch(&orders(), LeaderEpoch(epoch));
        list.expect("a list").iter().map(number).collect()
    }
}

pub(crate) fn number(metadata: &RemoteLogSegmentMetadata) -> u128 {
    metadata.remote_log_segment_id().id.as_u128()
}

#[track_caller]
pub(crate) fn assert_not_found(outcome: Outcome, number: u128) {
    assert!(
        matches!(&outcome, Err(RemoteStorageError::SegmentNotFound(found)) if *found == id(number)),
        "{outcome:?}"
    );
}

#[track_caller]
pub(crate) fn assert_invalid_add(outcome: Outcome, number: u128) {
    assert!(
        matches!(&outcome, Err(RemoteStorageError::InvalidAdd { id: found, .. }) if *found == id(number)),
        "{outcome:?}"
    );
}

#[track_caller]
pub(crate) fn assert_refused(outcome: Outcome, from: RemoteLogSegmentState, to: RemoteLogSegmentState) {
    assert!(
        matches!(&outcome, Err(RemoteStorageError::InvalidSegmentTransition { from: f, to: t, .. })
            if (*f, *t) == (from, to)),
        "{outcome:?}"
    );
}

#[track_caller]
pub(crate) fn assert_delete_refused(
    outcome: Outcome,
    from: Option<RemotePartitionDeleteState>,
    to: RemotePartitionDeleteState,
) {
    assert!(
        matches!(&outcome, Err(RemoteStorageError::InvalidPartitionDeleteTransition { from: f, to: t, .. })
            if (*f, *t) == (from, to)),
        "{outcome:?}"
    );
}
