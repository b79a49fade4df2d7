//! What the log means: streams, marks, fences, namespaces, the oldest live segment.
//!
//! Pure: no clock, no thread, no file. [`State::apply`] is the one way it changes, live and in
//! recovery, so that what an opening finds is what the closed log knew.

mod capture;
mod stream;

use std::collections::{BTreeSet, HashMap};

use tidelog_format::{Checkpoint, Lsn, StreamId};

pub(crate) use capture::Capture;
pub(crate) use stream::StreamState;

/// A change of meaning, as a row of a frame carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Entries `first..=last` of the stream, all in one frame.
    Entries {
        stream: StreamId,
        first: u64,
        last: u64,
    },
    Obsolete {
        stream: StreamId,
        id: u64,
    },
    Release {
        stream: StreamId,
    },
    Truncate {
        stream: StreamId,
        from: u64,
        last: Option<u64>,
    },
    CreateNamespace {
        stream: StreamId,
    },
    DeleteNamespace {
        stream: StreamId,
    },
    Oldest {
        sequence: u64,
    },
}

/// Where a change lies: the frame that carries it, and that frame's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) frame: Lsn,
    pub(crate) segment: u64,
    /// The durable watermark when the change is applied.
    pub(crate) durable: Lsn,
}

/// The first rows of a stream in a segment: the segment that held its rows before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) stream: StreamId,
    pub(crate) previous: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    slots: HashMap<StreamId, u32>,
    /// Streams by slot, so that a capture can walk them in pieces while appends go on.
    streams: Vec<Option<(StreamId, StreamState)>>,
    free: Vec<u32>,
    namespaces: BTreeSet<StreamId>,
    oldest: u64,
    /// Sums over all streams, so that the size of a checkpoint is known without walking them.
    fences: u64,
    extents: u64,
    capture: Option<Capture>,
}

impl State {
    pub(crate) fn get(&self, stream: StreamId) -> Option<&StreamState> {
        let slot = *self.slots.get(&stream)?;
        self.streams.get(slot as usize)?.as_ref().map(|(_, state)| state)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &StreamState)> {
        self.streams.iter().flatten().map(|(stream, state)| (*stream, state))
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn namespaces(&self) -> &BTreeSet<StreamId> {
        &self.namespaces
    }

    /// The oldest segment that may hold live entries; 0 before the first segment.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Sets the oldest segment of a log that has just been created or recovered without one.
    pub(crate) fn set_oldest(&mut self, sequence: u64) {
        self.oldest = sequence;
    }

    /// The one way the state changes. Gives the link where a stream's rows enter a segment.
    pub(crate) fn apply(&mut self, change: &Change, at: Position) -> Option<Link> {
        match *change {
            Change::Entries { stream, first, last } => {
                return self.modify(stream, |state| {
                    state.entries(first, last);
                    state.note_frame(at.frame, first, at.durable);
                    state.last_frame = at.frame;
                    let previous = std::mem::replace(&mut state.newest_segment, at.segment);
                    (previous != at.segment).then_some(Link { stream, previous })
                });
            }
            Change::Obsolete { stream, id } => self.modify(stream, |state| {
                state.obsolete(id);
                state.last_frame = at.frame;
            }),
            Change::Release { stream } => self.modify(stream, |state| {
                state.last_frame = at.frame;
                state.release(at.frame);
            }),
            Change::Truncate { stream, from, last } => self.modify(stream, |state| {
                state.last_frame = at.frame;
                state.truncate(from, last, at.frame);
            }),
            Change::CreateNamespace { stream } => {
                self.namespaces.insert(stream);
            }
            Change::DeleteNamespace { stream } => {
                self.namespaces.remove(&stream);
            }
            Change::Oldest { sequence } => self.oldest = self.oldest.max(sequence),
        }
        None
    }

    /// Forgets the marks of streams of which nothing is live.
    pub(crate) fn forget_marks(&mut self) {
        let emptied = self.streams.iter_mut().flatten().filter(|(_, state)| state.first.is_none());
        emptied.for_each(|(_, state)| (state.mark, state.last) = (None, None));
    }

    fn modify<T>(&mut self, stream: StreamId, change: impl FnOnce(&mut StreamState) -> T) -> T {
        let slot = self.slot(stream);
        let Some((_, state)) = &mut self.streams[slot as usize] else {
            unreachable!("a slot that is named holds a stream");
        };
        if let Some(capture) = &mut self.capture {
            capture.keep(slot, Some((stream, state)));
        }
        let before = (state.fences.len(), state.extents.len());
        let result = change(state);
        self.fences = self.fences - before.0 as u64 + state.fences.len() as u64;
        self.extents = self.extents - before.1 as u64 + state.extents.len() as u64;
        result
    }

    fn slot(&mut self, stream: StreamId) -> u32 {
        if let Some(&slot) = self.slots.get(&stream) {
            return slot;
        }
        let entry = Some((stream, StreamState::default()));
        let slot = if let Some(slot) = self.free.pop() {
            // A capture under way must not see a stream that came after it began.
            if let Some(capture) = &mut self.capture {
                capture.keep(slot, None);
            }
            self.streams[slot as usize] = entry;
            slot
        } else {
            self.streams.push(entry);
            u32::try_from(self.streams.len() - 1).expect("fewer than 2^32 streams fit in memory")
        };
        self.slots.insert(stream, slot);
        slot
    }

    /// Takes a checkpoint's state, before the other rows of its frame.
    pub(crate) fn restore(checkpoint: Checkpoint) -> Self {
        let mut state = Self { oldest: checkpoint.oldest, ..Self::default() };
        state.namespaces.extend(checkpoint.namespaces);
        for summary in checkpoint.streams {
            let stream = summary.stream;
            let restored = StreamState::from_summary(summary);
            state.modify(stream, |slot| *slot = restored);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId { class: 1, id: 7 };

    fn at(frame: u64, segment: u64) -> Position {
        Position { frame: Lsn(frame), segment, durable: Lsn(u64::MAX) }
    }

    #[test]
    fn links_name_the_previous_segment_once_a_segment() {
        let mut state = State::default();
        let entries = |first, last| Change::Entries { stream: A, first, last };
        assert_eq!(state.apply(&entries(1, 2), at(10, 1)), Some(Link { stream: A, previous: 0 }));
        assert_eq!(state.apply(&entries(3, 3), at(20, 1)), None);
        assert_eq!(state.apply(&entries(4, 4), at(90, 3)), Some(Link { stream: A, previous: 1 }));
        state.apply(&Change::Release { stream: A }, at(100, 3));
        assert_eq!(state.apply(&entries(1, 1), at(110, 4)), Some(Link { stream: A, previous: 0 }));
    }

    #[test]
    fn restore_gives_back_what_a_capture_took() {
        let mut state = State::default();
        state.apply(&Change::Entries { stream: A, first: 3, last: 9 }, at(10, 1));
        state.apply(&Change::Obsolete { stream: A, id: 4 }, at(20, 1));
        state.apply(&Change::Truncate { stream: A, from: 8, last: Some(7) }, at(30, 1));
        state.apply(&Change::CreateNamespace { stream: A }, at(30, 1));
        state.apply(&Change::Oldest { sequence: 1 }, at(30, 1));
        let checkpoint = state.capture_now(None, Lsn::ZERO);
        let restored = State::restore(checkpoint.clone());
        assert_eq!(restored.get(A).unwrap().fences, state.get(A).unwrap().fences);
        let mut restored = restored;
        assert_eq!(restored.capture_now(None, Lsn::ZERO), checkpoint);
    }
}
