//! A bare file, written as the log writes: its blocks were written before, writes pass the page cache and are durable.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};

/// What direct writes are aligned to, in memory and in the file.
pub(crate) const BLOCK: usize = 4096;
const CHUNK: usize = 1 << 20;

/// Bytes in whole blocks that begin at one.
#[derive(Debug)]
pub(crate) struct Blocks {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Blocks {
    /// At least so many bytes, zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        let len = bytes.next_multiple_of(BLOCK);
        let memory = vec![0_u8; len + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Self { memory, start, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[derive(Debug)]
pub(crate) struct Device {
    file: File,
    len: u64,
    direct: bool,
}

impl Device {
    /// Makes the file, writes zeros over all of it and flushes them.
    pub(crate) fn prepare(path: &Path, bytes: u64) -> io::Result<Self> {
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

    /// The way that writes go, so many at once.
    pub(crate) fn way(&self, depth: Option<usize>) -> String {
        let way = if self.direct { "pwritev2 direct" } else { "pwritev2 cached" };
        depth.map_or_else(|| way.to_owned(), |depth| format!("{way}, depth {depth}"))
    }

    /// Where a write of so many bytes goes that would best go to `at`, and where it ends. The file is a ring.
    pub(crate) fn place(&self, at: u64, bytes: usize) -> (u64, u64) {
        let at = if at + bytes as u64 > self.len { 0 } else { at };
        (at, at + bytes as u64)
    }

    /// Writes whole blocks, durably.
    pub(crate) fn write(&self, blocks: &[u8], at: u64) -> io::Result<()> {
        let written = pwritev2(&self.file, &[IoSlice::new(blocks)], at, ReadWriteFlags::DSYNC)?;
        if written == blocks.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{written} bytes written of {}", blocks.len())))
        }
    }
}

/// A record as the bare writers store it: a header of 16 bytes, and the payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) id: u64,
    pub(crate) crc: u32,
    pub(crate) payload: &'a [u8],
}

pub(crate) const HEADER: usize = 16;

impl<'a> Record<'a> {
    pub(crate) fn new(id: u64, payload: &'a [u8]) -> Self {
        Self { id, crc: crc32fast::hash(payload), payload }
    }

    /// Copies it there, and gives its end.
    pub(crate) fn put(&self, into: &mut [u8], at: usize) -> usize {
        let (head, end) = (at + HEADER, at + HEADER + self.payload.len());
        into[at..at + 4].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        into[at + 4..at + 8].copy_from_slice(&self.crc.to_le_bytes());
        into[at + 8..head].copy_from_slice(&self.id.to_le_bytes());
        into[head..end].copy_from_slice(self.payload);
        end
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
        assert_eq!(blocks.len(), 2 * BLOCK);
        let end = Record::new(7, b"payload").put(blocks.get_mut(), 0);
        assert_eq!(end, HEADER + 7);
        let last = (CHUNK - 2 * BLOCK) as u64;
        assert_eq!(device.place(last, blocks.len()), (last, CHUNK as u64));
        assert_eq!(device.place(last + 1, blocks.len()), (0, blocks.len() as u64));
        device.write(blocks.get(), last).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[last as usize..], *blocks.get());
        assert!(bytes[..last as usize].iter().all(|byte| *byte == 0));
    }
}
