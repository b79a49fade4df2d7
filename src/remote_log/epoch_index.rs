//! A partition's segments, found by leader epoch and offset.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::arena::Ix;
use super::metadata::{RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate};
use super::segments::{Segment, Segments, Span};
use super::spans::Spans;
use super::treap::{self, ABOVE, BELOW, Links, Tree};
use super::types::{LeaderEpoch, RemoteLogSegmentState, TopicIdPartition};

/// What is known of an epoch.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// The tree of its members, in any state: unfinished ones first, then by end offset.
    root: Ix,
    /// The levels at which it had spans since it came.
    levels: u64,
}

/// A place among the segments of a partition; the default is the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor(Option<Ix>);

/// The segments of a partition, in any state, with the look-ups that a reader needs.
#[derive(Debug, Default)]
pub(super) struct EpochIndex {
    segments: Segments,
    spans: Spans,
    epochs: BTreeMap<LeaderEpoch, Epoch>,
}

impl EpochIndex {
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(super) fn find(&self, id: Uuid) -> Option<Ix> {
        self.segments.find(id)
    }

    pub(super) fn segment(&self, segment: Ix) -> &Segment {
        &self.segments[segment]
    }

    pub(super) fn metadata(&self, segment: Ix, partition: &TopicIdPartition) -> RemoteLogSegmentMetadata {
        self.segments.metadata(segment, partition)
    }

    /// Adds a segment whose id is not there yet; `position` is that of its last event.
    pub(super) fn insert(&mut self, metadata: &RemoteLogSegmentMetadata, position: u64) {
        let segment = self.segments.insert(metadata, position);
        self.enter(segment);
    }

    /// Records what an update says; `position` is the update's own.
    pub(super) fn update(&mut self, segment: Ix, update: &RemoteLogSegmentMetadataUpdate, position: u64) {
        self.leave(segment);
        self.segments.update(segment, update, position);
        self.enter(segment);
    }

    pub(super) fn remove(&mut self, segment: Ix) {
        self.leave(segment);
        self.segments.remove(segment);
    }

    /// The finished segment that holds an offset of an epoch; of several, the one that finished last.
    pub(super) fn containing(&self, epoch: LeaderEpoch, offset: i64) -> Option<Ix> {
        let levels = self.epochs.get(&epoch)?.levels;
        let member = self.spans.latest(&self.segments, epoch, levels, offset)?;
        Some(self.segments.member(member).segment)
    }

    /// The highest end offset of the finished segments that carry an epoch.
    pub(super) fn highest(&self, epoch: LeaderEpoch) -> Option<i64> {
        let mut last = self.epochs.get(&epoch)?.root;
        while let Some(above) = self.segments.member(last).links[ABOVE] {
            last = above;
        }
        let segment = self.segments.segment_of(last);
        is_finished(segment).then_some(segment.end)
    }

    /// Segments in no particular order, from a cursor on, at most `limit` of them; and the cursor of the
    /// rest. What is there throughout is met once, whatever comes and goes between the calls.
    pub(super) fn page(&self, from: Cursor, limit: usize) -> (Vec<Ix>, Option<Cursor>) {
        let mut rest = self.segments.all_from(from.0);
        let page = rest.by_ref().take(limit).collect();
        (page, rest.next().map(|ix| Cursor(Some(ix))))
    }

    /// All segments, by start offset and id.
    pub(super) fn list(&self) -> Vec<Ix> {
        self.sorted(self.segments.all_from(None).collect())
    }

    /// The segments that carry an epoch, by start offset and id.
    pub(super) fn list_by_epoch(&self, epoch: LeaderEpoch) -> Vec<Ix> {
        let mut found = Vec::new();
        let mut ahead: Vec<Ix> = self.epochs.get(&epoch).map(|epoch| epoch.root).into_iter().collect();
        while let Some(member) = ahead.pop() {
            let member = self.segments.member(member);
            found.push(member.segment);
            ahead.extend([member.links[ABOVE], member.links[BELOW]].into_iter().flatten());
        }
        self.sorted(found)
    }

    /// Each leader epoch of each segment, with the segment and the offsets at which that answers while it is
    /// finished.
    pub(super) fn members(&self) -> impl Iterator<Item = (LeaderEpoch, &Segment, Option<Span>)> {
        let members = self.segments.all_members();
        members.map(|member| {
            let segment = self.segments.segment_of(member);
            (self.segments.member(member).epoch, segment, self.segments.span(member))
        })
    }

    fn sorted(&self, mut segments: Vec<Ix>) -> Vec<Ix> {
        segments.sort_by_key(|segment| {
            let segment = &self.segments[*segment];
            (segment.start, segment.id)
        });
        segments
    }

    /// Makes a segment be found by its epochs, according to its state.
    fn enter(&mut self, segment: Ix) {
        let finished = is_finished(&self.segments[segment]);
        let members: Vec<Ix> = self.segments.members_of(segment).collect();
        for member in members {
            let key = self.segments.member(member).epoch;
            let epoch = self.epochs.get(&key).copied();
            let level = if finished { self.spans.insert(&self.segments, member) } else { None };
            let root = epoch.map(|epoch| epoch.root);
            let root = treap::insert(&mut ByEnd(&mut self.segments), root, member);
            let levels = epoch.map_or(0, |epoch| epoch.levels) | level.map_or(0, |level| 1 << level);
            self.epochs.insert(key, Epoch { root, levels });
        }
    }

    /// Undoes [`EpochIndex::enter`], before the state changes.
    fn leave(&mut self, segment: Ix) {
        let finished = is_finished(&self.segments[segment]);
        let members: Vec<Ix> = self.segments.members_of(segment).collect();
        for member in members {
            if finished {
                self.spans.remove(&self.segments, member);
            }
            let key = self.segments.member(member).epoch;
            let root = self.epochs.get(&key).map(|epoch| epoch.root);
            match treap::remove(&mut ByEnd(&mut self.segments), root, member) {
                None => drop(self.epochs.remove(&key)),
                Some(root) => {
                    if let Some(epoch) = self.epochs.get_mut(&key) {
                        epoch.root = root;
                    }
                }
            }
        }
    }
}

fn is_finished(segment: &Segment) -> bool {
    segment.state == RemoteLogSegmentState::CopySegmentFinished
}

/// The members of an epoch, so that the last one is the finished one with the highest end.
struct ByEnd<'a>(&'a mut Segments);

impl ByEnd<'_> {
    fn key(&self, member: Ix) -> (bool, i64, Ix) {
        let segment = self.0.segment_of(member);
        (is_finished(segment), segment.end, member)
    }
}

impl Tree for ByEnd<'_> {
    fn links(&self, node: Ix) -> Links {
        self.0.member(node).links
    }

    fn set_links(&mut self, node: Ix, links: Links) {
        self.0.member_mut(node).links = links;
    }

    fn is_before(&self, node: Ix, other: Ix) -> bool {
        self.key(node) < self.key(other)
    }
}
