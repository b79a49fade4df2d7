//! What a storage engine does with the store: open, flush, catch-up, truncate, drop. The engine
//! here keeps a manifest and a memtable a region, and nothing else.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::executor::block_on;
use tidelog::log_store::{LogStore, RaftEngineProvider, RegionId, TideLogStore};

use crate::{Env, append_ids, backends, entry, latest, obsolete, provider, read_ids};

/// What the engine persists beside the log.
#[derive(Clone, Debug, Default)]
struct Manifest {
    flushed: u64,
    rows: Vec<u64>,
}

/// An open region.
#[derive(Debug)]
struct Region<'a> {
    store: &'a TideLogStore,
    id: RegionId,
    manifest: Manifest,
    last: u64,
    memtable: BTreeMap<u64, Vec<u64>>,
}

/// Rows as one entry carries them.
fn encode(rows: &[u64]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|row| u64::from_le_bytes(row.try_into().unwrap())).collect()
}

impl<'a> Region<'a> {
    fn create(store: &'a TideLogStore, id: RegionId) -> Self {
        let flushed = provider(id).initial_flushed_entry_id(store);
        let manifest = Manifest { flushed, rows: vec![] };
        Self { store, id, manifest, last: flushed, memtable: BTreeMap::new() }
    }

    fn open(store: &'a TideLogStore, id: RegionId, manifest: Manifest) -> Self {
        let mut region = Self::open_skipping_replay(store, id, manifest);
        let flushed = region.manifest.flushed;
        let mut stream = block_on(store.read(&provider(id), flushed + 1)).unwrap();
        while let Some(batch) = block_on(stream.next()) {
            for entry in batch.unwrap() {
                assert!(entry.entry_id() > flushed, "stale entry");
                region.last = entry.entry_id();
                region.memtable.insert(entry.entry_id(), decode(&entry.into_bytes()));
            }
        }
        // Always: it repairs a store that lost the mark.
        obsolete(store, id, flushed);
        region
    }

    fn open_skipping_replay(store: &'a TideLogStore, id: RegionId, manifest: Manifest) -> Self {
        let last = manifest.flushed;
        Self { store, id, manifest, last, memtable: BTreeMap::new() }
    }

    fn put(&mut self, rows: std::ops::Range<u64>) {
        put_all(self.store, &mut [(self, rows)]);
    }

    fn rows(&self) -> Vec<u64> {
        let mut rows = self.manifest.rows.clone();
        rows.extend(self.memtable.values().flatten());
        rows
    }

    fn flush(&mut self) {
        block_on(self.store.wait_durable(&provider(self.id), self.last)).unwrap();
        self.manifest = Manifest { flushed: self.last, rows: self.rows() };
        self.memtable.clear();
        obsolete(self.store, self.id, self.last);
    }

    fn truncate(&mut self) {
        block_on(self.store.wait_durable(&provider(self.id), self.last)).unwrap();
        self.manifest = Manifest { flushed: self.last, rows: vec![] };
        self.memtable.clear();
        obsolete(self.store, self.id, self.last);
    }

    fn discard_unflushed(&mut self) {
        block_on(self.store.wait_durable(&provider(self.id), self.last)).unwrap();
        self.manifest.flushed = self.last;
        self.memtable.clear();
        obsolete(self.store, self.id, self.last);
    }

    fn catch_up(&mut self) {
        let latest = latest(self.store, self.id);
        if latest > self.manifest.flushed {
            self.last = latest;
            obsolete(self.store, self.id, latest);
        }
    }

    fn drop_region(self) {
        obsolete(self.store, self.id, self.last);
        block_on(self.store.release_region(&provider(self.id), self.id)).unwrap();
    }

    fn span(&self) -> (Option<u64>, Option<u64>) {
        self.store.span(&RaftEngineProvider::new(self.id.as_u64()))
    }
}

