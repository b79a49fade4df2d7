//! Which segment is written, and which comes next.
//!
//! Sequences have no gaps, and no file is ever renamed over or continued: a successor that turns
//! out too small stays behind as void, and the one after it is asked for.

use std::collections::BTreeMap;

use tidelog_format::{FILE_SIZE_UNIT, Lsn};

use crate::error::Error;

/// What has to be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) sequence: u64,
    pub(crate) base: Lsn,
    pub(crate) size: u64,
    /// Bytes of the frame that a checkpoint takes now.
    pub(crate) checkpoint: u64,
    /// Allocated instead of zero-filled: it serves one large batch.
    pub(crate) oversize: bool,
    /// May take the reserve, since what waits for it only frees.
    pub(crate) reserve: bool,
}

/// The segment that frames go to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    pub(crate) sequence: u64,
    pub(crate) base: Lsn,
    pub(crate) size: u64,
    /// Offset of the next frame.
    pub(crate) next: u64,
    /// It was the reserve of a full disk: for those who free alone.
    pub(crate) reserve: bool,
}

impl Writing {
    /// Where the next frame lies.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(self.base.0 + self.next)
    }

    /// Bytes that frames may take: the closing frame's block and the one kept for an `oldest`
    /// record are not among them.
    pub(crate) fn room(&self, block: u64) -> u64 {
        self.size.saturating_sub(self.next + 2 * block)
    }

    /// As [`Self::room`], for the `oldest` record itself.
    pub(crate) fn room_for_oldest(&self, block: u64) -> u64 {
        self.size.saturating_sub(self.next + block)
    }
}

#[derive(Clone, Debug)]
enum Successor {
    /// Nobody asked yet.
    None,
    /// To be handed out by [`Succession::take_ask`].
    Wanted(Ask),
    Preparing(Ask),
    Ready(Ask),
    Failed(Ask, Error),
}

/// Sizes, from the options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) block: u64,
    pub(crate) first: u64,
    pub(crate) normal: u64,
}

#[derive(Debug)]
pub(crate) struct Succession {
    sizes: Sizes,
    pub(crate) writing: Option<Writing>,
    successor: Successor,
    next_sequence: u64,
    next_base: Lsn,
    /// Size of the last segment that was asked for in the normal course.
    last_normal: u64,
    /// Bases of the segments that exist, void ones included.
    bases: BTreeMap<u64, Lsn>,
}

impl Succession {
    pub(crate) fn new(sizes: Sizes, next_sequence: u64, next_base: Lsn, bases: BTreeMap<u64, Lsn>) -> Self {
        Self {
            sizes,
            writing: None,
            successor: Successor::None,
            next_sequence,
            next_base,
            last_normal: 0,
            bases,
        }
    }

    pub(crate) fn block(&self) -> u64 {
        self.sizes.block
    }

    /// Base of the segment with this sequence or of the first one after it.
    pub(crate) fn base_of(&self, sequence: u64) -> Lsn {
        self.bases.range(sequence..).next().map_or(Lsn::ZERO, |(_, base)| *base)
    }

    /// Segments below are gone; gives their sequences.
    pub(crate) fn forget_below(&mut self, sequence: u64) -> Vec<u64> {
        let kept = self.bases.split_off(&sequence);
        std::mem::replace(&mut self.bases, kept).into_keys().collect()
    }

    /// A checkpoint must not take more than a quarter of its segment.
    fn fits(block: u64, ask: &Ask, checkpoint: u64, needed: u64) -> bool {
        // Beside header, closing frame and `oldest` record.
        let room = ask.size.saturating_sub(3 * block);
        (ask.reserve || checkpoint <= ask.size / 4) && checkpoint + needed <= room
    }

