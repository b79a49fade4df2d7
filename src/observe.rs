//! What the log tells about itself: counters to pull, rare events to be told of.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A rare event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Writing moved on to another segment.
    Rotated {
        /// Its sequence.
        sequence: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// Segments below this one are gone.
    Retired {
        /// The oldest segment that is left.
        oldest: u64,
    },
    /// A write or flush failed; the log takes no more appends.
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// The next segment could not be prepared; it will be tried again.
    PrepareFailed {
        /// The failure.
        cause: String,
    },
    /// A background step failed without harm to the log (an index cache, an unlink).
    Background {
        /// The failure.
        cause: String,
    },
    /// Damage was found while looking for segments that may retire; theirs stays.
    Damaged {
        /// What and where.
        cause: String,
    },
}

/// Is told of rare events, on a thread of the log's own and outside its locks.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Called for each event, in order.
    fn event(&self, event: &Event);
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Live counters; relaxed, since each is a statistic of its own.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// A snapshot of the log's counters since it was opened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// The way that writes go: `ring` or `std`.
            pub backend: String,
            /// Whether writes bypass the page cache.
            pub direct: bool,
            /// Segment files in the directory that belong to the log.
            pub segments: u64,
            /// Streams known.
            pub streams: u64,
            /// Everything below was written (readable).
            pub written: u64,
            /// Everything below is durable.
            pub durable: u64,
            /// Where the log ends, staged frames included.
            pub end: u64,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* ..Stats::default() }
            }
        }
    };
}

counters! {
    /// Entries staged.
    entries,
    /// Payload bytes staged.
    payload_bytes,
    /// Batches staged.
    batches,
    /// Frames written.
    frames,
    /// Bytes of frames written, headers, tables and padding included.
    frame_bytes,
    /// Frames that a blocking caller wrote itself.
    direct_commits,
    /// Frames whose own write was durable (`RWF_DSYNC`, or write and `fdatasync` where there is none).
    durable_writes,
    /// Flushes issued for frames written plainly.
    flushes,
    /// Rotations.
    rotations,
    /// Bytes written to prepare segments.
    prepared_bytes,
    /// Segments retired.
    retired,
    /// Segments made of files of retired ones.
    recycled,
    /// Microseconds spent in writes and flushes of frames, summed.
    write_micros,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: u64, durable: bool, took: Duration) {
        Self::add(&self.frames, 1);
        Self::add(&self.frame_bytes, bytes);
        Self::add(&self.durable_writes, u64::from(durable));
        Self::add(&self.write_micros, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
}
