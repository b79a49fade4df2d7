//! Files of the real disk.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{
    Advice, FallocateFlags, FlockOperation, Mode, OFlags, fadvise, fallocate, fdatasync, flock, fstat, fsync,
};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwritev2, retry_on_intr};

use super::aligned::AlignedBuf;
use super::disk::{DiskFile, Mapping};
use super::map::RealMap;
use super::tenancy;

/// How often a held lock is tried again.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// The largest piece of an unaligned read past the cache.
const BOUNCE_LEN: usize = 1 << 20;

/// A file of a [`RealDisk`](super::RealDisk): one descriptor for writes, which carries the lock and is direct where the
/// file system allows, and a buffered one for reads and maps.
#[derive(Debug)]
pub(super) struct RealFile {
    reader: Arc<File>,
    writer: Option<Writer>,
    /// For reads past the cache where there is no writer: opened when first needed, None when refused.
    direct_reader: OnceLock<Option<File>>,
    /// What offsets and lengths of direct I/O are multiples of; 1 without direct I/O.
    align: usize,
    maps: Arc<AtomicUsize>,
    tenancy: Tenancy,
    /// What was dirty when the file was opened for reading is clean.
    synced: AtomicBool,
}

/// What keeps others from writing the file again as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenancy {
    /// The handle counts among the readers.
    Counted,
    /// Nothing does.
    None,
    /// Files of this file system are never written again: there the lock that counts readers would be in the way of
    /// the writer's.
    Network,
}

#[derive(Debug)]
struct Writer {
    file: File,
    locked: AtomicBool,
}

impl RealFile {
    /// A file from its descriptors; `align` is 1 where `writer` is buffered.
    pub(super) fn new(reader: File, writer: Option<File>, align: u32) -> Self {
        if writer.is_some() {
            // Readahead ahead of a writer fills the cache with pages that each direct write must throw out again. Advice
            // only: a refusal changes nothing but speed.
            let _ = fadvise(&reader, 0, None, Advice::Random);
        }
        Self {
            reader: Arc::new(reader),
            writer: writer.map(|file| Writer { file, locked: AtomicBool::new(false) }),
            direct_reader: OnceLock::new(),
            align: align as usize,
            maps: Arc::default(),
            tenancy: Tenancy::None,
            synced: AtomicBool::new(false),
        }
    }

    /// The same on a network file system.
    pub(super) fn on_network(self) -> Self {
        Self { tenancy: Tenancy::Network, ..self }
    }

    /// The same, counted among the readers where that is possible.
    pub(super) fn counted(mut self) -> Self {
        if self.tenancy == Tenancy::None && tenancy::join(&self.reader).is_ok() {
            self.tenancy = Tenancy::Counted;
        }
        self
    }

