//! Tests of the parts that nothing outside reaches.

use std::collections::BTreeMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::arena::{Arena, Ix};
use super::codec::Event;
use super::metadata::{
    Effect, RemoteLogSegmentDetails, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
};
use super::partition::{Partition, validate};
use super::pending::{After, Ahead, Pending};
use super::treap::{self, ABOVE, BELOW, Links, Tree};
use super::types::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentId, RemoteLogSegmentState, RemotePartitionDeleteState,
    TopicIdPartition,
};

#[test]
fn an_arena_reuses_and_forgets() {
    let mut arena = Arena::default();
    let places: Vec<Ix> = (0..100).map(|value| arena.insert(value)).collect();
    assert!((0..100).all(|value| arena[places[value]] == value));
    assert_eq!((arena.remove(places[40]), arena.len()), (40, 99));
    assert_eq!(arena.insert(400), places[40]);
    for place in &places[64..] {
        arena.remove(*place);
    }
    assert_eq!(arena.iter_from(None).map(|(_, value)| *value).max(), Some(400));
    for place in &places[..64] {
        arena.remove(*place);
    }
    assert_eq!((arena.len(), arena.iter_from(None).count()), (0, 0));
}

/// Numbers in order; each knows the lowest beneath it.
#[derive(Default)]
struct Numbers(Arena<(u32, Links, u32)>);

impl Tree for Numbers {
    fn links(&self, node: Ix) -> Links {
        self.0[node].1
    }

    fn set_links(&mut self, node: Ix, links: Links) {
        self.0[node].1 = links;
    }

    fn is_before(&self, node: Ix, other: Ix) -> bool {
        self.0[node].0 < self.0[other].0
    }

    fn summarize(&mut self, node: Ix) {
        let (number, links, _) = self.0[node];
        let beneath = links.into_iter().flatten().map(|child| self.0[child].2);
        self.0[node].2 = beneath.fold(number, u32::min);
    }
}

impl Numbers {
    fn in_order(&self, root: Option<Ix>) -> Vec<u32> {
        let Some(root) = root else { return Vec::new() };
        let (number, links, lowest) = self.0[root];
        let numbers = [self.in_order(links[BELOW]), vec![number], self.in_order(links[ABOVE])].concat();
        assert_eq!(numbers.iter().min(), Some(&lowest));
        numbers
    }

    fn depth(&self, root: Option<Ix>) -> usize {
        let Some(root) = root else { return 0 };
        1 + self.0[root].1.into_iter().map(|child| self.depth(child)).max().unwrap_or(0)
    }
}

#[test]
fn a_treap_stays_shallow_whatever_the_order() {
    let count = 1 << 16;
    let orders: [fn(u32) -> u32; 3] = [|number| number, |number| !number, |number| number.reverse_bits()];
    for order in orders {
        let mut tree = Numbers::default();
        let mut root = None;
        let nodes: Vec<Ix> =
            (0..count).map(|number| tree.0.insert((order(number), [None, None], 0))).collect();
        for node in &nodes {
            root = Some(treap::insert(&mut tree, root, *node));
        }
        // A random tree of this size is 16 deep at least, and 39 on the average.
        assert!(tree.depth(root) < 64, "{}", tree.depth(root));
        assert!(tree.in_order(root).is_sorted());
        for node in &nodes[1000..] {
            root = treap::remove(&mut tree, root, *node);
        }
        assert_eq!(tree.in_order(root).len(), 1000);
        assert!(tree.depth(root) < 32);
    }
}

fn orders() -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(1), "orders", 0)
}

fn any_event() -> impl Strategy<Value = Event> {
    let id = (0..4u128).prop_map(|number| RemoteLogSegmentId::new(orders(), Uuid::from_u128(number)));
    let states = proptest::sample::select(&RemoteLogSegmentState::ALL[..]);
    let deletes = proptest::sample::select(&RemotePartitionDeleteState::ALL[..]);
    let custom = proptest::option::of(proptest::collection::vec(0..2u8, 0..2).prop_map(CustomMetadata));
    prop_oneof![
        2 => id.clone().prop_map(|id| {
            let started = RemoteLogSegmentState::CopySegmentStarted;
            let details = RemoteLogSegmentDetails::new(1, started, BTreeMap::from([(LeaderEpoch(0), 0)]));
            Event::AddSegment(RemoteLogSegmentMetadata::new(id, 0, 9, -1, 0, 0, details).expect("valid"))
        }),
        3 => (id, states, 0..2i64, custom).prop_map(|(id, state, timestamp, custom)| {
            Event::UpdateSegment(RemoteLogSegmentMetadataUpdate::new(id, timestamp, custom, state, 0))
        }),
        1 => deletes.prop_map(|state| {
            Event::DeletePartition(RemotePartitionDeleteMetadata::new(orders(), state, 0, 0))
        }),
    ]
}

proptest! {
    /// Judging by what is pending comes to the same as judging by what is recorded, however late
    /// it is recorded.
    #[test]
    fn pending_events_count(steps in proptest::collection::vec((any_event(), 0..3usize), 1..80)) {
        let mut at_once = Partition::new(orders());
        let mut late = Partition::new(orders());
        let mut pending = Pending::default();
        let mut queue = std::collections::VecDeque::new();
        for (position, (event, settled)) in steps.into_iter().enumerate() {
            let position = position as u64;
            let expected = at_once.apply(&event, position);
            let judged = validate(&Ahead { recorded: Some(&late), pending: Some(&pending) }, &event);
            match (&expected, &judged) {
                (Ok(expected), Ok(judged)) => prop_assert_eq!(expected, judged),
                (Err(expected), Err(judged)) => prop_assert_eq!(expected.to_string(), judged.to_string()),
                _ => prop_assert!(false, "{:?} against {:?}", expected, judged),
            }
            if let Ok(Effect::Change) = judged {
                let after = After::of(&event, &Ahead { recorded: Some(&late), pending: Some(&pending) });
                pending.push(&event, after, position);
                prop_assert_eq!(pending.position(&event), Some(position));
                queue.push_back((event, position));
            }
            for (event, position) in queue.drain(..settled.min(queue.len())) {
                late.apply(&event, position).expect("it was valid");
                pending.settle(&event, position);
            }
        }
        for (event, position) in queue {
            late.apply(&event, position).expect("it was valid");
            pending.settle(&event, position);
        }
        prop_assert!(pending.is_empty());
        prop_assert_eq!(late.list(), at_once.list());
        prop_assert_eq!(late.containing(LeaderEpoch(0), 5), at_once.containing(LeaderEpoch(0), 5));
    }
}
