//! From a mutation to a change of the state: judged, staged, durable, applied.

use bytes::Bytes;
use std::sync::atomic::Ordering;
use tidelog_format::Lsn;

use super::super::codec::Event;
use super::super::epoch_index::Cursor;
use super::super::error::RemoteStorageError;
use super::super::metadata::{Effect, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate};
use super::super::partition::{Partition, View, validate};
use super::super::pending::{After, Ahead};
use super::super::store::{Store, check_deleted};
use super::super::types::{RemoteLogSegmentState, TopicIdPartition};
use super::record::Record;
use super::{JournalError, Shared, Staged, Tail};
use crate::commit::Batch;
use crate::error::Error;

/// Most segments that one batch drops.
const PURGE_SEGMENTS: usize = 256;

/// A record to be staged; an event comes with what it leaves.
pub(super) type Prepared = (Record, Option<After>);

impl Tail {
    /// The partition with all that is pending on top of what is recorded.
    fn ahead<'a>(&'a self, state: &'a Store, tp: &TopicIdPartition) -> Ahead<'a> {
        Ahead { recorded: state.get(tp), pending: self.pending.get(tp) }
    }
}

impl Shared {
    /// Stages an event that is valid on top of all that is pending. Gives what to wait for, if
    /// anything: an event that repeats another one waits for that one.
    pub(super) fn stage_event(&self, event: Event) -> Result<Option<(u64, Option<Lsn>)>, RemoteStorageError> {
        self.check()?;
        let mut tail = self.tail.lock();
        let tp = event.topic_id_partition();
        let (effect, after) = {
            let state = self.state.read();
            let view = tail.ahead(&state, tp);
            (validate(&view, &event)?, After::of(&event, &view))
        };
        if effect == Effect::Change {
            let (id, lsn) = self.stage(&mut tail, vec![(Record::Event(event), Some(after))])?;
            return Ok(Some((id, Some(lsn))));
        }
        let repeated = tail.pending.get(tp).and_then(|pending| pending.position(&event));
        Ok(repeated.map(|id| (id, self.lsn_of(id))))
    }

    /// Stages what drops some of a partition's segments. Gives their number and what to wait for;
    /// `None` once no segment is left.
    pub(super) fn stage_purge(
        &self,
        tp: &TopicIdPartition,
    ) -> Result<Option<(usize, u64, Option<Lsn>)>, RemoteStorageError> {
        self.check()?;
        let mut tail = self.tail.lock();
        let mut count = 0;
        let mut prepared = Vec::new();
        {
            let state = self.state.read();
            let view = tail.ahead(&state, tp);
            check_deleted(tp, &view)?;
            let page = |partition: &Partition| partition.page(Cursor::default(), PURGE_SEGMENTS).0;
            for (segment, _) in state.get(tp).map(page).unwrap_or_default() {
                let drops = drop_segment(&view, &segment);
                count += usize::from(!drops.is_empty());
                prepared.extend(drops);
            }
        }
        if prepared.is_empty() {
            // What is pending may still add a segment or drop one.
            let last = self.queue.lock().back().map(|staged| (staged.id, staged.lsn));
            return Ok(tail.pending.get(tp).and(last).map(|(id, lsn)| (0, id, Some(lsn))));
        }
        let (id, lsn) = self.stage(&mut tail, prepared)?;
        Ok(Some((count, id, Some(lsn))))
    }

    /// Appends records to the journal, all or none. Gives the last one's id and what to wait for.
    pub(super) fn stage(
        &self,
        tail: &mut Tail,
        records: Vec<Prepared>,
    ) -> Result<(u64, Lsn), RemoteStorageError> {
        let mut batch: Batch<Bytes> = Batch::new();
        let encoded = records.iter().map(|(record, _)| record.encode());
        for (id, bytes) in (tail.next..).zip(encoded) {
            let bytes = bytes.map_err(|error| RemoteStorageError::InvalidArgument(error.to_string()))?;
            batch.append(self.stream, id, bytes);
        }
        let lsn = self.log.append(&batch).map_err(|error| self.refused(error))?;
        let mut queue = self.queue.lock();
        for (record, after) in records {
            let id = tail.next;
            tail.next += 1;
            let event = if let Record::Event(event) = record { Some(event) } else { None };
            if let (Some(event), Some(after)) = (&event, after) {
                let pending = tail.pending.entry(event.topic_id_partition().clone()).or_default();
                pending.push(event, after, id);
            }
            queue.push_back(Staged { id, lsn, event });
        }
        drop(queue);
        if self.is_checkpoint_due(tail) {
            self.checkpoint_due.store(true, Ordering::Relaxed);
        }
        Ok((tail.next - 1, lsn))
    }

