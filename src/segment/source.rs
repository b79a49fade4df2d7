//! A segment's bytes for those who go over its frames.

use std::io;
use std::sync::Arc;

use tidelog_format::{Fault, Source, StreamId};

use super::Error;
use crate::io::DiskFile;

/// Least and most bytes of one read, unless more are asked for.
const WINDOW_MIN: usize = 4 << 10;
const WINDOW_MAX: usize = 256 << 10;

/// Where bytes of a file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// The page cache.
    Cache,
    /// The device, past the cache.
    Device,
}

impl Via {
    /// Fills `buf`; fewer bytes only where the file ends.
    pub(super) fn read(self, file: &dyn DiskFile, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Cache => file.read_at(offset, buf),
            Self::Device => file.read_uncached(offset, buf),
        }
    }
}

/// Why bytes could not be had.
#[derive(Debug)]
pub(super) enum Flaw {
    Io(io::Error),
    /// They are not what was written. With the stream whose record is affected, where that is known.
    Fault(Fault, Option<StreamId>),
}

impl Flaw {
    pub(super) fn into_error(self, path: &std::path::Path) -> Error {
        match self {
            Self::Io(error) => Error::io("read", path, error),
            Self::Fault(fault, stream) => Error::damage(path, fault, stream),
        }
    }
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Fault> for Flaw {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault, None)
    }
}

/// Damage is only believed when the device shows it too: a cache can be bad where the medium is good.
pub(super) fn with_second_look<T>(mut read: impl FnMut(Via) -> Result<T, Flaw>) -> Result<T, Flaw> {
    read(Via::Cache).or_else(|_| read(Via::Device))
}

/// Reads ahead while the reads are near each other, and little where they jump over large payloads.
#[derive(Debug)]
pub(crate) struct FileSource {
    file: Arc<dyn DiskFile>,
    via: Via,
    /// The file's length when the source was made; nothing beyond it is asked for.
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    /// So much of the buffer was read; it only grows, so that no read has to clear it first.
    filled: usize,
    window: usize,
}

impl FileSource {
    /// Reads through the page cache.
    pub(crate) fn cached(file: &Arc<dyn DiskFile>) -> io::Result<Self> {
        Self::new(file, Via::Cache)
    }

    /// Reads what the device holds.
    pub(crate) fn uncached(file: &Arc<dyn DiskFile>) -> io::Result<Self> {
        Self::new(file, Via::Device)
    }

    pub(super) fn new(file: &Arc<dyn DiskFile>, via: Via) -> io::Result<Self> {
        let file = Arc::clone(file);
        Ok(Self { len: file.len()?, file, via, start: 0, bytes: Vec::new(), filled: 0, window: WINDOW_MIN })
    }

    fn end(&self) -> u64 {
        self.start + self.filled as u64
    }

    /// Where in the buffer the range starts, if all of it is there.
    fn buffered(&self, offset: u64, len: usize) -> Option<usize> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (skip.checked_add(len)? <= self.filled).then_some(skip)
    }

    fn fill(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let near = (self.start..=self.end() + self.window as u64).contains(&offset);
        self.window = if near { (self.window * 2).min(WINDOW_MAX) } else { WINDOW_MIN };
        let want = (len.max(self.window) as u64).min(self.len - offset) as usize;
        if self.bytes.len() < want {
            self.bytes = vec![0; want];
        }
        (self.start, self.filled) = (offset, 0);
        self.filled = self.via.read(&*self.file, offset, &mut self.bytes[..want])?;
        Ok(())
    }
}

impl Source for FileSource {
    type Error = io::Error;

    fn read(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let Some(room) = self.len.checked_sub(offset) else {
            return Ok(&[]);
        };
        let len = (len as u64).min(room) as usize;
        if self.buffered(offset, len).is_none() {
            self.fill(offset, len)?;
        }
        let skip = (offset - self.start) as usize;
        let rest = self.bytes.get(skip..self.filled).unwrap_or_default();
        Ok(&rest[..len.min(rest.len())])
    }
}
