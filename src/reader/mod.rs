//! Reading: one stream's entries, the whole log in order, and what comes yet.
//!
//! A [`Reader`] is a snapshot of a range of one stream, a [`Tail`] goes on with what is appended
//! later, a [`Scan`] gives all records of all streams, a [`Subscription`] the durable watermark.
//! None of them keeps the log open or holds up writing; each keeps the segments readable that it
//! has yet to read.

mod below;
mod cursor;
mod entries;
mod legs;
mod origin;
mod plan;
mod pool;
mod scan;
mod shelf;
mod snapshot;
mod stream;
mod subscription;
mod tail;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidelog_format::{Lsn, StreamId};

use crate::options::ReadMode;

pub(crate) use self::below::highest_below;
pub use self::{
    entries::Reader,
    scan::{Scan, ScanItem, ScanRecord},
    stream::EntryStream,
    subscription::{Subscription, SubscriptionStream},
    tail::Tail,
};

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The stream.
    pub stream: StreamId,
    /// Its id in the stream.
    pub id: u64,
    /// The LSN of the frame that carries it: it is durable once the watermark lies above.
    pub lsn: Lsn,
    /// What was appended. Of an ended segment it shares the map, unless [`ReadMode::Copy`] is asked for.
    pub payload: Bytes,
}

/// How far reading goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadUpTo {
    /// To all that was appended: it is read as soon as it is written.
    #[default]
    Written,
    /// As [`ReadUpTo::Written`], but nothing is handed out before it is durable. What is not yet
    /// is flushed, and waited for.
    Durable,
}

/// How entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct ReadOptions {
    pub(crate) up_to: ReadUpTo,
    pub(crate) mode: Option<ReadMode>,
    pub(crate) max_batch_bytes: usize,
    pub(crate) max_batch_entries: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { up_to: ReadUpTo::Written, mode: None, max_batch_bytes: 1 << 20, max_batch_entries: 1024 }
    }
}

impl ReadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How far reading goes.
    pub fn up_to(mut self, up_to: ReadUpTo) -> Self {
        self.up_to = up_to;
        self
    }

    /// How payloads of ended segments are handed out; what the log was opened with unless set.
    pub fn mode(mut self, mode: ReadMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Most payload bytes of a batch (default 1 MiB). An entry above it comes alone.
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.max_batch_bytes = bytes;
        self
    }

    /// Most entries of a batch (default 1024, at least one).
    pub fn max_batch_entries(mut self, entries: usize) -> Self {
        self.max_batch_entries = entries.max(1);
        self
    }
}
