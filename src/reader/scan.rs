//! All records of all streams, as they lie in the log.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tidelog_format::{Kind, Lsn, Record, Row, StreamId};

use super::ReadOptions;
use super::origin::{Origin, Wait};
use super::shelf::Shelf;
use crate::commit::Engine;
use crate::error::{Error, Result};
use crate::options::ReadMode;
use crate::segment::{FrameRead, Moment, Segment, Window};

/// Records read at once, and bytes of their payloads.
const AHEAD: usize = 64;
const AHEAD_BYTES: usize = 64 << 10;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRecord {
    /// The LSN of the frame that carries it.
    pub lsn: Lsn,
    /// What it is.
    pub record: ScanItem,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanItem {
    /// An entry of a stream.
    Entry {
        /// The stream.
        stream: StreamId,
        /// The entry's id.
        id: u64,
        /// What was appended.
        payload: Bytes,
        /// Whether it is a copy of an entry of an older segment.
        moved: bool,
    },
    /// Entries of the stream at or below `id` are obsolete.
    Obsolete {
        /// The stream.
        stream: StreamId,
        /// The mark.
        id: u64,
    },
    /// All of the stream in lower frames is gone, its mark and last id too.
    Release {
        /// The stream.
        stream: StreamId,
    },
    /// Entries of the stream in lower frames from `from` on are gone.
    Truncate {
        /// The stream.
        stream: StreamId,
        /// The lowest id that is gone.
        from: u64,
        /// The stream's last id after it.
        last: Option<u64>,
    },
    /// The namespace is listed from here on.
    NamespaceCreate {
        /// The namespace.
        stream: StreamId,
    },
    /// The namespace is no longer listed.
    NamespaceDelete {
        /// The namespace.
        stream: StreamId,
    },
    /// Segments below `sequence` have retired.
    Oldest {
        /// The oldest segment that is live.
        sequence: u64,
    },
    /// The state of the log where a segment starts, encoded.
    Checkpoint(Bytes),
    /// The segment is closed.
    SegmentEnd {
        /// The successor's sequence.
        next: u64,
    },
}

/// Reads all records from an LSN up to the end of the log when the scan was made, in the order of
/// their frames; the records of one frame are in the order of its table, by stream. What is
/// obsolete or was cut off comes too, as it lies in the log: it blocks, and an error is given once
/// and ends the scan.
///
/// Records below the oldest segment are gone; a scan from there starts at the oldest one there is.
#[derive(Debug)]
pub struct Scan {
    origin: Origin,
    shelf: Shelf,
    mode: ReadMode,
    directory: PathBuf,
    bound: Lsn,
    /// Where the next frame starts, or below it.
    next: Lsn,
    /// The segment being read, by its place on the shelf, and the next frame's offset.
    place: Option<(usize, u64)>,
    frame: Option<(FrameRead, Range<usize>)>,
    /// Records of the frame that were read together with the one before them.
    ahead: VecDeque<ScanRecord>,
    window: Window,
    started: bool,
    done: bool,
}

impl Scan {
    pub(crate) fn new(engine: &Arc<Engine>, from: Lsn, options: &ReadOptions) -> Result<Self> {
        engine.check_fork()?;
        let origin = Origin::new(engine, options.up_to);
        // One hold of the lock: what is below the end lies in these segments, or in newer ones.
        let (bound, segments) = {
            let core = engine.core.lock();
            (core.end(), engine.segments.snapshot())
        };
        let mode = options.mode.unwrap_or(engine.options.read_mode);
        let directory = engine.disk.path().to_path_buf();
        Ok(Self::over(origin, Shelf::new(segments), from, bound, mode, directory))
    }

    pub(super) fn over(
        origin: Origin,
        shelf: Shelf,
        from: Lsn,
        bound: Lsn,
        mode: ReadMode,
        directory: PathBuf,
    ) -> Self {
        let done = from >= bound;
        let (place, frame) = (None, None);
        Self {
            origin,
            shelf,
            mode,
            directory,
            bound,
            next: from,
            place,
            frame,
            ahead: VecDeque::new(),
            window: Window::default(),
            started: false,
            done,
        }
    }

    /// All records below this LSN that the scan covers were given: where to go on from. In the
    /// middle of a frame, the frame's own.
    pub fn position(&self) -> Lsn {
        self.next
    }

    fn advance(&mut self) -> Result<Option<ScanRecord>> {
        if !self.started {
            self.start()?;
        }
        loop {
            if let Some(record) = self.next_record()? {
                return Ok(Some(record));
            }
            if let Some((frame, _)) = &self.frame {
                self.next = frame.header().end();
                if let Some((_, offset)) = &mut self.place {
                    *offset = frame.end();
                }
                self.frame = None;
            }
            if !self.next_frame()? {
                return self.finish();
            }
        }
    }

    /// The next record of the frame, if there is one. Reads some behind it too, so that the file is looked at once
    /// for all of them.
    fn next_record(&mut self) -> Result<Option<ScanRecord>> {
        if self.ahead.is_empty() {
            let mut ahead = std::mem::take(&mut self.ahead);
            let read = self.read_ahead(&mut ahead);
            self.ahead = ahead;
            // What was read before an error comes first, and the error when its turn comes.
            read.or_else(|error| if self.ahead.is_empty() { Err(error) } else { Ok(()) })?;
        }
        Ok(self.ahead.pop_front())
    }

    fn read_ahead(&mut self, ahead: &mut VecDeque<ScanRecord>) -> Result<()> {
        let (mut moment, mut bytes) = (Moment::Later, 0);
        while bytes < AHEAD_BYTES
            && let Some((frame, rows)) = &self.frame
            && let Some(row) = rows.clone().next().and_then(|index| frame.table().row(index))
        {
            ahead.push_back(self.record(&row, moment)?);
            moment = Moment::Same;
            bytes += row.length as usize + AHEAD_BYTES / AHEAD;
            if let Some((_, rows)) = &mut self.frame {
                rows.start += 1;
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        let last = Lsn(self.bound.0.saturating_sub(1));
        if let Some(Err(Error::Forked)) = self.origin.wait_for(last).map(|wait: Wait| wait.block(None)) {
            return Err(Error::Forked);
        }
        if let Some(segments) = self.origin.segments() {
            self.shelf.add_newer(&segments);
        }
        self.started = true;
        let place = self.shelf.find(self.next)?;
        let Some(segment) = self.shelf.all().get(place).cloned() else { return Ok(()) };
        let header = segment.header()?;
        // A frame knows its own LSN, so one that reads well here does start here.
        let offset = header.identity.offset(self.next).filter(|offset| *offset > header.first_frame());
        let starts = |offset: &u64| self.read(&segment, *offset).is_ok();
        let offset = offset.filter(starts).unwrap_or(header.first_frame());
        self.place = Some((place, offset));
        Ok(())
    }

    /// Opens the next frame at or above `next`; false at the end.
    fn next_frame(&mut self) -> Result<bool> {
        while let Some((place, offset)) = self.place {
            let Some(segment) = self.shelf.all().get(place).cloned() else { return Ok(false) };
            let lsn = segment.header()?.identity.lsn(offset);
            if lsn >= self.bound.min(self.origin.limit()) {
                return Ok(false);
            }
            self.shelf.learn_end(&segment)?;
            if segment.end().is_some_and(|end| lsn >= end) {
                let Some(newer) = self.shelf.all().get(place + 1) else { return Ok(false) };
                self.place = Some((place + 1, newer.header()?.first_frame()));
                continue;
            }
            let read = self.read(&segment, offset)?;
            if lsn < self.next {
                self.place = Some((place, read.end()));
                continue;
            }
            self.next = lsn;
            let rows = 0..read.table().len();
            self.frame = Some((read, rows));
            return Ok(true);
        }
        Ok(false)
    }

    fn read(&mut self, segment: &Segment, offset: u64) -> Result<FrameRead> {
        segment.frame_in(&mut self.window, offset, self.origin.limit(), self.mode, None)
    }

    fn finish(&mut self) -> Result<Option<ScanRecord>> {
        if self.origin.limit() < self.bound
            && let Some(error) = self.origin.failure()
        {
            return Err(error);
        }
        Ok(None)
    }

    fn record(&self, row: &Row, moment: Moment) -> Result<ScanRecord> {
        let (Some((frame, _)), Some((place, offset))) = (&self.frame, self.place) else {
            return Err(Error::missing(&self.directory, "the frame being read"));
        };
        let payload = frame.payload_at(row, moment)?;
        let record = match row.kind {
            Kind::Entry => {
                let Row { stream, entry_id: id, .. } = *row;
                ScanItem::Entry { stream, id, payload, moved: row.is_moved() }
            }
            Kind::Checkpoint => ScanItem::Checkpoint(payload),
            _ => ScanItem::control(Record::decode(row, &payload, offset).map_err(|fault| {
                let path = self.shelf.all().get(place).map_or(&*self.directory, |segment| segment.path());
                Error::damage(path, fault, Some(row.stream))
            })?),
        };
        Ok(ScanRecord { lsn: frame.header().lsn, record })
    }
}

impl ScanItem {
    fn control(record: Record<'_>) -> Self {
        match record {
            Record::Entry { stream, id, payload, moved } => {
                Self::Entry { stream, id, payload: Bytes::copy_from_slice(payload), moved }
            }
            Record::Checkpoint(payload) => Self::Checkpoint(Bytes::copy_from_slice(payload)),
            Record::Obsolete { stream, id } => Self::Obsolete { stream, id },
            Record::Release { stream } => Self::Release { stream },
            Record::Truncate { stream, from, last } => Self::Truncate { stream, from, last },
            Record::NamespaceCreate { stream } => Self::NamespaceCreate { stream },
            Record::NamespaceDelete { stream } => Self::NamespaceDelete { stream },
            Record::Oldest { sequence } => Self::Oldest { sequence },
            Record::SegmentEnd { next } => Self::SegmentEnd { next },
        }
    }
}

impl Iterator for Scan {
    type Item = Result<ScanRecord>;

    fn next(&mut self) -> Option<Result<ScanRecord>> {
        if self.done {
            return None;
        }
        let next = self.advance().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for Scan {}
