//! Events of a partition that were accepted but are not recorded yet. The next event is judged by
//! the state that they will leave, so that the mutations of a partition can overlap.

use std::collections::HashMap;

use uuid::Uuid;

use super::codec::Event;
use super::partition::{Partition, Status, View};
use super::types::{CustomMetadata, RemoteLogSegmentState, RemotePartitionDeleteState};

/// The accepted events, as far as later ones depend on them.
#[derive(Debug, Default)]
pub(super) struct Pending {
    segments: HashMap<Uuid, Segment>,
    deletion: Option<Deletion>,
}

/// What a segment will be after the last event of it that is pending.
#[derive(Debug)]
struct Segment {
    /// `None`: it will be gone.
    after: Option<OwnedStatus>,
    position: u64,
}

#[derive(Debug)]
pub(super) struct OwnedStatus {
    state: RemoteLogSegmentState,
    event_timestamp_ms: i64,
    broker_id: i32,
    custom: Option<CustomMetadata>,
}

/// What a valid event leaves of the thing that it is about.
#[derive(Debug)]
pub(super) enum After {
    Segment(Option<OwnedStatus>),
    Deletion(RemotePartitionDeleteState),
}

impl After {
    pub(super) fn of(event: &Event, view: &impl View) -> Self {
        match event {
            Event::AddSegment(metadata) => Self::Segment(Some(OwnedStatus {
                state: metadata.state(),
                event_timestamp_ms: metadata.event_timestamp_ms(),
                broker_id: metadata.broker_id(),
                custom: metadata.custom_metadata().cloned(),
            })),
            Event::UpdateSegment(update) if update.state == RemoteLogSegmentState::DeleteSegmentFinished => {
                Self::Segment(None)
            }
            Event::UpdateSegment(update) => Self::Segment(Some(OwnedStatus {
                state: update.state,
                event_timestamp_ms: update.event_timestamp_ms,
                broker_id: update.broker_id,
                custom: update.custom_metadata.clone().or_else(|| {
                    let status = view.segment(update.remote_log_segment_id.id);
                    status.and_then(|status| status.custom.cloned())
                }),
            })),
            Event::DeletePartition(delete) => Self::Deletion(delete.state),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Deletion {
    after: RemotePartitionDeleteState,
    position: u64,
}

/// A partition as it will be once all that is pending is recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead<'a> {
    pub(super) recorded: Option<&'a Partition>,
    pub(super) pending: Option<&'a Pending>,
}

impl View for Ahead<'_> {
    fn segment(&self, id: Uuid) -> Option<Status<'_>> {
        match self.pending.and_then(|pending| pending.segments.get(&id)) {
            None => self.recorded.and_then(|partition| partition.segment(id)),
            Some(segment) => segment.after.as_ref().map(|after| Status {
                state: after.state,
                event_timestamp_ms: after.event_timestamp_ms,
                broker_id: after.broker_id,
                custom: after.custom.as_ref(),
            }),
        }
    }

    fn delete_state(&self) -> Option<RemotePartitionDeleteState> {
        match self.pending.and_then(|pending| pending.deletion) {
            None => self.recorded.and_then(View::delete_state),
            Some(deletion) => Some(deletion.after),
        }
    }
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.deletion.is_none()
    }

    /// Adds an event that is valid on top of the others, with what it leaves. Positions rise.
    pub(super) fn push(&mut self, event: &Event, after: After, position: u64) {
        match (event, after) {
            (Event::AddSegment(metadata), After::Segment(after)) => {
                self.segments.insert(metadata.remote_log_segment_id().id, Segment { after, position });
            }
            (Event::UpdateSegment(update), After::Segment(after)) => {
                self.segments.insert(update.remote_log_segment_id.id, Segment { after, position });
            }
            (_, After::Deletion(after)) => self.deletion = Some(Deletion { after, position }),
            (Event::DeletePartition(_), After::Segment(_)) => {}
        }
    }

    /// Position of the last pending event of the same segment or deletion: whoever repeats it has to
    /// wait for that one to be recorded.
    pub(super) fn position(&self, event: &Event) -> Option<u64> {
        match event {
            Event::AddSegment(metadata) => self.position_of(metadata.remote_log_segment_id().id),
            Event::UpdateSegment(update) => self.position_of(update.remote_log_segment_id.id),
            Event::DeletePartition(_) => self.deletion.map(|deletion| deletion.position),
        }
    }

    fn position_of(&self, id: Uuid) -> Option<u64> {
        self.segments.get(&id).map(|segment| segment.position)
    }

    /// Drops an event that is recorded now, in the order of the positions.
    pub(super) fn settle(&mut self, event: &Event, position: u64) {
        // A later event on the same thing holds the place until it is recorded itself.
        if self.position(event) != Some(position) {
            return;
        }
        match event {
            Event::AddSegment(metadata) => drop(self.segments.remove(&metadata.remote_log_segment_id().id)),
            Event::UpdateSegment(update) => drop(self.segments.remove(&update.remote_log_segment_id.id)),
            Event::DeletePartition(_) => self.deletion = None,
        }
    }
}
