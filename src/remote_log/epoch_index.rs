//! A partition's segments, found by leader epoch and offset.
//!
//! A member of a segment that is finished is *plain* while no other one of its epoch reaches into
//! what it takes, from its first offset to the segment's end. Plain members are in a sorted list, and
//! where one holds an offset it alone answers. The others are *tangled*: their epoch has a tree by end
//! offset, and the intervals of [`Spans`]. A tangled member stays so while its segment is finished.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::arena::Ix;
use super::metadata::{RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate};
use super::ordered::Ordered;
use super::segments::{Segment, Segments, Span, point};
use super::spans::Spans;
use super::treap::{self, ABOVE, BELOW, Links, Tree};
use super::types::{LeaderEpoch, RemoteLogSegmentState, TopicIdPartition};

/// The members of an epoch that are not plain; there is none without any.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    /// The list of unfinished ones, the last added first.
    unfinished: Option<Ix>,
    /// The tree of tangled ones by end offset.
    tangled: Option<Ix>,
    /// The levels at which there were spans since there are tangled ones.
    levels: u64,
    /// The lowest and the highest point that one of them took in that time.
    reach: Option<[u64; 2]>,
}

/// A place among the segments of a partition; the default is the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor(Option<Ix>);

/// The segments of a partition, in any state, with the look-ups that a reader needs.
#[derive(Debug, Default)]
pub(super) struct EpochIndex {
    segments: Segments,
    plain: Ordered,
    spans: Spans,
    others: BTreeMap<LeaderEpoch, Others>,
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
        let offset = point(offset);
        let plain = self.plain.iter_from(epoch, offset).next();
        let holds = |member: &Ix| self.segments.span(*member).is_some_and(|span| span.contains(offset));
        let member = plain.filter(holds).or_else(|| {
            let levels = self.others.get(&epoch)?.levels;
            self.spans.latest(&self.segments, epoch, levels, offset)
        })?;
        Some(self.segments.member(member).segment)
    }

    /// The highest end offset of the finished segments that carry an epoch.
    pub(super) fn highest(&self, epoch: LeaderEpoch) -> Option<i64> {
        let mut tangled = self.others.get(&epoch).and_then(|others| others.tangled);
        while let Some(above) = tangled.and_then(|last| self.segments.member(last).links[ABOVE]) {
            tangled = Some(above);
        }
        let last = self.plain.last(epoch).into_iter().chain(tangled);
        last.map(|member| self.segments.segment_of(member).end).max()
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
        let plain = self.plain.iter_from(epoch, 0);
        let mut found: Vec<Ix> = plain.map(|member| self.segments.member(member).segment).collect();
        let others = self.others.get(&epoch).copied().unwrap_or_default();
        let mut ahead: Vec<Ix> = others.unfinished.into_iter().chain(others.tangled).collect();
        while let Some(member) = ahead.pop() {
            let member = self.segments.member(member);
            found.push(member.segment);
            // In the list a member is linked to the one before it, too.
            let links = if is_finished(&self.segments[member.segment]) {
                &member.links[..]
            } else {
                &member.links[NEXT..]
            };
            ahead.extend(links.iter().flatten());
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
        let mut next = self.segments.first_member(segment);
        while let Some(member) = next {
            if finished {
                self.enter_finished(member);
            } else {
                self.enlist(member);
            }
            next = self.segments.member(member).next;
        }
    }

    /// Undoes [`EpochIndex::enter`], before the state changes.
    fn leave(&mut self, segment: Ix) {
        let finished = is_finished(&self.segments[segment]);
        let end = point(self.segments[segment].end);
        let mut next = self.segments.first_member(segment);
        while let Some(member) = next {
            let epoch = self.segments.member(member).epoch;
            if !finished {
                self.strike(member);
            } else if !self.plain.remove(epoch, end, member) {
                self.untangle(member);
            }
            next = self.segments.member(member).next;
        }
    }

    fn enter_finished(&mut self, member: Ix) {
        let Some([first, end]) = self.taken(member) else { return self.tangle(member) };
        let epoch = self.segments.member(member).epoch;
        let behind = self.plain.iter_from(epoch, first);
        let reaches = |other: &Ix| self.taken(*other).is_some_and(|[first, _]| first <= end);
        let met: Vec<Ix> = behind.take_while(reaches).collect();
        let reach = self.others.get(&epoch).and_then(|others| others.reach);
        if met.is_empty() && !reach.is_some_and(|reach| first <= reach[1] && reach[0] <= end) {
            return self.plain.insert(epoch, end, member);
        }
        for other in met {
            self.plain.remove(epoch, point(self.segments.segment_of(other).end), other);
            self.tangle(other);
        }
        self.tangle(member);
    }

    /// What a finished member takes; `None` if it answers nowhere.
    fn taken(&self, member: Ix) -> Option<[u64; 2]> {
        let span = self.segments.span(member)?;
        Some([span.first, point(self.segments.segment_of(member).end)])
    }

    fn tangle(&mut self, member: Ix) {
        let taken = self.taken(member);
        let level = self.spans.insert(&self.segments, member);
        let others = self.others.entry(self.segments.member(member).epoch).or_default();
        others.tangled = Some(treap::insert(&mut ByEnd(&mut self.segments), others.tangled, member));
        others.levels |= level.map_or(0, |level| 1 << level);
        others.reach = match (others.reach, taken) {
            (Some([low, high]), Some([first, end])) => Some([low.min(first), high.max(end)]),
            (reach, taken) => reach.or(taken),
        };
    }

    fn untangle(&mut self, member: Ix) {
        self.spans.remove(&self.segments, member);
        let epoch = self.segments.member(member).epoch;
        let Some(others) = self.others.get_mut(&epoch) else { return };
        others.tangled = treap::remove(&mut ByEnd(&mut self.segments), others.tangled, member);
        if others.tangled.is_none() {
            *others = Others { unfinished: others.unfinished, ..Others::default() };
        }
        self.forget(epoch);
    }

    /// Puts an unfinished member at the head of its epoch's list.
    fn enlist(&mut self, member: Ix) {
        let others = self.others.entry(self.segments.member(member).epoch).or_default();
        let next = others.unfinished.replace(member);
        self.segments.member_mut(member).links = [None, next];
        if let Some(next) = next {
            self.segments.member_mut(next).links[PREVIOUS] = Some(member);
        }
    }

    fn strike(&mut self, member: Ix) {
        let epoch = self.segments.member(member).epoch;
        let links @ [previous, next] = self.segments.member(member).links;
        if let Some(next) = next {
            self.segments.member_mut(next).links[PREVIOUS] = previous;
        }
        if let Some(previous) = previous {
            self.segments.member_mut(previous).links[NEXT] = next;
        } else if let Some(others) = self.others.get_mut(&epoch) {
            others.unfinished = next;
        }
        if links == [None, None] {
            self.forget(epoch);
        }
    }

    /// Drops what is kept of an epoch without any but plain members.
    fn forget(&mut self, epoch: LeaderEpoch) {
        let others = self.others.get(&epoch);
        if others.is_some_and(|others| others.unfinished.is_none() && others.tangled.is_none()) {
            self.others.remove(&epoch);
        }
    }
}

/// The links of a member in the list of unfinished ones.
const PREVIOUS: usize = BELOW;
const NEXT: usize = ABOVE;

fn is_finished(segment: &Segment) -> bool {
    segment.state == RemoteLogSegmentState::CopySegmentFinished
}

/// Tangled members, so that the last one has the highest end.
struct ByEnd<'a>(&'a mut Segments);

impl ByEnd<'_> {
    fn key(&self, member: Ix) -> (i64, Ix) {
        (self.0.segment_of(member).end, member)
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
