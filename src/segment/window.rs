//! Bytes of a segment that were read ahead.
//!
//! Frames are small and neighbours are read one after the other: a window saves the system calls
//! of each, whether the bytes are mapped (then populated) or read.
//!
//! What is not in the page cache is read, mapped or not: a fault would bring whatever the device is set to read
//! ahead, up to megabytes around each page that is missing, where a read brings what is asked for.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::frame::Opened;
use super::source::{Flaw, Via};
use crate::io::{AlignedBuf, DiskFile, Mapping};

/// Taken at first: most frames whole.
const FIRST: u64 = 64 << 10;
/// Taken in the end by whoever goes on reading.
const MOST: u64 = 1 << 20;
/// So little of a mapped file is copied out of the page cache: that takes one system call, which tells whether it
/// is there.
const COPIED: u64 = 8 << 10;

/// One row in so many is wanted: that is few.
const FEW: u64 = 4;

/// Pages that were populated so long ago are populated again.
const STALE_AFTER: Duration = Duration::from_millis(20);

/// How the bytes of a segment are reached.
#[derive(Debug)]
pub(super) enum Access {
    Map(Arc<dyn Mapping>),
    Read(Via),
}

/// A piece of one segment's file; a reader keeps it from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Whose bytes they are.
    sequence: u64,
    start: u64,
    bytes: Bytes,
    /// They share the segment's map, which was populated then.
    pub(super) populated: Option<Instant>,
    next: u64,
    /// The last piece did not follow the one before: the next one may not either.
    jumped: bool,
    /// Something was not in the page cache.
    cold: bool,
    /// Rows of the next frame that will be asked for; all of them unless told.
    wanted: Option<Range<usize>>,
    /// Few rows of a frame are asked for: reading ahead would fault in what nobody looks at.
    sparse: bool,
    scratch: Vec<u8>,
}

impl Window {
    /// Tells which rows of the next frame will be asked for.
    pub(crate) fn want(&mut self, rows: Range<usize>) {
        self.wanted = Some(rows);
    }

    /// Whether something of a mapped file had to be read from the device since this was asked.
    pub(crate) fn was_cold(&mut self) -> bool {
        std::mem::take(&mut self.cold)
    }

    pub(super) fn is_cold(&self) -> bool {
        self.cold
    }

    /// Whether the last frame was one of whose rows few were wanted.
    pub(super) fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// The rows that will be asked for, if they are few of so many in a mapped frame.
    pub(super) fn take_few(&mut self, access: &Access, rows: u32, frame_len: u64) -> Option<Range<usize>> {
        let few = |wanted: &Range<usize>| wanted.len() as u64 * FEW <= u64::from(rows);
        let mapped = matches!(access, Access::Map(_));
        let found = self.wanted.take().filter(few).filter(|_| mapped && frame_len > FIRST);
        self.sparse = found.is_some();
        found
    }

    /// The bytes at `at`, `need` of them unless the file ends before; nothing from `limit` on is touched. The caller
    /// has just seen that a mapped file reaches to there.
    pub(super) fn get(
        &mut self,
        opened: &Opened,
        access: &Access,
        at: u64,
        need: u64,
        limit: u64,
    ) -> Result<Bytes, Flaw> {
        let sequence = opened.header.identity.sequence;
        if let Some(found) = self.find(sequence, at, need) {
            if let (Access::Map(map), Some(populated)) = (access, self.populated) {
                refresh(&**map, populated, at as usize..at as usize + found.len())?;
            }
            return Ok(found);
        }
        self.next = self.take_next(sequence, at);
        let len = if self.sparse { need } else { self.next.max(need) }.min(limit.saturating_sub(at));
        (self.bytes, self.populated) = match access {
            Access::Map(map) => self.fetch(opened, map, at, len)?,
            Access::Read(via) => (Bytes::from_owner(read(&*opened.file, *via, at, len)?), None),
        };
        (self.sequence, self.start) = (sequence, at);
        Ok(self.bytes.slice(..self.bytes.len().min(need as usize)))
    }

    /// How much to take at a place that is not in the window.
    fn take_next(&mut self, sequence: u64, at: u64) -> u64 {
        let known = self.start..=self.start + self.bytes.len() as u64;
        if self.sequence == sequence && self.start == at {
            return self.next;
        }
        if self.sequence == sequence && known.contains(&at) {
            self.jumped = false;
            return (self.next * 2).clamp(FIRST, MOST);
        }
        // From one frame to another far away: what lies between is of no use.
        if std::mem::replace(&mut self.jumped, true) { 0 } else { FIRST }
    }

    /// Bytes of a mapped file, and when they were populated if they share the map.
    fn fetch(
        &mut self,
        opened: &Opened,
        map: &Arc<dyn Mapping>,
        at: u64,
        len: u64,
    ) -> std::io::Result<(Bytes, Option<Instant>)> {
        let mut probe = vec![0; len.min(COPIED) as usize];
        if opened.file.read_cached(at, &mut probe)?.is_none() {
            self.cold = true;
            return Ok((Bytes::from_owner(read(&*opened.file, Via::Cache, at, len)?), None));
        }
        if len <= COPIED {
            return Ok((probe.into(), None));
        }
        let bytes = map.bytes_checked(at as usize..(at + len) as usize)?;
        Ok((bytes, Some(Instant::now())))
    }

    /// The bytes of a table, good until the next one is read: of what is mapped each look may give something else.
    pub(super) fn table(&mut self, opened: &Opened, at: u64, len: u64) -> std::io::Result<&[u8]> {
        self.scratch.clear();
        self.scratch.shrink_to(MOST as usize);
        self.scratch.resize(len as usize, 0);
        if opened.file.read_cached(at, &mut self.scratch)?.is_none() {
            self.cold = true;
            let len = opened.file.read_at(at, &mut self.scratch)?;
            self.scratch.truncate(len);
        }
        Ok(&self.scratch)
    }

    fn find(&self, sequence: u64, at: u64, need: u64) -> Option<Bytes> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let end = skip.checked_add(usize::try_from(need).ok()?)?;
        (self.sequence == sequence && end <= self.bytes.len()).then(|| self.bytes.slice(skip..end))
    }
}

/// What is populated can be lost again: to whoever shortens the file, at any time, and to memory that runs short, after
/// a while. Both are looked for before the bytes are touched.
pub(super) fn recheck(map: &dyn Mapping, populated: Instant, range: Range<usize>) -> std::io::Result<()> {
    map.check_len(range.end)?;
    refresh(map, populated, range)
}

/// As [`recheck`], where the length has just been looked at.
fn refresh(map: &dyn Mapping, populated: Instant, range: Range<usize>) -> std::io::Result<()> {
    if populated.elapsed() < STALE_AFTER { Ok(()) } else { map.populate(range) }
}

/// Memory that was read into; less of it where the file ends.
#[derive(Debug)]
struct ReadBuf {
    memory: AlignedBuf,
    len: usize,
}

impl AsRef<[u8]> for ReadBuf {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// `len` is bounded by the file's size and the longest frame.
pub(super) fn read(
    file: &dyn DiskFile,
    via: Via,
    offset: u64,
    len: u64,
) -> std::io::Result<impl AsRef<[u8]> + Send + 'static + use<>> {
    let mut memory = AlignedBuf::new(len as usize)?;
    let len = via.read(file, offset, &mut memory)?;
    Ok(ReadBuf { memory, len })
}
