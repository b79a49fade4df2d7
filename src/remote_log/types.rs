//! What names a segment, and the states it goes through.

use std::fmt;
use std::hash::{Hash, Hasher};

use uuid::Uuid;

/// The term of a partition leader: it rises by one with each election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// Stands for an epoch that nobody knows.
    pub const UNKNOWN: Self = Self(-1);
    /// The first epoch.
    pub const INITIAL: Self = Self(0);

    /// The number.
    pub fn get(self) -> i32 {
        self.0
    }

    /// Whether it can be the epoch of a leader.
    pub fn is_known(self) -> bool {
        self.0 >= 0
    }
}

impl From<i32> for LeaderEpoch {
    fn from(epoch: i32) -> Self {
        Self(epoch)
    }
}

impl From<LeaderEpoch> for i32 {
    fn from(epoch: LeaderEpoch) -> Self {
        epoch.0
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of a topic. Its identity is the topic's id and the number; the topic's name is
/// carried along, and two values that differ in it alone are equal.
#[derive(Clone, Debug)]
pub struct TopicIdPartition {
    /// The topic's id.
    pub topic_id: Uuid,
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
}

impl TopicIdPartition {
    /// A partition of a topic.
    pub fn new(topic_id: Uuid, topic: impl Into<String>, partition: i32) -> Self {
        Self { topic_id, topic: topic.into(), partition }
    }
}

impl PartialEq for TopicIdPartition {
    fn eq(&self, other: &Self) -> bool {
        self.topic_id == other.topic_id && self.partition == other.partition
    }
}

impl Eq for TopicIdPartition {}

impl Hash for TopicIdPartition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.topic_id.hash(state);
        self.partition.hash(state);
    }
}

impl fmt::Display for TopicIdPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{} ({})", self.topic, self.partition, self.topic_id)
    }
}

/// A segment that was copied to the remote tier, or is to be. A new attempt to copy the same
/// offsets has an id of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteLogSegmentId {
    /// The partition.
    pub topic_id_partition: TopicIdPartition,
    /// The segment.
    pub id: Uuid,
}

impl RemoteLogSegmentId {
    /// A segment of a partition.
    pub fn new(topic_id_partition: TopicIdPartition, id: Uuid) -> Self {
        Self { topic_id_partition, id }
    }
}

impl fmt::Display for RemoteLogSegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.id, self.topic_id_partition)
    }
}

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteLogSegmentState {
    /// Its copy to the remote tier has begun.
    CopySegmentStarted,
    /// It can be read from the remote tier.
    CopySegmentFinished,
    /// Its deletion from the remote tier has begun.
    DeleteSegmentStarted,
    /// It is gone.
    DeleteSegmentFinished,
}

impl RemoteLogSegmentState {
    /// All states, in the order of a segment's life.
    pub const ALL: [Self; 4] = [
        Self::CopySegmentStarted,
        Self::CopySegmentFinished,
        Self::DeleteSegmentStarted,
        Self::DeleteSegmentFinished,
    ];

    /// Whether a segment moves from this state to the other one. The same state again is no move;
    /// what [`RemoteLogSegmentMetadata::with_update`](super::RemoteLogSegmentMetadata::with_update)
    /// makes of it depends on the values.
    pub fn is_valid_transition(self, target: Self) -> bool {
        use RemoteLogSegmentState as S;
        matches!(
            (self, target),
            (S::CopySegmentStarted, S::CopySegmentFinished | S::DeleteSegmentStarted)
                | (S::CopySegmentFinished, S::DeleteSegmentStarted)
                | (S::DeleteSegmentStarted, S::DeleteSegmentFinished)
        )
    }
}

/// Where a partition is in its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemotePartitionDeleteState {
    /// The partition is to be deleted.
    DeletePartitionMarked,
    /// The deletion of its segments has begun.
    DeletePartitionStarted,
    /// The deletion is over.
    DeletePartitionFinished,
}

impl RemotePartitionDeleteState {
    /// All states, in the order of a deletion.
    pub const ALL: [Self; 3] =
        [Self::DeletePartitionMarked, Self::DeletePartitionStarted, Self::DeletePartitionFinished];

    /// Whether a partition moves from a state (`None`: it is not being deleted) to the other one.
    /// The same state again is no move: it is accepted, and changes nothing.
    pub fn is_valid_transition(from: Option<Self>, target: Self) -> bool {
        use RemotePartitionDeleteState as S;
        matches!(
            (from, target),
            (None, S::DeletePartitionMarked)
                | (Some(S::DeletePartitionMarked), S::DeletePartitionStarted)
                | (Some(S::DeletePartitionStarted), S::DeletePartitionFinished)
        )
    }
}

/// What the remote storage wants to have kept with a segment. Empty is not the same as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CustomMetadata(pub Vec<u8>);

impl From<Vec<u8>> for CustomMetadata {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}