    /// Tries to take the lock, for writers. True when it is held then.
    pub(super) fn try_lock(&self) -> io::Result<bool> {
        let Some(writer) = &self.writer else { return Ok(false) };
        match flock(&writer.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => writer.locked.store(true, Ordering::Release),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(writer.locked.load(Ordering::Acquire))
    }

    /// Whether nobody holds the lock at this moment.
    fn lock_is_free(&self) -> io::Result<bool> {
        match flock(&*self.reader, FlockOperation::NonBlockingLockShared) {
            Ok(()) => flock(&*self.reader, FlockOperation::Unlock)?,
            Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// What offsets and lengths of its direct I/O are multiples of; 1 without direct I/O.
    pub(super) fn align(&self) -> u32 {
        self.align as u32
    }

    fn writer(&self) -> io::Result<&File> {
        let Some(writer) = &self.writer else {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is open for reading only"));
        };
        if !writer.locked.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another open file holds the lock"));
        }
        Ok(&writer.file)
    }

    fn any_file(&self) -> &File {
        self.writer.as_ref().map_or(&*self.reader, |writer| &writer.file)
    }

    fn direct(&self) -> Option<&File> {
        if self.align == 1 {
            return None;
        }
        match &self.writer {
            Some(writer) => Some(&writer.file),
            None => self.direct_reader.get_or_init(|| reopen_direct(&self.reader)).as_ref(),
        }
    }

    /// The second best: drop the clean pages, then read. Pages that are mapped stay.
    fn read_dropping_cache(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        // Dirty pages would not be dropped. Where nobody writes, once is enough. On the reader's own
        // descriptor: the writer's must still see an error of the write-back when it flushes.
        if self.writer.is_some() || !self.synced.load(Ordering::Acquire) {
            match retry_on_intr(|| fdatasync(&*self.reader)) {
                Ok(()) | Err(Errno::INVAL | Errno::ROFS) => self.synced.store(true, Ordering::Release),
                Err(error) => return Err(error.into()),
            }
        }
        // Whole pages: of those that the range only touches none would be dropped.
        let page = rustix::param::page_size() as u64;
        let from = offset - offset % page;
        let end = offset.checked_add(buf.len() as u64).and_then(|end| end.checked_next_multiple_of(page));
        let len = end.ok_or(io::ErrorKind::InvalidInput)? - from;
        fadvise(&*self.reader, from, NonZeroU64::new(len), Advice::DontNeed)?;
        read_full(&*self.reader, offset, buf)
    }

    fn read_direct(&self, file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let align = self.align.max(512);
        let aligned = |value: usize| value.is_multiple_of(align);
        if aligned(buf.as_ptr() as usize) && aligned(buf.len()) && offset.is_multiple_of(align as u64) {
            return read_direct_aligned(file, offset, buf, align);
        }
        let lead = (offset % align as u64) as usize;
        let want = buf.len().checked_add(lead).ok_or(io::ErrorKind::InvalidInput)?;
        let mut bounce =
            AlignedBuf::new(want.next_multiple_of(align).min(BOUNCE_LEN.next_multiple_of(align)))?;
        let (mut done, mut skip) = (0, lead);
        while done < buf.len() {
            // `offset + done - skip` is a multiple of the alignment in every round.
            let from = offset.checked_add(done as u64).ok_or(io::ErrorKind::InvalidInput)? - skip as u64;
            let len = (buf.len() - done + skip).next_multiple_of(align).min(bounce.len());
            let got = read_direct_aligned(file, from, &mut bounce[..len], align)?;
            let fresh = got.saturating_sub(skip).min(buf.len() - done);
            buf[done..done + fresh].copy_from_slice(&bounce[skip..skip + fresh]);
            done += fresh;
            if got < len {
                break;
            }
            skip = 0;
        }
        Ok(done)
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        file_len(&*self.reader)
    }

    fn links(&self) -> io::Result<u64> {
        // The field's type differs between architectures.
        #[allow(clippy::useless_conversion)]
        Ok(fstat(&*self.reader)?.st_nlink.into())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_full(&*self.reader, offset, buf)
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<()>> {
        let len = buf.len();
        let mut parts = [IoSliceMut::new(buf)];
        match retry_on_intr(|| preadv2(&*self.reader, &mut parts, offset, ReadWriteFlags::NOWAIT)) {
            Ok(read) => Ok((read == len).then_some(())),
            Err(Errno::AGAIN) => Ok(None),
            // A file system that cannot tell.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                Ok((read_full(&*self.reader, offset, buf)? == len).then_some(()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn will_need(&self, offset: u64, len: u64) {
        let _ = fadvise(&*self.reader, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn read_uncached(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self.direct() {
            Some(file) => self.read_direct(file, offset, buf),
            None => self.read_dropping_cache(offset, buf),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8], dsync: bool) -> io::Result<()> {
        let file = self.writer()?;
        let flags = if dsync && self.is_direct() { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        write_full(file, offset, buf, flags)?;
        if dsync && !self.is_direct() {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fdatasync(self.any_file()))?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(self.any_file()))?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let file = self.writer()?;
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if file_len(file)? < len => {
                Ok(retry_on_intr(|| rustix::fs::ftruncate(file, len))?)
            }
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>> {
        if self.tenancy == Tenancy::None {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "nothing keeps the file from being written",
            ));
        }
        Ok(Arc::new(RealMap::new(&self.reader, len, &self.maps)?))
    }

    fn exclude_readers(&self) -> io::Result<()> {
        match self.tenancy {
            Tenancy::Network => Err(io::ErrorKind::Unsupported.into()),
            _ => tenancy::shut(self.writer()?),
        }
    }

    fn admit_readers(&self) -> io::Result<()> {
        tenancy::reopen(self.writer()?)
    }

    fn maps(&self) -> usize {
        self.maps.load(Ordering::Acquire)
    }

    fn lock(&self, wait: Duration) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let free = if self.writer.is_some() { self.try_lock()? } else { self.lock_is_free()? };
            if free {
                return Ok(());
            }
            let left = wait.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "the file's lock is held"));
            }
            std::thread::sleep(left.min(LOCK_POLL));
        }
    }

    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        self.writer().ok().map(AsFd::as_fd)
    }

    fn is_direct(&self) -> bool {
        self.align != 1 && self.writer.is_some()
    }
}

/// The length of an open file.
pub(super) fn file_len(file: impl AsFd) -> io::Result<u64> {
    let len = fstat(file)?.st_size;
    u64::try_from(len).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Reads until `buf` is full or the file ends.
pub(super) fn read_full(file: impl AsFd, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let at = offset.checked_add(done as u64).ok_or(io::ErrorKind::InvalidInput)?;
        match retry_on_intr(|| pread(&file, &mut buf[done..], at))? {
            0 => break,
            got => done += got,
        }
    }
    Ok(done)
}

/// As [`read_full`], for direct descriptors: a length that is no multiple of `align` comes at the end of the file only,
/// and reading on from there would be refused.
fn read_direct_aligned(file: &File, offset: u64, buf: &mut [u8], align: usize) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let at = offset.checked_add(done as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let got = retry_on_intr(|| pread(file, &mut buf[done..], at))?;
        done += got;
        if got == 0 || !got.is_multiple_of(align) {
            break;
        }
    }
    Ok(done)
}

fn write_full(file: &File, offset: u64, buf: &[u8], flags: ReadWriteFlags) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        let at = offset.checked_add(done as u64).ok_or(io::ErrorKind::InvalidInput)?;
        match retry_on_intr(|| pwritev2(file, &[IoSlice::new(&buf[done..])], at, flags))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            put => done += put,
        }
    }
    Ok(())
}

/// A direct descriptor of a file that is already open. By way of /proc, which finds it whatever its name is now.
fn reopen_direct(file: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}
