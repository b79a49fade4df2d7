//! The names of things: positions, streams, logs, segments.

use core::fmt;

/// Log sequence number: the base of a segment plus an offset in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The lowest LSN.
    pub const ZERO: Self = Self(0);

    /// The LSN `bytes` further on, unless that passes the end of the LSN space.
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(lsn) => Some(Self(lsn)),
            None => None,
        }
    }

    /// The LSN `bytes` further on, or the highest there is.
    pub const fn saturating_add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// The bytes from `earlier` up to this LSN, unless it lies below.
    pub const fn checked_sub(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A stream's identity. The class keeps users of one log apart; streams sort by class, then id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The user of the log that the stream belongs to; never 0 but for [`StreamId::SYSTEM`].
    pub class: u16,
    /// The stream among those of its class.
    pub id: u64,
}

impl StreamId {
    /// What the log's own records belong to. It has no entries and sorts before all streams.
    pub const SYSTEM: Self = Self { class: 0, id: 0 };

    /// The stream `id` of `class`.
    pub const fn new(class: u16, id: u64) -> Self {
        Self { class, id }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.class, self.id)
    }
}

/// A log's random identity, the same in all its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which segment of which log a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentIdentity {
    /// The log.
    pub log_id: LogId,
    /// The segment's number in the log, from 1.
    pub sequence: u64,
    /// The LSN of the file's first byte.
    pub base: Lsn,
}

impl SegmentIdentity {
    /// The seed of all checksums in the segment but those of payloads.
    pub fn seed(&self) -> Seed {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.log_id.0);
        hasher.update(&self.sequence.to_le_bytes());
        hasher.update(&self.base.0.to_le_bytes());
        Seed(hasher.finalize())
    }

    /// The LSN of the file's byte at `offset`.
    pub const fn lsn(&self, offset: u64) -> Lsn {
        self.base.saturating_add(offset)
    }

    /// The offset in the file of `lsn`, unless it lies below the base.
    pub const fn offset(&self, lsn: Lsn) -> Option<u64> {
        lsn.checked_sub(self.base)
    }
}

/// Start value of a segment's checksums, so that bytes of another segment do not verify in this one.
///
/// It is where the CRC starts from: the checksum of some data is the plain CRC-32 of log id, sequence and base with the
/// data behind them. A step of a CRC is a bijection of its 32 bit state for whatever byte is fed, so
/// two different seeds give different checksums for the same bytes, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed with this value.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The seeded CRC-32 of the data.
    pub fn checksum(self, data: &[u8]) -> u32 {
        self.checksum_parts(&[data])
    }

    /// The seeded CRC-32 of the parts, one after the other.
    pub(crate) fn checksum_parts(self, parts: &[&[u8]]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}
