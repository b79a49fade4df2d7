//! Values under small indices, in chunks: growing copies nothing, and a chunk that empties goes.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

const CHUNK: usize = 32;

/// Where a value lies in its arena: four bytes, an absent one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ix(NonZeroU32);

impl Ix {
    /// Highest index, so that a caller can use the bit above for its own ends.
    const MAX: u32 = u32::MAX >> 1;

    pub(super) fn get(self) -> u32 {
        self.0.get()
    }

    pub(super) fn from_bits(bits: u32) -> Option<Self> {
        NonZeroU32::new(bits).map(Self)
    }

    fn of(chunk: usize, slot: usize) -> Self {
        let number = u32::try_from(chunk * CHUNK + slot + 1).ok().filter(|number| *number <= Self::MAX);
        Self(number.and_then(NonZeroU32::new).expect("2^31 values take more memory than there is"))
    }

    fn place(self) -> (usize, usize) {
        let number = self.0.get() as usize - 1;
        (number / CHUNK, number % CHUNK)
    }
}

#[derive(Debug)]
struct Chunk<T> {
    live: usize,
    slots: [Option<T>; CHUNK],
}

/// Values that are looked up by the index they were given.
///
/// An index is good until its value is removed; using it later is a mistake of the caller's, who
/// keeps all of them to itself.
#[derive(Debug)]
pub(super) struct Arena<T> {
    chunks: Vec<Option<Box<Chunk<T>>>>,
    /// Chunks with room, absent ones included. The lowest is filled first, so that the others empty.
    room: BTreeSet<u32>,
    live: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), room: BTreeSet::new(), live: 0 }
    }
}

impl<T> Arena<T> {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn insert(&mut self, value: T) -> Ix {
        let at = self.room.first().copied().unwrap_or_else(|| {
            let at = self.chunks.len() as u32;
            self.chunks.push(None);
            self.room.insert(at);
            at
        });
        let chunk = self.chunks[at as usize]
            .get_or_insert_with(|| Box::new(Chunk { live: 0, slots: [const { None }; CHUNK] }));
        let slot = chunk.slots.iter().position(Option::is_none).expect("a chunk with room has a free slot");
        chunk.slots[slot] = Some(value);
        chunk.live += 1;
        if chunk.live == CHUNK {
            self.room.remove(&at);
        }
        self.live += 1;
        Ix::of(at as usize, slot)
    }

    pub(super) fn remove(&mut self, ix: Ix) -> T {
        let (at, slot) = ix.place();
        let chunk = self.chunks[at].as_mut().expect("the index is live");
        let value = chunk.slots[slot].take().expect("the index is live");
        chunk.live -= 1;
        if chunk.live == 0 {
            self.chunks[at] = None;
        }
        self.room.insert(at as u32);
        self.live -= 1;
        self.trim();
        value
    }

    /// Forgets absent chunks at the end.
    fn trim(&mut self) {
        while self.chunks.last().is_some_and(Option::is_none) {
            self.chunks.pop();
            self.room.remove(&(self.chunks.len() as u32));
        }
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }

    /// The values at or behind an index, or all of them.
    pub(super) fn iter_from(&self, from: Option<Ix>) -> impl Iterator<Item = (Ix, &T)> {
        let (first, skip) = from.map_or((0, 0), Ix::place);
        let slots = self.chunks.iter().enumerate().skip(first).flat_map(|(at, chunk)| {
            let slots = chunk.iter().flat_map(|chunk| chunk.slots.iter().enumerate());
            slots.map(move |(slot, value)| (at, slot, value))
        });
        slots
            .filter(move |(at, slot, _)| *at > first || *slot >= skip)
            .filter_map(|(at, slot, value)| Some((Ix::of(at, slot), value.as_ref()?)))
    }
}

impl<T> std::ops::Index<Ix> for Arena<T> {
    type Output = T;

    fn index(&self, ix: Ix) -> &T {
        let (at, slot) = ix.place();
        self.chunks[at].as_ref().and_then(|chunk| chunk.slots[slot].as_ref()).expect("the index is live")
    }
}

impl<T> std::ops::IndexMut<Ix> for Arena<T> {
    fn index_mut(&mut self, ix: Ix) -> &mut T {
        let (at, slot) = ix.place();
        self.chunks[at].as_mut().and_then(|chunk| chunk.slots[slot].as_mut()).expect("the index is live")
    }
}
