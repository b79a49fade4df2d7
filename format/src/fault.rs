//! What is wrong with some bytes, and where.

use core::fmt;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at offset {offset}: expected {expected:#x}, found {actual:#x}")]
pub struct Fault {
    /// Where in the file.
    pub offset: u64,
    /// What was looked at.
    pub what: What,
    /// The value it should have. Where a range of values is good, the bound that was broken.
    pub expected: u64,
    /// The value it has.
    pub actual: u64,
}

impl Fault {
    /// Fails with this fault unless `good`.
    pub(crate) fn unless(
        good: bool,
        offset: u64,
        what: What,
        expected: impl Into<u64>,
        actual: impl Into<u64>,
    ) -> Result<(), Self> {
        if good {
            Ok(())
        } else {
            Err(Self { offset, what, expected: expected.into(), actual: actual.into() })
        }
    }

    /// Fails unless the value is the expected one.
    pub(crate) fn unless_equal(
        offset: u64,
        what: What,
        expected: impl Into<u64>,
        actual: impl Into<u64>,
    ) -> Result<(), Self> {
        let (expected, actual) = (expected.into(), actual.into());
        Self::unless(expected == actual, offset, what, expected, actual)
    }
}

macro_rules! whats {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// What a [`Fault`] is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum What { $(#[doc = $text] $(#[$doc])* $name,)+ }

        impl fmt::Display for What {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)+ })
            }
        }
    };
}

whats! {
    /// (the file ends, or the bytes at hand do, before the structure does).
    Length = "length",
    SegmentMagic = "segment magic",
    SegmentChecksum = "segment header checksum",
    BlockSize = "block size",
    FileSize = "file size",
    Sequence = "segment sequence",
    /// (with the file's size, it passes the end of the LSN space).
    Base = "base LSN",
    Flags = "flags",
    Reserved = "reserved bytes",
    FrameMagic = "frame magic",
    HeaderChecksum = "frame header checksum",
    /// (a frame of another place, from a misdirected write).
    OwnLsn = "frame's own LSN",
    FrameLength = "frame length",
    TableBounds = "table bounds",
    /// (above the frame's own LSN).
    Watermark = "durable watermark",
    TableChecksum = "table checksum",
    RowKind = "row kind",
    RowStream = "row's stream class",
    RowId = "row's entry id",
    RowBounds = "row's payload bounds",
    RowOrder = "row order",
    PayloadChecksum = "payload checksum",
    TruncatePayload = "truncation payload",
    CheckpointChecksum = "checkpoint checksum",
    CheckpointLength = "checkpoint length",
    CheckpointField = "checkpoint field",
    CheckpointOrder = "checkpoint order",
    IndexMagic = "index cache magic",
    IndexVersion = "index cache version",
    IndexChecksum = "index cache checksum",
    IndexIdentity = "index cache's segment",
    IndexRow = "index cache row",
    IndexOrder = "index cache order",
}
