//! The one error type of the engine. Every refusal names what was wrong, with the values.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidelog_format::{Fault, HeaderError, StreamId};

/// What the engine's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Damage, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Which check failed.
    pub what: String,
    /// What the check asked for.
    pub expected: u64,
    /// What was found.
    pub actual: u64,
    /// The stream whose record is affected, where that is known.
    pub stream: Option<StreamId>,
}

impl Corruption {
    /// What the format layer found in the file at `file`.
    pub(crate) fn fault(file: impl Into<PathBuf>, fault: &Fault, stream: Option<StreamId>) -> Self {
        Self {
            file: file.into(),
            offset: fault.offset,
            what: fault.what.to_string(),
            expected: fault.expected,
            actual: fault.actual,
            stream,
        }
    }

    /// Something that should be there and is not.
    pub(crate) fn missing(file: impl Into<PathBuf>, what: &str) -> Self {
        Self {
            file: file.into(),
            offset: 0,
            what: format!("missing {what}"),
            expected: 1,
            actual: 0,
            stream: None,
        }
    }
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} at offset {} of {}: expected {:#x}, found {:#x}",
            self.what,
            self.offset,
            self.file.display(),
            self.expected,
            self.actual
        )?;
        self.stream.map_or(Ok(()), |stream| write!(f, " (stream {stream})"))
    }
}

/// Why a call was refused or failed. Nothing was staged unless the variant says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An earlier write or flush failed; only reopening helps (SPEC.md, "Errors").
    /// Whether appends that were not acknowledged are in the log is unknown until then.
    #[error("the log is poisoned: {cause}")]
    Poisoned {
        /// The first failure.
        cause: Arc<str>,
    },
    /// The next segment does not fit on the disk. Appends work again once there is room.
    #[error("no space for the next segment ({needed} bytes)")]
    NoSpace {
        /// Size of the file that did not fit.
        needed: u64,
    },
    /// Another handle, here or in another process, holds the log.
    #[error("{} is locked by another writer", path.display())]
    Locked {
        /// The log's directory.
        path: PathBuf,
    },
    /// Bytes that had been acknowledged are not what was written.
    #[error("corrupt: {0}")]
    Corrupt(Box<Corruption>),
    /// The file was written by a newer version; nothing was touched.
    #[error("{} has format version {found}, this build reads up to {supported}", file.display())]
    UnsupportedVersion {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this build reads.
        supported: u32,
    },
    /// The files of the directory belong to different logs.
    #[error("{} belongs to another log: its id is {found}, the log's {expected}", file.display())]
    ForeignLog {
        /// The file that does not fit.
        file: PathBuf,
        /// The id that the log has.
        expected: String,
        /// The id that the file has.
        found: String,
    },
    /// The directory cannot hold a log.
    #[error("{} is no log: {reason}", path.display())]
    NotALog {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The id does not follow the stream's last one.
    #[error("stream {stream}: entry {attempted} does not follow {last:?}")]
    OutOfOrder {
        /// The stream.
        stream: StreamId,
        /// Its first live id.
        first: Option<u64>,
        /// Its last id.
        last: Option<u64>,
        /// The id that was refused.
        attempted: u64,
    },
    /// The id is at or below the stream's mark.
    #[error("stream {stream}: entry {attempted} is obsolete, the mark is {mark}")]
    Obsolete {
        /// The stream.
        stream: StreamId,
        /// Its mark.
        mark: u64,
        /// The id that was refused.
        attempted: u64,
    },
    /// A batch must fit in one frame.
    #[error("the batch takes {size} bytes, the limit is {limit}")]
    BatchTooLarge {
        /// What it would take.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Class 0 is the log's own.
    #[error("stream {stream} is reserved for the log itself")]
    ReservedStream {
        /// The stream.
        stream: StreamId,
    },
    /// The stream changed while the operation was prepared, over and over.
    #[error("stream {stream} kept changing")]
    Contended {
        /// The stream.
        stream: StreamId,
    },
    /// No room within the time given.
    #[error("no room in the staging buffers in time")]
    Busy,
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The handle crossed a fork; the child must open a log of its own.
    #[error("the handle belongs to the parent process")]
    Forked,
    /// The position was never handed out by this log.
    #[error("{attempted} lies beyond the end of the log, {end}")]
    BeyondEnd {
        /// The position asked for.
        attempted: u64,
        /// Where the log ends.
        end: u64,
    },
    /// What the reader was about to return was truncated or released.
    #[error("stream {stream} was truncated below {next}")]
    Truncated {
        /// The stream.
        stream: StreamId,
        /// The id the reader would have returned next.
        next: u64,
    },
    /// `Options` require the ring, and the kernel refuses it.
    #[error("io_uring is required but not to be had: {cause}")]
    RingUnavailable {
        /// What the probe met.
        cause: Arc<str>,
    },
    /// An option has a value that cannot work.
    #[error("option {name} = {value}: {reason}")]
    InvalidOption {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        reason: &'static str,
    },
    /// The operating system refused.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: Arc<io::Error>,
    },
}

impl Error {
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { op, path: path.into(), source: Arc::new(source) }
    }

    /// Damage found by the format layer, in the file at `file`.
    pub(crate) fn fault(file: impl Into<PathBuf>, fault: Fault) -> Self {
        Self::damage(file, fault, None)
    }

    pub(crate) fn damage(file: impl Into<PathBuf>, fault: Fault, stream: Option<StreamId>) -> Self {
        Self::Corrupt(Box::new(Corruption::fault(file, &fault, stream)))
    }

    /// A segment header that does not decode.
    pub(crate) fn header(file: &Path, error: HeaderError) -> Self {
        match error {
            HeaderError::UnsupportedVersion { found, supported } => {
                Self::UnsupportedVersion { file: file.into(), found, supported }
            }
            HeaderError::Damaged(fault) => Self::fault(file, fault),
        }
    }

    /// Two values that should be the same.
    pub(crate) fn mismatch(
        file: impl Into<PathBuf>,
        offset: u64,
        what: impl Into<String>,
        expected: u64,
        actual: u64,
    ) -> Self {
        Self::Corrupt(Box::new(Corruption {
            file: file.into(),
            offset,
            what: what.into(),
            expected,
            actual,
            stream: None,
        }))
    }

    /// Something that should be there and is not.
    pub(crate) fn missing(file: impl Into<PathBuf>, what: impl AsRef<str>) -> Self {
        Self::Corrupt(Box::new(Corruption::missing(file, what.as_ref())))
    }

    /// Whether the same call can succeed later on the same handle.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Busy | Self::Contended { .. } | Self::Locked { .. })
    }
}
