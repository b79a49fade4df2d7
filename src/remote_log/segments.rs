//! The segments of a partition, packed: a segment and, for each of its leader epochs, a member.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use uuid::Uuid;

use super::arena::{Arena, Ix};
use super::metadata::{RemoteLogSegmentDetails, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate};
use super::treap::Links;
use super::types::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentId, RemoteLogSegmentState, TopicIdPartition,
};

/// A segment. Its epochs are in its members, the partition's name in the partition.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: Uuid,
    pub(super) start: i64,
    pub(super) end: i64,
    max_timestamp_ms: i64,
    pub(super) event_timestamp_ms: i64,
    /// The position of its last event. While it is finished, that is the event that finished it: of
    /// several segments the one with the highest answers.
    pub(super) position: u64,
    size: i32,
    pub(super) broker_id: i32,
    pub(super) custom: Option<Box<CustomMetadata>>,
    /// The one of the lowest epoch.
    first_member: Option<Ix>,
    pub(super) state: RemoteLogSegmentState,
    txn_index_empty: bool,
}

/// A million of them may be held, each with one or two members.
const _: () = assert!(size_of::<Option<Segment>>() == 80 && size_of::<Option<Member>>() == 28);

/// A segment's part in one leader epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// The epoch's first offset in the segment, as it was recorded; as bytes, for want of alignment.
    offset: [u8; 8],
    pub(super) epoch: LeaderEpoch,
    pub(super) segment: Ix,
    /// The member of the segment's next higher epoch.
    pub(super) next: Option<Ix>,
    /// In the tree of the epoch's tangled members, or in the list of its unfinished ones.
    pub(super) links: Links,
}

impl Member {
    fn offset(&self) -> i64 {
        i64::from_ne_bytes(self.offset)
    }
}

/// The offsets at which a member answers, both included, as numbers that sort as the offsets do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Span {
    pub(super) fn contains(self, point: u64) -> bool {
        (self.first..=self.last).contains(&point)
    }
}

/// An offset as an unsigned number, in the same order.
pub(super) fn point(offset: i64) -> u64 {
    offset.cast_unsigned() ^ 1 << 63
}

/// The offset that a [`point`] stands for.
pub(super) fn offset(point: u64) -> i64 {
    (point ^ 1 << 63).cast_signed()
}

/// All segments of a partition.
#[derive(Debug, Default)]
pub(super) struct Segments {
    arena: Arena<Segment>,
    members: Arena<Member>,
    by_id: HashTable<Ix>,
    hasher: RandomState,
}

impl Segments {
    pub(super) fn len(&self) -> usize {
        self.arena.len()
    }

    pub(super) fn find(&self, id: Uuid) -> Option<Ix> {
        self.by_id.find(hash(&self.hasher, id), |ix| self.arena[*ix].id == id).copied()
    }

    /// All segments at or behind a place.
    pub(super) fn all_from(&self, place: Option<Ix>) -> impl Iterator<Item = Ix> {
        self.arena.iter_from(place).map(|(ix, _)| ix)
    }

    pub(super) fn member(&self, member: Ix) -> &Member {
        &self.members[member]
    }

    pub(super) fn member_mut(&mut self, member: Ix) -> &mut Member {
        &mut self.members[member]
    }

    /// The member of a segment's lowest epoch.
    pub(super) fn first_member(&self, segment: Ix) -> Option<Ix> {
        self.arena[segment].first_member
    }

    /// The members of a segment, by rising epoch.
    fn members_of(&self, segment: Ix) -> impl Iterator<Item = Ix> {
        std::iter::successors(self.arena[segment].first_member, |member| self.members[*member].next)
    }

    /// The members of all segments.
    pub(super) fn all_members(&self) -> impl Iterator<Item = Ix> {
        self.all_from(None).flat_map(|segment| self.members_of(segment))
    }

    /// The segment that a member is a part of.
    pub(super) fn segment_of(&self, member: Ix) -> &Segment {
        &self.arena[self.members[member].segment]
    }