    /// Nothing was staged. Where the journal's place in its stream is not what it was, or the log
    /// is broken, nothing will ever be again.
    fn refused(&self, error: Error) -> RemoteStorageError {
        match error {
            Error::Poisoned { .. } | Error::OutOfOrder { .. } | Error::Obsolete { .. } => {
                self.fail(error.into())
            }
            error => JournalError::from(error).into(),
        }
    }

    /// What an entry waits for; `None` if it is applied, or about to be.
    fn lsn_of(&self, id: u64) -> Option<Lsn> {
        let queue = self.queue.lock();
        let at = queue.binary_search_by_key(&id, |staged| staged.id).ok()?;
        queue.get(at).map(|staged| staged.lsn)
    }

    /// Waits until an entry is durable and applied.
    pub(super) fn settle(&self, id: u64, lsn: Option<Lsn>) -> Result<(), RemoteStorageError> {
        if let Some(lsn) = lsn {
            self.log.wait_durable(lsn).map_err(|error| self.fail(error.into()))?;
        }
        // An entry leaves the queue under the lock of the state, so it is applied once that is free.
        if self.state.read().position() >= id {
            return Ok(());
        }
        self.apply_durable()?;
        // It is missing only where whoever took it from the queue could not apply it.
        if self.state.read().position() >= id {
            return Ok(());
        }
        Err(self.fail(JournalError::Diverged { stream: self.stream, id }))
    }

    /// Applies what is durable, in the order of the log.
    pub(super) fn apply_durable(&self) -> Result<(), RemoteStorageError> {
        let durable = self.log.durable_lsn();
        let mut applied = Vec::new();
        {
            let mut state = self.state.write();
            while let Some(Staged { id, event, .. }) = self.next_durable(durable) {
                if let Some(error) = self.failure.get() {
                    return Err(error.clone().into());
                }
                if let Some(event) = event {
                    if state.apply(&event, id).is_err() {
                        return Err(self.fail(JournalError::Diverged { stream: self.stream, id }));
                    }
                    applied.push((event, id));
                }
                state.advance(id);
            }
        }
        if !applied.is_empty() {
            self.forget_pending(&applied);
        }
        Ok(())
    }

    fn next_durable(&self, durable: Lsn) -> Option<Staged> {
        let mut queue = self.queue.lock();
        if queue.front()?.lsn < durable { queue.pop_front() } else { None }
    }

    fn forget_pending(&self, applied: &[(Event, u64)]) {
        let mut tail = self.tail.lock();
        for (event, id) in applied {
            let tp = event.topic_id_partition();
            let Some(pending) = tail.pending.get_mut(tp) else { continue };
            pending.settle(event, *id);
            if pending.is_empty() {
                tail.pending.remove(tp);
            }
        }
    }
}

/// What makes a segment go, from whatever it will be.
fn drop_segment(view: &impl View, segment: &RemoteLogSegmentMetadata) -> Vec<Prepared> {
    use RemoteLogSegmentState::{DeleteSegmentFinished, DeleteSegmentStarted};
    let id = segment.remote_log_segment_id();
    let Some(status) = view.segment(id.id) else { return Vec::new() };
    let steps = [DeleteSegmentStarted, DeleteSegmentFinished];
    let steps = steps.into_iter().filter(|step| *step != status.state);
    let update = |state| {
        let (timestamp, broker) = (status.event_timestamp_ms, status.broker_id);
        let event = Event::UpdateSegment(RemoteLogSegmentMetadataUpdate::new(
            id.clone(),
            timestamp,
            None,
            state,
            broker,
        ));
        let after = After::of(&event, view);
        (Record::Event(event), Some(after))
    };
    steps.map(update).collect()
}
