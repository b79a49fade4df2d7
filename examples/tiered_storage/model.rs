//! What must be recorded: the acknowledged events, taken one by one. Apart from the rules of a single
//! segment it shares nothing with the store; it looks through all segments for an answer.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use tidelog::remote_log::{
    Event, LeaderEpoch, RemoteLogSegmentMetadata, RemoteLogSegmentState, RemotePartitionDeleteState, Uuid,
};

#[derive(Clone, Debug)]
struct Held {
    segment: RemoteLogSegmentMetadata,
    /// The event that changed it last.
    event: u64,
}

/// One partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    held: BTreeMap<Uuid, Held>,
    deletion: Option<RemotePartitionDeleteState>,
    events: u64,
    /// Told of, with no outcome yet.
    pending: Option<Event>,
}

impl Model {
    pub(crate) fn begin(&mut self, event: Event) -> anyhow::Result<()> {
        ensure!(self.pending.is_none(), "{event:?} was begun while {:?} was pending", self.pending);
        self.pending = Some(event);
        Ok(())
    }

    /// The pending event was acknowledged.
    pub(crate) fn acknowledge(&mut self) -> anyhow::Result<()> {
        let event = self.pending.take().context("an acknowledgement without an event")?;
        ensure!(self.accepts(&event), "{event:?} was accepted, and must not be");
        self.apply(&event)
    }

    /// The pending event was refused.
    pub(crate) fn refuse(&mut self) -> anyhow::Result<()> {
        let event = self.pending.take().context("a refusal without an event")?;
        ensure!(!self.accepts(&event), "{event:?} was refused, and must not be");
        Ok(())
    }

    pub(crate) fn take_pending(&mut self) -> Option<Event> {
        self.pending.take()
    }

    pub(crate) fn accepts(&self, event: &Event) -> bool {
        match event {
            Event::AddSegment(segment) => {
                let id = segment.remote_log_segment_id().id;
                segment.state() == RemoteLogSegmentState::CopySegmentStarted && !self.held.contains_key(&id)
            }
            Event::UpdateSegment(update) => self
                .held
                .get(&update.remote_log_segment_id.id)
                .is_some_and(|held| held.segment.with_update(update).is_ok()),
            Event::DeletePartition(delete) => {
                self.deletion == Some(delete.state)
                    || RemotePartitionDeleteState::is_valid_transition(self.deletion, delete.state)
            }
        }
    }

    pub(crate) fn apply(&mut self, event: &Event) -> anyhow::Result<()> {
        self.events += 1;
        match event {
            Event::AddSegment(segment) => {
                let held = Held { segment: segment.clone(), event: self.events };
                self.held.insert(segment.remote_log_segment_id().id, held);
            }
            Event::UpdateSegment(update) => {
                let id = update.remote_log_segment_id.id;
                let held = self.held.get_mut(&id).context("an update of an unknown segment")?;
                *held = Held { segment: held.segment.with_update(update)?, event: self.events };
                if update.state == RemoteLogSegmentState::DeleteSegmentFinished {
                    self.held.remove(&id);
                }
            }
            Event::DeletePartition(delete) => self.deletion = Some(delete.state),
        }
        Ok(())
    }

    pub(crate) fn deletion(&self) -> Option<RemotePartitionDeleteState> {
        self.deletion
    }

    pub(crate) fn list(&self) -> Vec<RemoteLogSegmentMetadata> {
        let mut segments: Vec<_> = self.held.values().map(|held| held.segment.clone()).collect();
        segments.sort_by_key(|segment| (segment.start_offset(), segment.remote_log_segment_id().id));
        segments
    }

    fn finished(&self) -> impl Iterator<Item = &Held> {
        let finished = RemoteLogSegmentState::CopySegmentFinished;
        self.held.values().filter(move |held| held.segment.state() == finished)
    }

    pub(crate) fn highest(&self, epoch: LeaderEpoch) -> Option<i64> {
        let carrying =
            self.finished().filter(|held| held.segment.segment_leader_epochs().contains_key(&epoch));
        carrying.map(|held| held.segment.end_offset()).max()
    }

    /// The segment that finished last of those that hold an offset of an epoch.
    pub(crate) fn find(&self, epoch: LeaderEpoch, offset: i64) -> Option<&RemoteLogSegmentMetadata> {
        let holding = self.finished().filter(|held| holds(&held.segment, epoch, offset));
        holding.max_by_key(|held| held.event).map(|held| &held.segment)
    }
}

fn holds(segment: &RemoteLogSegmentMetadata, epoch: LeaderEpoch, offset: i64) -> bool {
    let epochs = segment.segment_leader_epochs();
    let Some(first) = epochs.get(&epoch) else { return false };
    let next = epochs.range(LeaderEpoch(epoch.get() + 1)..).next();
    (segment.start_offset()..=segment.end_offset()).contains(&offset)
        && *first <= offset
        && next.is_none_or(|(_, next)| offset < *next)
}
