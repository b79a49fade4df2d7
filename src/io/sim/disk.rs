//! The simulated disk as the engine sees it: a directory and its files.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::fault::FaultKind;
use super::pages::SECTOR;
use super::snapshot::Snapshot;
use super::world::{Ino, World, eio};
use crate::io::disk::{Access, Disk, DiskFile, FileKind, Listing, Mapping};

/// A disk in memory that keeps, loses and breaks things as its seed has it. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    /// Writes pass the page cache by.
    direct: bool,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

impl SimDisk {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self::of(World::new(seed))
    }

    pub(super) fn of(world: World) -> Self {
        Self { world: Arc::new(Mutex::new(world)), direct: true }
    }

    /// The same disk through the page cache (false) or past it (true, which it is at first).
    pub fn with_direct(&self, direct: bool) -> Self {
        Self { direct, ..self.clone() }
    }

    /// Whether writes pass the page cache by.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// Draws from another seed from now on.
    pub fn reseed(&self, seed: u64) {
        self.world().rng = fastrand::Rng::with_seed(seed);
    }

    /// Takes a snapshot in one of so many moments (0: in none), until there are `most`.
    pub fn sample(&self, every: u32, most: usize) {
        self.world().sampler.set(every, most);
    }

    /// What snapshots carry from now on.
    pub fn note(&self, note: u64) {
        self.world().sampler.note = note;
    }

    /// The snapshots taken since the last call.
    pub fn take_snapshots(&self) -> Vec<Snapshot> {
        self.world().sampler.take()
    }

    /// This very moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.world())
    }

    /// The process is killed: its files are closed, and what it has in flight lands or not.
    pub fn kill(&self) {
        self.world().kill();
    }

    /// After `after` more operations that could have this fault, one has it.
    pub fn plan_fault(&self, kind: FaultKind, after: u32) {
        self.world().faults.plan(kind, after);
    }

    /// No planned fault comes any more.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
    }

    /// How often each fault came.
    pub fn faults(&self) -> Vec<(FaultKind, u64)> {
        let fired = self.world().faults.fired;
        FaultKind::ALL.into_iter().zip(fired).collect()
    }

    /// Bytes that all files may take together.
    pub fn set_capacity(&self, bytes: u64) {
        self.world().capacity = bytes;
    }

    /// Operations begun.
    pub fn ops(&self) -> u64 {
        self.world().ops
    }

    /// Names and lengths, sorted.
    pub fn files(&self) -> Vec<(String, u64)> {
        let world = self.world();
        world.live.iter().map(|(name, ino)| (name.clone(), world.inodes[*ino].live.len())).collect()
    }

    /// What the device holds of a file.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.world();
        let live = &world.inodes[*world.live.get(name)?].live;
        let mut bytes = vec![0; live.len() as usize];
        live.read(0, &mut bytes);
        Some(bytes)
    }

    /// Damage: turns one bit of a file over, durably.
    pub fn flip(&self, name: &str, bit: u64) {
        self.edit(name, |pages| pages.flip(bit));
    }

    /// Damage: puts bytes into a file, durably.
    pub fn put(&self, name: &str, offset: u64, bytes: &[u8]) {
        self.edit(name, |pages| pages.write(offset, bytes));
    }

    /// Damage: cuts a file short, durably.
    pub fn truncate(&self, name: &str, len: u64) {
        self.edit(name, |pages| pages.truncate(len));
    }

    /// Damage: a sector cannot be read until it is written again.
    pub fn spoil(&self, name: &str, sector: u64) {
        let mut world = self.world();
        if let Ok(ino) = world.find(name) {
            world.inodes[ino].bad.insert(sector);
        }
    }

    /// Damage: a file is gone, durably.
    pub fn remove(&self, name: &str) {
        let mut world = self.world();
        world.live.remove(name);
        world.stable.remove(name);
    }

    fn edit(&self, name: &str, edit: impl FnMut(&mut super::pages::Pages)) {
        let mut world = self.world();
        if let Ok(ino) = world.find(name) {
            world.edit(ino, edit);
        }
    }

    fn handle(&self, world: &mut World, ino: Ino, write: bool) -> Arc<dyn DiskFile> {
        let id = world.id();
        let inode = &mut world.inodes[ino];
        inode.handles += 1;
        if write {
            inode.lock.get_or_insert(id);
        }
        Arc::new(SimFile { disk: self.clone(), process: world.process, ino, id, write })
    }
}

impl Disk for SimDisk {
    fn path(&self) -> &Path {
        Path::new("/simulated")
    }