    /// Asks for the next segment, if none is asked for: in the normal course (`needed` 0), or
    /// because a batch whose frame takes `needed` bytes found no room.
    pub(crate) fn want(&mut self, checkpoint: u64, needed: u64) {
        match &self.successor {
            // Whoever still needs more asks again once it is there.
            Successor::Wanted(_) | Successor::Preparing(_) => {}
            Successor::Ready(ask) if Self::fits(self.sizes.block, ask, checkpoint, needed) => {}
            // A ready one that does not fit becomes void; a failed one is tried again under the
            // same name.
            Successor::None | Successor::Ready(_) | Successor::Failed(..) => {
                self.successor = Successor::Wanted(self.ask(checkpoint, needed, false));
            }
        }
    }

    /// After a preparation that failed for want of room: asks for the reserve, once, for those
    /// who only free. False when that was tried.
    pub(crate) fn want_reserve(&mut self, checkpoint: u64, needed: u64) -> bool {
        let fresh = matches!(&self.successor, Successor::Failed(ask, Error::NoSpace { .. }) if !ask.reserve);
        if fresh {
            self.successor = Successor::Wanted(self.ask(checkpoint, needed, true));
        }
        fresh
    }

    fn ask(&self, checkpoint: u64, needed: u64, reserve: bool) -> Ask {
        let unit = FILE_SIZE_UNIT;
        let (block, first, normal) = (self.sizes.block, self.sizes.first, self.sizes.normal);
        let floor = first.min(normal).max(4 * checkpoint);
        let ceiling = normal.max(16 * checkpoint);
        let grown = (self.last_normal * 2).clamp(floor, ceiling.max(floor)).next_multiple_of(unit);
        let tight = (checkpoint * 4).max(checkpoint + needed + 4 * block).next_multiple_of(unit);
        let oversize = tight > grown;
        Ask {
            sequence: self.next_sequence,
            base: self.next_base,
            size: grown.max(tight),
            checkpoint,
            oversize,
            reserve,
        }
    }

    /// What the preparer is to do next.
    pub(crate) fn take_ask(&mut self) -> Option<Ask> {
        let Successor::Wanted(ask) = self.successor else { return None };
        self.successor = Successor::Preparing(ask);
        Some(ask)
    }

    /// The preparer is done. The file exists by name, durably, or there is none.
    pub(crate) fn prepared(&mut self, sequence: u64, result: Result<u64, Error>) {
        let Successor::Preparing(mut ask) = self.successor else { return };
        if ask.sequence != sequence {
            return;
        }
        match result {
            Ok(size) => {
                ask.size = size;
                self.next_sequence = sequence + 1;
                self.next_base = Lsn(ask.base.0 + size);
                self.bases.insert(sequence, ask.base);
                if !ask.oversize && !ask.reserve {
                    self.last_normal = size;
                }
                self.successor = Successor::Ready(ask);
            }
            Err(error) => self.successor = Successor::Failed(ask, error),
        }
    }

    /// Why the last preparation failed, if it did and was not asked for again.
    pub(crate) fn failure(&self) -> Option<&Error> {
        match &self.successor {
            Successor::Failed(_, error) => Some(error),
            _ => None,
        }
    }

    /// The last preparation failed for want of room.
    pub(crate) fn is_crowded(&self) -> bool {
        matches!(self.failure(), Some(Error::NoSpace { .. }))
    }

    /// The same for whoever needs a frame of `needed` bytes: that one for a larger batch failed says
    /// nothing about a segment of the usual size.
    pub(crate) fn failure_for(&self, checkpoint: u64, needed: u64) -> Option<&Error> {
        match &self.successor {
            Successor::Failed(ask, error) if self.ask(checkpoint, needed, false).size >= ask.size => {
                Some(error)
            }
            _ => None,
        }
    }

    /// Whether a successor is there that takes the checkpoint and a frame of `needed` bytes. A reserve
    /// is there for all, to be left behind at once by those who do not free.
    pub(crate) fn is_ready(&self, checkpoint: u64, needed: u64, frees: bool) -> bool {
        let Successor::Ready(ask) = &self.successor else { return false };
        let needed = if ask.reserve && !frees { 0 } else { needed };
        Self::fits(self.sizes.block, ask, checkpoint, needed)
    }

