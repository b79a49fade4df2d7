//! Members by leader epoch and by where their segment ends: a sorted list in chunks.
//!
//! It takes little more than its entries, and a search touches few cache lines. Where entries come in
//! order, chunks are full; elsewhere at least a half of most.

use super::arena::Ix;
use super::types::LeaderEpoch;

/// Entries of a chunk.
const CHUNK: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    epoch: LeaderEpoch,
    member: Ix,
}

const _: () = assert!(size_of::<Entry>() == 16);

type Key = (LeaderEpoch, u64);

impl Entry {
    fn key(&self) -> Key {
        (self.epoch, self.end)
    }
}

/// The list. No two entries have the same epoch and end.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// None is empty.
    chunks: Vec<Vec<Entry>>,
    /// The last key of each chunk.
    tails: Vec<Key>,
}

impl Ordered {
    /// Adds a member under an epoch and an end that are not there yet.
    pub(super) fn insert(&mut self, epoch: LeaderEpoch, end: u64, member: Ix) {
        let entry = Entry { end, epoch, member };
        let (at, slot) = self.place(entry.key());
        if slot == 0 && at > 0 && self.chunks[at - 1].len() < CHUNK {
            return self.put(at - 1, self.chunks[at - 1].len(), entry);
        }
        let Some(chunk) = self.chunks.get_mut(at) else { return self.add_chunk(at, vec![entry]) };
        // Two epochs that grow side by side do not share chunks, so that those of both become full.
        let is_other = slot == 0 && at > 0 && chunk[0].epoch != epoch;
        if chunk.len() < CHUNK && !is_other {
            self.put(at, slot, entry);
        } else if slot == 0 {
            self.add_chunk(at, vec![entry]);
        } else {
            let mut upper = Vec::with_capacity(CHUNK);
            upper.extend(chunk.drain(CHUNK / 2..));
            self.add_chunk(at + 1, upper);
            self.tails[at] = self.chunks[at][CHUNK / 2 - 1].key();
            let (at, slot) = if slot <= CHUNK / 2 { (at, slot) } else { (at + 1, slot - CHUNK / 2) };
            self.put(at, slot, entry);
        }
    }

    /// Removes an entry; whether it was there.
    pub(super) fn remove(&mut self, epoch: LeaderEpoch, end: u64, member: Ix) -> bool {
        let (at, slot) = self.place((epoch, end));
        let found = self.chunks.get(at).and_then(|chunk| chunk.get(slot));
        if !found.is_some_and(|entry| entry.key() == (epoch, end) && entry.member == member) {
            return false;
        }
        self.chunks[at].remove(slot);
        let next = at + 1;
        if self.chunks[at].is_empty() {
            self.remove_chunk(at);
        } else {
            self.tails[at] = self.chunks[at][self.chunks[at].len() - 1].key();
            if next < self.chunks.len() && self.chunks[at].len() + self.chunks[next].len() <= CHUNK / 2 {
                let upper = self.remove_chunk(next);
                self.tails[at] = upper[upper.len() - 1].key();
                self.chunks[at].extend(upper);
            }
        }
        true
    }

    /// The members of an epoch whose segments end at or behind a point, in that order.
    pub(super) fn iter_from(&self, epoch: LeaderEpoch, end: u64) -> impl Iterator<Item = Ix> {
        let (at, slot) = self.place((epoch, end));
        let first = self.chunks.get(at).map_or(&[][..], |chunk| &chunk[slot..]);
        let entries = first.iter().chain(self.chunks.iter().skip(at + 1).flatten());
        entries.take_while(move |entry| entry.epoch == epoch).map(|entry| entry.member)
    }

