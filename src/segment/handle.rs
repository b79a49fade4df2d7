//! The shared handle of one segment.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tidelog_format::{Checkpoint, Fault, LogId, Lsn, Row, SEGMENT_HEADER_LEN, SegmentHeader, StreamId, What};

use super::frame::{FrameRead, Opened};
use super::index_file::{self, Index};
use super::runs::{Runs, Select, StreamRuns};
use super::source::{FileSource, Via, with_second_look};
use super::window::{Access, Window};
use super::{Error, Result, name, rebuild};
use crate::io::{Access as FileAccess, Disk, DiskFile, Mapping};
use crate::options::ReadMode;
use crate::state::Link;

/// Where the runs of a segment are kept.
#[derive(Debug)]
enum Rows {
    Memory(Runs),
    Cached(Index),
    /// Not looked at yet.
    Unknown,
}

/// One segment: the one that is written, or an ended one, whose file is opened when it is first needed.
///
/// Whoever holds it can read it, also after its file has lost its name.
#[derive(Debug)]
pub(crate) struct Segment {
    disk: Arc<dyn Disk>,
    path: Arc<Path>,
    log_id: LogId,
    sequence: u64,
    /// What is written through, as long as it is written.
    writer: RwLock<Option<Arc<dyn DiskFile>>>,
    header: OnceLock<SegmentHeader>,
    end: OnceLock<Lsn>,
    opened: Mutex<Option<Arc<Opened>>>,
    map: Mutex<Option<Arc<dyn Mapping>>>,
    rows: RwLock<Rows>,
}

impl Segment {
    /// The segment that is written through `file`.
    ///
    /// Reads have a descriptor of their own: the one for writes carries the file's lock, which a
    /// slow reader must not keep from the next opening, and the error of a failed flush, which must
    /// reach whoever flushes.
    pub(crate) fn writing(disk: Arc<dyn Disk>, header: SegmentHeader, file: Arc<dyn DiskFile>) -> Self {
        let identity = header.identity;
        let mut segment = Self::new(disk, identity.log_id, identity.sequence, Rows::Memory(Runs::default()));
        segment.header = header.into();
        segment.writer = Some(file).into();
        segment
    }

    /// A segment that is no longer written. Where its frames end can be told later; a header that
    /// is known is compared with the file's.
    pub(crate) fn ended(
        disk: Arc<dyn Disk>,
        log_id: LogId,
        sequence: u64,
        header: Option<SegmentHeader>,
        end: Option<Lsn>,
    ) -> Self {
        let mut segment = Self::new(disk, log_id, sequence, Rows::Unknown);
        segment.header = header.map(OnceLock::from).unwrap_or_default();
        segment.end = end.map(OnceLock::from).unwrap_or_default();
        segment
    }

    /// With the runs of all its frames, by whoever has gone over them.
    pub(crate) fn with_runs(mut self, runs: Runs) -> Self {
        self.rows = Rows::Memory(runs).into();
        self
    }

