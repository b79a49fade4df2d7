//! The index cache of an ended segment. It is never the truth: where it is missing or bad, the segment tells the same.

use alloc::vec::Vec;
use core::ops::Range;

use crate::{Fault, Lsn, Run, SegmentIdentity, StreamId, VERSION, What};

/// Bytes of the header.
pub const INDEX_HEADER_LEN: usize = 64;
/// Bytes of a row.
pub const INDEX_ROW_LEN: usize = 56;

const MAGIC: [u8; 8] = *b"TIDEIDX\n";
const CHECKED: usize = 60;
const MOVED: u16 = 1;

layout! {
    IndexHeaderLayout, 64 {
        0 magic: [u8; 8],
        8 version: u32,
        12 row_count: u32,
        16 sequence: u64,
        24 base: u64,
        32 end: u64,
        40 rows_crc: u32,
        44 reserved: [u8; 16],
        60 header_crc: u32,
    }
}

layout! {
    IndexRowLayout, 56 {
        0 id: u64,
        8 first: u64,
        16 last: u64,
        24 frame_offset: u64,
        32 previous: u64,
        40 row: u32,
        44 count: u32,
        48 class: u16,
        50 flags: u16,
        52 reserved: u32,
    }
}

/// A run of entries and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The run, in the table of its frame.
    pub run: Run,
    /// Where in the segment's file the frame starts.
    pub frame_offset: u64,
    /// The segment before this one with natural entries of the stream, the same in all its rows; 0 where there is none.
    pub previous: u64,
}

/// The header of an index cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// Rows in the cache.
    pub row_count: u32,
    /// The LSN where the segment's frames end.
    pub end: Lsn,
    /// Seeded checksum of the rows.
    pub rows_crc: u32,
}

impl IndexHeader {
    /// The header's bytes.
    pub fn encode(&self, identity: &SegmentIdentity) -> [u8; INDEX_HEADER_LEN] {
        let mut raw = IndexHeaderLayout {
            magic: MAGIC,
            version: VERSION,
            row_count: self.row_count,
            sequence: identity.sequence,
            base: identity.base.0,
            end: self.end.0,
            rows_crc: self.rows_crc,
            reserved: [0; 16],
            header_crc: 0,
        };
        raw.header_crc = identity.seed().checksum(&raw.encode()[..CHECKED]);
        raw.encode()
    }

    /// Reads the header of the index cache of a segment.
    pub fn decode(bytes: &[u8; INDEX_HEADER_LEN], identity: &SegmentIdentity) -> Result<Self, Fault> {
        let raw = IndexHeaderLayout::decode(bytes);
        let magic = u64::from_le_bytes(raw.magic);
        Fault::unless_equal(0, What::IndexMagic, u64::from_le_bytes(MAGIC), magic)?;
        Fault::unless_equal(8, What::IndexVersion, VERSION, raw.version)?;
        Fault::unless_equal(16, What::IndexIdentity, identity.sequence, raw.sequence)?;
        Fault::unless_equal(24, What::IndexIdentity, identity.base.0, raw.base)?;
        let checksum = identity.seed().checksum(&bytes[..CHECKED]);
        Fault::unless_equal(60, What::IndexChecksum, checksum, raw.header_crc)?;
        Fault::unless(raw.reserved == [0; 16], 44, What::Reserved, 0u32, 1u32)?;
        Fault::unless(raw.end >= raw.base, 32, What::IndexIdentity, raw.base, raw.end)?;
        Ok(Self { row_count: raw.row_count, end: Lsn(raw.end), rows_crc: raw.rows_crc })
    }
}

/// The bytes of the index cache of a segment whose frames end at `end`, with rows in any order.
pub fn encode_index(identity: &SegmentIdentity, end: Lsn, rows: &[IndexRow]) -> Vec<u8> {
    let mut rows: Vec<&IndexRow> = rows.iter().collect();
    rows.sort_unstable_by_key(|row| row.order());
    let mut bytes = Vec::with_capacity(INDEX_HEADER_LEN + rows.len() * INDEX_ROW_LEN);
    bytes.extend_from_slice(&[0; INDEX_HEADER_LEN]);
    for row in &rows {
        bytes.extend_from_slice(&row.encode());
    }
    let rows_crc = identity.seed().checksum(&bytes[INDEX_HEADER_LEN..]);
    let header = IndexHeader { row_count: rows.len() as u32, end, rows_crc };
    bytes[..INDEX_HEADER_LEN].copy_from_slice(&header.encode(identity));
    bytes
}

/// An index cache, verified.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    end: Lsn,
    rows: &'a [[u8; INDEX_ROW_LEN]],
}