    /// Adds a segment whose id is not there yet.
    pub(super) fn insert(&mut self, metadata: &RemoteLogSegmentMetadata, position: u64) -> Ix {
        let segment = self.arena.insert(Segment {
            id: metadata.remote_log_segment_id.id,
            start: metadata.start_offset,
            end: metadata.end_offset,
            max_timestamp_ms: metadata.max_timestamp_ms,
            event_timestamp_ms: metadata.event_timestamp_ms,
            position,
            size: metadata.details.segment_size_in_bytes,
            broker_id: metadata.broker_id,
            custom: metadata.custom_metadata.clone().map(Box::new),
            first_member: None,
            state: metadata.details.state,
            txn_index_empty: metadata.txn_index_empty,
        });
        for (epoch, offset) in metadata.details.segment_leader_epochs.iter().rev() {
            let next = self.arena[segment].first_member;
            let offset = offset.to_ne_bytes();
            let member = Member { offset, epoch: *epoch, segment, next, links: [None, None] };
            self.arena[segment].first_member = Some(self.members.insert(member));
        }
        self.name(segment);
        segment
    }

    /// Makes a segment be found by its id.
    fn name(&mut self, segment: Ix) {
        let Self { arena, by_id, hasher, .. } = self;
        if by_id.len() == by_id.capacity() {
            // A table that grows by itself looks at the segments in the order of their hashes, that is, all
            // over memory. This is that growth, in the order in which they lie.
            *by_id = HashTable::with_capacity(2 * by_id.len());
            for (ix, known) in arena.iter_from(None).filter(|(ix, _)| *ix != segment) {
                by_id.insert_unique(hash(hasher, known.id), ix, |ix| hash(hasher, arena[*ix].id));
            }
        }
        by_id.insert_unique(hash(hasher, arena[segment].id), segment, |ix| hash(hasher, arena[*ix].id));
    }

    /// Drops a segment and its members.
    pub(super) fn remove(&mut self, segment: Ix) {
        let hashed = hash(&self.hasher, self.arena[segment].id);
        if let Ok(entry) = self.by_id.find_entry(hashed, |ix| *ix == segment) {
            entry.remove();
        }
        let mut member = self.arena.remove(segment).first_member;
        while let Some(removed) = member {
            member = self.members.remove(removed).next;
        }
        shrink(&mut self.by_id, |ix| hash(&self.hasher, self.arena[*ix].id));
    }

    /// Records what an update says.
    pub(super) fn update(&mut self, segment: Ix, update: &RemoteLogSegmentMetadataUpdate, position: u64) {
        let segment = &mut self.arena[segment];
        segment.state = update.state;
        segment.event_timestamp_ms = update.event_timestamp_ms;
        segment.broker_id = update.broker_id;
        segment.position = position;
        if let Some(custom) = &update.custom_metadata {
            segment.custom = Some(Box::new(custom.clone()));
        }
    }

    /// Where a member answers: within the segment, from its own first offset up to that of the next
    /// epoch. `None`: nowhere.
    pub(super) fn span(&self, member: Ix) -> Option<Span> {
        let segment = self.segment_of(member);
        let member = &self.members[member];
        let first = segment.start.max(member.offset());
        let last = match member.next {
            None => segment.end,
            Some(next) => segment.end.min(self.members[next].offset().checked_sub(1)?),
        };
        (first <= last).then(|| Span { first: point(first), last: point(last) })
    }

    /// The segment as it was recorded, under the partition's present name.
    pub(super) fn metadata(&self, segment: Ix, partition: &TopicIdPartition) -> RemoteLogSegmentMetadata {
        let members = self.members_of(segment).map(|member| &self.members[member]);
        let segment = &self.arena[segment];
        RemoteLogSegmentMetadata {
            remote_log_segment_id: RemoteLogSegmentId::new(partition.clone(), segment.id),
            start_offset: segment.start,
            end_offset: segment.end,
            max_timestamp_ms: segment.max_timestamp_ms,
            broker_id: segment.broker_id,
            event_timestamp_ms: segment.event_timestamp_ms,
            details: RemoteLogSegmentDetails {
                segment_size_in_bytes: segment.size,
                state: segment.state,
                segment_leader_epochs: members.map(|member| (member.epoch, member.offset())).collect(),
            },
            custom_metadata: segment.custom.as_deref().cloned(),
            txn_index_empty: segment.txn_index_empty,
        }
    }
}

impl std::ops::Index<Ix> for Segments {
    type Output = Segment;

    fn index(&self, segment: Ix) -> &Segment {
        &self.arena[segment]
    }
}

fn hash(hasher: &RandomState, id: Uuid) -> u64 {
    hasher.hash_one(id.as_u128())
}

/// Gives memory back once a table is mostly empty.
pub(super) fn shrink<T>(table: &mut HashTable<T>, hash_of: impl Fn(&T) -> u64) {
    if table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2, hash_of);
    }
}
