//! The header of a segment file.

use crate::{
    BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, FILE_SIZE_UNIT, Fault, LogId, Lsn, SEGMENT_HEADER_LEN, SegmentIdentity,
    VERSION, What,
};

const MAGIC: [u8; 8] = *b"TIDELOG\n";
const CHECKED: usize = 60;
/// Flag: the file was that of an earlier segment.
const RECYCLED: u32 = 1;

layout! {
    SegmentHeaderLayout, 64 {
        0 magic: [u8; 8],
        8 version: u32,
        12 block_size: u32,
        16 file_size: u64,
        24 log_id: [u8; 16],
        40 sequence: u64,
        48 base: u64,
        56 flags: u32,
        60 checksum: u32,
    }
}

/// What is known of a segment when its file is prepared; the header never changes after.
///
/// It comes from [`SegmentHeader::new`] or [`SegmentHeader::decode`], both of which check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentHeader {
    /// The unit of writes: frames start and end at its multiples.
    pub block_size: u32,
    /// The file's size.
    pub file_size: u64,
    /// Which segment it is.
    pub identity: SegmentIdentity,
    /// The file was that of an earlier segment: behind the frames lies what that left, not zeros.
    pub recycled: bool,
}

/// Why bytes are not a segment header that this version understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes are no sound header.
    #[error(transparent)]
    Damaged(#[from] Fault),
    /// A sound header of another version of the format.
    #[error("format version {found} is not supported, only {supported} is")]
    UnsupportedVersion {
        /// The file's version.
        found: u32,
        /// The version that this crate reads.
        supported: u32,
    },
}

impl SegmentHeader {
    /// A header with these values, if a segment can have them.
    pub fn new(identity: SegmentIdentity, block_size: u32, file_size: u64) -> Result<Self, Fault> {
        let header = Self { block_size, file_size, identity, recycled: false };
        header.check()?;
        Ok(header)
    }

    /// The header of a file that was that of an earlier segment, or was not.
    pub const fn with_recycled(mut self, recycled: bool) -> Self {
        self.recycled = recycled;
        self
    }

    /// The offset of the first frame: the block after the header's.
    pub const fn first_frame(&self) -> u64 {
        self.block_size as u64
    }

    /// The LSN just above the file's last byte.
    pub const fn end(&self) -> Lsn {
        self.identity.lsn(self.file_size)
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut raw = SegmentHeaderLayout {
            magic: MAGIC,
            version: VERSION,
            block_size: self.block_size,
            file_size: self.file_size,
            log_id: self.identity.log_id.0,
            sequence: self.identity.sequence,
            base: self.identity.base.0,
            flags: if self.recycled { RECYCLED } else { 0 },
            checksum: 0,
        };
        raw.checksum = crc32fast::hash(&raw.encode()[..CHECKED]);
        raw.encode()
    }

    /// Reads a header from the first bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(bytes) = bytes.first_chunk::<SEGMENT_HEADER_LEN>() else {
            let (expected, actual) = (SEGMENT_HEADER_LEN as u64, bytes.len() as u64);
            return Err(Fault { offset: 0, what: What::Length, expected, actual }.into());
        };
        let raw = SegmentHeaderLayout::decode(bytes);
        let magic = u64::from_le_bytes(raw.magic);
        Fault::unless_equal(0, What::SegmentMagic, u64::from_le_bytes(MAGIC), magic)?;
        // The checksum comes before the version: a damaged version must not look like a newer log.
        let checksum = crc32fast::hash(&bytes[..CHECKED]);
        Fault::unless_equal(60, What::SegmentChecksum, checksum, raw.checksum)?;
        if raw.version != VERSION {
            return Err(HeaderError::UnsupportedVersion { found: raw.version, supported: VERSION });
        }
        Fault::unless_equal(56, What::Flags, 0u32, raw.flags & !RECYCLED)?;
        let identity =
            SegmentIdentity { log_id: LogId(raw.log_id), sequence: raw.sequence, base: Lsn(raw.base) };
        let header = Self::new(identity, raw.block_size, raw.file_size)?;
        Ok(header.with_recycled(raw.flags & RECYCLED != 0))
    }

    fn check(&self) -> Result<(), Fault> {
        let Self { block_size, file_size, identity, .. } = *self;
        let good = block_size.is_power_of_two() && (BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX).contains(&block_size);
        Fault::unless(good, 12, What::BlockSize, BLOCK_SIZE_MIN, block_size)?;
        let good = file_size >= FILE_SIZE_UNIT && file_size.is_multiple_of(FILE_SIZE_UNIT);
        Fault::unless(good, 16, What::FileSize, FILE_SIZE_UNIT, file_size)?;
        Fault::unless(identity.sequence != 0, 40, What::Sequence, 1u32, identity.sequence)?;
        let highest = u64::MAX - file_size;
        Fault::unless(identity.base.0 <= highest, 48, What::Base, highest, identity.base.0)
    }
}
