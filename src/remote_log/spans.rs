//! Which finished segment answers for an offset: of those whose span in the epoch holds it, the one
//! that finished last.
//!
//! An interval tree over the offsets themselves. The numbers of 64 bits are halved again and again;
//! each span belongs to the largest half-way point (*center*) that lies in it, at the *level* that
//! is the center's number of trailing zeros. The spans that hold an offset belong to the 64 centers
//! on its way down. Of the spans at a center, those that hold an offset below it are those that
//! begin at or below the offset, and those that hold one above it end at or above it: one search in
//! a tree sorted by that end, where each node knows the latest span beneath it. So a look-up takes
//! a logarithmic search for each level in use, at most 64, whatever overlaps.
//!
//! Where few overlap, most centers have one span, and nothing but the table is needed.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::arena::{Arena, Ix};
use super::segments::{Segments, Span, shrink};
use super::treap::{self, ABOVE, BELOW, Links, Tree};
use super::types::LeaderEpoch;

/// Spans by where they begin: answers for offsets below the center.
const BY_FIRST: usize = 0;
/// Spans by where they end, the last one first: answers for the center and above.
const BY_LAST: usize = 1;

/// All spans at one center of one epoch: a member that is alone there, or the index of a set.
#[derive(Clone, Copy, Debug)]
struct Node(u32);

enum Content {
    One(Ix),
    Set(Ix),
}

impl Node {
    const SET: u32 = 1 << 31;

    fn set(set: Ix) -> Self {
        Self(set.get() | Self::SET)
    }

    fn one(member: Ix) -> Self {
        Self(member.get())
    }

    fn content(self) -> Content {
        let ix = Ix::from_bits(self.0 & !Self::SET).expect("made from an index");
        if self.0 & Self::SET == 0 { Content::One(ix) } else { Content::Set(ix) }
    }
}

/// A member that shares its center with others.
#[derive(Debug)]
struct Entry {
    member: Ix,
    sides: [Side; 2],
}

#[derive(Clone, Copy, Debug)]
struct Side {
    links: Links,
    /// The entry that finished last, of this one and all beneath it.
    latest: Ix,
}

/// Finished members of a partition, by epoch and center.
#[derive(Debug, Default)]
pub(super) struct Spans {
    nodes: HashTable<Node>,
    hasher: RandomState,
    /// The roots of a set's two trees.
    sets: Arena<[Ix; 2]>,
    entries: Arena<Entry>,
}

/// The level and the center that a span belongs to.
fn center_of(span: Span) -> (u32, u64) {
    // A span of one offset goes to the lowest level, where the center may lie beside it: the two
    // ends still tell exactly whether an offset is in it.
    let level = ((span.first ^ span.last) | 1).ilog2();
    (level, center_at(span.last, level))
}

/// The center of a level on the way down to a point.
fn center_at(point: u64, level: u32) -> u64 {
    ((point >> level) | 1) << level
}

impl Spans {
    /// Adds a member of a segment that has finished. Gives the level at which it is found; `None`:
    /// it answers for no offset.
    pub(super) fn insert(&mut self, segments: &Segments, member: Ix) -> Option<u32> {
        let (level, center) = center_of(segments.span(member)?);
        let epoch = segments.member(member).epoch;
        let hash = self.hasher.hash_one((epoch, center));
        let found = self.nodes.find(hash, |node| self.key(segments, *node) == (epoch, center)).copied();
        match found.map(Node::content) {
            None => {
                let Self { nodes, hasher, sets, entries } = self;
                let hash_of = |node: &Node| hasher.hash_one(key_of(segments, sets, entries, *node));
                nodes.insert_unique(hash, Node::one(member), hash_of);
            }
            Some(Content::One(other)) => {
                let roots = [self.entry(other); 2];
                let roots = self.link(segments, roots, member);
                let set = self.sets.insert(roots);
                self.replace(hash, Node::one(other), Node::set(set));
            }
            Some(Content::Set(set)) => {
                let roots = self.sets[set];
                self.sets[set] = self.link(segments, roots, member);
            }
        }
        Some(level)
    }

    /// Takes a member out while its segment is still there.
    pub(super) fn remove(&mut self, segments: &Segments, member: Ix) {
        let Some(span) = segments.span(member) else { return };
        let epoch = segments.member(member).epoch;
        let (_, center) = center_of(span);
        let hash = self.hasher.hash_one((epoch, center));
        let found = self.nodes.find(hash, |node| self.key(segments, *node) == (epoch, center)).copied();
        match found.map(Node::content) {
            None => {}
            Some(Content::One(_)) => {
                if let Ok(entry) = self.nodes.find_entry(hash, |node| node.0 == member.get()) {
                    entry.remove();
                }
                let Self { nodes, hasher, sets, entries } = self;
                shrink(nodes, |node| hasher.hash_one(key_of(segments, sets, entries, *node)));
            }
            Some(Content::Set(set)) => self.unlink(segments, hash, set, member),
        }
    }

    /// The member that answers for an offset. `levels` has a bit for each level where the epoch may
    /// have spans.
    pub(super) fn latest(
        &self,
        segments: &Segments,
        epoch: LeaderEpoch,
        mut levels: u64,
        offset: u64,
    ) -> Option<Ix> {
        let mut latest = None;
        while levels != 0 {
            let center = center_at(offset, levels.trailing_zeros());
            levels &= levels - 1;
            let hash = self.hasher.hash_one((epoch, center));
            let Some(node) = self.nodes.find(hash, |node| self.key(segments, *node) == (epoch, center))
            else {
                continue;
            };
            let found = match node.content() {
                Content::One(member) => {
                    let span = segments.span(member);
                    span.filter(|span| span.contains(offset)).map(|_| member)
                }
                Content::Set(set) => self.latest_of(segments, self.sets[set], center, offset),
            };
            latest = later(segments, latest, found);
        }
        latest
    }

