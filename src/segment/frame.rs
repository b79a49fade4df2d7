//! Reading one frame: its table, and payloads out of it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidelog_format::{FRAME_HEADER_LEN, Fault, FrameHeader, Row, SegmentHeader, StreamId, Table, What};

use super::source::{Flaw, Via};
use super::window::{Access, Window, read, recheck};
use super::{Error, Result};
use crate::io::{DiskFile, Mapping};
use crate::planted::{Planted, planted};

/// A frame up to this size is read whole; of a larger one each payload by itself.
const WHOLE_FRAME_MAX: u64 = 1 << 20;
/// Bytes a payload up to which few of them are faulted in together, with what lies between them.
const TOGETHER: usize = 16 << 10;

/// A segment's file, open, and its header.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: Arc<Path>,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: SegmentHeader,
}

/// Where the payloads of a frame are.
#[derive(Debug)]
enum Body {
    /// The whole frame or a part of it from `start` on, in the segment's map, which was populated then.
    Mapped { bytes: Bytes, start: usize, map: Arc<dyn Mapping>, populated: Instant },
    /// The whole frame, in memory of its own.
    Whole(Bytes),
    /// Each payload is reached by itself.
    Parts(Access),
}

/// When a payload is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Right after another one of the frame.
    Same,
    /// The caller has done other things since the frame was looked at: the file may have been shortened,
    /// or its pages lost.
    Later,
}

/// One frame of a segment. It stays readable when the segment retires.
#[derive(Debug)]
pub(crate) struct FrameRead {
    opened: Arc<Opened>,
    at: u64,
    header: FrameHeader,
    /// The table's rows from `first_row` on, which are all that were asked for.
    table: Bytes,
    first_row: usize,
    body: Body,
}

impl FrameRead {
    /// Reads and verifies the header and the table of the frame at `at` in the file, of which the
    /// bytes up to `limit` may be read. `stream` is whom damage would affect, for the error.
    pub(super) fn open(
        opened: &Arc<Opened>,
        at: u64,
        limit: u64,
        access: Access,
        window: &mut Window,
        stream: Option<StreamId>,
    ) -> Result<Self> {
        let path = &opened.path;
        Self::read(opened, at, limit, access, window)
            .or_else(|_| {
                *window = Window::default();
                Self::read(opened, at, limit, Access::Read(Via::Device), &mut Window::default())
            })
            .map_err(|flaw| match flaw {
                Flaw::Fault(fault, _) => Error::damage(&**path, fault, stream),
                io @ Flaw::Io(_) => io.into_error(path),
            })
    }

    fn read(
        opened: &Arc<Opened>,
        at: u64,
        limit: u64,
        access: Access,
        window: &mut Window,
    ) -> Result<Self, Flaw> {
        let segment = &opened.header;
        let is_mapped = matches!(access, Access::Map(_));
        let reached = !window.is_sparse();
        if let (Access::Map(map), true) = (&access, reached) {
            map.check_len(limit as usize)?;
        }
        let begin = if reached { u64::from(segment.block_size) } else { FRAME_HEADER_LEN as u64 };
        let first = window.get(opened, &access, at, begin.min(limit.saturating_sub(at)), limit)?;
        let header = FrameHeader::decode(&first, at, segment)?;
        check_len(&header, at, limit)?;
        let len = u64::from(header.frame_len);
        let start = u64::from(header.table_offset);
        let few = window.take_few(&access, header.row_count, len);
        if let (Some(few), Access::Map(map)) = (few, &access) {
            let first_row = few.start;
            // Read behind all payloads, it also shows that the file reaches to there.
            let bytes = window.table(opened, at + start, header.table_len())?;
            let rows = Table::parse_part(bytes, &header, &segment.identity, few)?;
            let table = Bytes::copy_from_slice(rows.as_bytes());
            let rows = Table::verified(&table);
            let body = few_of(opened, map, at, &rows, window.is_cold())?;
            return Ok(Self { opened: Arc::clone(opened), at, header, table, first_row, body });
        }
        if let (Access::Map(map), false) = (&access, reached) {
            map.check_len(limit as usize)?;
        }
        let (table, body) = if len <= WHOLE_FRAME_MAX {
            let frame = if len == first.len() as u64 {
                first
            } else {
                window.get(opened, &access, at, len, limit)?
            };
            let table = start as usize..(start + header.table_len()) as usize;
            let table = if table.end <= frame.len() { frame.slice(table) } else { Bytes::new() };
            let body = match (access, window.populated) {
                (Access::Map(map), Some(populated)) => {
                    Body::Mapped { bytes: frame, start: 0, map, populated }
                }
                _ => Body::Whole(frame),
            };
            (table, body)
        } else {
            let table = window.get(opened, &access, at + start, header.table_len(), limit)?;
            (table, Body::Parts(access))
        };
        // Looked at again with each row, however late: not in a map, where that could fail.
        let table = if is_mapped { Bytes::copy_from_slice(&table) } else { table };
        Table::parse(&table, &header, &segment.identity)?;
        Ok(Self { opened: Arc::clone(opened), at, header, table, first_row: 0, body })
    }

