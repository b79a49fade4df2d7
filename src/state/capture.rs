//! The state at a rotation point, taken in pieces while appends go on.
//!
//! A rotation fixes what the checkpoint must say; walking a million streams there would stall
//! every append. So the walk goes in short steps under the lock, and whoever changes a stream
//! that the walk has not reached leaves its old state aside first.

use std::collections::HashMap;

use tidelog_format::{Checkpoint, Lsn, StreamId, StreamSummary};

use super::{State, StreamState};
use crate::planted::{Planted, planted};

/// Counts that bound the size of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaptureSize {
    pub(crate) streams: u64,
    pub(crate) fences: u64,
    pub(crate) extents: u64,
    pub(crate) namespaces: u64,
}

#[derive(Debug)]
pub(crate) struct Capture {
    /// Slots below it are taken.
    cursor: u32,
    /// Slots at or above it came later.
    limit: u32,
    /// What changed before the walk came by: the state at the rotation point, `None` for a slot
    /// that was free then.
    kept: HashMap<u32, Option<(StreamId, StreamState)>>,
    taken: Vec<StreamSummary>,
    previous: Option<(u64, Lsn)>,
    oldest: u64,
    /// Fences below it lie in segments that have retired.
    oldest_base: Lsn,
    namespaces: Vec<StreamId>,
}

impl Capture {
    /// Called before the slot changes.
    pub(super) fn keep(&mut self, slot: u32, state: Option<(StreamId, &StreamState)>) {
        if (self.cursor..self.limit).contains(&slot) {
            self.kept.entry(slot).or_insert_with(|| state.map(|(stream, state)| (stream, state.clone())));
        }
    }

    fn take(&mut self, stream: StreamId, mut state: StreamState) {
        state.prune(self.oldest_base);
        if !state.is_forgettable() {
            self.taken.push(spoiled(state.summary(stream)));
        }
    }
}

/// What a checkpoint says of a stream, less what a planted fault takes from it.
fn spoiled(mut summary: StreamSummary) -> StreamSummary {
    if planted(Planted::DropFences) {
        summary.fences.clear();
    }
    if planted(Planted::CheckpointLacksMark) {
        summary.mark = None;
    }
    if planted(Planted::CheckpointLacksLast) {
        summary.last = summary.first;
    }
    if planted(Planted::CheckpointLacksNewest) {
        summary.newest_segment = 0;
    }
    summary
}

impl StreamState {
    fn prune(&mut self, oldest_base: Lsn) {
        self.fences.retain(|fence| fence.lsn >= oldest_base);
        if planted(Planted::PruneReleases) {
            self.fences.retain(|fence| fence.from > 0);
        }
    }
}

impl State {
    /// What a checkpoint begun now takes at most.
    pub(crate) fn capture_size(&self) -> CaptureSize {
        CaptureSize {
            streams: self.slots.len() as u64,
            fences: self.fences,
            extents: self.extents,
            namespaces: self.namespaces.len() as u64,
        }
    }

