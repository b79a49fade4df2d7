//! The file of an index cache.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tidelog_format::{
    INDEX_HEADER_LEN, INDEX_ROW_LEN, IndexHeader, IndexView, Lsn, SegmentIdentity, StreamId, encode_index,
};

use super::name;
use super::prepare::unlink_if_there;
use super::runs::{Grounds, Runs, Select, StreamRuns, select_indexed, streams_indexed};
use crate::io::{Access, AlignedBuf, Disk, MEM_ALIGN, Mapping};

/// Bytes with a checksum of their own in memory.
const PAGE: usize = 4096;

/// An index cache, mapped, that was verified when it was opened.
///
/// Pages of a map can be lost and read again, from a medium that has gone bad meanwhile. An answer that
/// lacks rows would cost entries: a reader that jumps over them, a segment that retires with them. So
/// the pages that each answer rests on are looked at again.
#[derive(Debug)]
pub(crate) struct Index {
    map: Arc<dyn Mapping>,
    /// Without the padding that direct writes need.
    len: usize,
    /// Of each page, as it was verified.
    sums: Vec<u32>,
}

impl Index {
    /// `None` where the cache is missing, bad, or not of just this segment with just this end:
    /// the segment itself tells the same.
    pub(crate) fn open(disk: &dyn Disk, identity: &SegmentIdentity, end: Lsn) -> Option<Self> {
        let file = disk.open(&name::index(identity.sequence), Access::Read).ok()?;
        let map = file.map(file.len().ok()?).ok()?;
        let mut found = None;
        map.with(0..map.len(), &mut |bytes| {
            let len = verify(bytes, identity, end);
            found = len.map(|len| (len, bytes[..len].chunks(PAGE).map(crc32fast::hash).collect()));
        })
        .ok()?;
        let (len, sums) = found?;
        Some(Self { map, len, sums })
    }

    pub(super) fn select(&self, stream: StreamId, select: &mut Select<'_>) -> io::Result<Option<StreamRuns>> {
        self.look(|index, grounds| select_indexed(index, stream, select, grounds))
    }

    pub(super) fn streams(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> io::Result<Vec<(StreamId, StreamRuns)>> {
        self.look(|index, grounds| streams_indexed(index, after, limit, grounds))
    }

    fn look<T>(&self, look: impl FnOnce(&IndexView<'_>, &mut Grounds) -> T) -> io::Result<T> {
        let (mut look, mut found) = (Some(look), None);
        self.map.with(0..self.len, &mut |bytes| {
            if let Some(look) = look.take() {
                let mut grounds = Grounds::default();
                let answer = look(&IndexView::verified(bytes), &mut grounds);
                let sound = !grounds.contradict && grounds.rows.iter().all(|rows| self.is_sound(bytes, rows));
                found = sound.then_some(answer);
            }
        })?;
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the pages that hold these rows are as they were.
    fn is_sound(&self, bytes: &[u8], rows: &Range<usize>) -> bool {
        let offset = |row: usize| (INDEX_HEADER_LEN + row * INDEX_ROW_LEN).min(self.len);
        let pages = offset(rows.start) / PAGE..offset(rows.end).div_ceil(PAGE);
        let sums = self.sums.get(pages.clone()).unwrap_or_default();
        let found = bytes[..self.len].chunks(PAGE).skip(pages.start);
        sums.iter().zip(found).all(|(sum, page)| *sum == crc32fast::hash(page))
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