    fn list(&self) -> io::Result<Vec<Listing>> {
        let world = self.world();
        let listing = |(name, ino): (&String, &Ino)| Listing {
            name: OsString::from(name),
            kind: FileKind::Regular,
            len: world.inodes[*ino].live.len(),
        };
        Ok(world.live.iter().map(listing).collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        let ino = world.create(name)?;
        Ok(self.handle(&mut world, ino, true))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        let ino = world.find(name)?;
        Ok(self.handle(&mut world, ino, access == Access::Write))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.world().rename(from, to)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.world().unlink(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.world().sync_names()
    }

    fn dio_align(&self) -> io::Result<u32> {
        Ok(if self.direct { SECTOR as u32 } else { 1 })
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.world().rng.fill(buf);
        Ok(())
    }
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub(crate) struct SimFile {
    disk: SimDisk,
    process: u64,
    pub(super) ino: Ino,
    id: u64,
    write: bool,
}

impl SimFile {
    /// The disk, as long as the process that opened the file lives.
    pub(super) fn world(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.disk.world();
        if world.process == self.process { Ok(world) } else { Err(io::ErrorKind::Other.into()) }
    }

    /// The same, for writing: under the file's lock.
    pub(super) fn writer(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.world()?;
        if world.inodes[self.ino].lock == Some(self.id) {
            Ok(world)
        } else if self.write {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    fn flush(&self) -> io::Result<()> {
        let mut world = self.world()?;
        let covered = world.begin_flush();
        world.end_flush(self.ino, covered, self.disk.direct)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let Ok(mut world) = self.world() else { return };
        let inode = &mut world.inodes[self.ino];
        inode.handles -= 1;
        inode.lock = inode.lock.filter(|holder| *holder != self.id);
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world()?.inodes[self.ino].live.len())
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.world()?.live.values().filter(|ino| **ino == self.ino).count() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.world()?.read(self.ino, offset, buf, true)
    }

    // A quarter of the pages is never in the cache, so that every way of reading is gone.
    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<()>> {
        if offset / 4096 % 4 == 3 {
            return Ok(None);
        }
        Ok((self.read_at(offset, buf)? == buf.len()).then_some(()))
    }

    fn read_uncached(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.world()?.read(self.ino, offset, buf, false)
    }

    fn write_at(&self, offset: u64, buf: &[u8], dsync: bool) -> io::Result<()> {
        let direct = self.disk.direct;
        self.writer()?.write(self.ino, offset, buf, dsync && direct)?;
        if dsync && !direct { self.flush() } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.flush()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.flush()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.writer()?.allocate(self.ino, len)
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>> {
        let mut world = self.world()?;
        let inode = &mut world.inodes[self.ino];
        if inode.live.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        inode.maps += 1;
        inode.handles += 1;
        drop(world);
        let file =
            Self { disk: self.disk.clone(), process: self.process, ino: self.ino, id: 0, write: false };
        Ok(Arc::new(SimMap { file, len: len as usize }))
    }

    // What its maps hand out are copies.
    fn exclude_readers(&self) -> io::Result<()> {
        self.writer().map(drop)
    }

    fn admit_readers(&self) -> io::Result<()> {
        self.writer().map(drop)
    }

    fn maps(&self) -> usize {
        self.world().map_or(0, |world| world.inodes[self.ino].maps)
    }

    fn lock(&self, _wait: Duration) -> io::Result<()> {
        let mut world = self.world()?;
        let lock = &mut world.inodes[self.ino].lock;
        let free = if self.write { *lock.get_or_insert(self.id) == self.id } else { lock.is_none() };
        if free { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_direct(&self) -> bool {
        self.disk.direct && self.write
    }

    fn simulated(&self) -> Option<&SimFile> {
        Some(self)
    }
}

/// A map of a [`SimFile`]: nobody writes the file any more, so its bytes are those of any later moment.
#[derive(Debug)]
struct SimMap {
    file: SimFile,
    len: usize,
}

impl Mapping for SimMap {
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self, range: Range<usize>) -> io::Result<Bytes> {
        if range.start > range.end || range.end > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.check_len(range.end)?;
        let mut bytes = vec![0; range.len()];
        let mut world = self.file.world()?;
        if world.faults.strikes(FaultKind::Map) {
            return Err(eio());
        }
        world.read(self.file.ino, range.start as u64, &mut bytes, true)?;
        Ok(bytes.into())
    }

    // Stricter than a real map, where the last page of a shortened file can still be reached.
    fn bytes_checked(&self, range: Range<usize>) -> io::Result<Bytes> {
        self.bytes(range)
    }

    fn with(&self, range: Range<usize>, look: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        look(&self.bytes(range)?);
        Ok(())
    }

    fn check_len(&self, end: usize) -> io::Result<()> {
        if self.file.len()? < end as u64 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.bytes(range).map(drop)
    }
}

impl Drop for SimMap {
    fn drop(&mut self) {
        if let Ok(mut world) = self.file.world() {
            world.inodes[self.file.ino].maps -= 1;
        }
    }
}
