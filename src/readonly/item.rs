//! What a scan of a log meets.

use std::path::PathBuf;

use bytes::Bytes;
use tidelog_format::{CheckpointHead, FrameHeader, Lsn, Row, SegmentHeader};

use crate::error::Corruption;

/// What a segment is to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SegmentState {
    /// Full: its last frame says so.
    Closed,
    /// No longer written, though not full: a crash or the closing of the log left it behind.
    Ended,
    /// The newest one with frames. Whether somebody writes it cannot be seen.
    Newest,
    /// Holds no frame of the log: prepared and not used, or its first write was torn.
    Void,
    /// Older than the oldest segment of the log. Nothing it holds counts.
    LeftOver,
    /// Its header or its first frame is damaged.
    Damaged,
}

/// A segment file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// Its number, from its name.
    pub sequence: u64,
    /// The file.
    pub file: PathBuf,
    /// The file's length.
    pub file_len: u64,
    /// Its header, unless that is damaged.
    pub header: Option<SegmentHeader>,
    /// What it is to the log.
    pub state: SegmentState,
    /// Where its frames end, as far as known: what the next segment's checkpoint says; of the newest one, where they
    /// ended when the log was opened.
    pub end: Option<Lsn>,
    /// The head of the checkpoint that it starts with.
    pub checkpoint: Option<CheckpointHead>,
}

impl SegmentInfo {
    /// Bytes in use, from the file's start.
    pub fn used(&self) -> u64 {
        let end = self.header.zip(self.end).and_then(|(header, end)| header.identity.offset(end));
        end.unwrap_or(0).min(self.file_len)
    }
}

/// A frame, the unit of commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The segment.
    pub segment: u64,
    /// Where in the file it starts.
    pub offset: u64,
    /// Its header.
    pub header: FrameHeader,
}

/// A record, an entry of a stream or a control record, as it lies in the log: also where it is obsolete since.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The segment.
    pub segment: u64,
    /// Where in the file its frame starts.
    pub frame: u64,
    /// The LSN of its frame.
    pub lsn: Lsn,
    /// When the frame was built, in microseconds since 1970.
    pub clock: u64,
    /// Its place in the frame's table.
    pub index: u32,
    /// Its row there.
    pub row: Row,
    /// What it carries.
    pub payload: Payload,
}

impl Record {
    /// Where in the file its payload starts.
    pub fn offset(&self) -> u64 {
        self.frame.saturating_add(u64::from(self.row.offset))
    }
}

/// The payload of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The bytes that were written, verified.
    Sound(Bytes),
    /// They are not what was written.
    Damaged(Corruption),
    /// Not asked for.
    Skipped,
}

/// What a scan meets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// A frame. Its records come next.
    Frame(Frame),
    /// A record of the frame before.
    Record(Record),
    /// A segment's frames end in the remains of a write that nothing shows to have been acknowledged, and this is what
    /// is wrong with them. No damage.
    Torn(Corruption),
    /// Something that had been acknowledged is not as it was written. The scan goes on at the next good frame.
    Damage(Corruption),
    /// The segment was retired while the scan went on. What was left of it is skipped.
    Retired {
        /// The segment.
        segment: u64,
    },
}
