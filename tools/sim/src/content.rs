//! What a log holds, as it should be and as it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use fastrand::Rng;
use tidelog::sim::SimLog;
use tidelog::{Batch, IdRule, ReadMode, ReadOptions, ScanItem, StreamId};

use crate::run::Broken;

/// Streams that a history uses.
const STREAMS: u64 = 4;

/// How ids go, and how much a payload may take.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    /// The rule.
    pub rule: IdRule,
    /// The longest payload that comes now and then, and the one that comes once in a while.
    pub large: [usize; 2],
}

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    entries: BTreeMap<u64, Bytes>,
    mark: Option<u64>,
    last: Option<u64>,
}

/// All streams and namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    streams: BTreeMap<StreamId, Held>,
    namespaces: BTreeSet<StreamId>,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stream, held) in &self.streams {
            let (first, last) = (held.entries.keys().next(), held.entries.keys().next_back());
            write!(f, "stream {}: {first:?}..={last:?}, mark {:?}; ", stream.id, held.mark)?;
        }
        write!(f, "{} namespaces", self.namespaces.len())
    }
}

impl Content {
    /// All that the log gives to be read, by each way of reading.
    pub fn read(sim: &SimLog, rule: IdRule, mode: ReadMode) -> Result<Self, Broken> {
        let log = sim.log();
        let mut content = Self { namespaces: log.namespaces().into_iter().collect(), ..Self::default() };
        for (stream, info) in log.streams() {
            let mut held = Held { mark: info.mark, last: info.last, ..Held::default() };
            let options = ReadOptions::new().mode(mode).max_batch_entries(7);
            let mut reader = log.read(stream, .., options).map_err(Broken::Read)?;
            while let Some(batch) = reader.next_batch() {
                for entry in batch.map_err(Broken::Read)? {
                    held.entries.insert(entry.id, entry.payload);
                }
            }
            let first = held.entries.keys().next().copied();
            // With gaps between ids the log knows a lower bound.
            let told = match rule {
                IdRule::Contiguous => first == info.first,
                IdRule::Increasing => first.is_none() || info.first <= first,
            };
            if !told {
                return Err(Broken::First { told: info.first, read: first });
            }
            if held != Held::default() {
                content.streams.insert(stream, held);
            }
        }
        content.compare_scan(sim)?;
        Ok(content)
    }

    /// A scan gives the newest copy of every entry that is live.
    fn compare_scan(&self, sim: &SimLog) -> Result<(), Broken> {
        let mut seen = BTreeMap::new();
        for record in sim.log().scan(tidelog::Lsn(0), ReadOptions::new()).map_err(Broken::Read)? {
            if let ScanItem::Entry { stream, id, payload, .. } = record.map_err(Broken::Read)?.record {
                seen.insert((stream, id), payload);
            }
        }
        for (stream, held) in &self.streams {
            for (id, payload) in &held.entries {
                if seen.get(&(*stream, *id)) != Some(payload) {
                    return Err(Broken::Scan { stream: *stream, id: *id });
                }
            }
        }
        Ok(())
    }

    /// Whether the stream holds this entry.
    pub fn holds(&self, stream: StreamId, id: u64, payload: &Bytes) -> bool {
        self.streams.get(&stream).and_then(|held| held.entries.get(&id)) == Some(payload)
    }

    /// Each stream that has a last id, with it.
    pub fn lasts(&self) -> impl Iterator<Item = (StreamId, u64)> {
        self.streams.iter().filter_map(|(stream, held)| Some((*stream, held.last?)))
    }

    /// A batch that the log must take, and takes here too.
    pub fn batch(&mut self, ids: Ids, rng: &mut Rng) -> Batch<Bytes> {
        let mut batch = Batch::new();
        for _ in 0..rng.usize(1..5) {
            let stream = StreamId::new(1, rng.u64(..STREAMS));
            match rng.u8(..40) {
                38 => {
                    batch.create_namespace(stream);
                    self.namespaces.insert(stream);
                }
                39 => {
                    batch.delete_namespace(stream);
                    self.namespaces.remove(&stream);
                }
                dice => self.streams.entry(stream).or_default().step(stream, dice, ids, &mut batch, rng),
            }
            self.streams.retain(|_, held| *held != Held::default());
        }
        batch
    }

    /// A batch that lets go of everything: so that room is freed.
    pub fn drop_all(&mut self) -> Batch<Bytes> {
        let mut batch = Batch::new();
        for (stream, held) in &mut self.streams {
            if let Some(last) = held.last {
                batch.obsolete(*stream, last);
                held.mark = Some(last);
                held.entries.clear();
            }
        }
        batch
    }
}

impl Held {
    fn step(&mut self, stream: StreamId, dice: u8, ids: Ids, batch: &mut Batch<Bytes>, rng: &mut Rng) {
        let ends = self.entries.keys().next().copied().zip(self.last);
        match (dice, ends) {
            (28..33, Some((first, last))) => {
                let mark = rng.u64(first..=last);
                // An id above the last one means all there is.
                let above = mark == last && rng.bool();
                batch.obsolete(stream, if above { u64::MAX } else { mark });
                self.mark = Some(mark);
                self.entries = self.entries.split_off(&(mark + 1));
            }
            (33, _) => {
                batch.release(stream);
                *self = Self::default();
            }
            (34..38, Some((first, last))) => {
                let from = rng.u64(first..=last);
                batch.truncate(stream, from);
                self.entries.split_off(&from);
                self.last = self.entries.keys().next_back().copied().or(self.mark);
            }
            _ => self.append(stream, ids, batch, rng),
        }
    }

    fn append(&mut self, stream: StreamId, ids: Ids, batch: &mut Batch<Bytes>, rng: &mut Rng) {
        let next = match (self.last, self.mark) {
            (Some(last), _) => last + 1,
            (None, Some(mark)) => mark + 1,
            (None, None) => rng.u64(1..4),
        };
        let gap = match ids.rule {
            IdRule::Increasing => rng.u64(..3),
            // A stream without live entries takes any id above its mark.
            IdRule::Contiguous if self.entries.is_empty() => rng.u64(..2),
            IdRule::Contiguous => 0,
        };
        let len = match rng.u8(..) {
            0 => rng.usize(..ids.large[1]),
            1..24 => rng.usize(..ids.large[0]),
            _ => rng.usize(..900),
        };
        // Cheap, and no two alike.
        let mut payload = vec![rng.u8(..); len];
        let head = len.min(16);
        rng.fill(&mut payload[..head]);
        let payload = Bytes::from(payload);
        batch.append(stream, next + gap, payload.clone());
        self.entries.insert(next + gap, payload);
        self.last = Some(next + gap);
    }
}
