//! The header of a frame, and how a frame is finished.

use crate::{
    FRAME_HEADER_LEN, FRAME_LEN_MAX, Fault, Lsn, PAYLOAD_ALIGN, ROW_LEN, Row, Seed, SegmentHeader,
    SegmentIdentity, What,
};

const MAGIC: u32 = u32::from_le_bytes(*b"TLFR");
const CHECKED: usize = 8;

layout! {
    FrameHeaderLayout, 64 {
        0 magic: u32,
        4 header_crc: u32,
        8 table_crc: u32,
        12 row_count: u32,
        16 frame_len: u32,
        20 table_offset: u32,
        24 lsn: u64,
        32 watermark: u64,
        40 clock: u64,
        48 flags: u32,
        52 reserved: [u8; 12],
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Seeded checksum of the table.
    pub table_crc: u32,
    /// Rows in the table.
    pub row_count: u32,
    /// Bytes of the whole frame, a multiple of the block size.
    pub frame_len: u32,
    /// Where the table starts, from the start of the frame.
    pub table_offset: u32,
    /// The frame's own LSN.
    pub lsn: Lsn,
    /// All records below this LSN were durable when the frame was built.
    pub watermark: Lsn,
    /// Microseconds since 1970, for people only.
    pub clock: u64,
}

impl FrameHeader {
    /// The header's bytes.
    pub fn encode(&self, seed: Seed) -> [u8; FRAME_HEADER_LEN] {
        let mut raw = FrameHeaderLayout {
            magic: MAGIC,
            header_crc: 0,
            table_crc: self.table_crc,
            row_count: self.row_count,
            frame_len: self.frame_len,
            table_offset: self.table_offset,
            lsn: self.lsn.0,
            watermark: self.watermark.0,
            clock: self.clock,
            flags: 0,
            reserved: [0; 12],
        };
        raw.header_crc = seed.checksum(&raw.encode()[CHECKED..]);
        raw.encode()
    }

    /// Reads the header of the frame at `offset` in the file of `segment`, and checks all that can be without the rest
    /// of the frame.
    pub fn decode(bytes: &[u8], offset: u64, segment: &SegmentHeader) -> Result<Self, Fault> {
        let Some(bytes) = bytes.first_chunk::<FRAME_HEADER_LEN>() else {
            let (expected, actual) = (FRAME_HEADER_LEN as u64, bytes.len() as u64);
            return Err(Fault { offset, what: What::Length, expected, actual });
        };
        let field = |place| offset.saturating_add(place);
        let raw = FrameHeaderLayout::decode(bytes);
        Fault::unless_equal(offset, What::FrameMagic, MAGIC, raw.magic)?;
        let checksum = segment.identity.seed().checksum(&bytes[CHECKED..]);
        Fault::unless_equal(field(4), What::HeaderChecksum, checksum, raw.header_crc)?;
        Fault::unless_equal(field(48), What::Flags, 0u32, raw.flags)?;
        let used = raw.reserved.iter().find(|byte| **byte != 0).copied().unwrap_or(0);
        Fault::unless_equal(field(52), What::Reserved, 0u32, used)?;
        let header = Self {
            table_crc: raw.table_crc,
            row_count: raw.row_count,
            frame_len: raw.frame_len,
            table_offset: raw.table_offset,
            lsn: Lsn(raw.lsn),
            watermark: Lsn(raw.watermark),
            clock: raw.clock,
        };
        header.check(offset, segment)?;
        Ok(header)
    }

    /// Whether the bytes are of a frame that was to begin at `offset`, sound or not: what an earlier use of the file
    /// left names another LSN.
    pub(crate) fn is_meant_for(bytes: &[u8], offset: u64, segment: &SegmentHeader) -> bool {
        bytes.first_chunk::<FRAME_HEADER_LEN>().is_some_and(|bytes| {
            let raw = FrameHeaderLayout::decode(bytes);
            raw.magic == MAGIC && raw.lsn == segment.identity.lsn(offset).0
        })
    }

    /// Bytes of the table.
    pub const fn table_len(&self) -> u64 {
        self.row_count as u64 * ROW_LEN as u64
    }

    /// The LSN just above the frame.
    pub const fn end(&self) -> Lsn {
        self.lsn.saturating_add(self.frame_len as u64)
    }

    fn check(&self, offset: u64, segment: &SegmentHeader) -> Result<(), Fault> {
        let field = |place| offset.saturating_add(place);
        let own = segment.identity.lsn(offset);
        Fault::unless_equal(field(24), What::OwnLsn, own.0, self.lsn.0)?;
        let len = u64::from(self.frame_len);
        let block = u64::from(segment.block_size);
        let good = len > 0 && block > 0 && len.is_multiple_of(block);
        Fault::unless(good, field(16), What::FrameLength, block, len)?;
        let room = segment.file_size.saturating_sub(offset).min(u64::from(FRAME_LEN_MAX));
        Fault::unless(len <= room, field(16), What::FrameLength, room, len)?;
        let table = u64::from(self.table_offset);
        let good = table >= FRAME_HEADER_LEN as u64 && table.is_multiple_of(PAYLOAD_ALIGN);
        Fault::unless(good, field(20), What::TableBounds, FRAME_HEADER_LEN as u64, table)?;
        let end = table + self.table_len();
        Fault::unless(end <= len, field(12), What::TableBounds, len, end)?;
        let good = self.watermark <= self.lsn;
        Fault::unless(good, field(32), What::Watermark, self.lsn.0, self.watermark.0)
    }
}

/// The length of a frame with its table at `table_offset`, unless that is above [`FRAME_LEN_MAX`].
pub fn frame_len(table_offset: u64, rows: usize, block_size: u32) -> Option<u32> {
    let table = (rows as u64).checked_mul(ROW_LEN as u64)?;
    let len = table_offset.checked_add(table)?.checked_next_multiple_of(u64::from(block_size))?;
    u32::try_from(len).ok().filter(|len| *len <= FRAME_LEN_MAX)
}

/// What is needed to finish a frame whose payloads are in place.
#[derive(Clone, Copy, Debug)]
pub struct FrameSpec<'a> {
    /// The segment that the frame is for.
    pub identity: &'a SegmentIdentity,
    /// The segment's block size.
    pub block_size: u32,
    /// The frame's LSN.
    pub lsn: Lsn,
    /// The durable watermark, not above `lsn`.
    pub watermark: Lsn,
    /// Microseconds since 1970.
    pub clock: u64,
    /// The records, in the order of [`crate::sort_rows`].
    pub rows: &'a [Row],
    /// Where the payloads end and the table starts, a multiple of [`PAYLOAD_ALIGN`].
    pub table_offset: u32,
}

