//! What the log knows of one stream, and which of its rows are live.

use std::collections::VecDeque;

use tidelog_format::{Extent, Fence, Lsn, StreamId, StreamSummary};

/// The state of one stream. About 100 bytes, whatever the number of its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamState {
    /// The first live id; with increasing ids a lower bound of it. `None`: nothing is live.
    pub(crate) first: Option<u64>,
    /// The last id, kept when all is obsolete, gone with a release.
    pub(crate) last: Option<u64>,
    /// Entries at or below it are obsolete.
    pub(crate) mark: Option<u64>,
    /// The newest segment that holds natural rows of the stream; 0: none since the last release.
    pub(crate) newest_segment: u64,
    /// The newest frame that holds rows of the stream. Not part of checkpoints: it matters only
    /// until that frame is durable, and what recovery adopts is.
    pub(crate) last_frame: Lsn,
    /// Frames with entries of the stream that were not durable when the newest of them was
    /// staged, each with its first id: what a wait for an id has to wait for.
    pub(crate) recent: VecDeque<(Lsn, u64)>,
    /// Truncations and releases whose segment has not retired, oldest first; their `from` rises.
    pub(crate) fences: Vec<Fence>,
    /// Where moved rows lie: the lowest live ids, in order.
    pub(crate) extents: Vec<Extent>,
}

impl StreamState {
    /// Whether the row with this id in the frame at `frame` is live.
    pub(crate) fn is_live(&self, id: u64, frame: Lsn) -> bool {
        self.mark.is_none_or(|mark| id > mark)
            && !self.fences.iter().any(|fence| fence.lsn > frame && id >= fence.from)
    }

    /// The highest id of `first..=last` that is live in the frame at `frame`.
    pub(crate) fn highest_live(&self, first: u64, last: u64, frame: Lsn) -> Option<u64> {
        let cut = self.fences.iter().filter(|fence| fence.lsn > frame).map(|fence| fence.from).min();
        let last = match cut {
            Some(0) => return None,
            Some(from) => last.min(from - 1),
            None => last,
        };
        (last >= first && self.mark.is_none_or(|mark| last > mark)).then_some(last)
    }

    /// The id that a truncation from `from` leaves as the last one, where ids have no gaps.
    pub(crate) fn last_after_truncate(&self, from: u64) -> Option<u64> {
        match self.first {
            Some(first) if from > first => Some(from - 1),
            _ => self.mark,
        }
    }

    pub(crate) fn entries(&mut self, first: u64, last: u64) {
        if self.mark.is_none_or(|mark| last > mark) {
            // A mark of the same frame may lie inside the range.
            let live = self.mark.map_or(first, |mark| first.max(mark + 1));
            self.first.get_or_insert(live);
        }
        self.last = self.last.max(Some(last));
    }

    /// The frame at `frame` holds entries from `first` on; what lies below `durable` needs no wait.
    pub(crate) fn note_frame(&mut self, frame: Lsn, first: u64, durable: Lsn) {
        while self.recent.front().is_some_and(|(old, _)| *old < durable) {
            self.recent.pop_front();
        }
        if frame >= durable && self.recent.back().is_none_or(|(last, _)| *last != frame) {
            self.recent.push_back((frame, first));
        }
    }

    /// The frame that is durable no sooner than every entry handed out with an id at or below
    /// `id`; `None` where none of them is recent.
    pub(crate) fn frame_of(&self, id: u64) -> Option<Lsn> {
        self.recent.iter().rev().find(|(_, first)| *first <= id).map(|(frame, _)| *frame)
    }

    /// Commutes with the entries of the same frame, since a mark is resolved to an id that was
    /// handed out when it is staged: an order among the two need not be kept.
    pub(crate) fn obsolete(&mut self, id: u64) {
        if self.mark >= Some(id) {
            return;
        }
        self.mark = Some(id);
        self.first = match (self.first, self.last) {
            (Some(first), Some(last)) if last > id => Some(first.max(id + 1)),
            _ => None,
        };
        self.last = self.last.max(Some(id));
        self.extents.retain(|extent| extent.last > id);
    }

