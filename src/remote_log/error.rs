//! Why a call on the metadata store was refused or failed.

use std::io;

use super::types::{RemoteLogSegmentId, RemoteLogSegmentState, RemotePartitionDeleteState, TopicIdPartition};

/// What a [`RemoteLogMetadataManager`](super::RemoteLogMetadataManager) answers instead of a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteStorageError {
    /// The store could not be read or written. What was to be recorded may or may not be.
    #[error("metadata store: {0}")]
    Io(#[from] io::Error),
    /// The update is for a segment that is not known, or no longer.
    #[error("segment {0} is not known")]
    SegmentNotFound(RemoteLogSegmentId),
    /// The segment cannot be added.
    #[error("segment {id} cannot be added: {reason}")]
    InvalidAdd {
        /// The segment.
        id: RemoteLogSegmentId,
        /// Why not.
        reason: String,
    },
    /// The segment's state does not allow it.
    #[error("segment {id} does not go from {from:?} to {to:?}")]
    InvalidSegmentTransition {
        /// The segment.
        id: RemoteLogSegmentId,
        /// Its state.
        from: RemoteLogSegmentState,
        /// The state asked for.
        to: RemoteLogSegmentState,
    },
    /// The state of the partition's deletion does not allow it.
    #[error("the deletion of {tp} does not go from {from:?} to {to:?}")]
    InvalidPartitionDeleteTransition {
        /// The partition.
        tp: TopicIdPartition,
        /// Its state; `None`: it is not being deleted.
        from: Option<RemotePartitionDeleteState>,
        /// The state asked for.
        to: RemotePartitionDeleteState,
    },
    /// A value that makes no sense.
    #[error("{0}")]
    InvalidArgument(String),
    /// The store is still catching up with what was recorded earlier. The same call succeeds later.
    #[error("the metadata of partition {partition} is not ready yet")]
    NotReady {
        /// The partition's number.
        partition: i32,
    },
}
