//! Reading one frame: its table, and payloads out of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidelog_format::{Fault, FrameHeader, Row, SegmentHeader, StreamId, Table, What};

use super::source::{Flaw, Via};
use super::window::{Access, Window, read, recheck};
use super::{Error, Result};
use crate::io::{DiskFile, Mapping};

/// A frame up to this size is read whole; of a larger one each payload by itself.
const WHOLE_FRAME_MAX: u64 = 1 << 20;

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
    /// The whole frame, in the segment's map, which was populated then.
    Mapped { frame: Bytes, map: Arc<dyn Mapping>, populated: Instant },
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
    table: Bytes,
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
        let block = u64::from(segment.block_size).min(limit.saturating_sub(at));
        let first = window.get(opened, &access, at, block, limit)?;
        let header = FrameHeader::decode(&first, at, segment)?;
        check_len(&header, at, limit)?;
        let len = u64::from(header.frame_len);
        let start = u64::from(header.table_offset);
        let (table, body) = if len <= WHOLE_FRAME_MAX {
            let frame = if len == block { first } else { window.get(opened, &access, at, len, limit)? };
            let table = start as usize..(start + header.table_len()) as usize;
            let table = if table.end <= frame.len() { frame.slice(table) } else { Bytes::new() };
            let body = match (access, window.populated) {
                (Access::Map(map), Some(populated)) => Body::Mapped { frame, map, populated },
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
        Ok(Self { opened: Arc::clone(opened), at, header, table, body })
    }

    /// The frame's header.
    pub(crate) fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// Where in the file the next frame starts.
    pub(crate) fn end(&self) -> u64 {
        self.at + u64::from(self.header.frame_len)
    }

    pub(crate) fn table(&self) -> Table<'_> {
        Table::verified(&self.table)
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
            Body::Mapped { frame, map, populated } => {
                let now = (moment == Moment::Later).then_some((&**map, *populated));
                self.slice(frame, now, row)
            }
            Body::Whole(frame) => self.cut(frame, row),
            Body::Parts(access) => self.reach(access, row),
        };
        first
            .or_else(|_| self.reach(&Access::Read(Via::Device), row))
            .map_err(|flaw| flaw.into_error(&self.opened.path))
    }

    fn slice(&self, frame: &Bytes, check: Option<(&dyn Mapping, Instant)>, row: &Row) -> Result<Bytes, Flaw> {
        let start = row.offset as usize;
        let end = (start + row.length as usize).min(frame.len());
        if let Some((map, populated)) = check {
            // The whole frame: that will do for all that are taken at this moment.
            recheck(map, populated, self.at as usize..self.at as usize + frame.len())?;
        }
        self.verify(row, frame.slice(start.min(end)..end))
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
        row.verify(&payload, self.at).map_err(|fault| Flaw::Fault(fault, Some(row.stream)))?;
        Ok(payload)
    }
}

fn check_len(header: &FrameHeader, at: u64, limit: u64) -> Result<(), Flaw> {
    let (expected, actual) = (u64::from(header.frame_len), limit.saturating_sub(at));
    if expected <= actual {
        Ok(())
    } else {
        Err(Fault { offset: at, what: What::Length, expected, actual }.into())
    }
}