    /// The member of an epoch whose segment ends last.
    pub(super) fn last(&self, epoch: LeaderEpoch) -> Option<Ix> {
        let at = self.tails.partition_point(|tail| tail.0 <= epoch);
        let before =
            self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(|entry| entry.epoch <= epoch));
        let last = match before.checked_sub(1) {
            Some(slot) => self.chunks[at][slot],
            None => *self.chunks[at.checked_sub(1)?].last()?,
        };
        (last.epoch == epoch).then_some(last.member)
    }

    /// Chunk and slot of the first entry that is not below a key; behind the last chunk there is no such.
    fn place(&self, key: Key) -> (usize, usize) {
        let at = self.tails.partition_point(|tail| *tail < key);
        let Some(chunk) = self.chunks.get(at) else { return (at, 0) };
        // Segments tend to be alike: the slot is near where the ends around the chunk let it be expected,
        // and to look there first saves touching most of the chunk.
        let below = at.checked_sub(1).map(|before| self.tails[before]).filter(|tail| tail.0 == key.0);
        let above = self.tails[at];
        let guess = match below {
            Some(below) if above.0 == key.0 => {
                let (whole, part) = (above.1 - below.1, key.1 - below.1);
                (u128::from(part) * chunk.len() as u128 / u128::from(whole)) as usize
            }
            _ => chunk.len() / 2,
        };
        (at, first_not_below(chunk, key, guess.min(chunk.len() - 1)))
    }

    fn put(&mut self, at: usize, slot: usize, entry: Entry) {
        let chunk = &mut self.chunks[at];
        if slot == chunk.len() {
            self.tails[at] = entry.key();
        }
        chunk.insert(slot, entry);
    }

    fn add_chunk(&mut self, at: usize, chunk: Vec<Entry>) {
        self.tails.insert(at, chunk[chunk.len() - 1].key());
        self.chunks.insert(at, chunk);
    }

    fn remove_chunk(&mut self, at: usize) -> Vec<Entry> {
        let chunk = self.chunks.remove(at);
        self.tails.remove(at);
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
            self.tails.shrink_to(self.tails.len() * 2);
        }
        chunk
    }
}

/// The slot of the first entry that is not below a key, looked for in growing steps from a guess on.
fn first_not_below(chunk: &[Entry], key: Key, guess: usize) -> usize {
    let (mut low, mut high, mut step) = (0, chunk.len(), 1);
    if chunk[guess].key() < key {
        low = guess + 1;
        while low + step < high {
            if chunk[low + step - 1].key() >= key {
                high = low + step;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess;
        while high >= step {
            if chunk[high - step].key() < key {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + chunk[low..high].partition_point(|entry| entry.key() < key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(i32, u64),
        Remove(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0..3, 0..2000_u64).prop_map(|(epoch, end)| Step::Insert(epoch, end)),
            2 => any::<usize>().prop_map(Step::Remove),
        ];
        // Long enough for chunks to be parted and joined.
        prop::collection::vec(step, 0..1500)
    }

    fn ix(number: u32) -> Ix {
        Ix::from_bits(number).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_sorted_map(steps in steps(), from in 0..2000_u64) {
            let (mut list, mut map) = (Ordered::default(), BTreeMap::new());
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Insert(epoch, end) => {
                        let key = (LeaderEpoch(epoch), end);
                        if map.contains_key(&key) {
                            prop_assert!(!list.remove(key.0, end, ix(u32::MAX)));
                            continue;
                        }
                        list.insert(key.0, end, ix(number));
                        map.insert(key, ix(number));
                    }
                    Step::Remove(which) => {
                        let Some((&key, &member)) = map.iter().nth(which % map.len().max(1)) else { continue };
                        prop_assert!(list.remove(key.0, key.1, member));
                        map.remove(&key);
                    }
                }
            }
            for epoch in (0..4).map(LeaderEpoch) {
                let of_epoch = |from| map.range((epoch, from)..=(epoch, u64::MAX)).map(|(_, member)| *member);
                prop_assert_eq!(list.last(epoch), of_epoch(0).next_back());
                prop_assert!(list.iter_from(epoch, 0).eq(of_epoch(0)));
                prop_assert!(list.iter_from(epoch, from).eq(of_epoch(from)));
            }
            prop_assert!(list.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
            prop_assert!(list.tails.iter().eq(list.chunks.iter().map(|chunk| chunk.last().unwrap().key()).collect::<Vec<_>>().iter()));
        }
    }

    #[test]
    fn chunks_become_full_where_entries_come_in_order() {
        let mut list = Ordered::default();
        for number in 1..=10_000 {
            list.insert(LeaderEpoch(number % 2), u64::from(number.unsigned_abs()), ix(number.unsigned_abs()));
        }
        assert!(list.chunks.len() < 10_000 / CHUNK + 5, "{} chunks", list.chunks.len());
        for number in 1..10_000 {
            assert!(list.remove(
                LeaderEpoch(number % 2),
                u64::from(number.unsigned_abs()),
                ix(number.unsigned_abs())
            ));
        }
        assert_eq!((list.chunks.len(), list.chunks.capacity() <= 4), (1, true));
    }
}
