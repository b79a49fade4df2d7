//! The table of a frame.

use core::ops::Range;

use crate::{Fault, FrameHeader, Kind, ROW_LEN, Row, SegmentIdentity, StreamId, What, payload_crc};

/// The rows of a frame, verified.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    rows: &'a [[u8; ROW_LEN]],
}

/// Neighbouring entry rows of one stream in one table, all moved or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The stream.
    pub stream: StreamId,
    /// The first entry's id.
    pub first: u64,
    /// The last entry's id.
    pub last: u64,
    /// Where the run starts in the table.
    pub row: u32,
    /// Entries in the run.
    pub count: u32,
    /// Whether the entries were copied forward from an older segment.
    pub moved: bool,
}

impl<'a> Table<'a> {
    /// Verifies the bytes of the table of the frame with this header: its checksum, each row by itself, and their
    /// order.
    pub fn parse(bytes: &'a [u8], header: &FrameHeader, identity: &SegmentIdentity) -> Result<Self, Fault> {
        Self::parse_part(bytes, header, identity, 0..header.row_count as usize)
    }

    /// As [`Table::parse`], but of its rows only those at these places, as far as there are such: the checksum vouches
    /// that the others are as they were written.
    pub fn parse_part(
        bytes: &'a [u8],
        header: &FrameHeader,
        identity: &SegmentIdentity,
        part: Range<usize>,
    ) -> Result<Self, Fault> {
        let frame = identity.offset(header.lsn).unwrap_or(0);
        let at = frame.saturating_add(u64::from(header.table_offset));
        Fault::unless_equal(at, What::Length, header.table_len(), bytes.len() as u64)?;
        let checksum = identity.seed().checksum(bytes);
        Fault::unless_equal(frame.saturating_add(8), What::TableChecksum, checksum, header.table_crc)?;
        let rows = crate::layout::rows::<ROW_LEN>(bytes);
        let part = part.start.min(rows.len())..part.end.min(rows.len());
        let (start, rows) = (part.start, rows.get(part).unwrap_or_default());
        let mut previous = None;
        for (index, bytes) in rows.iter().enumerate() {
            let at = at.saturating_add(((start + index) * ROW_LEN) as u64);
            let row = Self::check_row(bytes, at, header, identity)?;
            if let Some(previous) = previous {
                check_order(&previous, &row, at)?;
            }
            previous = Some(row);
        }
        Ok(Self { rows })
    }

    /// The rows in bytes that [`Table::parse`] has verified before.
    pub fn verified(bytes: &'a [u8]) -> Self {
        Self { rows: crate::layout::rows(bytes) }
    }

    fn check_row(
        bytes: &[u8; ROW_LEN],
        at: u64,
        header: &FrameHeader,
        identity: &SegmentIdentity,
    ) -> Result<Row, Fault> {
        let fault = Fault {
            offset: at.saturating_add(30),
            what: What::RowKind,
            expected: Kind::Entry as u64,
            actual: u64::from(Row::kind_byte(bytes)),
        };
        let row = Row::decode(bytes).ok_or(fault)?;
        row.check(at, header.table_offset)?;
        let next_is_above = row.kind != Kind::SegmentEnd || row.entry_id > identity.sequence;
        Fault::unless(next_is_above, at.saturating_add(8), What::RowId, identity.sequence, row.entry_id)?;
        Ok(row)
    }

