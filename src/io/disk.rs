//! What the engine asks of a directory and its files. Object safe: the real disk and the simulated one both stand here.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link, never followed.
    Symlink,
    /// Anything else: devices, pipes, sockets.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Its name, which may be any bytes.
    pub(crate) name: OsString,
    /// What it is.
    pub(crate) kind: FileKind,
    /// Its length in bytes.
    pub(crate) len: u64,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading and mapping.
    Read,
    /// Reading and writing, under the file's lock.
    Write,
}

/// A directory of files.
pub(crate) trait Disk: Send + Sync + Debug {
    /// Where the directory is, for messages.
    fn path(&self) -> &Path;

    /// All entries, in no particular order.
    fn list(&self) -> io::Result<Vec<Listing>>;

    /// Makes a new file, readable and writable by its owner alone, open for writing and locked. `AlreadyExists` when
    /// the name is taken. The name is durable after [`sync`](Self::sync).
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a regular file; symbolic links and other kinds are refused.
    ///
    /// [`Access::Write`] tries to take the file's lock. Where another open file holds it, writing is refused with
    /// `WouldBlock` until [`DiskFile::lock`] has succeeded.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// A new file without a name, gone when it is closed. For probes.
    fn scratch(&self) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Renames a file, never over an existing one (`AlreadyExists`).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name.
    fn unlink(&self, name: &str) -> io::Result<()>;

    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;

    /// The alignment that writes need, of offsets and lengths; 1 where any will do.
    fn dio_align(&self) -> io::Result<u32>;

    /// Fills `buf` with random bytes.
    fn random(&self, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let got = retry_on_intr(|| getrandom(&mut *buf, GetRandomFlags::empty()))?;
            buf = &mut buf[got..];
        }
        Ok(())
    }
}

/// An open file.
pub(crate) trait DiskFile: Send + Sync + Debug {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// How many names the file has.
    fn links(&self) -> io::Result<u64>;

    /// Reads through the page cache. Fewer bytes than asked for only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// As [`read_at`](Self::read_at), if all of it is in the page cache: `None` where the device would be waited for,
    /// or where the file ends before.
    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<()>> {
        Ok((self.read_at(offset, buf)? == buf.len()).then_some(()))
    }

    /// Has the device bring a range into the page cache, and does not wait. A hint: nothing comes of an error.
    fn will_need(&self, _offset: u64, _len: u64) {}

    /// As [`read_at`](Self::read_at), but what the device holds and not what the page cache does, as far as the file
    /// system allows. Any alignment.
    fn read_uncached(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `buf`. With direct I/O memory, offset and length must be aligned. With `dsync` the bytes are
    /// durable on return.
    fn write_at(&self, offset: u64, buf: &[u8], dsync: bool) -> io::Result<()>;

    /// Makes what was written durable, and of the metadata what reading it back needs.
    fn sync(&self) -> io::Result<()>;

    /// Makes data and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Sets room aside up to `len` bytes and grows the file to at least that. Where the file system cannot promise the
    /// room, the file only grows. After an error some of the room may have been taken.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Maps the first `len` bytes for reading. `UnexpectedEof` when the file is shorter.
    ///
    /// Only for files that nobody writes or shortens any more, opened for reading: see
    /// [`exclude_readers`](Self::exclude_readers).
    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>>;

    /// Shuts out whoever would open the file for reading, in this process or another, until
    /// [`admit_readers`](Self::admit_readers) or until this handle is gone. An error where somebody has it open so, or
    /// where that cannot be told. For a file that is to be written again, under a name that nobody opens for reading.
    fn exclude_readers(&self) -> io::Result<()>;

    /// Lets readers in again.
    fn admit_readers(&self) -> io::Result<()>;

    /// How many maps of this open file live, counting those that only handed-out bytes keep.
    fn maps(&self) -> usize;

    /// Takes the lock, trying until `wait` is over, then `WouldBlock`: a write that a killed process left in flight
    /// holds the lock until it is done. Opened for reading, it waits until nobody holds the lock, and takes none.
    fn lock(&self, wait: Duration) -> io::Result<()>;

    /// The descriptor for writes of the ring: none unless open for writing and locked.
    fn write_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether writes pass the page cache by.
    fn is_direct(&self) -> bool;

    /// The file as the simulated disk knows it, if it is one of its.
    #[cfg(any(test, feature = "sim"))]
    fn simulated(&self) -> Option<&super::sim::SimFile> {
        None
    }
}

/// A file mapped for reading.
///
/// Before every access the file's length is checked and the pages are faulted in, so that a truncated file or a bad
/// sector is an error here and not a signal. Beyond that moment mapped memory can offer no such guarantee.
pub(crate) trait Mapping: Send + Sync + Debug {
    /// The length of the map.
    fn len(&self) -> usize;

    /// The bytes of `range`, without a copy. They keep the map alive.
    fn bytes(&self, range: Range<usize>) -> io::Result<Bytes>;

    /// Shows the bytes of `range` to `look`.
    fn with(&self, range: Range<usize>, look: &mut dyn FnMut(&[u8])) -> io::Result<()>;

    /// As [`bytes`](Self::bytes), for whoever has just seen by [`check_len`](Self::check_len) that the file reaches to
    /// their end: one look at the length will do for several ranges. Whole pages behind the file's end are an error all
    /// the same.
    fn bytes_checked(&self, range: Range<usize>) -> io::Result<Bytes>;

    /// Whether the file still reaches to `end`: an error where it was shortened.
    fn check_len(&self, end: usize) -> io::Result<()>;

    /// Checks the length and faults the pages of `range` in.
    fn populate(&self, range: Range<usize>) -> io::Result<()>;
}
