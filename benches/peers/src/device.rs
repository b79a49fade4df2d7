//! A bare file, written as a log at its best would be: its blocks were written before, writes pass the page cache and
//! are durable when they return.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};

/// What direct writes are aligned to, in memory and in the file.
pub(crate) const BLOCK: usize = 4096;
const CHUNK: usize = 1 << 20;

/// Memory that begins at a block and holds whole ones.
#[derive(Debug)]
pub(crate) struct Blocks {
    memory: Vec<u8>,
    start: usize,
}

impl Blocks {
    pub(crate) fn new(bytes: usize) -> Self {
        let memory = vec![0_u8; bytes.next_multiple_of(BLOCK) + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Self { memory, start }
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.room()]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        let room = self.room();
        &mut self.memory[self.start..self.start + room]
    }

    pub(crate) fn room(&self) -> usize {
        self.memory.len() - BLOCK
    }
}

#[derive(Debug)]
pub(crate) struct Device {
    file: File,
    len: u64,
}

impl Device {
    /// Makes the file, writes zeros over all of it and flushes them.
    pub(crate) fn prepare(path: &Path, bytes: u64) -> io::Result<Self> {
        let len = bytes.next_multiple_of(CHUNK as u64);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path)?;
        let zeros = Blocks::new(CHUNK);
        for at in (0..len).step_by(CHUNK) {
            file.write_all_at(zeros.get(), at)?;
        }
        file.sync_all()?;
        Ok(Self { file, len })
    }

    /// Where a write of so many bytes goes that would best go to `at`, and where it ends: the file is a ring.
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