    /// The rows' bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.rows.as_flattened()
    }

    /// Rows in the table.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it is the table of an empty frame, which carries a watermark only.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row at this place.
    pub fn row(&self, index: usize) -> Option<Row> {
        self.rows.get(index).and_then(Row::decode)
    }

    /// All rows.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Row> + use<'a> {
        self.rows.iter().filter_map(Row::decode)
    }

    /// The rows at these places.
    pub fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = Row> + use<'a> {
        self.rows.get(range).unwrap_or_default().iter().filter_map(Row::decode)
    }

    /// Where the rows of a stream are: its control records, then its entries.
    pub fn find(&self, stream: StreamId) -> Range<usize> {
        self.below((stream, false, 0))..self.after(stream)
    }

    /// Where the entries of a stream are whose ids are at least `id`.
    pub fn find_entries(&self, stream: StreamId, id: u64) -> Range<usize> {
        self.below((stream, true, id))..self.after(stream)
    }

    /// Each stream with the places of its rows, in their order.
    pub fn streams(&self) -> impl Iterator<Item = (StreamId, Range<usize>)> + use<'a> {
        let table = *self;
        let mut next = 0;
        core::iter::from_fn(move || {
            let start = next;
            let stream = table.row(start)?.stream;
            next = start + table.range(start..table.len()).take_while(|row| row.stream == stream).count();
            Some((stream, start..next))
        })
    }

    /// The runs of entries, in the order of their rows.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        let mut entries = self.rows().enumerate().filter(|(_, row)| row.is_entry()).peekable();
        core::iter::from_fn(move || {
            let (index, first) = entries.next()?;
            let (stream, moved) = (first.stream, first.is_moved());
            let (mut last, mut count) = (first.entry_id, 1);
            while let Some((_, row)) =
                entries.next_if(|(_, row)| row.stream == stream && row.is_moved() == moved)
            {
                last = row.entry_id;
                count += 1;
            }
            Some(Run { stream, first: first.entry_id, last, row: index as u32, count, moved })
        })
    }

    /// The successor that a closing frame names.
    pub fn segment_end(&self) -> Option<u64> {
        let system = self.find(StreamId::SYSTEM);
        self.range(system).find(|row| row.kind == Kind::SegmentEnd).map(|row| row.entry_id)
    }

    /// The row of the checkpoint, which the first frame of a segment has.
    pub fn checkpoint(&self) -> Option<Row> {
        let system = self.find(StreamId::SYSTEM);
        self.range(system).find(|row| row.kind == Kind::Checkpoint)
    }

    /// What is wrong with the first frame of a segment whose table, at `at` in the file, has no checkpoint; `first` is
    /// the table's first row.
    pub fn no_checkpoint(at: u64, first: Option<&Row>) -> Fault {
        let actual = first.map_or(0, |row| row.kind as u64);
        Fault { offset: at, what: What::RowKind, expected: Kind::Checkpoint as u64, actual }
    }

    fn below(&self, order: (StreamId, bool, u64)) -> usize {
        self.rows.partition_point(|bytes| Row::decode(bytes).is_some_and(|row| row.order() < order))
    }

    fn after(&self, stream: StreamId) -> usize {
        self.rows.partition_point(|bytes| Row::decode(bytes).is_some_and(|row| row.stream <= stream))
    }
}

fn check_order(previous: &Row, row: &Row, at: u64) -> Result<(), Fault> {
    let (before, order) = (previous.order(), row.order());
    // Two entries of a stream differ in their ids; control records need not differ.
    let good = before < order || (before == order && !row.is_entry());
    let (expected, actual) =
        if before.0 == order.0 { (before.2, order.2) } else { (previous.stream.id, row.stream.id) };
    Fault::unless(good, at, What::RowOrder, expected, actual)
}

/// Verifies all payloads of a frame: `frame` is the whole frame, at `offset` in the file.
pub fn verify_payloads(frame: &[u8], table: &Table<'_>, offset: u64) -> Result<(), Fault> {
    table.rows().try_for_each(|row| row.payload_in(frame, offset).map(drop))
}

impl Row {
    /// The record's payload in the bytes of its whole frame, verified; the frame is at `offset` in the file.
    pub fn payload_in<'f>(&self, frame: &'f [u8], offset: u64) -> Result<&'f [u8], Fault> {
        let start = self.offset as usize;
        let end = start + self.length as usize;
        let short = Fault { offset, what: What::Length, expected: end as u64, actual: frame.len() as u64 };
        let payload = frame.get(start..end).ok_or(short)?;
        self.verify(payload, offset)?;
        Ok(payload)
    }

    /// Checks bytes against the payload's length and checksum; the frame is at `offset` in the file.
    pub fn verify(&self, payload: &[u8], offset: u64) -> Result<(), Fault> {
        let at = offset.saturating_add(u64::from(self.offset));
        Fault::unless_equal(at, What::Length, self.length, payload.len() as u64)?;
        Fault::unless_equal(at, What::PayloadChecksum, self.crc, payload_crc(payload))
    }
}
