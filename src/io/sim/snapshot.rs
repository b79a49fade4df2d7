//! Moments of a simulated disk, and what a power cut in one of them leaves.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::crash::Keep;
use super::disk::SimDisk;
use super::file::{Inode, Pending};
use super::world::{Ino, NameOp, World};

/// What the disk was at some moment: the durable, and all that may be lost.
#[derive(Clone, Debug)]
pub struct Snapshot {
    inodes: Vec<(Ino, Inode)>,
    stable: BTreeMap<String, Ino>,
    names: Vec<NameOp>,
    capacity: u64,
    note: u64,
    op: u64,
}

impl Snapshot {
    pub(super) fn of(world: &World) -> Self {
        let created = world.names.iter().filter_map(|op| match op {
            NameOp::Create(_, ino) | NameOp::Rename(_, _, ino) => Some(*ino),
            NameOp::Unlink(_) => None,
        });
        let mut inos: Vec<Ino> = world.stable.values().copied().chain(created).collect();
        inos.sort_unstable();
        inos.dedup();
        let inode = |ino: Ino| {
            let from = &world.inodes[ino];
            let mut inode = Inode {
                stable: from.stable.clone(),
                pending: from.pending.clone(),
                set_len: from.set_len,
                bad: from.bad.clone(),
                ..Inode::default()
            };
            let flying = world.flying.iter().filter(|flying| flying.ino == ino);
            inode.pending.extend(flying.map(|flying| Pending {
                offset: flying.offset,
                bytes: flying.bytes.clone(),
                stuck: false,
                done: 0,
            }));
            (ino, inode)
        };
        Self {
            inodes: inos.into_iter().map(inode).collect(),
            stable: world.stable.clone(),
            names: world.names.clone(),
            capacity: world.capacity,
            note: world.sampler.note,
            op: world.ops,
        }
    }

    /// What the observer had noted by then.
    pub fn note(&self) -> u64 {
        self.note
    }

    /// How many operations had been begun by then.
    pub fn op(&self) -> u64 {
        self.op
    }

    /// A disk as a power cut at this moment may leave it: what was not durable is kept or lost, each
    /// thing on its own, writes by the sector.
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let mut rng = Rng::with_seed(seed);
        let pending: usize = self.inodes.iter().map(|(_, inode)| inode.pending.len()).sum();
        let mut keep = Keep::draw(&mut rng, pending + self.names.len());
        let mut names = self.stable.clone();
        for op in &self.names {
            if keep.whole() {
                op.apply(&mut names);
            }
        }
        let mut numbers = BTreeMap::new();
        let mut world = World::new(0);
        for (ino, inode) in self.inodes.iter().filter(|(ino, _)| names.values().any(|named| named == ino)) {
            let stable = inode.after_power_cut(&mut keep);
            let bad = inode.bad.clone();
            numbers.insert(*ino, world.inodes.len());
            world.inodes.push(Inode { live: stable.clone(), stable, bad, ..Inode::default() });
        }
        world.live = names.into_iter().map(|(name, ino)| (name, numbers[&ino])).collect();
        world.stable = world.live.clone();
        world.capacity = self.capacity;
        world.rng = Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
        SimDisk::of(world)
    }
}

/// Takes a snapshot now and then.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// One moment in so many, on average; 0: none.
    every: u32,
    most: usize,
    pub(super) note: u64,
    taken: Vec<Snapshot>,
}

impl Sampler {
    pub(super) fn set(&mut self, every: u32, most: usize) {
        (self.every, self.most) = (every, most);
    }

    pub(super) fn is_due(&self, rng: &mut Rng) -> bool {
        self.every > 0 && self.taken.len() < self.most && rng.u32(..self.every) == 0
    }

    pub(super) fn keep(&mut self, snapshot: Snapshot) {
        self.taken.push(snapshot);
    }

    pub(super) fn take(&mut self) -> Vec<Snapshot> {
        std::mem::take(&mut self.taken)
    }
}
