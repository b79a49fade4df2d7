//! What the tests of the log store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

use futures::StreamExt;
use futures::executor::block_on;
use tidelog::log_store::{
    Ack, Entry, EntryId, LogStore, LogStoreError, Provider, REGION_CLASS, RegionId, StoreOptions,
    TideLogStore,
};
use tidelog::{BackendChoice, Error, Options, StreamId};

/// One directory, and the backend that its log is opened with.
pub(crate) struct Env {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) backend: BackendChoice,
}

impl Env {
    /// `None` where the kernel refuses the ring; the other backend is then all there is to test.
    pub(crate) fn new(backend: BackendChoice) -> Option<Self> {
        let probe = tempfile::tempdir().unwrap();
        match TideLogStore::open(probe.path(), StoreOptions::new().log(Options::new().backend(backend))) {
            Err(LogStoreError::Log(Error::RingUnavailable { .. })) => return None,
            opened => drop(opened.unwrap()),
        }
        Some(Self { dir: tempfile::tempdir().unwrap(), backend })
    }

    pub(crate) fn options(&self) -> Options {
        Options::new().backend(self.backend)
    }

    /// Small segments, so that a test fills many.
    pub(crate) fn small_segments(&self) -> StoreOptions {
        StoreOptions::new().log(self.options().first_segment_size(256 << 10).segment_size(1 << 20))
    }

    /// Appends are acknowledged when staged, and no flush comes unless somebody waits for it.
    pub(crate) fn staged(&self) -> StoreOptions {
        let hour = std::time::Duration::from_secs(3600);
        let log = self.options().flush_interval(hour).max_unflushed_bytes(1 << 40).idle_after(hour);
        StoreOptions::new().log(log).ack(Ack::Staged)
    }

    pub(crate) fn open(&self) -> TideLogStore {
        self.open_with(StoreOptions::new().log(self.options()))
    }

    pub(crate) fn open_with(&self, options: StoreOptions) -> TideLogStore {
        TideLogStore::open(self.dir.path(), options).unwrap()
    }

    /// Bytes of all files of the log.
    pub(crate) fn bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        files.filter_map(|file| file.unwrap().metadata().ok()).map(|file| file.len()).sum()
    }
}

/// Runs each test once a backend.
macro_rules! backends {
    ($(fn $name:ident($env:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn run(backend: tidelog::BackendChoice) {
                let Some($env) = crate::support::Env::new(backend) else { return };
                $body
            }

            #[test]
            fn ring() {
                run(tidelog::BackendChoice::Ring);
            }

            #[test]
            fn std() {
                run(tidelog::BackendChoice::Std);
            }
        }
    )*};
}
pub(crate) use backends;

pub(crate) fn provider(region: RegionId) -> Provider {
    Provider::raft_engine_provider(region.as_u64())
}

pub(crate) fn entry(store: &TideLogStore, region: RegionId, id: EntryId, data: impl Into<Vec<u8>>) -> Entry {
    store.entry(data.into(), id, region, &provider(region)).unwrap()
}

/// Appends one entry, and gives the id that the response has for the region.
pub(crate) fn append(
    store: &TideLogStore,
    region: RegionId,
    id: EntryId,
    data: impl Into<Vec<u8>>,
) -> Result<EntryId, LogStoreError> {
    let response = block_on(store.append_batch(vec![entry(store, region, id, data)]))?;
    assert_eq!(response.last_entry_ids.len(), 1);
    Ok(response.last_entry_ids[&region])
}

/// Appends one entry for each id, in one batch, with the id as its payload.
pub(crate) fn append_ids(store: &TideLogStore, region: RegionId, ids: impl IntoIterator<Item = EntryId>) {
    let entries = ids.into_iter().map(|id| entry(store, region, id, id.to_string())).collect();
    block_on(store.append_batch(entries)).unwrap();
}

/// Everything from `id` on: id and payload.
pub(crate) fn read(store: &TideLogStore, region: RegionId, id: EntryId) -> Vec<(EntryId, Vec<u8>)> {
    let stream = block_on(store.read(&provider(region), id)).unwrap();
    let mut entries = Vec::new();
    for batch in block_on(stream.collect::<Vec<_>>()) {
        let batch = batch.unwrap();
        assert!(!batch.is_empty(), "a batch has at least one entry");
        for entry in batch {
            assert_eq!((entry.region_id(), entry.provider()), (region, &provider(region)));
            entries.push((entry.entry_id(), entry.into_bytes().to_vec()));
        }
    }
    entries
}

pub(crate) fn read_ids(store: &TideLogStore, region: RegionId, id: EntryId) -> Vec<EntryId> {
    read(store, region, id).into_iter().map(|(id, _)| id).collect()
}

pub(crate) fn ids(range: std::ops::RangeInclusive<EntryId>) -> Vec<EntryId> {
    range.collect()
}

pub(crate) fn latest(store: &TideLogStore, region: RegionId) -> EntryId {
    store.latest_entry_id(&provider(region)).unwrap()
}

pub(crate) fn obsolete(store: &TideLogStore, region: RegionId, id: EntryId) {
    block_on(store.obsolete(&provider(region), region, id)).unwrap();
}

/// Whether entries of the region up to `id` are still to become durable.
pub(crate) fn is_pending(store: &TideLogStore, region: RegionId, id: u64) -> bool {
    store.log().entry_lsn(StreamId::new(REGION_CLASS, region.as_u64()), id).is_some()
}

pub(crate) fn namespaces(store: &TideLogStore) -> Vec<Provider> {
    block_on(store.list_namespaces()).unwrap()
}

/// Remembers that it was woken.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Flag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls once; the flag tells whether the future asked to be polled again.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> (Poll<F::Output>, Arc<Flag>) {
    let flag = Arc::<Flag>::default();
    let waker = Arc::clone(&flag).into();
    let polled = std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker));
    (polled, flag)
}

/// The outcome of a future that was polled once.
pub(crate) fn finish<F: Future>(future: F, polled: Poll<F::Output>) -> F::Output {
    match polled {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => block_on(future),
    }
}

/// Polls until `done`, for things that background threads bring about.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