impl<'a> IndexView<'a> {
    /// Verifies the bytes of the index cache of a segment.
    pub fn parse(bytes: &'a [u8], identity: &SegmentIdentity) -> Result<Self, Fault> {
        let short = |expected| Fault { offset: 0, what: What::Length, expected, actual: bytes.len() as u64 };
        let (header, rows) = bytes.split_first_chunk().ok_or_else(|| short(INDEX_HEADER_LEN as u64))?;
        let header = IndexHeader::decode(header, identity)?;
        let len = header.row_count as usize * INDEX_ROW_LEN;
        if rows.len() != len {
            return Err(short((INDEX_HEADER_LEN + len) as u64));
        }
        let checksum = identity.seed().checksum(rows);
        Fault::unless_equal(40, What::IndexChecksum, checksum, header.rows_crc)?;
        let view = Self { end: header.end, rows: crate::layout::rows(rows) };
        view.check_rows(header.end.0 - identity.base.0)?;
        Ok(view)
    }

    /// The rows in bytes that [`IndexView::parse`] has verified before.
    pub fn verified(bytes: &'a [u8]) -> Self {
        let (header, rows) =
            bytes.split_first_chunk::<INDEX_HEADER_LEN>().unwrap_or((&[0; INDEX_HEADER_LEN], &[]));
        Self { end: Lsn(IndexHeaderLayout::decode(header).end), rows: crate::layout::rows(rows) }
    }

    /// The LSN where the segment's frames end.
    pub const fn end(&self) -> Lsn {
        self.end
    }

    /// Rows in the cache.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the segment holds no entries.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row at this place.
    pub fn row(&self, index: usize) -> Option<IndexRow> {
        self.rows.get(index).map(IndexRow::decode)
    }

    /// All rows, by stream and then by place in the segment.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = IndexRow> + ExactSizeIterator + use<'a> {
        self.rows.iter().map(IndexRow::decode)
    }

    /// The rows at these places.
    pub fn range(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = IndexRow> + ExactSizeIterator + use<'a> {
        self.rows.get(range).unwrap_or_default().iter().map(IndexRow::decode)
    }

    /// Where the rows of a stream are.
    pub fn find(&self, stream: StreamId) -> Range<usize> {
        let start = self.rows.partition_point(|row| IndexRow::decode(row).run.stream < stream);
        let end = self.rows.partition_point(|row| IndexRow::decode(row).run.stream <= stream);
        start..end
    }

    fn check_rows(&self, frames_end: u64) -> Result<(), Fault> {
        let mut previous: Option<IndexRow> = None;
        for (index, bytes) in self.rows.iter().enumerate() {
            let at = (INDEX_HEADER_LEN + index * INDEX_ROW_LEN) as u64;
            let row = IndexRow::check(bytes, at, frames_end)?;
            let good = previous.is_none_or(|before| before.order() < row.order());
            Fault::unless(good, at, What::IndexOrder, 0u32, row.run.stream.id)?;
            previous = Some(row);
        }
        Ok(())
    }
}

impl IndexRow {
    fn order(&self) -> (StreamId, u64, u32) {
        (self.run.stream, self.frame_offset, self.run.row)
    }

    fn encode(&self) -> [u8; INDEX_ROW_LEN] {
        IndexRowLayout {
            id: self.run.stream.id,
            first: self.run.first,
            last: self.run.last,
            frame_offset: self.frame_offset,
            previous: self.previous,
            row: self.run.row,
            count: self.run.count,
            class: self.run.stream.class,
            flags: if self.run.moved { MOVED } else { 0 },
            reserved: 0,
        }
        .encode()
    }

    fn decode(bytes: &[u8; INDEX_ROW_LEN]) -> Self {
        let raw = IndexRowLayout::decode(bytes);
        let run = Run {
            stream: StreamId { class: raw.class, id: raw.id },
            first: raw.first,
            last: raw.last,
            row: raw.row,
            count: raw.count,
            moved: raw.flags & MOVED != 0,
        };
        Self { run, frame_offset: raw.frame_offset, previous: raw.previous }
    }

    fn check(bytes: &[u8; INDEX_ROW_LEN], at: u64, frames_end: u64) -> Result<Self, Fault> {
        let raw = IndexRowLayout::decode(bytes);
        Fault::unless(raw.flags & !MOVED == 0, at + 50, What::Flags, MOVED, raw.flags)?;
        Fault::unless_equal(at + 52, What::Reserved, 0u32, raw.reserved)?;
        Fault::unless(raw.class != 0, at + 48, What::IndexRow, 1u32, raw.class)?;
        Fault::unless(raw.count != 0, at + 44, What::IndexRow, 1u32, raw.count)?;
        Fault::unless(raw.first <= raw.last, at + 16, What::IndexRow, raw.first, raw.last)?;
        Fault::unless(raw.frame_offset < frames_end, at + 24, What::IndexRow, frames_end, raw.frame_offset)?;
        Ok(Self::decode(bytes))
    }
}
