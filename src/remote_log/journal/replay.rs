//! Reads a journal from its first live entry to its end.

use bytes::Bytes;
use tidelog_format::StreamId;

use super::super::codec::Event;
use super::super::partition::Replayed;
use super::super::store::Store;
use super::super::types::RemoteLogSegmentState;
use super::error::JournalError;
use super::record::Record;
use crate::error::Error;
use crate::log::Log;
use crate::options::ReadMode;
use crate::reader::{ReadOptions, ReadUpTo, Reader};

/// What reading a journal found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalReport {
    /// Entries read.
    pub entries: u64,
    /// Events that what was recorded before them does not allow. They were left out. A journal
    /// that was written by this crate alone has none.
    pub refused: u64,
    /// The number of the checkpoint that it begins with, if it does.
    pub checkpoint: Option<u64>,
}

/// The state of a journal at its end.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) store: Store,
    pub(super) report: JournalReport,
    /// The first live entry; the next id where there is none.
    pub(super) first: u64,
    pub(super) next: u64,
    /// The highest number of any checkpoint, complete or not.
    pub(super) last_checkpoint: u64,
    /// Where the last whole checkpoint on the way begins: nothing before it is needed. Whoever wrote it
    /// did not come to say so.
    pub(super) covered: Option<u64>,
    on_the_way: Option<OnTheWay>,
    stage: Stage,
}

/// A checkpoint that the journal does not begin with, as far as it was read.
#[derive(Clone, Copy, Debug)]
struct OnTheWay {
    number: u64,
    begin: u64,
    count: u64,
}

/// What the next record means.
#[derive(Debug, Default)]
enum Stage {
    /// The first one decides.
    #[default]
    Start,
    /// The journal begins with this checkpoint. What happened since it began comes on top of it.
    Checkpoint { number: u64, count: u64, since: Vec<(u64, Event)> },
    /// Everything is there. Checkpoints on the way say nothing new.
    Events,
}

/// Entries between two looks at whether the result is still wanted.
const LOOK_EVERY: u64 = 4096;

/// The entries of a journal as it is now. They do not keep the log open.
pub(super) struct Entries {
    reader: Reader,
    stream: StreamId,
    next: u64,
}

impl Entries {
    pub(super) fn of(log: &Log, stream: StreamId) -> Result<Self, JournalError> {
        let next = log.stream(stream).and_then(|info| info.last).map_or(1, |last| last.saturating_add(1));
        // What an earlier journal of this process staged is waited for: nobody was told that it is there.
        // Entries are small and none is kept, so that to copy them costs less than to see to each in a map.
        let options = ReadOptions::new().up_to(ReadUpTo::Durable).mode(ReadMode::Copy);
        let reader = log.read(stream, .., options)?;
        Ok(Self { reader, stream, next })
    }

    /// Takes all of them, as long as the result is `wanted`.
    pub(super) fn replay(self, wanted: impl Fn() -> bool) -> Result<Replay, JournalError> {
        let Self { reader, stream, next } = self;
        let entries = reader.map(|entry| entry.map(|entry| (entry.id, entry.payload)));
        Replay::of(stream, next, entries, wanted)
    }
}

impl Replay {
    /// What the entries of a stream come to, with their ids, as long as the result is `wanted`; `next` is
    /// the id after them.
    pub(super) fn of(
        stream: StreamId,
        next: u64,
        entries: impl Iterator<Item = Result<(u64, Bytes), Error>>,
        wanted: impl Fn() -> bool,
    ) -> Result<Self, JournalError> {
        let mut replay = Self { first: next, next, ..Self::default() };
        for entry in entries {
            let (id, payload) = entry?;
            let record = Record::decode(&payload).map_err(|cause| JournalError::Record {
                stream,
                id,
                cause: cause.into(),
            })?;
            replay.take(id, record).map_err(|(checkpoint, what)| JournalError::Checkpoint {
                stream,
                id,
                checkpoint,
                what,
            })?;
            if replay.report.entries.is_multiple_of(LOOK_EVERY) && !wanted() {
                return Err(JournalError::Abandoned);
            }
        }
        match replay.stage {
            Stage::Checkpoint { number, .. } => {
                Err(JournalError::Checkpoint { stream, id: replay.next, checkpoint: number, what: "no end" })
            }
            Stage::Start | Stage::Events => Ok(replay),
        }
    }