    /// Whether the segment that frames go to is for those alone who free.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writing.is_some_and(|writing| writing.reserve)
    }

    /// The sequence of the successor that is there. Those between it and the segment being written are void.
    pub(crate) fn successor(&self) -> Option<u64> {
        match &self.successor {
            Successor::Ready(ask) => Some(ask.sequence),
            _ => None,
        }
    }

    pub(crate) fn has_successor(&self) -> bool {
        !matches!(self.successor, Successor::None)
    }

    /// A quarter of the segment is used: time to prepare the next.
    pub(crate) fn is_due(&self) -> bool {
        self.writing.is_some_and(|writing| writing.next >= writing.size / 4) && !self.has_successor()
    }

    /// Moves on to the successor; its first frame takes `checkpoint` bytes. Gives the new segment.
    pub(crate) fn rotate(&mut self, checkpoint: u64) -> Option<Writing> {
        let Successor::Ready(ask) = self.successor else { return None };
        self.successor = Successor::None;
        let first = Writing {
            sequence: ask.sequence,
            base: ask.base,
            size: ask.size,
            next: self.sizes.block,
            reserve: ask.reserve,
        };
        self.writing = Some(Writing { next: self.sizes.block + checkpoint, ..first });
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { block: 4096, first: 1 << 20, normal: 64 << 20 };

    fn succession() -> Succession {
        Succession::new(SIZES, 1, Lsn(0), BTreeMap::new())
    }

    fn prepare(it: &mut Succession) -> Ask {
        let ask = it.take_ask().unwrap();
        it.prepared(ask.sequence, Ok(ask.size));
        ask
    }

    #[test]
    fn sizes_double_from_the_first_to_the_normal_one() {
        let mut it = succession();
        let mut sizes = Vec::new();
        for _ in 0..8 {
            it.want(4096, 0);
            sizes.push(prepare(&mut it).size >> 20);
            assert!(it.rotate(4096).is_some());
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(it.next_base, Lsn(191 << 20));
    }

    #[test]
    fn a_successor_too_small_becomes_void_and_doubling_goes_on() {
        let mut it = succession();
        it.want(4096, 0);
        prepare(&mut it);
        assert!(it.is_ready(4096, 4096, false) && !it.is_ready(4096, 5 << 20, false));
        it.want(4096, 5 << 20);
        let ask = prepare(&mut it);
        assert!(ask.oversize && ask.sequence == 2 && ask.base == Lsn(1 << 20));
        assert!(it.is_ready(4096, 5 << 20, false));
        it.rotate(4096);
        it.want(4096, 0);
        assert_eq!(prepare(&mut it).size, 2 << 20);
        assert_eq!(it.base_of(1), Lsn(0));
    }

    #[test]
    fn a_large_checkpoint_widens_the_segment() {
        let mut it = succession();
        it.want(10 << 20, 0);
        assert_eq!(it.take_ask().unwrap().size, 40 << 20);
        let mut it = succession();
        it.last_normal = 64 << 20;
        it.want(10 << 20, 0);
        assert_eq!(it.take_ask().unwrap().size, 128 << 20);
    }

    #[test]
    fn a_failed_preparation_is_tried_again_under_the_same_name() {
        let mut it = succession();
        it.want(4096, 0);
        let ask = it.take_ask().unwrap();
        it.prepared(ask.sequence, Err(Error::NoSpace { needed: ask.size }));
        assert!(matches!(it.failure(), Some(Error::NoSpace { .. })));
        it.want(4096, 0);
        assert_eq!(it.take_ask(), Some(ask));
    }

    #[test]
    fn a_failed_preparation_for_a_large_batch_is_no_failure_for_a_small_one() {
        let mut it = succession();
        it.want(4096, 5 << 20);
        let ask = it.take_ask().unwrap();
        it.prepared(ask.sequence, Err(Error::NoSpace { needed: ask.size }));
        assert!(it.failure_for(4096, 5 << 20).is_some() && it.failure_for(4096, 6 << 20).is_some());
        assert!(it.failure_for(4096, 4096).is_none());
        it.want(4096, 4096);
        let small = prepare(&mut it);
        assert_eq!((small.sequence, small.size), (ask.sequence, 1 << 20));
    }
}
