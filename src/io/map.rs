//! Files mapped for reading.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::io::Errno;

use super::disk::Mapping;
use super::file::{file_len, read_full};

/// How much one read takes where pages cannot be populated.
const PROBE_LEN: usize = 64 << 10;

/// The map of a [`RealFile`](super::file::RealFile).
#[derive(Debug)]
pub(super) struct RealMap {
    map: Arc<Shared>,
    whole: Bytes,
}

/// The mapped memory, kept alive by the map and by all bytes handed out.
#[derive(Debug)]
struct Shared {
    raw: MmapRaw,
    file: Arc<File>,
    alive: Arc<AtomicUsize>,
}

impl RealMap {
    /// Maps the first `len` bytes of `file`; `alive` counts maps from here to the end of the last handed-out bytes.
    pub(super) fn new(file: &Arc<File>, len: u64, alive: &Arc<AtomicUsize>) -> io::Result<Self> {
        check_len(file, len)?;
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let raw = MmapOptions::new().len(size).map_raw_read_only(&**file)?;
        alive.fetch_add(1, Ordering::Relaxed);
        let map = Arc::new(Shared { raw, file: Arc::clone(file), alive: Arc::clone(alive) });
        let whole = Bytes::from_owner(Owner(Arc::clone(&map)));
        Ok(Self { map, whole })
    }

    fn check_range(&self, range: &Range<usize>) -> io::Result<()> {
        if range.start <= range.end && range.end <= self.len() {
            return Ok(());
        }
        let what = format!("range {range:?} of a map of {} bytes", self.len());
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    // Anew each time: pages may have been evicted since, and a fault on them can fail.
    fn fault_in(&self, range: &Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.map
            .raw
            .advise_range(Advice::PopulateRead, range.start, range.len())
            .or_else(|error| self.explain(range, &error))
    }

    /// Reads the range instead, which gives the cause of a failed population, or stands in for it on a kernel that has
    /// none: afterwards the pages are in the cache.
    pub(super) fn explain(&self, range: &Range<usize>, error: &io::Error) -> io::Result<()> {
        let mut scratch = vec![0; range.len().min(PROBE_LEN)];
        let mut at = range.start;
        while at < range.end {
            let part = &mut scratch[..(range.end - at).min(PROBE_LEN)];
            if read_full(&*self.map.file, at as u64, part)? < part.len() {
                return Err(too_short(range.end as u64, file_len(&*self.map.file)?));
            }
            at += part.len();
        }
        match Errno::from_io_error(error) {
            Some(Errno::INVAL | Errno::NOSYS) => Ok(()),
            // What could not be faulted in could be read: let the kernel try once more, then believe it.
            _ => self.map.raw.advise_range(Advice::PopulateRead, range.start, range.len()),
        }
    }
}

impl Mapping for RealMap {
    fn len(&self) -> usize {
        self.map.raw.len()
    }

    fn bytes(&self, range: Range<usize>) -> io::Result<Bytes> {
        self.populate(range.clone())?;
        Ok(self.whole.slice(range))
    }

    fn with(&self, range: Range<usize>, look: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.populate(range.clone())?;
        look(&self.whole[range]);
        Ok(())
    }

    fn bytes_checked(&self, range: Range<usize>) -> io::Result<Bytes> {
        self.check_range(&range)?;
        self.fault_in(&range)?;
        Ok(self.whole.slice(range))
    }

    fn check_len(&self, end: usize) -> io::Result<()> {
        check_len(&self.map.file, end as u64)
    }

    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.check_range(&range)?;
        check_len(&self.map.file, range.end as u64)?;
        self.fault_in(&range)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Release);
    }
}

/// Lets [`Bytes`] share the map.
struct Owner(Arc<Shared>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the map is `len` bytes long, readable, and lives as long as the Arc. The slice of the whole is only
        // taken apart; bytes that are handed out lie below the segment's end and do not change. Nothing is written there
        // as long as the file is this segment's, in a directory that is locked against other writers; but that a later
        // opening may write a frame again, with the bytes that it has. And it becomes no other segment's, in any opening,
        // while its description is open, as it is here: it counts among the readers (`DiskFile::exclude_readers`), or
        // lies where files are never used again. Every range is populated before its bytes are handed out.
        unsafe { std::slice::from_raw_parts(self.0.raw.as_ptr(), self.0.raw.len()) }
    }
}

fn check_len(file: &File, need: u64) -> io::Result<()> {
    let len = file_len(file)?;
    if need > len { Err(too_short(need, len)) } else { Ok(()) }
}

fn too_short(need: u64, len: u64) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file has {len} bytes where {need} are needed"))
}
