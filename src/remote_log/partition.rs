//! What is recorded of one partition, and which events it takes. Pure: no clock, lock or file.

use uuid::Uuid;

use super::arena::Ix;
use super::codec::Event;
use super::epoch_index::{Cursor, EpochIndex};
use super::error::RemoteStorageError;
use super::metadata::{Effect, RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata};
use super::segments::Span;
use super::types::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentState, RemotePartitionDeleteState, TopicIdPartition,
};

/// What decides which update a segment takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status<'a> {
    pub(super) state: RemoteLogSegmentState,
    pub(super) event_timestamp_ms: i64,
    pub(super) broker_id: i32,
    pub(super) custom: Option<&'a CustomMetadata>,
}

/// What decides which event a partition takes next.
pub(super) trait View {
    fn segment(&self, id: Uuid) -> Option<Status<'_>>;
    fn delete_state(&self) -> Option<RemotePartitionDeleteState>;
}

/// Of an unknown partition nothing is recorded.
impl<V: View> View for Option<&V> {
    fn segment(&self, id: Uuid) -> Option<Status<'_>> {
        self.and_then(|view| view.segment(id))
    }

    fn delete_state(&self) -> Option<RemotePartitionDeleteState> {
        self.and_then(View::delete_state)
    }
}

/// What an event does to a partition that is as the view says, or why it is refused.
pub(super) fn validate(view: &impl View, event: &Event) -> Result<Effect, RemoteStorageError> {
    match event {
        Event::AddSegment(metadata) => {
            let id = metadata.remote_log_segment_id();
            let refuse = |reason| Err(RemoteStorageError::InvalidAdd { id: id.clone(), reason });
            match (metadata.state(), view.segment(id.id)) {
                (RemoteLogSegmentState::CopySegmentStarted, None) => Ok(Effect::Change),
                (RemoteLogSegmentState::CopySegmentStarted, Some(known)) => {
                    refuse(format!("it is known, with state {:?}", known.state))
                }
                (state, _) => refuse(format!("its state is {state:?}, not CopySegmentStarted")),
            }
        }
        Event::UpdateSegment(update) => match view.segment(update.remote_log_segment_id.id) {
            None => Err(RemoteStorageError::SegmentNotFound(update.remote_log_segment_id.clone())),
            Some(Status { state, event_timestamp_ms, broker_id, custom }) => {
                update.follow(state, event_timestamp_ms, broker_id, custom)
            }
        },
        Event::DeletePartition(delete) => delete.follow(view.delete_state()),
    }
}

/// What became of an event that is taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replayed {
    /// It changed what is recorded, or repeated it.
    Taken,
    /// What is recorded holds it already.
    Known,
    /// What is recorded does not allow it.
    Refused,
}

/// All that is recorded of a partition.
#[derive(Debug)]
pub(super) struct Partition {
    /// Under the name that the last segment was added with.
    name: TopicIdPartition,
    index: EpochIndex,
    deletion: Option<Deletion>,
}

/// How far the deletion has come, and the position of the event that says so.
#[derive(Clone, Debug)]
struct Deletion {
    metadata: RemotePartitionDeleteMetadata,
    position: u64,
}

impl View for Partition {
    fn segment(&self, id: Uuid) -> Option<Status<'_>> {
        Some(self.status(self.index.find(id)?))
    }

    fn delete_state(&self) -> Option<RemotePartitionDeleteState> {
        self.deletion.as_ref().map(|deletion| deletion.metadata.state)
    }
}

/// A partition, and where the one segment is that an event is about: it was looked up before.
struct Found<'a> {
    partition: &'a Partition,
    segment: Option<Ix>,
}

impl View for Found<'_> {
    fn segment(&self, _: Uuid) -> Option<Status<'_>> {
        self.segment.map(|segment| self.partition.status(segment))
    }

    fn delete_state(&self) -> Option<RemotePartitionDeleteState> {
        self.partition.delete_state()
    }
}

impl Partition {
    /// A partition of which nothing is recorded yet.
    pub(super) fn new(name: TopicIdPartition) -> Self {
        Self { name, index: EpochIndex::default(), deletion: None }
    }

    /// Takes an event, or refuses it and stays as it is. Of the segments that hold an offset the one
    /// that was finished at the highest position answers.
    pub(super) fn apply(&mut self, event: &Event, position: u64) -> Result<Effect, RemoteStorageError> {
        self.apply_to(self.find(event), event, position)
    }

    /// Takes an event from a record of what happened, which may be older than what is known.
    pub(super) fn replay(&mut self, event: &Event, position: u64) -> Replayed {
        let segment = self.find(event);
        let known = match event {
            Event::DeletePartition(_) => self.deletion.as_ref().map(|deletion| deletion.position),
            _ => segment.map(|segment| self.index.segment(segment).position),
        };
        if known.is_some_and(|known| position <= known) {
            Replayed::Known
        } else if self.apply_to(segment, event, position).is_ok() {
            Replayed::Taken
        } else {
            Replayed::Refused
        }
    }