    fn new(disk: Arc<dyn Disk>, log_id: LogId, sequence: u64, rows: Rows) -> Self {
        Self {
            path: disk.path().join(name::segment(sequence)).into(),
            disk,
            log_id,
            sequence,
            writer: RwLock::new(None),
            header: OnceLock::new(),
            end: OnceLock::new(),
            opened: Mutex::new(None),
            map: Mutex::new(None),
            rows: RwLock::new(rows),
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Where its file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still written.
    pub(crate) fn is_writing(&self) -> bool {
        self.writer.read().is_some()
    }

    /// The file for writes; an error once the segment has ended.
    pub(crate) fn write_file(&self) -> Result<Arc<dyn DiskFile>> {
        let ended = || io::Error::new(io::ErrorKind::PermissionDenied, "the segment has ended");
        self.writer.read().clone().ok_or_else(|| Error::io("write", &*self.path, ended()))
    }

    /// How the file is read as long as it is written: readahead before direct writes slows them down.
    fn written_via(&self) -> Option<Via> {
        let writer = self.writer.read();
        writer.as_ref().map(|file| if file.is_direct() { Via::Device } else { Via::Cache })
    }

    /// Its header: opens the file, unless the header is known.
    pub(crate) fn header(&self) -> Result<SegmentHeader> {
        match self.header.get() {
            Some(header) => Ok(*header),
            None => Ok(self.open()?.header),
        }
    }

    /// The LSN of its file's first byte.
    pub(crate) fn base(&self) -> Result<Lsn> {
        Ok(self.header()?.identity.base)
    }

    /// Where its frames end, once that is known.
    pub(crate) fn end(&self) -> Option<Lsn> {
        self.end.get().copied()
    }

    /// Tells where the frames of an ended segment end. Only the first word counts.
    pub(crate) fn set_end(&self, end: Lsn) -> Lsn {
        *self.end.get_or_init(|| end)
    }

    /// Takes in a written frame: see [`Runs::add_frame`].
    pub(crate) fn add_frame(&self, frame: u64, rows: &[Row], links: &[Link]) {
        if let Rows::Memory(runs) = &mut *self.rows.write() {
            runs.add_frame(frame, rows, links);
        }
    }

    /// No more is written, and the frames end at `end`. Lets go of the file that writes used.
    pub(crate) fn finish(&self, end: Lsn) {
        self.set_end(end);
        *self.writer.write() = None;
    }

    /// The runs of a stream that are wanted, and the segment that holds its entries before these.
    /// `None` where the segment has no entry of the stream.
    ///
    /// The first call on an ended segment without a good index cache goes over all its frames.
    pub(crate) fn runs(&self, stream: StreamId, mut select: Select<'_>) -> Result<Option<StreamRuns>> {
        self.look(&mut |rows| match rows {
            Rows::Memory(runs) => Some(runs.select(stream, &mut select)),
            Rows::Cached(index) => index.select(stream, &mut select).ok(),
            Rows::Unknown => None,
        })
    }

    /// All runs of a stream.
    #[cfg(test)]
    pub(crate) fn lookup(&self, stream: StreamId) -> Result<Option<StreamRuns>> {
        self.runs(stream, Select { frames: 0..u64::MAX, limit: usize::MAX, keep: &mut |_| true })
    }

    /// The segment that holds the stream's entries before those here; 0: none.
    #[cfg(test)]
    pub(crate) fn previous(&self, stream: StreamId) -> Result<Option<u64>> {
        let found = self.runs(stream, Select { frames: 0..0, limit: 0, keep: &mut |_| false })?;
        Ok(found.map(|runs| runs.previous))
    }

    /// The first `limit` streams above `after` that have entries here, with all their runs.
    pub(crate) fn streams(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> Result<Vec<(StreamId, StreamRuns)>> {
        self.look(&mut |rows| match rows {
            Rows::Memory(runs) => Some(runs.streams(after, limit)),
            Rows::Cached(index) => index.streams(after, limit).ok(),
            Rows::Unknown => None,
        })
    }

    /// Looks at the runs, which are loaded when nothing is found: none were, or the cache failed.
    fn look<T>(&self, look: &mut dyn FnMut(&Rows) -> Option<T>) -> Result<T> {
        if let Some(found) = look(&self.rows.read()) {
            return Ok(found);
        }
        let mut rows = self.rows.write();
        // Another thread may have been here first.
        if let Some(found) = look(&rows) {
            return Ok(found);
        }
        if let (Rows::Unknown, Some(index)) = (&*rows, self.open_index()?) {
            *rows = Rows::Cached(index);
            if let Some(found) = look(&rows) {
                return Ok(found);
            }
        }
        *rows = Rows::Memory(self.scan()?);
        look(&rows).ok_or_else(|| Error::missing(&*self.path, "runs of the segment"))
    }

    fn known_end(&self) -> Result<Lsn> {
        self.end().ok_or_else(|| Error::missing(&*self.path, "the place where the segment's frames end"))
    }

    fn open_index(&self) -> Result<Option<Index>> {
        let (end, header) = (self.known_end()?, self.header()?);
        Ok(Index::open(&*self.disk, &header.identity, end))
    }

    fn scan(&self) -> Result<Runs> {
        let (end, opened) = (self.known_end()?, self.open()?);
        with_second_look(|via| rebuild::scan(&mut FileSource::new(&opened.file, via)?, &opened.header, end))
            .map_err(|flaw| flaw.into_error(&self.path))
    }

    /// Writes the index cache of an ended segment, unless it has a good one, and lets go of the
    /// runs in memory. A failure costs memory and time, nothing else.
    pub(crate) fn write_index(&self) -> Result<()> {
        let (end, identity) = (self.known_end()?, self.header()?.identity);
        self.look(&mut |rows| (!matches!(rows, Rows::Unknown)).then_some(()))?;
        if let Rows::Memory(runs) = &*self.rows.read() {
            let path = || self.disk.path().join(name::index(self.sequence));
            index_file::write(&*self.disk, &identity, end, runs)
                .map_err(|error| Error::io("write", path(), error))?;
        } else {
            return Ok(());
        }
        if let Some(index) = Index::open(&*self.disk, &identity, end) {
            *self.rows.write() = Rows::Cached(index);
        }
        Ok(())
    }

    /// Whether its runs are in memory, not in an index cache.
    pub(crate) fn holds_runs(&self) -> bool {
        matches!(&*self.rows.read(), Rows::Memory(_))
    }

    /// The checkpoint in its first frame. An error also where the segment is void.
    pub(crate) fn checkpoint(&self) -> Result<Checkpoint> {
        let opened = self.open()?;
        with_second_look(|via| rebuild::checkpoint(&mut FileSource::new(&opened.file, via)?, &opened.header))
            .map_err(|flaw| flaw.into_error(&self.path))
    }

    /// Reads the frame at `at` in the file, which must end at or below `up_to` and below the end of
    /// an ended segment. While the segment is written, `up_to` must not lie above what is written.
    /// `stream` is whom a damaged table would affect, for the error.
    pub(crate) fn frame(
        &self,
        at: u64,
        up_to: Lsn,
        mode: ReadMode,
        stream: Option<StreamId>,
    ) -> Result<FrameRead> {
        self.frame_in(&mut Window::default(), at, up_to, mode, stream)
    }

    /// As [`Self::frame`], for whoever reads on: the window keeps what was read ahead.
    pub(crate) fn frame_in(
        &self,
        window: &mut Window,
        at: u64,
        up_to: Lsn,
        mode: ReadMode,
        stream: Option<StreamId>,
    ) -> Result<FrameRead> {
        let opened = self.open()?;
        let end = self.end().map_or(up_to, |end| end.min(up_to));
        let identity = &opened.header.identity;
        let limit = identity.offset(end).unwrap_or(0).min(opened.header.file_size);
        if at >= limit {
            return Err(Error::BeyondEnd { attempted: identity.lsn(at).0, end: end.0 });
        }
        let access = match (self.written_via(), mode) {
            (Some(via), _) => Access::Read(via),
            (None, ReadMode::Map) => self.mapped(&opened).map_or(Access::Read(Via::Cache), Access::Map),
            (None, ReadMode::Copy) => Access::Read(Via::Cache),
        };
        FrameRead::open(&opened, at, limit, access, window, stream)
    }

    /// Has the device bring a part of the file into the page cache, and does not wait. A hint.
    pub(crate) fn will_need(&self, at: u64, len: u64) {
        if let Ok(opened) = self.open() {
            opened.file.will_need(at, len);
        }
    }

    /// The file as far as it is there. Without a map (address space and maps are limited) reads copy.
    fn mapped(&self, opened: &Opened) -> Option<Arc<dyn Mapping>> {
        let mut slot = self.map.lock();
        if slot.is_none() {
            let len = opened.file.len().ok()?.min(opened.header.file_size);
            *slot = opened.file.map(len).ok();
        }
        slot.clone()
    }

    /// The open file, its header checked.
    fn open(&self) -> Result<Arc<Opened>> {
        let mut slot = self.opened.lock();
        if let Some(opened) = &*slot {
            return Ok(Arc::clone(opened));
        }
        let file = self.disk.open(&name::segment(self.sequence), FileAccess::Read).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => Error::missing(&*self.path, "the segment's file"),
                _ => Error::io("open", &*self.path, error),
            }
        })?;
        let header = match self.header.get() {
            // Written by this very process, which has looked at nothing else of the file yet.
            Some(header) if self.is_writing() => *header,
            _ => self.read_header(&*file)?,
        };
        self.header.get_or_init(|| header);
        let opened = Arc::new(Opened { path: Arc::clone(&self.path), file, header });
        *slot = Some(Arc::clone(&opened));
        Ok(opened)
    }

