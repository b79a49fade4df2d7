//! A bare file, written as the log writes: its blocks were written before, writes pass the page cache and are durable.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};

use super::group::Sink;

/// What direct writes are aligned to, in memory and in the file.
pub const BLOCK: usize = 4096;
const CHUNK: usize = 1 << 20;

/// Bytes in whole blocks that begin at one.
#[derive(Debug)]
pub struct Blocks {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Blocks {
    /// At least so many bytes, zeros.
    pub fn new(bytes: usize) -> Self {
        let len = bytes.next_multiple_of(BLOCK);
        let memory = vec![0_u8; len + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Self { memory, start, len }
    }

    /// Bytes that fit.
    pub fn room(&self) -> usize {
        self.len
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The bytes, to be filled.
    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// A file all of whose blocks were written before, and whose writes are durable when they return.
#[derive(Debug)]
pub struct Device {
    file: File,
    len: u64,
    direct: bool,
}

impl Device {
    /// Makes the file, writes zeros over all of it and flushes them.
    pub fn prepare(path: &Path, bytes: u64) -> io::Result<Self> {
        let len = bytes.next_multiple_of(CHUNK as u64);
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .custom_flags(flags.bits().cast_signed());
            options.open(path)
        };
        let (file, direct) = match open(OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                (open(OFlags::empty())?, false)
            }
            opened => (opened?, true),
        };
        let zeros = Blocks::new(CHUNK);
        for at in (0..len).step_by(CHUNK) {
            file.write_all_at(zeros.get(), at)?;
        }
        file.sync_all()?;
        Ok(Self { file, len, direct })
    }

    /// Whether writes pass the page cache by: not where the file system refuses that.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The way that writes go, so many at once.
    pub fn way(&self, depth: Option<usize>) -> String {
        let way = if self.direct { "pwritev2 direct" } else { "pwritev2 cached" };
        depth.map_or_else(|| way.to_owned(), |depth| format!("{way}, depth {depth}"))
    }

    /// Where a write of so many bytes goes that would best go to `at`, and where it ends. The file is a ring.
    fn place(&self, at: u64, bytes: usize) -> (u64, u64) {
        let at = if at + bytes as u64 > self.len { 0 } else { at };
        (at, at + bytes as u64)
    }

    /// Writes whole blocks, durably.
    fn write(&self, blocks: &[u8], at: u64) -> io::Result<()> {
        let written = pwritev2(&self.file, &[IoSlice::new(blocks)], at, ReadWriteFlags::DSYNC)?;
        if written == blocks.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{written} bytes written of {}", blocks.len())))
        }
    }
}

/// A [`Device`] that is written from its start to its end, and then anew.
#[derive(Debug)]
pub struct Ring {
    device: Arc<Device>,
    at: Mutex<u64>,
}

impl Ring {
    /// From the start of the device.
    pub fn new(device: Arc<Device>) -> Self {
        Self { device, at: Mutex::new(0) }
    }
}

impl Sink for Ring {
    fn write(&self, buffer: &Blocks, bytes: usize) -> io::Result<()> {
        let bytes = bytes.next_multiple_of(BLOCK);
        let at = {
            let mut next = self.at.lock().unwrap_or_else(PoisonError::into_inner);
            let (at, end) = self.device.place(*next, bytes);
            *next = end;
            at
        };
        self.device.write(&buffer.get()[..bytes], at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_ring_of_whole_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let device = Device::prepare(&path, 1).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), CHUNK as u64);
        let mut blocks = Blocks::new(5000);
        assert_eq!(blocks.room(), 2 * BLOCK);
        blocks.get_mut()[..7].copy_from_slice(b"payload");
        let last = (CHUNK - 2 * BLOCK) as u64;
        assert_eq!(device.place(last, blocks.room()), (last, CHUNK as u64));
        assert_eq!(device.place(last + 1, blocks.room()), (0, blocks.room() as u64));
        device.write(blocks.get(), last).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[last as usize..], *blocks.get());
        assert!(bytes[..last as usize].iter().all(|byte| *byte == 0));
    }
}
