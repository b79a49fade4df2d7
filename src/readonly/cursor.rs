//! Going over one segment.

use std::io;
use std::iter::Enumerate;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use tidelog_format::{
    Fault, FrameHeader, Kind, Lsn, Record as Content, Row, SegmentHeader, Source, Step, StreamId, Table,
    Walk, What,
};

use super::directory::open;
use super::item::{Frame, Item, Payload, Record, SegmentInfo, SegmentState};
use super::probe;
use crate::error::{Corruption, Error, Result};
use crate::io::{Disk, DiskFile};
use crate::segment::FileSource;

/// What a cursor meets next.
pub(super) enum Met {
    Item(Item),
    /// The file is another one now, or gone: whatever was read of late says nothing.
    Gone,
    End,
}

/// Of which records the payloads are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payloads {
    All,
    None,
    /// Of those of one stream, and of the log's own.
    Of(StreamId),
}

impl Payloads {
    fn include(self, stream: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Of(wanted) => stream == wanted || stream == StreamId::SYSTEM,
        }
    }
}

/// A place among the frames and records of one segment.
#[derive(Debug)]
pub(super) struct Cursor {
    disk: Arc<dyn Disk>,
    info: SegmentInfo,
    header: SegmentHeader,
    file: Arc<dyn DiskFile>,
    payloads: Payloads,
    source: FileSource,
    walk: Walk,
    /// Where in the file the frames end, if a later checkpoint says so.
    end: Option<u64>,
    frame: Option<Current>,
    done: bool,
}

/// The current frame, and its rows that are still to come.
#[derive(Debug)]
struct Current {
    offset: u64,
    header: FrameHeader,
    rest: Enumerate<IntoIter<Row>>,
    /// That the segment's first frame has no checkpoint.
    fault: Option<Fault>,
}

/// A [`Step`] that borrows nothing.
enum Found {
    Frame(u64, FrameHeader, Vec<Row>),
    Torn(Fault),
    Corrupt(Fault),
    End(u64),
}

impl Cursor {
    /// `None` where the segment has nothing to show; `NotFound` where it is gone. Records below `proven` are known to
    /// have been durable.
    pub(super) fn new(
        disk: &Arc<dyn Disk>,
        info: &SegmentInfo,
        proven: Lsn,
        payloads: Payloads,
    ) -> io::Result<Option<Self>> {
        let Some(header) = info.header else { return Ok(None) };
        let file = open(&**disk, info.sequence)?;
        let known_end = if info.state == SegmentState::Newest { None } else { info.end };
        let end = known_end.map(|end| header.identity.offset(end).unwrap_or(0).max(header.first_frame()));
        let walk = Walk::new(&header, end.unwrap_or(header.file_size), known_end.unwrap_or(proven));
        Ok(Some(Self {
            disk: Arc::clone(disk),
            info: info.clone(),
            header,
            payloads,
            source: FileSource::cached(&file)?,
            file,
            walk,
            end,
            frame: None,
            done: false,
        }))
    }

    pub(super) fn sequence(&self) -> u64 {
        self.info.sequence
    }

    /// After an error the next call goes on as far as it can.
    pub(super) fn next(&mut self) -> Result<Met> {
        if let Some(met) = self.next_record().transpose() {
            return met.map_err(|error| self.error(error));
        }
        if self.done {
            return Ok(Met::End);
        }
        self.next_frame().map_err(|error| {
            self.done = true;
            self.error(error)
        })
    }

    fn error(&self, error: io::Error) -> Error {
        Error::io("read", &self.info.file, error)
    }

    fn next_frame(&mut self) -> io::Result<Met> {
        let mut found = step(&mut self.walk, &mut self.source)?;
        if !matches!(found, Found::Frame(..)) && !self.is_at_end() {
            found = self.look_again()?;
        }
        match found {
            Found::Frame(offset, header, rows) => self.enter(offset, header, rows),
            Found::Torn(fault) => {
                self.done = true;
                self.declare(&fault, Item::Torn)
            }
            Found::Corrupt(fault) => {
                let met = self.declare(&fault, Item::Damage)?;
                let mut device = FileSource::uncached(&self.file)?;
                self.done = self.walk.resume_after_damage(&mut device)?.is_none();
                Ok(met)
            }
            Found::End(offset) => {
                self.done = true;
                match self.end {
                    Some(end) if end != offset => {
                        let fault = Fault { offset, what: What::Length, expected: end, actual: offset };
                        self.declare(&fault, Item::Damage)
                    }
                    // Of a file that is used anew the rest looks as if nothing had been written.
                    _ if self.walk.closed().is_none() && !self.is_same_file()? => Ok(self.gone()),
                    _ => Ok(Met::End),
                }
            }
        }
    }

    fn is_at_end(&self) -> bool {
        self.walk.closed().is_some()
            || self.walk.offset() >= self.header.file_size.min(self.end.unwrap_or(u64::MAX))
    }

    /// Looks at the current place again, past the cache, and by a read that begins after whatever proves that
    /// something durable must be there was read.
    fn look_again(&mut self) -> io::Result<Found> {
        loop {
            let proven = self.walk.highest_watermark() > self.header.identity.lsn(self.walk.offset());
            self.walk.retry();
            let mut device = FileSource::uncached(&self.file)?;
            let found = step(&mut self.walk, &mut device)?;
            if proven || !matches!(found, Found::Corrupt(_)) {
                self.source = FileSource::cached(&self.file)?;
                return Ok(found);
            }
        }
    }

