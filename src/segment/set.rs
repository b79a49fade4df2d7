//! The segments of a log, in order.

use std::sync::Arc;

use parking_lot::RwLock;
use tidelog_format::Lsn;

use super::handle::Segment;
use super::{Error, Result};

/// The log's segments by sequence. A snapshot keeps all that were there.
#[derive(Debug, Default)]
pub(crate) struct SegmentSet {
    segments: RwLock<Arc<Vec<Arc<Segment>>>>,
}

impl SegmentSet {
    pub(crate) fn new(mut segments: Vec<Arc<Segment>>) -> Self {
        segments.sort_by_key(|segment| segment.sequence());
        Self { segments: RwLock::new(Arc::new(segments)) }
    }

    pub(crate) fn snapshot(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.segments.read())
    }

    /// Adds the segment that is newer than all others.
    pub(crate) fn push(&self, segment: Arc<Segment>) {
        let mut segments = self.segments.write();
        debug_assert!(segments.last().is_none_or(|last| last.sequence() < segment.sequence()));
        Arc::make_mut(&mut segments).push(segment);
    }

    /// Takes out all below `sequence`, for [`Segment::retire`].
    pub(crate) fn remove_below(&self, sequence: u64) -> Vec<Arc<Segment>> {
        let mut segments = self.segments.write();
        let count = segments.partition_point(|segment| segment.sequence() < sequence);
        if count == 0 {
            return Vec::new();
        }
        Arc::make_mut(&mut segments).drain(..count).collect()
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let place = segments.binary_search_by_key(&sequence, |segment| segment.sequence()).ok()?;
        segments.get(place).cloned()
    }

    /// The newest segment that starts at or below `lsn`; `None` below the oldest one. The LSN may
    /// lie in the hole behind its end.
    #[cfg(test)]
    pub(crate) fn find(&self, lsn: Lsn) -> Result<Option<Arc<Segment>>> {
        let segments = self.snapshot();
        let (mut low, mut high) = (0, segments.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if segments[middle].base()? <= lsn {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1).and_then(|place| segments.get(place)).cloned())
    }

    /// Where the frames of an ended segment end. If it does not know, a later one does: the first
    /// of them that holds frames says so in its checkpoint.
    pub(crate) fn end_of(&self, segment: &Segment) -> Result<Lsn> {
        if let Some(end) = segment.end() {
            return Ok(end);
        }
        let sequence = segment.sequence();
        let segments = self.snapshot();
        let later = segments.partition_point(|other| other.sequence() <= sequence);
        // Those that cannot be read as holding frames are void, or damaged if a later one says otherwise.
        let mut unread = Vec::new();
        for other in &segments[later..] {
            match other.checkpoint() {
                Err(error @ Error::Corrupt(_)) => unread.push((other.sequence(), error)),
                Err(error) => return Err(error),
                Ok(checkpoint) => {
                    let (newest, end) = checkpoint.previous.unwrap_or_default();
                    if newest == sequence {
                        return Ok(segment.set_end(end));
                    }
                    if newest < sequence {
                        return Ok(segment.set_end(segment.base()?));
                    }
                    let damaged = unread.into_iter().find(|(unread, _)| *unread == newest);
                    return Err(damaged.map_or_else(|| Self::no_end(segment), |(_, error)| error));
                }
            }
        }
        Err(Self::no_end(segment))
    }

    fn no_end(segment: &Segment) -> Error {
        Error::missing(segment.path(), "a later segment that says where this one ends")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::name;
    use crate::segment::testing::{A, Home, LOG, SIZE, Writer, entry, identity};

    fn ended(home: &Home, sequence: u64) -> Arc<Segment> {
        Arc::new(Segment::ended(Arc::clone(&home.disk), LOG, sequence, None, None))
    }

    fn set(home: &Home, sequences: &[u64]) -> SegmentSet {
        SegmentSet::new(sequences.iter().map(|&sequence| ended(home, sequence)).collect())
    }

    fn sequences(segments: &[Arc<Segment>]) -> Vec<u64> {
        segments.iter().map(|segment| segment.sequence()).collect()
    }

    #[test]
    fn snapshots_keep_what_the_set_lets_go() {
        let home = Home::new();
        let set = set(&home, &[3, 1, 2]);
        let snapshot = set.snapshot();
        set.push(ended(&home, 4));
        assert_eq!(sequences(&set.remove_below(3)), [1, 2]);
        assert!(set.remove_below(3).is_empty());
        assert_eq!(sequences(&snapshot), [1, 2, 3]);
        assert_eq!(sequences(&set.snapshot()), [3, 4]);
        assert!(set.get(2).is_none());
        assert_eq!(set.get(4).unwrap().sequence(), 4);
    }

    #[test]
    fn segments_are_found_by_lsn() {
        let home = Home::new();
        for sequence in 2..=4 {
            Writer::new(&home, sequence);
        }
        let set = set(&home, &[2, 3, 4]);
        let found = |lsn| set.find(Lsn(lsn)).unwrap().map(|segment| segment.sequence());
        assert_eq!(found(SIZE - 1), None);
        assert_eq!(found(SIZE), Some(2));
        assert_eq!(found(3 * SIZE - 1), Some(3));
        assert_eq!(found(u64::MAX), Some(4));
        assert!(SegmentSet::default().find(Lsn(0)).unwrap().is_none());
    }

    #[test]
    fn a_retired_segment_is_unlinked_and_its_holders_read_on() {
        let home = Home::new();
        let mut writer = Writer::new(&home, 1);
        writer.checkpoint(None, &[]);
        let set = set(&home, &[1, 2]);
        let held = set.get(1).unwrap();
        for segment in set.remove_below(2) {
            segment.retire(None).unwrap();
        }
        assert_eq!(home.names(), [] as [&str; 0]);
        assert_eq!(held.checkpoint().unwrap().oldest, 1);
    }

    /// 1 and 4 hold frames, 2 and 3 do not, and 5 comes after them.
    fn log(home: &Home) -> (SegmentSet, Lsn, Lsn) {
        let mut first = Writer::new(home, 1);
        first.checkpoint(None, &[]);
        first.frame(&[entry(A, 1, b"x")]);
        Writer::new(home, 2);
        Writer::new(home, 3);
        let mut fourth = Writer::new(home, 4);
        fourth.checkpoint(Some((1, first.end())), &[]);
        let mut fifth = Writer::new(home, 5);
        fifth.checkpoint(Some((4, fourth.end())), &[]);
        (set(home, &[1, 2, 3, 4, 5]), first.end(), fourth.end())
    }

    #[test]
    fn a_later_checkpoint_says_where_frames_end() {
        let home = Home::new();
        let (set, first, fourth) = log(&home);
        let ends: Vec<_> = (1..=4).map(|n| set.end_of(&set.get(n).unwrap()).unwrap()).collect();
        assert_eq!(ends, [first, identity(2).base, identity(3).base, fourth]);
        assert!(matches!(set.end_of(&set.get(5).unwrap()), Err(Error::Corrupt(_))));
        assert_eq!(set.get(1).unwrap().lookup(A).unwrap().unwrap().runs.len(), 1);
    }

    #[test]
    fn damage_is_not_taken_for_a_void_segment() {
        let home = Home::new();
        let (set, ..) = log(&home);
        home.patch(&name::segment(4), 4096, |byte| byte[0] ^= 1);
        for sequence in 1..=3 {
            let error = set.end_of(&set.get(sequence).unwrap()).unwrap_err();
            let Error::Corrupt(found) = error else { panic!("{error}") };
            assert_eq!(found.file, set.get(4).unwrap().path(), "the damaged one is named");
        }
    }
}