    fn read_header(&self, file: &dyn DiskFile) -> Result<SegmentHeader> {
        let read = |via: Via| {
            let mut bytes = [0; SEGMENT_HEADER_LEN];
            let len = via.read(file, 0, &mut bytes).map_err(|error| Error::io("read", &*self.path, error))?;
            SegmentHeader::decode(&bytes[..len]).map_err(|error| Error::header(&self.path, error))
        };
        let header = read(Via::Cache).or_else(|_| read(Via::Device))?;
        self.check_header(&header)?;
        Ok(header)
    }

    fn check_header(&self, header: &SegmentHeader) -> Result<()> {
        let identity = &header.identity;
        if identity.log_id != self.log_id {
            let (expected, found) = (self.log_id.to_string(), identity.log_id.to_string());
            return Err(Error::ForeignLog { file: self.path.to_path_buf(), expected, found });
        }
        let equal = |offset, what, expected, actual| {
            let fault = Fault { offset, what, expected, actual };
            if expected == actual { Ok(()) } else { Err(Error::fault(&*self.path, fault)) }
        };
        equal(40, What::Sequence, self.sequence, identity.sequence)?;
        let Some(known) = self.header.get() else { return Ok(()) };
        equal(12, What::BlockSize, known.block_size.into(), header.block_size.into())?;
        equal(16, What::FileSize, known.file_size, header.file_size)?;
        equal(48, What::Base, known.identity.base.0, identity.base.0)
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Opens the file, for those who read on when it has lost its name.
    pub(super) fn open_for_holders(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// Whether nobody has a frame of it, or bytes that share its map, and its file has one name. Of
    /// whoever has the segment this is the last one.
    pub(super) fn ends_unread(self) -> bool {
        drop(self.map.into_inner());
        let file = match self.opened.into_inner() {
            Some(opened) => Arc::into_inner(opened).map(|opened| opened.file),
            None => self.disk.open(&name::segment(self.sequence), FileAccess::Read).ok(),
        };
        file.is_some_and(|file| file.maps() == 0 && file.links().is_ok_and(|links| links == 1))
    }
}