    fn latest_of(&self, segments: &Segments, roots: [Ix; 2], center: u64, offset: u64) -> Option<Ix> {
        let (side, limit) = if offset < center { (BY_FIRST, offset) } else { (BY_LAST, !offset) };
        let mut latest = None;
        let mut at = Some(roots[side]);
        while let Some(entry) = at {
            let Entry { member, sides } = &self.entries[entry];
            let [below, above] = sides[side].links;
            at = if sort_key(segments, *member, side).0 <= limit {
                let beneath = below.map(|below| self.entries[self.entries[below].sides[side].latest].member);
                latest = later(segments, later(segments, latest, Some(*member)), beneath);
                above
            } else {
                below
            };
        }
        latest
    }

    fn key(&self, segments: &Segments, node: Node) -> (LeaderEpoch, u64) {
        key_of(segments, &self.sets, &self.entries, node)
    }

    fn entry(&mut self, member: Ix) -> Ix {
        // An entry alone is its own latest one; the index is known once it has one.
        let side = Side { links: [None, None], latest: member };
        let entry = self.entries.insert(Entry { member, sides: [side; 2] });
        for side in &mut self.entries[entry].sides {
            side.latest = entry;
        }
        entry
    }

    fn link(&mut self, segments: &Segments, roots: [Ix; 2], member: Ix) -> [Ix; 2] {
        let entry = self.entry(member);
        let mut links = roots;
        for (side, root) in links.iter_mut().enumerate() {
            *root = treap::insert(&mut self.tree(segments, side), Some(*root), entry);
        }
        links
    }

    fn unlink(&mut self, segments: &Segments, hash: u64, set: Ix, member: Ix) {
        let roots = self.sets[set];
        let Some(entry) = self.find(segments, roots[BY_FIRST], member) else { return };
        let [first, last] = [BY_FIRST, BY_LAST]
            .map(|side| treap::remove(&mut self.tree(segments, side), Some(roots[side]), entry));
        self.entries.remove(entry);
        let (Some(first), Some(last)) = (first, last) else { return };
        if self.entries[first].sides[BY_FIRST].links == [None, None] {
            let alone = self.entries.remove(first).member;
            self.sets.remove(set);
            self.replace(hash, Node::set(set), Node::one(alone));
        } else {
            self.sets[set] = [first, last];
        }
    }

    /// The entry of a member.
    fn find(&self, segments: &Segments, root: Ix, member: Ix) -> Option<Ix> {
        let wanted = sort_key(segments, member, BY_FIRST);
        let mut at = Some(root);
        while let Some(entry) = at {
            let Entry { member, sides } = &self.entries[entry];
            let [below, above] = sides[BY_FIRST].links;
            at = match wanted.cmp(&sort_key(segments, *member, BY_FIRST)) {
                std::cmp::Ordering::Less => below,
                std::cmp::Ordering::Equal => return Some(entry),
                std::cmp::Ordering::Greater => above,
            };
        }
        None
    }

    fn replace(&mut self, hash: u64, old: Node, new: Node) {
        if let Some(node) = self.nodes.find_mut(hash, |node| node.0 == old.0) {
            *node = new;
        }
    }

    fn tree<'a>(&'a mut self, segments: &'a Segments, side: usize) -> SideTree<'a> {
        SideTree { entries: &mut self.entries, segments, side }
    }
}

/// The epoch and the center of a node's spans.
fn key_of(
    segments: &Segments,
    sets: &Arena<[Ix; 2]>,
    entries: &Arena<Entry>,
    node: Node,
) -> (LeaderEpoch, u64) {
    let member = match node.content() {
        Content::One(member) => member,
        Content::Set(set) => entries[sets[set][BY_FIRST]].member,
    };
    let span = segments.span(member).expect("only what answers somewhere is in a node");
    (segments.member(member).epoch, center_of(span).1)
}

/// Where a member sorts on a side; the index tells equals apart.
fn sort_key(segments: &Segments, member: Ix, side: usize) -> (u64, Ix) {
    let span = segments.span(member).expect("only what answers somewhere is in a set");
    (if side == BY_FIRST { span.first } else { !span.last }, member)
}

/// Of two members the one whose segment finished later.
fn later(segments: &Segments, one: Option<Ix>, other: Option<Ix>) -> Option<Ix> {
    one.into_iter().chain(other).max_by_key(|member| (segments.segment_of(*member).position, *member))
}

/// One of the two trees of a set.
struct SideTree<'a> {
    entries: &'a mut Arena<Entry>,
    segments: &'a Segments,
    side: usize,
}

impl Tree for SideTree<'_> {
    fn links(&self, node: Ix) -> Links {
        self.entries[node].sides[self.side].links
    }

    fn set_links(&mut self, node: Ix, links: Links) {
        self.entries[node].sides[self.side].links = links;
    }

    fn is_before(&self, node: Ix, other: Ix) -> bool {
        let [node, other] =
            [node, other].map(|ix| sort_key(self.segments, self.entries[ix].member, self.side));
        node < other
    }

    fn summarize(&mut self, node: Ix) {
        let links = self.entries[node].sides[self.side].links;
        let beneath = [links[BELOW], links[ABOVE]].into_iter().flatten();
        let candidates = beneath.map(|child| self.entries[child].sides[self.side].latest).chain([node]);
        let latest = candidates.max_by_key(|entry| {
            let member = self.entries[*entry].member;
            (self.segments.segment_of(member).position, member)
        });
        self.entries[node].sides[self.side].latest = latest.unwrap_or(node);
    }
}
