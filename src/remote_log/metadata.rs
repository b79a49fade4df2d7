//! What is recorded of a segment, and the events that change it.

use std::collections::BTreeMap;

use super::error::RemoteStorageError;
use super::types::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentId, RemoteLogSegmentState, RemotePartitionDeleteState,
    TopicIdPartition,
};

/// Size, state and leader epochs of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLogSegmentDetails {
    pub(super) segment_size_in_bytes: i32,
    pub(super) state: RemoteLogSegmentState,
    pub(super) segment_leader_epochs: BTreeMap<LeaderEpoch, i64>,
}

impl RemoteLogSegmentDetails {
    /// The epochs map to the first offset that each has in the segment.
    pub fn new(
        segment_size_in_bytes: i32,
        state: RemoteLogSegmentState,
        segment_leader_epochs: BTreeMap<LeaderEpoch, i64>,
    ) -> Self {
        Self { segment_size_in_bytes, state, segment_leader_epochs }
    }
}

/// All that is recorded of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLogSegmentMetadata {
    pub(super) remote_log_segment_id: RemoteLogSegmentId,
    pub(super) start_offset: i64,
    pub(super) end_offset: i64,
    pub(super) max_timestamp_ms: i64,
    pub(super) broker_id: i32,
    pub(super) event_timestamp_ms: i64,
    pub(super) details: RemoteLogSegmentDetails,
    pub(super) custom_metadata: Option<CustomMetadata>,
    pub(super) txn_index_empty: bool,
}

impl RemoteLogSegmentMetadata {
    /// A segment with the offsets from `start_offset` to `end_offset`, both included.
    ///
    /// [`RemoteStorageError::InvalidArgument`] without a leader epoch, with an end below the start,
    /// or with a negative size.
    pub fn new(
        remote_log_segment_id: RemoteLogSegmentId,
        start_offset: i64,
        end_offset: i64,
        max_timestamp_ms: i64,
        broker_id: i32,
        event_timestamp_ms: i64,
        details: RemoteLogSegmentDetails,
    ) -> Result<Self, RemoteStorageError> {
        let invalid = |what: String| Err(RemoteStorageError::InvalidArgument(what));
        if details.segment_leader_epochs.is_empty() {
            return invalid(format!("segment {remote_log_segment_id} has no leader epoch"));
        }
        if end_offset < start_offset {
            return invalid(format!(
                "segment {remote_log_segment_id} ends at {end_offset}, below its start {start_offset}"
            ));
        }
        if details.segment_size_in_bytes < 0 {
            let size = details.segment_size_in_bytes;
            return invalid(format!("segment {remote_log_segment_id} has {size} bytes"));
        }
        Ok(Self {
            remote_log_segment_id,
            start_offset,
            end_offset,
            max_timestamp_ms,
            broker_id,
            event_timestamp_ms,
            details,
            custom_metadata: None,
            txn_index_empty: false,
        })
    }

    /// Attaches what the remote storage wants to have kept.
    #[must_use]
    pub fn with_custom_metadata(mut self, custom_metadata: CustomMetadata) -> Self {
        self.custom_metadata = Some(custom_metadata);
        self
    }

    /// Says whether the segment's transaction index is empty (unless said: no).
    #[must_use]
    pub fn with_txn_index_empty(mut self, txn_index_empty: bool) -> Self {
        self.txn_index_empty = txn_index_empty;
        self
    }

    /// The segment as an update leaves it: with its state, time stamp and broker, and with its
    /// custom metadata where it carries some. An exact retry of the last update changes nothing.
    pub fn with_update(&self, update: &RemoteLogSegmentMetadataUpdate) -> Result<Self, RemoteStorageError> {
        if update.remote_log_segment_id != self.remote_log_segment_id {
            return Err(RemoteStorageError::InvalidArgument(format!(
                "the update is for segment {}, not for {}",
                update.remote_log_segment_id, self.remote_log_segment_id
            )));
        }
        update.follow(self.state(), self.event_timestamp_ms, self.broker_id, self.custom_metadata())?;
        let mut updated = self.clone();
        updated.details.state = update.state;
        updated.event_timestamp_ms = update.event_timestamp_ms;
        updated.broker_id = update.broker_id;
        if let Some(custom) = &update.custom_metadata {
            updated.custom_metadata = Some(custom.clone());
        }
        Ok(updated)
    }

    /// The segment.
    pub fn remote_log_segment_id(&self) -> &RemoteLogSegmentId {
        &self.remote_log_segment_id
    }

    /// Its first offset.
    pub fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// Its last offset.
    pub fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The latest time stamp of its records; -1: unknown.
    pub fn max_timestamp_ms(&self) -> i64 {
        self.max_timestamp_ms
    }

