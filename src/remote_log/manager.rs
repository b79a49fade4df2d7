//! The metadata store that survives: a manager is an assignment of partitions over a journal.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::RemoteLogMetadataManager;
use super::codec::Event;
use super::error::RemoteStorageError;
use super::journal::Journal;
use super::metadata::{
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata,
};
use super::partition::Partition;
use super::types::{LeaderEpoch, TopicIdPartition};

/// A [`RemoteLogMetadataManager`] whose events are in a [`Journal`], durable before they are
/// acknowledged. Any number of managers can share a journal: what one acknowledges all see.
///
/// A manager answers for the partitions that are assigned to it. Of any other it knows nothing,
/// and is not caught up; what it is asked to record it records for all.
///
/// Every call answers [`RemoteStorageError::Io`] once the journal has failed, and
/// [`RemoteStorageError::NotReady`] while it is being read, except that calls for a partition that
/// is not assigned answer at once, or record when the journal has been read.
#[derive(Debug)]
pub struct TideRemoteLogMetadataManager {
    journal: Journal,
    assignment: RwLock<Assignment>,
}

#[derive(Debug)]
enum Assignment {
    All,
    Some(HashSet<TopicIdPartition>),
}

impl TideRemoteLogMetadataManager {
    /// A manager of all partitions.
    pub fn new(journal: Journal) -> Self {
        Self { journal, assignment: RwLock::new(Assignment::All) }
    }

    /// A manager of these partitions.
    pub fn with_partitions(journal: Journal, partitions: impl IntoIterator<Item = TopicIdPartition>) -> Self {
        let assignment = Assignment::Some(partitions.into_iter().collect());
        Self { journal, assignment: RwLock::new(assignment) }
    }

    /// The journal beneath.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Takes on a partition. It is up to date at once, since the journal follows all of them.
    pub fn assign(&self, topic_id_partition: TopicIdPartition) {
        if let Assignment::Some(partitions) = &mut *self.assignment.write() {
            partitions.insert(topic_id_partition);
        }
    }

    /// Gives up a partition; whether it was there to give. A manager of all partitions gives none up.
    pub fn unassign(&self, topic_id_partition: &TopicIdPartition) -> bool {
        match &mut *self.assignment.write() {
            Assignment::All => false,
            Assignment::Some(partitions) => partitions.remove(topic_id_partition),
        }
    }

    /// Whether the manager answers for a partition.
    pub fn is_assigned(&self, topic_id_partition: &TopicIdPartition) -> bool {
        match &*self.assignment.read() {
            Assignment::All => true,
            Assignment::Some(partitions) => partitions.contains(topic_id_partition),
        }
    }

    /// Drops every segment of a partition whose deletion is finished, durably; the deletion stays
    /// finished. Gives the number of segments dropped.
    ///
    /// The journal gets the updates that each segment's deletion has, with the time stamp and the
    /// broker of its last event. If it fails half way the rest is still there, and can be purged later.
    ///
    /// [`RemoteStorageError::InvalidArgument`] where the deletion is not finished.
    pub fn purge_partition(
        &self,
        topic_id_partition: &TopicIdPartition,
    ) -> Result<usize, RemoteStorageError> {
        self.check_mutable(topic_id_partition)?;
        self.journal.purge(topic_id_partition)
    }

    /// The assigned partitions whose deletion is finished and that still hold segments, by id and
    /// number; none while the journal is being read.
    pub fn deleted_partitions_with_segments(&self) -> Result<Vec<TopicIdPartition>, RemoteStorageError> {
        self.journal.check()?;
        Ok(self.journal.read().select(|partition| {
            partition.is_deleted()
                && partition.has_segments()
                && self.is_assigned(partition.topic_id_partition())
        }))
    }

    /// What is recorded of an assigned partition.
    fn read<T: Default>(
        &self,
        tp: &TopicIdPartition,
        read: impl FnOnce(&Partition) -> T,
    ) -> Result<T, RemoteStorageError> {
        if self.check_assigned(tp)? {
            Ok(self.journal.read().get(tp).map(read).unwrap_or_default())
        } else {
            Ok(T::default())
        }
    }

    /// Whether the partition is assigned; an error if that is not enough to answer.
    fn check_assigned(&self, tp: &TopicIdPartition) -> Result<bool, RemoteStorageError> {
        self.journal.check()?;
        if !self.is_assigned(tp) {
            return Ok(false);
        }
        if self.journal.is_ready() {
            Ok(true)
        } else {
            Err(RemoteStorageError::NotReady { partition: tp.partition })
        }
    }

    /// A mutation is accepted for any partition; for one that is not assigned it waits until it can be judged.
    fn check_mutable(&self, tp: &TopicIdPartition) -> Result<(), RemoteStorageError> {
        if !self.check_assigned(tp)? {
            self.journal.wait_ready(None)?;
        }
        Ok(())
    }

    fn record(&self, event: Event) -> Result<(), RemoteStorageError> {
        self.check_mutable(event.topic_id_partition())?;
        self.journal.record(event)
    }
}

impl RemoteLogMetadataManager for TideRemoteLogMetadataManager {
    fn add_remote_log_segment_metadata(
        &self,
        metadata: RemoteLogSegmentMetadata,
    ) -> Result<(), RemoteStorageError> {
        self.record(Event::AddSegment(metadata))
    }

    fn update_remote_log_segment_metadata(
        &self,
        update: RemoteLogSegmentMetadataUpdate,
    ) -> Result<(), RemoteStorageError> {
        self.record(Event::UpdateSegment(update))
    }

    fn remote_log_segment_metadata(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
        offset: i64,
    ) -> Result<Option<RemoteLogSegmentMetadata>, RemoteStorageError> {
        self.read(topic_id_partition, |partition| partition.containing(leader_epoch, offset))
    }

    fn highest_offset_for_epoch(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<i64>, RemoteStorageError> {
        self.read(topic_id_partition, |partition| partition.highest(leader_epoch))
    }

    fn list_remote_log_segments(
        &self,
        topic_id_partition: &TopicIdPartition,
    ) -> Result<Vec<RemoteLogSegmentMetadata>, RemoteStorageError> {
        self.read(topic_id_partition, Partition::list)
    }

    fn list_remote_log_segments_by_epoch(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Vec<RemoteLogSegmentMetadata>, RemoteStorageError> {
        self.read(topic_id_partition, |partition| partition.list_by_epoch(leader_epoch))
    }

    fn put_remote_partition_delete_metadata(
        &self,
        metadata: RemotePartitionDeleteMetadata,
    ) -> Result<(), RemoteStorageError> {
        self.record(Event::DeletePartition(metadata))
    }

    fn caught_up(&self, topic_id_partition: &TopicIdPartition) -> Result<bool, RemoteStorageError> {
        if !self.check_assigned(topic_id_partition)? {
            return Ok(false);
        }
        // What is durable by now and not applied yet is applied here rather than waited for.
        self.journal.catch_up()?;
        Ok(true)
    }
}