/// One write of a worker: an entry a region, one batch.
fn put_all(store: &TideLogStore, writes: &mut [(&mut Region<'_>, std::ops::Range<u64>)]) {
    let batch = writes
        .iter()
        .map(|(region, rows)| {
            entry(store, region.id, region.last + 1, encode(&rows.clone().collect::<Vec<_>>()))
        })
        .collect();
    let response = block_on(store.append_batch(batch)).unwrap();
    for (region, rows) in writes {
        region.last = response.last_entry_ids[&region.id];
        region.memtable.insert(region.last, rows.clone().collect());
    }
}

fn rows(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

const ID: RegionId = RegionId::new(1, 1);

/// A region with rows 0..3 flushed, whose manifest the log is opened with later.
fn flushed(env: &Env) -> Manifest {
    let store = env.open();
    let mut region = Region::create(&store, ID);
    region.put(0..3);
    region.flush();
    region.manifest
}

backends! {
    fn a_region_is_replayed(env) {
        let store = env.open();
        let mut region = Region::create(&store, ID);
        region.put(0..20);
        region.put(20..42);
        let manifest = region.manifest.clone();
        assert_eq!(Region::open(&store, ID, manifest.clone()).rows(), rows(0..42));
        drop(store);
        let store = env.open();
        let region = Region::open(&store, ID, manifest);
        assert_eq!((region.rows(), region.last), (rows(0..42), 2));
    }

    fn a_flushed_region_goes_on_after_its_last_entry(env) {
        let manifest = flushed(&env);
        assert_eq!(manifest.flushed, 1);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest);
        assert_eq!((region.rows(), region.last), (rows(0..3), 1));
        region.put(3..5);
        assert_eq!((region.rows(), region.last), (rows(0..5), 2));
    }

    fn a_lost_mark_does_no_harm(env) {
        let manifest = flushed(&env);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest);
        region.put(3..5);
        // As if the flush had persisted the manifest, and the mark had been lost.
        let manifest = Manifest { flushed: region.last, rows: region.rows() };
        drop(store);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest);
        assert_eq!((region.rows(), region.span()), (rows(0..5), (None, None)));
        region.put(5..6);
        assert_eq!((region.last, region.span()), (3, (Some(3), Some(3))));
    }

    fn catching_up_passes_over_what_was_not_flushed(env) {
        let manifest = flushed(&env);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest.clone());
        region.put(3..4);
        region.put(4..5);
        assert_eq!(region.last, 3);
        let mut region = Region::open_skipping_replay(&store, ID, manifest);
        assert_eq!((region.last, region.span()), (1, (Some(2), Some(3))));
        region.catch_up();
        assert_eq!((region.last, region.span()), (3, (None, None)));
        assert_eq!(region.rows(), rows(0..3));
        region.put(9..10);
        assert_eq!((region.last, region.span()), (4, (Some(4), Some(4))));
    }

    // The catch-up was not flushed, so the next open goes on below the mark.
    fn opening_after_a_catch_up_restarts_below_the_mark(env) {
        let manifest = flushed(&env);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest.clone());
        region.put(3..4);
        region.put(4..5);
        region.catch_up();
        block_on(store.stop()).unwrap();
        drop(store);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest.clone());
        assert_eq!((region.rows(), region.last), (rows(0..3), 1));
        region.put(7..9);
        assert_eq!((region.last, region.span()), (2, (Some(2), Some(2))));
        drop(store);
        let store = env.open();
        let region = Region::open(&store, ID, manifest);
        assert_eq!(region.rows(), [0, 1, 2, 7, 8]);
    }

    fn skipping_the_replay_leaves_the_log(env) {
        let manifest = flushed(&env);
        let store = env.open();
        Region::open(&store, ID, manifest.clone()).put(3..5);
        assert_eq!(Region::open_skipping_replay(&store, ID, manifest.clone()).rows(), rows(0..3));
        assert_eq!(Region::open(&store, ID, manifest).rows(), rows(0..5));
    }

    fn regions_written_in_turns_are_replayed_each(env) {
        let store = env.open();
        let ids = [1, 2, 3].map(|number| RegionId::new(1, number));
        let [mut a, mut b, mut c] = ids.map(|id| Region::create(&store, id));
        for turn in 0..10 {
            let part = |region: u64| region * 100 + turn * 2..region * 100 + turn * 2 + 2;
            put_all(&store, &mut [(&mut a, part(0)), (&mut b, part(1))]);
            c.put(part(2));
        }
        drop(store);
        let store = env.open();
        for (number, id) in (0..).zip(ids) {
            let region = Region::open(&store, id, Manifest::default());
            assert_eq!((region.rows(), region.last), (rows(number * 100..number * 100 + 20), 10));
        }
    }

    fn a_truncated_region_reopens_empty(env) {
        let store = env.open();
        let mut region = Region::create(&store, ID);
        region.put(0..3);
        region.flush();
        region.put(3..5);
        region.truncate();
        let manifest = region.manifest.clone();
        assert_eq!(manifest.flushed, region.last);
        drop(store);
        let store = env.open();
        let mut region = Region::open(&store, ID, manifest);
        assert_eq!((region.rows(), region.last), (vec![], 2));
        region.put(7..8);
        assert_eq!(region.rows(), [7]);
    }

    fn what_was_discarded_stays_away(env) {
        let store = env.open();
        let mut region = Region::create(&store, ID);
        region.put(0..3);
        region.flush();
        region.put(3..5);
        for _ in 0..2 {
            region.discard_unflushed();
            assert_eq!((region.rows(), region.span()), (rows(0..3), (None, None)));
        }
        let manifest = region.manifest.clone();
        drop(store);
        let store = env.open();
        assert_eq!(Region::open(&store, ID, manifest).rows(), rows(0..3));
    }

    fn a_dropped_region_can_be_created_again(env) {
        let store = env.open();
        let mut region = Region::create(&store, ID);
        region.put(0..3);
        region.put(3..5);
        region.drop_region();
        drop(store);
        let store = env.open();
        assert_eq!((latest(&store, ID), read_ids(&store, ID, 0)), (0, vec![]));
        let mut region = Region::create(&store, ID);
        region.put(7..8);
        assert_eq!((region.last, region.rows()), (1, vec![7]));
        drop(store);
        let store = env.open();
        assert_eq!(Region::open(&store, ID, Manifest::default()).rows(), [7]);
    }

    fn a_region_that_moved_away_and_back_goes_on_above_its_old_log(env) {
        let store = env.open();
        append_ids(&store, ID, 1..=45);
        // It was flushed elsewhere up to 215.
        let manifest = Manifest { flushed: 215, rows: vec![1] };
        let mut region = Region::open(&store, ID, manifest);
        assert_eq!((region.rows(), region.last), (vec![1], 215));
        region.put(2..3);
        assert_eq!((region.last, region.span()), (216, (Some(216), Some(216))));
    }

    fn offline_cleanup_can_be_repeated(env) {
        let store = env.open();
        let mut region = Region::create(&store, ID);
        region.put(0..3);
        for _ in 0..2 {
            block_on(store.obsolete_all(&provider(ID), ID)).unwrap();
            assert_eq!(latest(&store, ID), 0);
        }
    }
}