    pub(crate) fn truncate(&mut self, from: u64, last: Option<u64>, lsn: Lsn) {
        self.fence(from, lsn);
        self.recent.retain(|(_, first)| *first < from);
        self.last = last;
        // Where ids have gaps, the first one may be a lower bound of what is there.
        if self.first.is_some_and(|first| from <= first || last.is_none_or(|last| last < first)) {
            self.first = None;
        }
        self.extents.retain_mut(|extent| {
            if from > 0 && extent.last >= from {
                extent.last = from - 1;
            }
            from > 0 && extent.first <= extent.last
        });
    }

    pub(crate) fn release(&mut self, lsn: Lsn) {
        *self = Self { last_frame: self.last_frame, ..Self::default() };
        self.fence(0, lsn);
    }

    /// Where the stream was cut or released last, as long as that is known.
    pub(crate) fn newest_fence(&self) -> Option<Lsn> {
        self.fences.last().map(|fence| fence.lsn)
    }

    /// A new fence covers older ones that start at or above it.
    fn fence(&mut self, from: u64, lsn: Lsn) {
        self.fences.retain(|fence| fence.from < from);
        self.fences.push(Fence { lsn, from });
    }

    /// Whether nothing at all would be lost by forgetting the stream.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.last.is_none() && self.mark.is_none() && self.first.is_none() && self.fences.is_empty()
    }

    pub(crate) fn summary(&self, stream: StreamId) -> StreamSummary {
        StreamSummary {
            stream,
            first: self.first,
            last: self.last,
            mark: self.mark,
            newest_segment: self.newest_segment,
            fences: self.fences.clone(),
            extents: self.extents.clone(),
        }
    }

    pub(crate) fn from_summary(summary: StreamSummary) -> Self {
        Self {
            first: summary.first,
            last: summary.last,
            mark: summary.mark,
            newest_segment: summary.newest_segment,
            last_frame: Lsn::ZERO,
            recent: VecDeque::new(),
            fences: summary.fences,
            extents: summary.extents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(first: u64, last: u64) -> StreamState {
        let mut state = StreamState::default();
        state.entries(first, last);
        state
    }

    #[test]
    fn a_mark_is_monotone_and_may_empty_the_stream() {
        let mut state = with(5, 10);
        state.obsolete(7);
        assert_eq!((state.first, state.mark), (Some(8), Some(7)));
        state.obsolete(6);
        assert_eq!((state.first, state.mark), (Some(8), Some(7)));
        state.obsolete(10);
        assert_eq!((state.first, state.last, state.mark), (None, Some(10), Some(10)));
        state.entries(11, 11);
        assert_eq!(state.first, Some(11));
        state.obsolete(u64::MAX);
        assert_eq!((state.first, state.last), (None, Some(u64::MAX)));
    }

    #[test]
    fn a_mark_and_the_entries_of_its_frame_commute() {
        let mut live = with(1, 4);
        live.obsolete(3);
        let mut recovered = StreamState::default();
        recovered.obsolete(3);
        recovered.entries(1, 4);
        assert_eq!(live, recovered);
    }

    #[test]
    fn fences_void_rows_of_lower_frames_alone() {
        let mut state = with(1, 9);
        state.truncate(5, Some(4), Lsn(100));
        assert!(state.is_live(4, Lsn(50)) && !state.is_live(5, Lsn(50)) && state.is_live(5, Lsn(100)));
        state.truncate(7, Some(6), Lsn(200));
        assert_eq!(state.fences.len(), 2);
        assert!(state.is_live(6, Lsn(150)) && !state.is_live(7, Lsn(150)));
        assert_eq!(state.highest_live(1, 9, Lsn(50)), Some(4));
        assert_eq!(state.highest_live(7, 9, Lsn(150)), None);
        state.truncate(5, Some(4), Lsn(300));
        assert_eq!(state.fences, [Fence { lsn: Lsn(300), from: 5 }]);
        state.release(Lsn(400));
        assert_eq!(state.fences, [Fence { lsn: Lsn(400), from: 0 }]);
        assert_eq!((state.first, state.last, state.mark), (None, None, None));
    }

    #[test]
    fn a_truncation_of_everything_leaves_the_mark_as_the_last_id() {
        let mut state = with(5, 10);
        state.obsolete(6);
        assert_eq!(state.last_after_truncate(7), Some(6));
        assert_eq!(state.last_after_truncate(9), Some(8));
        assert_eq!(with(5, 10).last_after_truncate(5), None);
    }
}