    /// Takes the next record; else gives the checkpoint that is not whole, and why.
    fn take(&mut self, id: u64, record: Record) -> Result<(), (u64, &'static str)> {
        self.report.entries += 1;
        if let Record::Begin { checkpoint } = record {
            self.last_checkpoint = self.last_checkpoint.max(checkpoint);
        }
        self.store.advance(id);
        match &mut self.stage {
            Stage::Start => {
                self.first = id;
                return self.start(id, record);
            }
            Stage::Events => match record {
                Record::Event(event) => self.replay(id, &event),
                other => self.pass_checkpoint(id, &other),
            },
            Stage::Checkpoint { number, count, since } => match record {
                Record::Event(event) => since.push((id, event)),
                Record::State { checkpoint, position, state } if checkpoint == *number => {
                    *count += 1;
                    check_state(&state).map_err(|what| (*number, what))?;
                    match state {
                        Event::AddSegment(metadata) => self.store.restore_segment(&metadata, position),
                        Event::DeletePartition(delete) => self.store.restore_deletion(delete, position),
                        Event::UpdateSegment(_) => {}
                    }
                }
                Record::End { checkpoint, count: stated } if checkpoint == *number => {
                    if stated != *count {
                        return Err((*number, "states are missing"));
                    }
                    for (id, event) in std::mem::take(since) {
                        // What began and ended meanwhile left no state to build on.
                        self.store.replay(&event, id);
                    }
                    self.stage = Stage::Events;
                }
                Record::Begin { .. } | Record::State { .. } | Record::End { .. } => {
                    return Err((*number, "another checkpoint"));
                }
            },
        }
        Ok(())
    }

    /// What it says is known already; but if it is whole, what lies before it can go.
    fn pass_checkpoint(&mut self, id: u64, record: &Record) {
        match (record, &mut self.on_the_way) {
            (Record::Begin { checkpoint }, slot) => {
                *slot = Some(OnTheWay { number: *checkpoint, begin: id, count: 0 });
            }
            (Record::State { checkpoint, state, .. }, Some(passed))
                if passed.number == *checkpoint && check_state(state).is_ok() =>
            {
                passed.count += 1;
            }
            (Record::End { checkpoint, count }, Some(passed)) => {
                if (passed.number, passed.count) == (*checkpoint, *count) {
                    self.covered = Some(passed.begin);
                }
                self.on_the_way = None;
            }
            // No journal may begin with such a one.
            _ => self.on_the_way = None,
        }
    }

    fn start(&mut self, id: u64, record: Record) -> Result<(), (u64, &'static str)> {
        self.stage = Stage::Events;
        match record {
            Record::Event(event) => self.replay(id, &event),
            Record::Begin { checkpoint } => {
                self.report.checkpoint = Some(checkpoint);
                self.stage = Stage::Checkpoint { number: checkpoint, count: 0, since: Vec::new() };
            }
            Record::State { checkpoint, .. } | Record::End { checkpoint, .. } => {
                return Err((checkpoint, "no begin"));
            }
        }
        Ok(())
    }

    fn replay(&mut self, id: u64, event: &Event) {
        if self.store.replay(event, id) == Replayed::Refused {
            self.report.refused += 1;
        }
    }
}

/// What a checkpoint may hold as a state, else what is wrong with it.
fn check_state(state: &Event) -> Result<(), &'static str> {
    match state {
        Event::AddSegment(metadata) if metadata.state() == RemoteLogSegmentState::DeleteSegmentFinished => {
            Err("a segment that is gone")
        }
        Event::UpdateSegment(_) => Err("an update for a state"),
        Event::AddSegment(_) | Event::DeletePartition(_) => Ok(()),
    }
}