/// A frame is larger than its buffer or than [`FRAME_LEN_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {rows} rows with its table at {table_offset} does not fit in {room} bytes")]
pub struct TooLarge {
    /// Where the table was to start.
    pub table_offset: u32,
    /// Rows of the table.
    pub rows: usize,
    /// Bytes there are.
    pub room: usize,
}

/// Finishes a frame in `buf`, whose payloads from [`FRAME_HEADER_LEN`] to `table_offset` (with zeros between them) are
/// in place: writes the table, the zeros behind it, and the header. Returns the frame's length.
pub fn seal_frame(buf: &mut [u8], spec: &FrameSpec<'_>) -> Result<u32, TooLarge> {
    let FrameSpec { rows, table_offset, lsn, watermark, clock, .. } = *spec;
    debug_assert!(watermark <= lsn, "a frame vouches only for what lies before it");
    debug_assert!(rows.is_sorted_by_key(Row::order), "rows are sorted");
    let too_large = TooLarge { table_offset, rows: rows.len(), room: buf.len() };
    let len = frame_len(u64::from(table_offset), rows.len(), spec.block_size).ok_or(too_large)?;
    let frame = buf.get_mut(..len as usize).ok_or(too_large)?;
    let (head, tail) = frame.split_at_mut_checked(table_offset as usize).ok_or(too_large)?;
    let head = head.first_chunk_mut::<FRAME_HEADER_LEN>().ok_or(too_large)?;
    let (table, rest) = tail.split_at_mut_checked(rows.len() * ROW_LEN).ok_or(too_large)?;
    for (place, row) in table.as_chunks_mut::<ROW_LEN>().0.iter_mut().zip(rows) {
        *place = row.encode();
    }
    rest.fill(0);
    let seed = spec.identity.seed();
    let table_crc = seed.checksum(table);
    let row_count = rows.len() as u32;
    let header = FrameHeader { table_crc, row_count, frame_len: len, table_offset, lsn, watermark, clock };
    *head = header.encode(seed);
    Ok(len)
}
