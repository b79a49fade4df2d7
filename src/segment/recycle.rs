//! What becomes of a retired segment's file: it is removed, or kept to be that of a later segment.
//!
//! A kept file has no segment's name, so nobody looks into it. Checksums seeded with the identity
//! of its next segment keep what it holds from being taken for that segment's.

use std::io;
use std::sync::Arc;

use super::handle::Segment;
use super::{Error, Result, name, prepare};
use crate::io::Disk;

/// The file of a retired segment, kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// The sequence that it had.
    pub(crate) number: u64,
    pub(crate) size: u64,
}

impl Free {
    /// Keeps the file of a segment that nobody reads, and that has no frame or has retired.
    pub(crate) fn keep(disk: &dyn Disk, number: u64, size: u64) -> io::Result<Self> {
        disk.rename(&name::segment(number), &name::free(number))?;
        Ok(Self { number, size })
    }

    pub(crate) fn name(self) -> String {
        name::free(self.number)
    }
}

impl Segment {
    /// Takes the segment's name from its file, when it has retired. `self` must be the log's last reference;
    /// for whoever else holds one the file is opened first, so that it stays readable.
    ///
    /// With `keep` the file is kept for a later segment if it is of that size and nobody can read it
    /// any more: neither holders of the segment nor those of bytes that share its map, nor by another name.
    pub(crate) fn retire(self: Arc<Self>, keep: Option<u64>) -> Result<Option<Free>> {
        let (disk, sequence) = (Arc::clone(self.disk()), self.sequence());
        let remove = |name: String| {
            prepare::unlink_if_there(&*disk, &name)
                .map_err(|error| Error::io("unlink", disk.path().join(&name), error))
        };
        let size = keep.filter(|size| self.header().is_ok_and(|header| header.file_size == *size));
        let unread = match Arc::try_unwrap(self) {
            Ok(segment) => size.is_some() && segment.ends_unread(),
            Err(held) => {
                if let Err(error @ Error::Io { .. }) = held.open_for_holders() {
                    return Err(error);
                }
                false
            }
        };
        remove(name::index(sequence))?;
        // One of that name may be kept already: of a segment that was prepared and never used.
        if let Some(size) = size.filter(|_| unread)
            && let Ok(free) = Free::keep(&*disk, sequence, size)
        {
            return Ok(Some(free));
        }
        remove(name::segment(sequence))?;
        Ok(None)
    }
}