    /// Fixes the state as of now. `previous` is the newest segment that holds frames, and its
    /// end; `oldest_base` the base of the oldest live segment. At most one at a time.
    pub(crate) fn begin_capture(&mut self, previous: Option<(u64, Lsn)>, oldest_base: Lsn) {
        debug_assert!(self.capture.is_none(), "rotation waits for the checkpoint before");
        self.capture = Some(Capture {
            cursor: 0,
            limit: u32::try_from(self.streams.len()).expect("fewer than 2^32 streams fit in memory"),
            kept: HashMap::new(),
            taken: Vec::with_capacity(self.slots.len()),
            previous,
            oldest: self.oldest,
            oldest_base,
            namespaces: self.namespaces.iter().copied().collect(),
        });
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    /// Takes the next `steps` streams; the checkpoint once all are taken.
    ///
    /// What the checkpoint drops (fences whose segment has retired, streams of which nothing is
    /// left) is dropped here from the live state too, and at no other moment: else a recovery
    /// from an older checkpoint would judge by what the live log had forgotten.
    pub(crate) fn capture_step(&mut self, steps: u32) -> Option<Checkpoint> {
        let mut capture = self.capture.take()?;
        let until = capture.cursor.saturating_add(steps).min(capture.limit);
        for slot in capture.cursor..until {
            match capture.kept.remove(&slot) {
                Some(Some((stream, state))) => capture.take(stream, state),
                Some(None) => continue,
                None => {
                    if let Some((stream, state)) = &self.streams[slot as usize] {
                        capture.take(*stream, state.clone());
                    }
                }
            }
            self.prune(slot, capture.oldest_base);
        }
        capture.cursor = until;
        if until < capture.limit {
            self.capture = Some(capture);
            return None;
        }
        capture.taken.sort_unstable_by_key(|summary| summary.stream);
        Some(Checkpoint {
            previous: capture.previous,
            oldest: capture.oldest,
            streams: capture.taken,
            namespaces: if planted(Planted::CheckpointLacksNamespaces) {
                Vec::new()
            } else {
                capture.namespaces
            },
        })
    }

    fn prune(&mut self, slot: u32, oldest_base: Lsn) {
        let Some((stream, state)) = &mut self.streams[slot as usize] else { return };
        let before = state.fences.len();
        state.prune(oldest_base);
        self.fences -= (before - state.fences.len()) as u64;
        if state.is_forgettable() {
            let stream = *stream;
            self.extents -= state.extents.len() as u64;
            self.slots.remove(&stream);
            self.streams[slot as usize] = None;
            self.free.push(slot);
        }
    }

    /// The whole checkpoint at once.
    #[cfg(test)]
    pub(crate) fn capture_now(&mut self, previous: Option<(u64, Lsn)>, oldest_base: Lsn) -> Checkpoint {
        self.begin_capture(previous, oldest_base);
        self.capture_step(u32::MAX).expect("one step reaches every stream")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, Position};
    use super::*;

    fn id(id: u64) -> StreamId {
        StreamId { class: 1, id }
    }

    fn at(frame: u64) -> Position {
        Position { frame: Lsn(frame), segment: 1, durable: Lsn(u64::MAX) }
    }

    fn state(streams: u64) -> State {
        let mut state = State::default();
        for stream in 0..streams {
            state.apply(&Change::Entries { stream: id(stream), first: 1, last: 5 }, at(64));
        }
        state
    }

    #[test]
    fn changes_during_a_capture_do_not_show_in_it() {
        let mut expected = state(10);
        let expected = expected.capture_now(Some((1, Lsn(99))), Lsn::ZERO);
        let mut state = state(10);
        state.begin_capture(Some((1, Lsn(99))), Lsn::ZERO);
        assert_eq!(state.capture_step(3), None);
        for stream in 0..12 {
            state.apply(&Change::Entries { stream: id(stream), first: 6, last: 8 }, at(128));
            state.apply(&Change::Release { stream: id(stream) }, at(192));
        }
        state.apply(&Change::CreateNamespace { stream: id(3) }, at(192));
        assert_eq!(state.capture_step(3), None);
        assert_eq!(state.capture_step(100), Some(expected));
        assert!(!state.is_capturing());
    }

    #[test]
    fn a_released_stream_goes_with_its_fence_from_record_and_state_alike() {
        let mut state = state(2);
        state.apply(&Change::Release { stream: id(1) }, at(128));
        let kept = state.capture_now(None, Lsn(128));
        assert_eq!(kept.streams.len(), 2);
        assert!(state.get(id(1)).is_some());
        let dropped = state.capture_now(None, Lsn(129));
        assert_eq!(dropped.streams.len(), 1);
        assert!(state.get(id(1)).is_none());
        assert_eq!(state.capture_size().fences, 0);
        // Its slot serves the next stream, which a capture begun before does not see.
        state.begin_capture(None, Lsn::ZERO);
        state.apply(&Change::Entries { stream: id(9), first: 1, last: 1 }, at(256));
        assert_eq!(state.capture_step(100).unwrap().streams.len(), 1);
    }
}
