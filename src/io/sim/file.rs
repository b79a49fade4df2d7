//! One simulated file: what a power cut leaves of it at least, and what it may leave or not.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;

use super::crash::Keep;
use super::pages::{Pages, SECTOR};

/// A write that no flush has made durable: a power cut keeps it, loses it, or some of its sectors.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) offset: u64,
    pub(super) bytes: Arc<[u8]>,
    /// A flush has failed on it: it is there to be read, and later flushes do not make it durable.
    pub(super) stuck: bool,
    /// When it completed; a flush covers what had completed when it was submitted.
    pub(super) done: u64,
}

impl Pending {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// A file with all that is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What is durable.
    pub(super) stable: Pages,
    /// In the order of their completion.
    pub(super) pending: Vec<Pending>,
    /// What the device answers: `stable` with all of `pending`.
    pub(super) live: Pages,
    /// What the page cache answers, where that is something else: bytes of a failed flush.
    pub(super) cached: Option<Pages>,
    /// Sectors that cannot be read until they are written again.
    pub(super) bad: BTreeSet<u64>,
    /// The length that was set and is not durable.
    pub(super) set_len: Option<u64>,
    /// Open files.
    pub(super) handles: usize,
    /// Maps that live.
    pub(super) maps: usize,
    /// Which open file holds the lock.
    pub(super) lock: Option<u64>,
}

impl Inode {
    /// Bytes that it takes on the disk.
    pub(super) fn room(&self) -> u64 {
        self.live.len().max(self.set_len.unwrap_or(0))
    }

    /// A write has completed. With `dsync` its bytes are durable, and no others.
    pub(super) fn complete(&mut self, offset: u64, bytes: Arc<[u8]>, dsync: bool, done: u64) {
        let end = offset + bytes.len() as u64;
        self.live.write(offset, &bytes);
        if let Some(cached) = &mut self.cached {
            cached.write(offset, &bytes);
        }
        let healed = offset / SECTOR..end.div_ceil(SECTOR);
        if !self.bad.is_empty() {
            self.bad.retain(|sector| !healed.contains(sector));
        }
        if dsync {
            self.stable.write(offset, &bytes);
            self.supersede(offset..end, self.pending.len());
        } else {
            self.pending.push(Pending { offset, bytes, stuck: false, done });
        }
    }

    /// Part of a write that failed is on the device, and no flush will make it durable.
    pub(super) fn leave(&mut self, offset: u64, bytes: Arc<[u8]>) {
        self.live.write(offset, &bytes);
        self.pending.push(Pending { offset, bytes, stuck: true, done: u64::MAX });
    }

    /// Makes durable what had completed by `covered`.
    pub(super) fn flush(&mut self, covered: u64) {
        let mut at = 0;
        while at < self.pending.len() {
            if self.pending[at].stuck || self.pending[at].done > covered {
                at += 1;
                continue;
            }
            let Pending { offset, bytes, .. } = self.pending.remove(at);
            self.stable.write(offset, &bytes);
            // Older ones of the same bytes are no longer what a power cut could leave.
            let kept = self.supersede(offset..offset + bytes.len() as u64, at);
            at = kept;
        }
        if let Some(len) = self.set_len.take() {
            self.stable.extend(len);
        }
    }

    /// Takes the range out of the first `count` pending writes. Gives how many of them are left.
    fn supersede(&mut self, range: Range<u64>, count: usize) -> usize {
        let overlaps = |write: &Pending| write.offset < range.end && write.end() > range.start;
        if !self.pending[..count].iter().any(overlaps) {
            return count;
        }
        let younger = self.pending.split_off(count);
        for old in std::mem::take(&mut self.pending) {
            if !overlaps(&old) {
                self.pending.push(old);
                continue;
            }
            let parts = [old.offset..range.start.max(old.offset), range.end.min(old.end())..old.end()];
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let cut = (part.start - old.offset) as usize..(part.end - old.offset) as usize;
                self.pending.push(Pending { offset: part.start, bytes: old.bytes[cut].into(), ..old });
            }
        }
        let left = self.pending.len();
        self.pending.extend(younger);
        left
    }

    /// What a flush that failed leaves: the writes may stay as they are, may be there to be read and
    /// never become durable, or may be in the page cache alone.
    pub(super) fn fail_flush(&mut self, direct: bool, rng: &mut Rng) {
        match rng.u8(..3) {
            0 => {}
            1 => self.pending.iter_mut().for_each(|write| write.stuck = true),
            _ if direct => self.pending.iter_mut().for_each(|write| write.stuck = true),
            _ => {
                self.cached.get_or_insert_with(|| self.live.clone());
                self.pending.clear();
                self.live = self.stable.clone();
            }
        }
    }

    /// What the file holds after a power cut.
    pub(super) fn after_power_cut(&self, keep: &mut Keep<'_>) -> Pages {
        let mut pages = self.stable.clone();
        if let Some(len) = self.set_len.filter(|_| keep.whole()) {
            pages.extend(len);
        }
        for write in &self.pending {
            keep.sectors(write.offset, &write.bytes, &mut |offset, bytes| pages.write(offset, bytes));
        }
        pages
    }

    /// Whether a sector of the range cannot be read.
    pub(super) fn is_bad(&self, offset: u64, len: u64) -> bool {
        let sectors = offset / SECTOR..(offset + len).div_ceil(SECTOR);
        !self.bad.is_empty() && !sectors.is_empty() && self.bad.range(sectors).next().is_some()
    }
}
