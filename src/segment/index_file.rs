//! The file of an index cache.

use std::io;
use std::sync::Arc;

use tidelog_format::{
    INDEX_HEADER_LEN, INDEX_ROW_LEN, IndexHeader, IndexView, Lsn, SegmentIdentity, StreamId, encode_index,
};

use super::name;
use super::prepare::unlink_if_there;
use super::runs::{Runs, Select, StreamRuns, select_indexed, streams_indexed};
use crate::io::{Access, AlignedBuf, Disk, MEM_ALIGN, Mapping};

/// An index cache, mapped, that was verified when it was opened.
#[derive(Debug)]
pub(crate) struct Index {
    map: Arc<dyn Mapping>,
    /// Without the padding that direct writes need.
    len: usize,
}

impl Index {
    /// `None` where the cache is missing, bad, or not of just this segment with just this end:
    /// the segment itself tells the same.
    pub(crate) fn open(disk: &dyn Disk, identity: &SegmentIdentity, end: Lsn) -> Option<Self> {
        let file = disk.open(&name::index(identity.sequence), Access::Read).ok()?;
        let map = file.map(file.len().ok()?).ok()?;
        let mut len = None;
        map.with(0..map.len(), &mut |bytes| len = verify(bytes, identity, end)).ok()?;
        Some(Self { map, len: len? })
    }

    pub(super) fn select(&self, stream: StreamId, select: &mut Select<'_>) -> io::Result<Option<StreamRuns>> {
        self.look(|index| select_indexed(index, stream, select))
    }

    pub(super) fn streams(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> io::Result<Vec<(StreamId, StreamRuns)>> {
        self.look(|index| streams_indexed(index, after, limit))
    }

    fn look<T: Default>(&self, look: impl FnOnce(&IndexView<'_>) -> T) -> io::Result<T> {
        let (mut look, mut found) = (Some(look), T::default());
        self.map.with(0..self.len, &mut |bytes| {
            if let Some(look) = look.take() {
                found = look(&IndexView::verified(bytes));
            }
        })?;
        Ok(found)
    }
}

/// The length of a good cache without its padding.
fn verify(bytes: &[u8], identity: &SegmentIdentity, end: Lsn) -> Option<usize> {
    let header = IndexHeader::decode(bytes.first_chunk::<INDEX_HEADER_LEN>()?, identity).ok()?;
    let len = INDEX_HEADER_LEN + header.row_count as usize * INDEX_ROW_LEN;
    let index = IndexView::parse(bytes.get(..len)?, identity).ok()?;
    (index.end() == end).then_some(len)
}

/// Writes the cache of an ended segment. The name need not be durable: a cache that a crash takes
/// is built again.
pub(crate) fn write(disk: &dyn Disk, identity: &SegmentIdentity, end: Lsn, runs: &Runs) -> io::Result<()> {
    let bytes = encode_index(identity, end, &runs.to_index_rows());
    let target = name::index(identity.sequence);
    let temporary = name::temporary(&target);
    unlink_if_there(disk, &temporary)?;
    let made = write_whole(disk, &temporary, &bytes)
        .and_then(|()| unlink_if_there(disk, &target))
        .and_then(|()| disk.rename(&temporary, &target));
    if made.is_err() {
        // Left-overs are unlinked by the next try or the next opening.
        let _ = disk.unlink(&temporary);
    }
    made
}

fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unit = MEM_ALIGN.max(disk.dio_align()? as usize);
    let mut padded = AlignedBuf::new(bytes.len().next_multiple_of(unit))?;
    padded[..bytes.len()].copy_from_slice(bytes);
    let file = disk.create(name)?;
    file.write_at(0, &padded, false)?;
    file.sync_all()
}