    /// The segment that an event is about, if it is known.
    fn find(&self, event: &Event) -> Option<Ix> {
        let id = match event {
            Event::AddSegment(metadata) => metadata.remote_log_segment_id(),
            Event::UpdateSegment(update) => &update.remote_log_segment_id,
            Event::DeletePartition(_) => return None,
        };
        self.index.find(id.id)
    }

    fn apply_to(
        &mut self,
        segment: Option<Ix>,
        event: &Event,
        position: u64,
    ) -> Result<Effect, RemoteStorageError> {
        let effect = validate(&Found { partition: self, segment }, event)?;
        if effect == Effect::Nothing {
            return Ok(effect);
        }
        match (event, segment) {
            (Event::AddSegment(metadata), _) => self.insert(metadata, position),
            (Event::UpdateSegment(update), Some(segment)) => {
                if update.state == RemoteLogSegmentState::DeleteSegmentFinished {
                    self.index.remove(segment);
                } else {
                    self.index.update(segment, update, position);
                }
            }
            (Event::UpdateSegment(_), None) => {}
            (Event::DeletePartition(delete), _) => self.restore_deletion(delete.clone(), position),
        }
        Ok(effect)
    }

    fn status(&self, segment: Ix) -> Status<'_> {
        let segment = self.index.segment(segment);
        Status {
            state: segment.state,
            event_timestamp_ms: segment.event_timestamp_ms,
            broker_id: segment.broker_id,
            custom: segment.custom.as_deref(),
        }
    }

    /// Takes a segment in any state, as it was after the event at `position`. Its id is not known.
    pub(super) fn insert(&mut self, metadata: &RemoteLogSegmentMetadata, position: u64) {
        let topic = &metadata.remote_log_segment_id().topic_id_partition.topic;
        if self.name.topic != *topic {
            self.name.topic.clone_from(topic);
        }
        self.index.insert(metadata, position);
    }

    /// Takes the state of the deletion, as it was after the event at `position`.
    pub(super) fn restore_deletion(&mut self, metadata: RemotePartitionDeleteMetadata, position: u64) {
        self.deletion = Some(Deletion { metadata, position });
    }

    /// Segments with the positions of their last events, from a cursor on.
    pub(super) fn page(
        &self,
        from: Cursor,
        limit: usize,
    ) -> (Vec<(RemoteLogSegmentMetadata, u64)>, Option<Cursor>) {
        let (page, rest) = self.index.page(from, limit);
        let with_position =
            |segment| (self.index.metadata(segment, &self.name), self.index.segment(segment).position);
        (page.into_iter().map(with_position).collect(), rest)
    }

    /// How far the deletion has come, with the position of its last event.
    pub(super) fn deletion(&self) -> Option<(&RemotePartitionDeleteMetadata, u64)> {
        self.deletion.as_ref().map(|deletion| (&deletion.metadata, deletion.position))
    }

    /// Drops all segments; gives their number. The deletion's state stays.
    pub(super) fn purge(&mut self) -> usize {
        std::mem::take(&mut self.index).len()
    }

    /// The partition, under the name that the last segment was added with.
    pub(super) fn topic_id_partition(&self) -> &TopicIdPartition {
        &self.name
    }

    pub(super) fn has_segments(&self) -> bool {
        self.index.len() > 0
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.delete_state() == Some(RemotePartitionDeleteState::DeletePartitionFinished)
    }

    /// How many records it takes to write all of it down.
    pub(super) fn live(&self) -> u64 {
        self.index.len() as u64 + u64::from(self.deletion.is_some())
    }

    /// The finished segment that holds an offset of an epoch; of several, the one that finished last.
    pub(super) fn containing(&self, epoch: LeaderEpoch, offset: i64) -> Option<RemoteLogSegmentMetadata> {
        let segment = self.index.containing(epoch, offset)?;
        Some(self.index.metadata(segment, &self.name))
    }

    /// The highest end offset of the finished segments that carry an epoch.
    pub(super) fn highest(&self, epoch: LeaderEpoch) -> Option<i64> {
        self.index.highest(epoch)
    }

    /// Each leader epoch of each segment, with the segment's state and the offsets at which it answers while
    /// it is finished.
    pub(super) fn members(&self) -> impl Iterator<Item = (LeaderEpoch, RemoteLogSegmentState, Option<Span>)> {
        self.index.members().map(|(epoch, segment, span)| (epoch, segment.state, span))
    }

    /// All segments, by start offset and id.
    pub(super) fn list(&self) -> Vec<RemoteLogSegmentMetadata> {
        let segments = self.index.list().into_iter();
        segments.map(|segment| self.index.metadata(segment, &self.name)).collect()
    }

    /// The segments that carry an epoch, by start offset and id.
    pub(super) fn list_by_epoch(&self, epoch: LeaderEpoch) -> Vec<RemoteLogSegmentMetadata> {
        let segments = self.index.list_by_epoch(epoch).into_iter();
        segments.map(|segment| self.index.metadata(segment, &self.name)).collect()
    }
}