    /// The frame's header.
    pub(crate) fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// Bytes of it that were faulted in or read for payloads.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        match &self.body {
            Body::Mapped { bytes, .. } | Body::Whole(bytes) => bytes.len(),
            Body::Parts(_) => 0,
        }
    }

    /// Where in the file the next frame starts.
    pub(crate) fn end(&self) -> u64 {
        self.at + u64::from(self.header.frame_len)
    }

    /// Its table; only a part of it where the window was told which rows are wanted.
    pub(crate) fn table(&self) -> Table<'_> {
        Table::verified(&self.table)
    }

    /// The row at this place in the table of the frame.
    pub(crate) fn row(&self, index: usize) -> Option<Row> {
        self.table().row(index.checked_sub(self.first_row)?)
    }

    /// The payload of one of the table's rows, verified.
    #[cfg(test)]
    pub(crate) fn payload(&self, row: &Row) -> Result<Bytes> {
        self.payload_at(row, Moment::Later)
    }

    /// The payload of one of the table's rows, verified. For many taken at the same [`Moment`] the file is
    /// looked at once.
    pub(crate) fn payload_at(&self, row: &Row, moment: Moment) -> Result<Bytes> {
        let first = match &self.body {
            Body::Mapped { bytes, start, map, populated } => match part(row, *start, bytes.len()) {
                Some(part) => {
                    let check = (moment == Moment::Later).then_some((&**map, *populated));
                    self.slice(bytes, *start, check, row, part)
                }
                None => self.reach(&Access::Map(Arc::clone(map)), row),
            },
            Body::Whole(frame) => self.cut(frame, row),
            Body::Parts(access) => self.reach(access, row),
        };
        first
            .or_else(|_| self.reach(&Access::Read(Via::Device), row))
            .map_err(|flaw| flaw.into_error(&self.opened.path))
    }

    /// `bytes` begin at `start` in the frame, and the row's payload is that part of them.
    fn slice(
        &self,
        bytes: &Bytes,
        start: usize,
        check: Option<(&dyn Mapping, Instant)>,
        row: &Row,
        part: Range<usize>,
    ) -> Result<Bytes, Flaw> {
        if let Some((map, populated)) = check {
            // All of them: that will do for all payloads that are taken at this moment.
            let from = self.at as usize + start;
            recheck(map, populated, from..from + bytes.len())?;
        }
        self.verify(row, bytes.slice(part))
    }

    /// A small payload is copied, so that whoever keeps it does not keep the whole frame.
    fn cut(&self, frame: &Bytes, row: &Row) -> Result<Bytes, Flaw> {
        let start = row.offset as usize;
        let end = (start + row.length as usize).min(frame.len());
        let range = start.min(end)..end;
        let payload = if range.len() >= frame.len() / 4 {
            frame.slice(range)
        } else {
            Bytes::copy_from_slice(&frame[range])
        };
        self.verify(row, payload)
    }

    fn reach(&self, access: &Access, row: &Row) -> Result<Bytes, Flaw> {
        let start = self.at + u64::from(row.offset);
        let len = u64::from(row.length);
        let payload = match access {
            Access::Map(map) => map.bytes(start as usize..(start + len) as usize)?,
            Access::Read(via) => Bytes::from_owner(read(&*self.opened.file, *via, start, len)?),
        };
        self.verify(row, payload)
    }

    fn verify(&self, row: &Row, payload: Bytes) -> Result<Bytes, Flaw> {
        if planted(Planted::PayloadUnchecked) {
            return Ok(payload);
        }
        row.verify(&payload, self.at).map_err(|fault| Flaw::Fault(fault, Some(row.stream)))?;
        Ok(payload)
    }
}

/// Where a row's payload lies in bytes that begin at `start` in the frame, if all of it is there.
fn part(row: &Row, start: usize, len: usize) -> Option<Range<usize>> {
    let from = (row.offset as usize).checked_sub(start)?;
    let end = from.checked_add(row.length as usize)?;
    (end <= len).then_some(from..end)
}

/// The payloads of these rows of the frame at `at`: together where they are near each other, else each by itself.
fn few_of(
    opened: &Opened,
    map: &Arc<dyn Mapping>,
    at: u64,
    rows: &Table<'_>,
    cold: bool,
) -> Result<Body, Flaw> {
    let count = rows.len();
    let parts = rows.rows().map(|row| (row.offset as usize, row.offset as usize + row.length as usize));
    let span =
        parts.reduce(|all, part| (all.0.min(part.0), all.1.max(part.1))).map_or(0..0, |all| all.0..all.1);
    if span.is_empty() || span.len() > count.saturating_mul(TOGETHER) {
        return Ok(Body::Parts(Access::Map(Arc::clone(map))));
    }
    let (start, frame) = (span.start, at as usize);
    if cold {
        // A fault would bring much more (see `window`).
        opened.file.will_need((frame + start) as u64, span.len() as u64);
    }
    let bytes = map.bytes_checked(frame + start..frame + span.end)?;
    Ok(Body::Mapped { bytes, start, map: Arc::clone(map), populated: Instant::now() })
}

fn check_len(header: &FrameHeader, at: u64, limit: u64) -> Result<(), Flaw> {
    let (expected, actual) = (u64::from(header.frame_len), limit.saturating_sub(at));
    if expected <= actual {
        Ok(())
    } else {
        Err(Fault { offset: at, what: What::Length, expected, actual }.into())
    }
}
