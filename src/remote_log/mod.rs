//! Metadata of log segments that were copied to remote storage: which there are, which offsets of
//! which leader epochs they hold, and where each is in its life.
//!
//! [`RemoteLogMetadataManager`] is the interface, in the shape of Kafka's tiered storage (KIP-405).
//! [`TideRemoteLogMetadataManager`] keeps the metadata in a [`Journal`], a stream of a
//! [`Log`](crate::Log); [`InmemoryRemoteLogMetadataManager`] keeps them in memory alone.
//!
//! ```
//! use tidelog::remote_log::{Journal, JournalOptions, RemoteLogMetadataManager, TideRemoteLogMetadataManager};
//! use tidelog::{Log, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let log = Log::open(dir.path(), Options::new())?;
//! let journal = Journal::open(&log, 1, JournalOptions::new())?;
//! let manager: Box<dyn RemoteLogMetadataManager> = Box::new(TideRemoteLogMetadataManager::new(journal));
//! # Ok(())
//! # }
//! ```
//!
//! Either is used like this:
//!
//! ```
//! use std::collections::BTreeMap;
//! use tidelog::remote_log::{
//!     InmemoryRemoteLogMetadataManager, LeaderEpoch, RemoteLogMetadataManager, RemoteLogSegmentDetails,
//!     RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
//!     RemoteLogSegmentState, TopicIdPartition, Uuid,
//! };
//!
//! # fn main() -> Result<(), tidelog::remote_log::RemoteStorageError> {
//! let manager = InmemoryRemoteLogMetadataManager::new();
//! let orders = TopicIdPartition::new(Uuid::from_u128(1), "orders", 0);
//! let id = RemoteLogSegmentId::new(orders.clone(), Uuid::from_u128(2));
//! let epochs = BTreeMap::from([(LeaderEpoch(0), 0), (LeaderEpoch(1), 50)]);
//!
//! let details = RemoteLogSegmentDetails::new(4096, RemoteLogSegmentState::CopySegmentStarted, epochs);
//! manager.add_remote_log_segment_metadata(RemoteLogSegmentMetadata::new(id.clone(), 0, 99, -1, 1, 10, details)?)?;
//! assert_eq!(manager.remote_log_segment_metadata(&orders, LeaderEpoch(0), 42)?, None);
//!
//! let finished = RemoteLogSegmentState::CopySegmentFinished;
//! manager.update_remote_log_segment_metadata(RemoteLogSegmentMetadataUpdate::new(id.clone(), 20, None, finished, 1))?;
//! let found = manager.remote_log_segment_metadata(&orders, LeaderEpoch(0), 42)?;
//! assert_eq!(found.as_ref().map(RemoteLogSegmentMetadata::remote_log_segment_id), Some(&id));
//! # Ok(())
//! # }
//! ```

mod arena;
mod codec;
mod epoch_index;
mod error;
mod in_memory;
mod journal;
mod manager;
mod metadata;
mod ordered;
mod partition;
mod pending;
mod segments;
mod spans;
mod store;
#[cfg(test)]
mod tests;
mod treap;
mod types;
mod wire;

pub use uuid::Uuid;

pub use self::codec::{CodecError, Event};
pub use self::error::RemoteStorageError;
pub use self::in_memory::InmemoryRemoteLogMetadataManager;
pub use self::journal::{
    EpochView, JOURNAL_CLASS, Journal, JournalError, JournalOptions, JournalRecord, JournalReport,
    JournalStats, JournalView, PartitionView,
};
pub use self::manager::TideRemoteLogMetadataManager;
pub use self::metadata::{
    RemoteLogSegmentDetails, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
};
pub use self::types::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentId, RemoteLogSegmentState, RemotePartitionDeleteState,
    TopicIdPartition,
};

/// A store of the metadata of remote log segments.
///
/// A segment is introduced by [`add_remote_log_segment_metadata`] in the state `CopySegmentStarted`,
/// and changed by [`update_remote_log_segment_metadata`]. While it is `CopySegmentFinished`, the
/// queries by offset and epoch see it; the lists show it in any state. Every implementation refuses
/// what the table of states does not allow.
///
/// [`add_remote_log_segment_metadata`]: RemoteLogMetadataManager::add_remote_log_segment_metadata
/// [`update_remote_log_segment_metadata`]: RemoteLogMetadataManager::update_remote_log_segment_metadata
pub trait RemoteLogMetadataManager: Send + Sync {
    /// Records a segment whose copy has begun.
    ///
    /// # Errors
    ///
    /// [`RemoteStorageError::InvalidAdd`] if its state is not `CopySegmentStarted` or its id is known.
    fn add_remote_log_segment_metadata(
        &self,
        metadata: RemoteLogSegmentMetadata,
    ) -> Result<(), RemoteStorageError>;

    /// Records what became of a segment. After `DeleteSegmentFinished` it is no longer known.
    ///
    /// An exact retry of the segment's last update is accepted and changes nothing. A
    /// `DeleteSegmentStarted` may follow another one, with other values.
    ///
    /// # Errors
    ///
    /// [`RemoteStorageError::SegmentNotFound`] if the segment is not known,
    /// [`RemoteStorageError::InvalidSegmentTransition`] if its state does not allow the update.
    fn update_remote_log_segment_metadata(
        &self,
        update: RemoteLogSegmentMetadataUpdate,
    ) -> Result<(), RemoteStorageError>;

    /// The finished segment that holds an offset in a leader epoch. Where several do, the one that
    /// finished last.
    ///
    /// # Errors
    ///
    /// Only where the store fails; no such segment is `Ok(None)`.
    fn remote_log_segment_metadata(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
        offset: i64,
    ) -> Result<Option<RemoteLogSegmentMetadata>, RemoteStorageError>;

    /// The highest end offset of the finished segments that carry a leader epoch.
    ///
    /// # Errors
    ///
    /// Only where the store fails.
    fn highest_offset_for_epoch(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<i64>, RemoteStorageError>;

    /// All segments of a partition in any state, by start offset (then by id).
    ///
    /// # Errors
    ///
    /// Only where the store fails.
    fn list_remote_log_segments(
        &self,
        topic_id_partition: &TopicIdPartition,
    ) -> Result<Vec<RemoteLogSegmentMetadata>, RemoteStorageError>;

    /// The segments that carry a leader epoch in any state, by start offset (then by id).
    ///
    /// # Errors
    ///
    /// Only where the store fails.
    fn list_remote_log_segments_by_epoch(
        &self,
        topic_id_partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Vec<RemoteLogSegmentMetadata>, RemoteStorageError>;

    /// Records how far the deletion of a partition has come. Its segments stay as they are. The
    /// present state again is accepted and changes nothing.
    ///
    /// # Errors
    ///
    /// [`RemoteStorageError::InvalidPartitionDeleteTransition`] if the present state does not allow it.
    fn put_remote_partition_delete_metadata(
        &self,
        metadata: RemotePartitionDeleteMetadata,
    ) -> Result<(), RemoteStorageError>;

    /// Whether every event of the partition that the store had committed when the call began is
    /// visible to reads here. After `true` they are as fresh as that; after `false` they may be
    /// stale, and nothing should be concluded from them. A manager that does not follow the
    /// partition answers `false`.
    ///
    /// # Errors
    ///
    /// [`RemoteStorageError::NotReady`] while the manager is still catching up after it took on the
    /// partition, [`RemoteStorageError::Io`] if the committed position cannot be read.
    fn caught_up(&self, topic_id_partition: &TopicIdPartition) -> Result<bool, RemoteStorageError>;
}
