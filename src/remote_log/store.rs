//! What is recorded of all partitions. Pure: no clock, lock or file.

use std::collections::HashMap;

use super::codec::Event;
use super::error::RemoteStorageError;
use super::metadata::{Effect, RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata};
use super::partition::{Partition, Replayed, View};
use super::types::TopicIdPartition;

/// All partitions of which something is recorded, and no other.
#[derive(Debug, Default)]
pub(super) struct Store {
    partitions: HashMap<TopicIdPartition, Partition>,
    /// Records that it takes to write all of it down.
    live: u64,
    /// Everything at or below it was taken.
    position: u64,
}

impl Store {
    pub(super) fn get(&self, tp: &TopicIdPartition) -> Option<&Partition> {
        self.partitions.get(tp)
    }

    pub(super) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Everything at or below the position was taken, by [`Store::apply`] or because it is no event.
    pub(super) fn advance(&mut self, position: u64) {
        self.position = self.position.max(position);
    }

    /// Takes an event; one that is refused leaves no trace of an unknown partition.
    pub(super) fn apply(&mut self, event: &Event, position: u64) -> Result<Effect, RemoteStorageError> {
        let tp = event.topic_id_partition();
        let effect = self.change(tp, |partition| partition.apply(event, position))?;
        if effect == Effect::Change {
            self.advance(position);
        }
        Ok(effect)
    }

    /// Takes an event from a record of what happened, which may be older than what is known.
    pub(super) fn replay(&mut self, event: &Event, position: u64) -> Replayed {
        let replayed = self.change(event.topic_id_partition(), |partition| partition.replay(event, position));
        self.advance(position);
        replayed
    }

    /// Takes a segment as it was after the event at `position`. One that is known stays as it is.
    pub(super) fn restore_segment(&mut self, metadata: &RemoteLogSegmentMetadata, position: u64) {
        let id = metadata.remote_log_segment_id();
        self.change(&id.topic_id_partition, |partition| {
            if partition.segment(id.id).is_none() {
                partition.insert(metadata, position);
            }
        });
    }

    /// Takes the state of a deletion as it was after the event at `position`.
    pub(super) fn restore_deletion(&mut self, metadata: RemotePartitionDeleteMetadata, position: u64) {
        let tp = metadata.topic_id_partition.clone();
        self.change(&tp, |partition| partition.restore_deletion(metadata, position));
    }

    /// Drops every segment of a partition whose deletion is finished; gives their number.
    pub(super) fn purge(&mut self, tp: &TopicIdPartition) -> Result<usize, RemoteStorageError> {
        check_deleted(tp, &self.get(tp))?;
        Ok(self.change(tp, Partition::purge))
    }

    /// The partitions that are wanted, by id and number.
    pub(super) fn select(&self, wanted: impl Fn(&Partition) -> bool) -> Vec<TopicIdPartition> {
        let found = self.partitions.values().filter(|partition| wanted(partition));
        let mut found: Vec<_> = found.map(|partition| partition.topic_id_partition().clone()).collect();
        found.sort_by_key(|tp| (tp.topic_id, tp.partition));
        found
    }

    /// Changes a partition; an unknown one stays so unless something is recorded of it then.
    fn change<T>(&mut self, tp: &TopicIdPartition, change: impl FnOnce(&mut Partition) -> T) -> T {
        if let Some(partition) = self.partitions.get_mut(tp) {
            let before = partition.live();
            let outcome = change(partition);
            let after = partition.live();
            self.live = self.live - before + after;
            if after == 0 {
                self.forget(tp);
            }
            return outcome;
        }
        let mut partition = Partition::new(tp.clone());
        let outcome = change(&mut partition);
        if partition.live() > 0 {
            self.live += partition.live();
            self.partitions.insert(tp.clone(), partition);
        }
        outcome
    }

    fn forget(&mut self, tp: &TopicIdPartition) {
        self.partitions.remove(tp);
        if self.partitions.len() < self.partitions.capacity() / 4 {
            self.partitions.shrink_to(self.partitions.len() * 2);
        }
    }
}

/// Whether segments may be dropped without more ado.
pub(super) fn check_deleted(tp: &TopicIdPartition, view: &impl View) -> Result<(), RemoteStorageError> {
    use super::types::RemotePartitionDeleteState::DeletePartitionFinished;
    match view.delete_state() {
        Some(DeletePartitionFinished) => Ok(()),
        state => Err(RemoteStorageError::InvalidArgument(format!(
            "the deletion of {tp} is not finished, its state is {state:?}"
        ))),
    }
}
