//! A disk whose page cache is bad where the medium is good.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::io::{Access, Disk, DiskFile, Listing, Mapping};

/// Every file read through the cache has its byte at `place` flipped; nothing can be mapped.
#[derive(Debug)]
pub(super) struct StaleDisk {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) place: u64,
    /// Reads that got the bad byte.
    pub(super) hits: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct StaleFile {
    file: Arc<dyn DiskFile>,
    place: u64,
    hits: Arc<AtomicUsize>,
}

impl StaleDisk {
    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(StaleFile { file, place: self.place, hits: Arc::clone(&self.hits) })
    }
}

impl Disk for StaleDisk {
    fn path(&self) -> &Path {
        self.disk.path()
    }
    fn list(&self) -> io::Result<Vec<Listing>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.wrap(file))
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name, access).map(|file| self.wrap(file))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn unlink(&self, name: &str) -> io::Result<()> {
        self.disk.unlink(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
    fn dio_align(&self) -> io::Result<u32> {
        self.disk.dio_align()
    }
}

impl DiskFile for StaleFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn links(&self) -> io::Result<u64> {
        self.file.links()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(offset, buf)?;
        let skip = self.place.checked_sub(offset).and_then(|skip| usize::try_from(skip).ok());
        if let Some(byte) = skip.and_then(|skip| buf[..len].get_mut(skip)) {
            *byte ^= 1;
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(len)
    }
    fn read_uncached(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_uncached(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8], dsync: bool) -> io::Result<()> {
        self.file.write_at(offset, buf, dsync)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn map(&self, _len: u64) -> io::Result<Arc<dyn Mapping>> {
        Err(io::ErrorKind::OutOfMemory.into())
    }
    fn exclude_readers(&self) -> io::Result<()> {
        self.file.exclude_readers()
    }
    fn admit_readers(&self) -> io::Result<()> {
        self.file.admit_readers()
    }
    fn maps(&self) -> usize {
        self.file.maps()
    }
    fn lock(&self, wait: Duration) -> io::Result<()> {
        self.file.lock(wait)
    }
    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.write_fd()
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}
