//! Why a journal cannot be read or written.

use std::io;
use std::sync::Arc;

use tidelog_format::StreamId;

use super::super::codec::CodecError;
use super::super::error::RemoteStorageError;
use crate::error::Error;

/// What the [`RemoteStorageError::Io`] of a journal holds inside.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] Error),
    /// An entry is no record of a journal.
    #[error("entry {id} of journal {stream}: {cause}")]
    Record {
        /// The journal's stream.
        stream: StreamId,
        /// The entry.
        id: u64,
        /// What is wrong with it.
        cause: Arc<CodecError>,
    },
    /// The journal begins with a checkpoint that is not whole.
    #[error("entry {id} of journal {stream}: {what} in checkpoint {checkpoint}")]
    Checkpoint {
        /// The journal's stream.
        stream: StreamId,
        /// The entry.
        id: u64,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// An event that had been accepted does not fit what is recorded: something else wrote to the
    /// journal's stream.
    #[error("entry {id} of journal {stream} does not fit what was recorded before it")]
    Diverged {
        /// The journal's stream.
        stream: StreamId,
        /// The entry.
        id: u64,
    },
    /// Every handle was dropped while the journal was read or a checkpoint written.
    #[error("the journal was dropped meanwhile")]
    Abandoned,
    /// No thread could be started.
    #[error("no thread for the journal: {0}")]
    Thread(Arc<io::Error>),
}

impl JournalError {
    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Log(Error::NoSpace { .. }) => io::ErrorKind::StorageFull,
            Self::Log(Error::Corrupt(_)) | Self::Record { .. } | Self::Checkpoint { .. } => {
                io::ErrorKind::InvalidData
            }
            Self::Thread(cause) => cause.kind(),
            Self::Log(Error::Io { source, .. }) => source.kind(),
            _ => io::ErrorKind::Other,
        }
    }
}

impl From<JournalError> for RemoteStorageError {
    fn from(error: JournalError) -> Self {
        Self::Io(io::Error::new(error.kind(), error))
    }
}
