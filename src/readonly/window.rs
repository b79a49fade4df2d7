//! A window on a file that moves with the reads.

use std::io;
use std::sync::Arc;

use tidelog_format::Source;

use crate::io::DiskFile;

/// Least bytes of one read.
const WINDOW: u64 = 256 << 10;

/// A file's bytes, as they were when the window came over them.
#[derive(Debug)]
pub(super) struct Window {
    file: Arc<dyn DiskFile>,
    /// Past the page cache, which can be bad where the medium is good.
    device: bool,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(super) fn cached(file: &Arc<dyn DiskFile>) -> io::Result<Self> {
        Self::new(file, false)
    }

    pub(super) fn device(file: &Arc<dyn DiskFile>) -> io::Result<Self> {
        Self::new(file, true)
    }

    fn new(file: &Arc<dyn DiskFile>, device: bool) -> io::Result<Self> {
        let file = Arc::clone(file);
        Ok(Self { len: file.len()?, file, device, start: 0, bytes: Vec::new() })
    }

    fn fill(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let room = self.len.saturating_sub(offset);
        self.start = offset;
        self.bytes.clear();
        self.bytes.resize(len.max(WINDOW).min(room) as usize, 0);
        let read = if self.device {
            self.file.read_uncached(offset, &mut self.bytes)
        } else {
            self.file.read_at(offset, &mut self.bytes)
        };
        self.bytes.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }

    /// The range, as far as it is in the window.
    fn cut(&self, offset: u64, len: usize) -> &[u8] {
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        let rest = skip.and_then(|skip| self.bytes.get(skip..)).unwrap_or_default();
        rest.get(..len).unwrap_or(rest)
    }
}

impl Source for Window {
    type Error = io::Error;

    fn read(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        if self.cut(offset, len).len() < len {
            self.fill(offset, len as u64)?;
        }
        Ok(self.cut(offset, len))
    }
}
