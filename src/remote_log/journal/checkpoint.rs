//! Checkpoints: what is live, written anew, so that all before it can go.
//!
//! The state records are read from the state while mutations go on: each is of the time when it
//! was read, and carries the position of the last event that it holds. Whoever reads the journal
//! puts the events since the begin on top, each where it is newer. Nothing is read before the begin
//! is applied, so everything before it is in there.
//!
//! A checkpoint that is due is written by the mutations that follow, a page each. So it needs no
//! thread, holds nobody up, and keeps nothing open.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use tidelog_format::Lsn;

use super::super::codec::Event;
use super::super::epoch_index::Cursor;
use super::super::error::RemoteStorageError;
use super::super::partition::Partition;
use super::super::types::TopicIdPartition;
use super::record::Record;
use super::{JournalError, Shared, Tail};

/// States that a step writes, and partitions that it looks at, at most.
const PAGE: usize = 256;

/// A checkpoint on its way.
#[derive(Debug)]
pub(super) struct Checkpoint {
    number: u64,
    /// Its first entry.
    begin: u64,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// All before the begin is to be applied.
    Begun { lsn: Lsn },
    /// States are written.
    States { left: VecDeque<TopicIdPartition>, from: Cursor, count: u64 },
    /// All is to be durable.
    Ended { lsn: Lsn },
}

/// What a step came to.
enum Progress {
    More,
    /// Until this is durable and applied there is nothing to do.
    Wait(u64, Lsn),
    Done,
}

impl Shared {
    /// Whether enough of the journal is dead.
    pub(super) fn is_checkpoint_due(&self, tail: &Tail) -> bool {
        let Some(minimum) = self.options.checkpoint_after else { return false };
        let entries = tail.next - tail.first;
        let dead = entries.saturating_sub(self.state.read().live());
        dead > minimum && dead > entries / 2 && tail.next >= tail.retry_at
    }

    /// Does a step of the checkpoint that is due, unless another thread is at it.
    pub(super) fn advance_checkpoint(&self) {
        let Some(mut slot) = self.checkpoint.try_lock() else { return };
        if slot.is_none() && !self.is_checkpoint_due(&self.tail.lock()) {
            return self.checkpoint_due.store(false, Ordering::Relaxed);
        }
        match self.advance(&mut slot) {
            Ok(Progress::More | Progress::Wait(..)) => {}
            Ok(Progress::Done) => self.checkpoint_due.store(false, Ordering::Relaxed),
            Err(_) => {
                // Without its end it means nothing. Why it failed, the mutations will learn too.
                *slot = None;
                let mut tail = self.tail.lock();
                tail.failed_checkpoints += 1;
                tail.retry_at = tail.next + self.options.checkpoint_after.unwrap_or(0);
                self.checkpoint_due.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Writes a checkpoint of what is recorded when it is called, or later, to its end.
    pub(super) fn write_checkpoint(&self) -> Result<(), RemoteStorageError> {
        let mut slot = self.checkpoint.lock();
        // One on its way may have read some of the state already.
        let mut left = 1 + u32::from(slot.is_some());
        while left > 0 {
            match self.advance(&mut slot) {
                Ok(Progress::More) => {}
                Ok(Progress::Wait(id, lsn)) => self.settle(id, Some(lsn))?,
                Ok(Progress::Done) => left -= 1,
                Err(error) => {
                    *slot = None;
                    return Err(error);
                }
            }
        }
        self.checkpoint_due.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn advance(&self, slot: &mut Option<Checkpoint>) -> Result<Progress, RemoteStorageError> {
        let Some(checkpoint) = slot else {
            *slot = Some(self.begin_checkpoint()?);
            return Ok(Progress::More);
        };
        let begin = checkpoint.begin;
        match &mut checkpoint.step {
            Step::Begun { lsn } => {
                let state = self.state.read();
                if state.position() < begin {
                    return Ok(Progress::Wait(begin, *lsn));
                }
                let left = state.select(|_| true).into();
                checkpoint.step = Step::States { left, from: Cursor::default(), count: 0 };
            }
            Step::States { left, from, count } => {
                let number = checkpoint.number;
                let mut records = self.read_states(number, left, from);
                *count += records.len() as u64;
                let end = left.is_empty().then_some(Record::End { checkpoint: number, count: *count });
                let is_end = end.is_some();
                records.extend(end);
                if records.is_empty() {
                    return Ok(Progress::More);
                }
                let records = records.into_iter().map(|record| (record, None)).collect();
                let (_, lsn) = self.stage(&mut self.tail.lock(), records)?;
                if is_end {
                    checkpoint.step = Step::Ended { lsn };
                }
            }
            Step::Ended { lsn } => {
                if self.log.durable_lsn() <= *lsn {
                    return Ok(Progress::Wait(begin, *lsn));
                }
                if begin > 1 {
                    self.log.obsolete(self.stream, begin - 1).map_err(JournalError::from)?;
                }
                self.tail.lock().first = begin;
                *slot = None;
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    fn begin_checkpoint(&self) -> Result<Checkpoint, RemoteStorageError> {
        let mut tail = self.tail.lock();
        let number = tail.last_checkpoint + 1;
        let (begin, lsn) = self.stage(&mut tail, vec![(Record::Begin { checkpoint: number }, None)])?;
        tail.last_checkpoint = number;
        Ok(Checkpoint { number, begin, step: Step::Begun { lsn } })
    }

    /// The next states; takes the partitions off the list that are through.
    fn read_states(
        &self,
        checkpoint: u64,
        left: &mut VecDeque<TopicIdPartition>,
        from: &mut Cursor,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let state = self.state.read();
        for _ in 0..PAGE {
            let Some(partition) = left.front().map(|tp| state.get(tp)) else { break };
            let (page, rest) = partition.map_or_else(Default::default, |partition| {
                partition.page(*from, PAGE.saturating_sub(records.len()))
            });
            let segments =
                page.into_iter().map(|(metadata, position)| (position, Event::AddSegment(metadata)));
            let deletion = partition.filter(|_| rest.is_none()).and_then(Partition::deletion);
            let deletion =
                deletion.map(|(delete, position)| (position, Event::DeletePartition(delete.clone())));
            records.extend(segments.chain(deletion).map(|(position, state)| Record::State {
                checkpoint,
                position,
                state,
            }));
            *from = rest.unwrap_or_default();
            if rest.is_none() {
                left.pop_front();
            }
            if records.len() >= PAGE {
                break;
            }
        }
        records
    }
}
