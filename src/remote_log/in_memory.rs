//! The metadata store that keeps nothing: for tests, and to show what every other one does.

use parking_lot::RwLock;

use super::RemoteLogMetadataManager;
use super::codec::Event;
use super::error::RemoteStorageError;
use super::metadata::{
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata,
};
use super::partition::Partition;
use super::store::Store;
use super::types::{LeaderEpoch, TopicIdPartition};

/// A [`RemoteLogMetadataManager`] in memory. Every partition is its own; it is always caught up.
#[derive(Debug, Default)]
pub struct InmemoryRemoteLogMetadataManager {
    store: RwLock<Store>,
}

impl InmemoryRemoteLogMetadataManager {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops every segment of a partition whose deletion is finished; the deletion stays finished.
    /// Gives the number of segments dropped.
    ///
    /// [`RemoteStorageError::InvalidArgument`] where the deletion is not finished.
    pub fn purge_partition(
        &self,
        topic_id_partition: &TopicIdPartition,
    ) -> Result<usize, RemoteStorageError> {
        self.store.write().purge(topic_id_partition)
    }

    /// The partitions of which something is recorded, by id and number.
    pub fn partitions(&self) -> Vec<TopicIdPartition> {
        self.store.read().select(|_| true)
    }

    /// The partitions whose deletion is finished and that still hold segments, by id and number.
    pub fn deleted_partitions_with_segments(&self) -> Vec<TopicIdPartition> {
        self.store.read().select(|partition| partition.is_deleted() && partition.has_segments())
    }

    fn apply(&self, event: &Event) -> Result<(), RemoteStorageError> {
        let mut store = self.store.write();
        let position = store.position() + 1;
        store.apply(event, position).map(drop)
    }

    fn read<T: Default>(&self, tp: &TopicIdPartition, read: impl FnOnce(&Partition) -> T) -> T {
        self.store.read().get(tp).map(read).unwrap_or_default()
    }
}

impl RemoteLogMetadataManager for InmemoryRemoteLogMetadataManager {
    fn add_remote_log_segment_metadata(
        &self,
        metadata: RemoteLogSegmentMetadata,
    ) -> Result<(), RemoteStorageError> {
        self.apply(&Event::AddSegment(metadata))
    }

    fn update_remote_log_segment_metadata(
        &self,
        update: RemoteLogSegmentMetadataUpdate,
    ) -> Result<(), RemoteStorageError> {
        self.apply(&Event::UpdateSegment(update))
    }

    fn remote_log_segment_metadata(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
        offset: i64,
    ) -> Result<Option<RemoteLogSegmentMetadata>, RemoteStorageError> {
        Ok(self.read(topic_id_partition, |partition| partition.containing(leader_epoch, offset)))
    }

    fn highest_offset_for_epoch(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<i64>, RemoteStorageError> {
        Ok(self.read(topic_id_partition, |partition| partition.highest(leader_epoch)))
    }

    fn list_remote_log_segments(
        &self,
        topic_id_partition: &TopicIdPartition,
    ) -> Result<Vec<RemoteLogSegmentMetadata>, RemoteStorageError> {
        Ok(self.read(topic_id_partition, Partition::list))
    }

    fn list_remote_log_segments_by_epoch(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Vec<RemoteLogSegmentMetadata>, RemoteStorageError> {
        Ok(self.read(topic_id_partition, |partition| partition.list_by_epoch(leader_epoch)))
    }

    fn put_remote_partition_delete_metadata(
        &self,
        metadata: RemotePartitionDeleteMetadata,
    ) -> Result<(), RemoteStorageError> {
        self.apply(&Event::DeletePartition(metadata))
    }

    fn caught_up(&self, _topic_id_partition: &TopicIdPartition) -> Result<bool, RemoteStorageError> {
        Ok(true)
    }
}
