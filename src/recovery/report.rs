//! What opening found.

use std::path::PathBuf;
use std::time::Duration;

use tidelog_format::Lsn;

/// What was cut off at the end of the log: the remains of a write that was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The newest segment's file.
    pub file: PathBuf,
    /// Where the remains begin.
    pub offset: u64,
    /// The check that the first bad frame failed.
    pub reason: String,
}

/// What opening found, and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Segment files of the log.
    pub segments: usize,
    /// Those of them that hold no frame above the newest one that does.
    pub void_segments: usize,
    /// The newest segment with frames.
    pub newest: Option<u64>,
    /// Where the log ends.
    pub end: Lsn,
    /// Frames of the newest segment.
    pub frames: u64,
    /// Records of the newest segment, entries and control records.
    pub records: u64,
    /// Frames that no later one vouched for, and that were written again before they count.
    pub adopted_frames: u64,
    /// Their bytes.
    pub adopted_bytes: u64,
    /// What was cut off.
    pub torn_tail: Option<TornTail>,
    /// Streams known.
    pub streams: usize,
    /// Left-over files that were removed.
    pub removed: Vec<PathBuf>,
    /// Names in the directory that are not the log's. They are left alone.
    pub strangers: Vec<PathBuf>,
    /// How long it took.
    pub took: Duration,
}
