//! Tests of the real disk, the maps, the staging buffers and both queues.

mod files;
mod frame_buf;
#[cfg(feature = "loom")]
mod frame_buf_model;
mod maps;
mod processes;
mod queues;
mod ring_only;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::ring::RingQueue;
use super::*;

/// The block that the tests write.
const BLOCK: usize = 4096;

const OPTIONS: DirOptions = DirOptions { create: true, allow_network_fs: false, direct: true, lock: true };

/// A directory of its own under `base`, gone with the handle.
struct Scratch {
    disk: Arc<RealDisk>,
    root: TempDir,
}

impl Scratch {
    fn new(direct: bool) -> Self {
        Self::under(&std::env::temp_dir(), direct)
    }

    fn under(base: &Path, direct: bool) -> Self {
        let root = TempDir::new_in(base).unwrap();
        let disk = RealDisk::open(&root.path().join("log"), DirOptions { direct, ..OPTIONS }).unwrap();
        Self { disk: Arc::new(disk), root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("log").join(name)
    }
}

/// One directory for each combination of medium and mode: the temporary directory's file system, and memory.
fn every_disk() -> Vec<Scratch> {
    let memory = Path::new("/dev/shm");
    let mut all = vec![Scratch::new(true), Scratch::new(false)];
    if memory.is_dir() {
        all.extend([Scratch::under(memory, true), Scratch::under(memory, false)]);
    }
    all
}

/// A ring, where the kernel lets this process have one: containers and administrators may forbid it, and then there is
/// nothing to test.
fn ring_queue(depth: u32, buffers: &[Arc<FrameBuf>], bell: &Bell) -> Option<RingQueue> {
    match RingQueue::new(depth, buffers, bell.clone()) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            None
        }
        queue => Some(queue.unwrap()),
    }
}

/// The backends that can run here.
fn backends() -> Vec<Backend> {
    let ring = ring_queue(1, &[], &Bell::new().unwrap());
    ring.map(|_| Backend::Ring).into_iter().chain([Backend::Std]).collect()
}

/// Aligned blocks, each filled with bytes that its seed and place give.
fn pattern(seed: u64, len: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::new(len).unwrap();
    fill(seed, &mut buf);
    buf
}

fn fill(seed: u64, buf: &mut [u8]) {
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = (seed.wrapping_mul(31) as usize + at * 7 + at / BLOCK) as u8;
    }
}

/// A descriptor of any kind in the place of a file.
struct FdFile(OwnedFd);

impl DiskFile for FdFile {
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn links(&self) -> io::Result<u64> {
        Ok(1)
    }

    fn read_at(&self, _: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buf)?)
    }

    fn read_uncached(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buf)
    }

    fn write_at(&self, _: u64, mut buf: &[u8], _: bool) -> io::Result<()> {
        while !buf.is_empty() {
            let put = rustix::io::write(&self.0, buf)?;
            buf = &buf[put..];
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.0)?)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn map(&self, _: u64) -> io::Result<Arc<dyn Mapping>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn exclude_readers(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn admit_readers(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn maps(&self) -> usize {
        0
    }

    fn lock(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn is_direct(&self) -> bool {
        false
    }
}

impl fmt::Debug for FdFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FdFile").field(&self.0).finish()
    }
}