    /// Damage and torn tails count only if the file is still the same after they were read.
    fn declare(&mut self, fault: &Fault, item: impl FnOnce(Corruption) -> Item) -> io::Result<Met> {
        if self.is_same_file()? {
            Ok(Met::Item(item(Corruption::fault(&self.info.file, fault, None))))
        } else {
            Ok(self.gone())
        }
    }

    fn gone(&mut self) -> Met {
        self.done = true;
        self.frame = None;
        Met::Gone
    }

    fn is_same_file(&self) -> io::Result<bool> {
        let file = match open(&*self.disk, self.info.sequence) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // A header that no longer decodes is damage of the same file.
        Ok(probe::header(&file)?.map_or(true, |header| header == self.header))
    }

    fn enter(&mut self, offset: u64, header: FrameHeader, rows: Vec<Row>) -> io::Result<Met> {
        if header.lsn >= self.walk.highest_watermark()
            && let Some(fault) = self.torn_payload(offset, header.lsn, &rows)?
        {
            self.done = true;
            return self.declare(&fault, Item::Torn);
        }
        if self.info.state == SegmentState::Void {
            // It came into use since, and the segment before it may have frames that were not seen.
            self.done = true;
            return Ok(Met::End);
        }
        let is_first = offset == self.header.first_frame();
        let fault = (is_first && !rows.iter().any(|row| row.kind == Kind::Checkpoint)).then(|| {
            Table::no_checkpoint(offset.saturating_add(u64::from(header.table_offset)), rows.first())
        });
        self.frame = Some(Current { offset, header, rest: rows.into_iter().enumerate(), fault });
        Ok(Met::Item(Item::Frame(Frame { segment: self.info.sequence, offset, header })))
    }

    /// What is wrong with the payloads of a frame that nothing has proven so far, unless something does.
    fn torn_payload(&mut self, offset: u64, lsn: Lsn, rows: &[Row]) -> io::Result<Option<Fault>> {
        for row in rows {
            let Err(fault) = self.read_payload(offset, row)? else { continue };
            let survey = probe::survey(&mut FileSource::uncached(&self.file)?, &self.header)?;
            return Ok((survey.watermark <= lsn).then_some(fault));
        }
        Ok(None)
    }

    fn next_record(&mut self) -> io::Result<Option<Met>> {
        let Some(frame) = &mut self.frame else { return Ok(None) };
        if let Some(fault) = frame.fault.take() {
            return self.declare(&fault, Item::Damage).map(Some);
        }
        let Some((index, row)) = frame.rest.next() else {
            self.frame = None;
            return Ok(None);
        };
        let (offset, header) = (frame.offset, frame.header);
        let Some(payload) = self.payload(offset, &row)? else { return Ok(Some(self.gone())) };
        Ok(Some(Met::Item(Item::Record(Record {
            segment: self.info.sequence,
            frame: offset,
            lsn: header.lsn,
            clock: header.clock,
            index: index as u32,
            row,
            payload,
        }))))
    }

    /// `None` where the file turns out to be gone.
    fn payload(&mut self, frame: u64, row: &Row) -> io::Result<Option<Payload>> {
        if !self.payloads.include(row.stream) {
            return Ok(Some(Payload::Skipped));
        }
        Ok(match self.read_payload(frame, row)? {
            Ok(bytes) => Some(Payload::Sound(bytes)),
            Err(fault) if self.is_same_file()? => {
                let stream = (row.stream != StreamId::SYSTEM).then_some(row.stream);
                Some(Payload::Damaged(Corruption::fault(&self.info.file, &fault, stream)))
            }
            Err(_) => None,
        })
    }

    fn read_payload(&mut self, frame: u64, row: &Row) -> io::Result<Result<Bytes, Fault>> {
        if let Ok(Ok(bytes)) = verified(&mut self.source, frame, row, &self.header) {
            return Ok(Ok(bytes));
        }
        verified(&mut FileSource::uncached(&self.file)?, frame, row, &self.header)
    }
}

fn verified(
    source: &mut FileSource,
    frame: u64,
    row: &Row,
    header: &SegmentHeader,
) -> io::Result<Result<Bytes, Fault>> {
    let payload = source.read(frame.saturating_add(u64::from(row.offset)), row.length as usize)?;
    let checked = match Content::decode(row, payload, frame) {
        Ok(Content::Checkpoint(payload)) => probe::checkpoint(payload, row, frame, header).map(drop),
        other => other.map(drop),
    };
    Ok(checked.map(|()| Bytes::copy_from_slice(payload)))
}

fn step(walk: &mut Walk, source: &mut FileSource) -> io::Result<Found> {
    Ok(match walk.next(source)? {
        Step::Frame(frame) => Found::Frame(frame.offset, frame.header, frame.table.rows().collect()),
        Step::Torn(fault) => Found::Torn(fault),
        Step::Corrupt(fault) => Found::Corrupt(fault),
        Step::End { offset } => Found::End(offset),
    })
}
