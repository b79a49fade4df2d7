//! The play in acts, and who leads a partition in each.

use std::fmt;

use clap::ValueEnum;
use tidelog::remote_log::{TopicIdPartition, Uuid};

/// The broker that leads each partition first.
pub(crate) const FIRST_LEADER: i32 = 1;
/// The one that takes over some of them.
pub(crate) const SECOND_LEADER: i32 = 2;
/// The partition that is deleted.
pub(crate) const DELETED_PARTITION: i32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// The first leaders copy their segments; some leave their last copy half done
    Copy,
    /// Other leaders take over every other partition, and copy what they have
    LeaderChange,
    /// Segments that are superseded, beyond the size or too old are deleted
    Retention,
    /// One partition is deleted
    DeletePartition,
}

impl Phase {
    pub(crate) const ALL: [Self; 4] =
        [Self::Copy, Self::LeaderChange, Self::Retention, Self::DeletePartition];

    /// The broker that leads a partition in this phase.
    pub(crate) fn leader(self, partition: i32) -> i32 {
        if self == Self::Copy || !changes_leader(partition) { FIRST_LEADER } else { SECOND_LEADER }
    }

    /// Segments whose life goes on in this phase, of so many of one partition: a rough estimate.
    pub(crate) fn segments(self, partitions: u64, segments: u64) -> u64 {
        match self {
            Self::Copy => partitions * segments,
            Self::LeaderChange => partitions * segments / 4,
            Self::Retention => partitions * segments / 2,
            Self::DeletePartition => segments / 2,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Copy => "copy",
            Self::LeaderChange => "leader change",
            Self::Retention => "retention",
            Self::DeletePartition => "partition deleted",
        })
    }
}

pub(crate) fn changes_leader(partition: i32) -> bool {
    partition % 2 == 1
}

pub(crate) fn topic_id_partition(partition: i32) -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(0x7469_6465), "orders", partition)
}