    /// The broker that recorded the last event.
    pub fn broker_id(&self) -> i32 {
        self.broker_id
    }

    /// When the last event was recorded.
    pub fn event_timestamp_ms(&self) -> i64 {
        self.event_timestamp_ms
    }

    /// Its size.
    pub fn segment_size_in_bytes(&self) -> i32 {
        self.details.segment_size_in_bytes
    }

    /// What the remote storage wants to have kept.
    pub fn custom_metadata(&self) -> Option<&CustomMetadata> {
        self.custom_metadata.as_ref()
    }

    /// Its state.
    pub fn state(&self) -> RemoteLogSegmentState {
        self.details.state
    }

    /// The first offset of each leader epoch in it.
    pub fn segment_leader_epochs(&self) -> &BTreeMap<LeaderEpoch, i64> {
        &self.details.segment_leader_epochs
    }

    /// Whether its transaction index is known to be empty.
    pub fn txn_index_empty(&self) -> bool {
        self.txn_index_empty
    }
}

/// An event in the life of a segment after its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLogSegmentMetadataUpdate {
    /// The segment.
    pub remote_log_segment_id: RemoteLogSegmentId,
    /// When it happened.
    pub event_timestamp_ms: i64,
    /// Replaces what is kept for the remote storage; `None` leaves it.
    pub custom_metadata: Option<CustomMetadata>,
    /// The new state.
    pub state: RemoteLogSegmentState,
    /// The broker that recorded it.
    pub broker_id: i32,
}

/// What a valid event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changes what is recorded.
    Change,
    /// It repeats what is recorded.
    Nothing,
}

impl RemoteLogSegmentMetadataUpdate {
    /// An update of a segment.
    pub fn new(
        remote_log_segment_id: RemoteLogSegmentId,
        event_timestamp_ms: i64,
        custom_metadata: Option<CustomMetadata>,
        state: RemoteLogSegmentState,
        broker_id: i32,
    ) -> Self {
        Self { remote_log_segment_id, event_timestamp_ms, custom_metadata, state, broker_id }
    }

    /// What the update does to a segment of which this is recorded.
    pub(super) fn follow(
        &self,
        from: RemoteLogSegmentState,
        event_timestamp_ms: i64,
        broker_id: i32,
        custom_metadata: Option<&CustomMetadata>,
    ) -> Result<Effect, RemoteStorageError> {
        let custom_same = self.custom_metadata.is_none() || self.custom_metadata.as_ref() == custom_metadata;
        let same = custom_same
            && (self.state, self.event_timestamp_ms, self.broker_id) == (from, event_timestamp_ms, broker_id);
        match (from, self.state) {
            // A segment starts by being added, and by nothing else.
            (_, RemoteLogSegmentState::CopySegmentStarted) => {}
            _ if same => return Ok(Effect::Nothing),
            // Another broker may take over a deletion that failed.
            (RemoteLogSegmentState::DeleteSegmentStarted, RemoteLogSegmentState::DeleteSegmentStarted) => {
                return Ok(Effect::Change);
            }
            (from, to) if from.is_valid_transition(to) => return Ok(Effect::Change),
            _ => {}
        }
        let id = self.remote_log_segment_id.clone();
        Err(RemoteStorageError::InvalidSegmentTransition { id, from, to: self.state })
    }
}

/// An event in the deletion of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePartitionDeleteMetadata {
    /// The partition.
    pub topic_id_partition: TopicIdPartition,
    /// The new state.
    pub state: RemotePartitionDeleteState,
    /// When it happened.
    pub event_timestamp_ms: i64,
    /// The broker that recorded it.
    pub broker_id: i32,
}

impl RemotePartitionDeleteMetadata {
    /// An event in the deletion of a partition.
    pub fn new(
        topic_id_partition: TopicIdPartition,
        state: RemotePartitionDeleteState,
        event_timestamp_ms: i64,
        broker_id: i32,
    ) -> Self {
        Self { topic_id_partition, state, event_timestamp_ms, broker_id }
    }

    /// What the event does to a partition whose deletion is in this state.
    pub(super) fn follow(
        &self,
        from: Option<RemotePartitionDeleteState>,
    ) -> Result<Effect, RemoteStorageError> {
        if from == Some(self.state) {
            return Ok(Effect::Nothing);
        }
        if RemotePartitionDeleteState::is_valid_transition(from, self.state) {
            return Ok(Effect::Change);
        }
        let tp = self.topic_id_partition.clone();
        Err(RemoteStorageError::InvalidPartitionDeleteTransition { tp, from, to: self.state })
    }
}
