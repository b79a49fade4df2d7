//! Which line becomes which entry: a rule without memory, so that what a killed process had
//! appended can be told from its acknowledgements alone.

use tidelog::{Batch, StreamId};

use crate::corpus::Corpus;

/// The class of the engine's streams.
const REGION: u16 = 1;
/// One thread appends to a region, since its ids must rise.
const REGIONS_PER_WORKER: u64 = 4;

/// Worker `w` takes a step for each line. Step `s` goes to the region `s % 4` of its own, and each
/// append carries the next `batch` steps, so most span all of the worker's regions.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) corpus: Corpus,
    pub(crate) workers: u64,
    pub(crate) batch: u64,
}

impl Workload {
    pub(crate) fn regions(&self) -> u64 {
        self.workers * REGIONS_PER_WORKER
    }

    pub(crate) fn stream(region: u64) -> StreamId {
        StreamId::new(REGION, region)
    }

    pub(crate) fn regions_of(worker: u64) -> impl Iterator<Item = u64> {
        (0..REGIONS_PER_WORKER).map(move |nth| worker * REGIONS_PER_WORKER + nth)
    }

    /// What the entry `id` of the region holds. Lines go round the regions, so that together they
    /// take each line before they take one again.
    pub(crate) fn line(&self, region: u64, id: u64) -> &[u8] {
        self.corpus.line((id - 1) * self.regions() + region)
    }

    /// The append that a worker makes after `steps`.
    pub(crate) fn fill<'a>(&'a self, worker: u64, steps: u64, batch: &mut Batch<&'a [u8]>) {
        batch.clear();
        for step in steps..steps + self.batch {
            let region = worker * REGIONS_PER_WORKER + step % REGIONS_PER_WORKER;
            let id = step / REGIONS_PER_WORKER + 1;
            batch.append(Self::stream(region), id, self.line(region, id));
        }
    }

    /// The last id of a region after `steps` of its worker; 0: there is none.
    pub(crate) fn last_id(region: u64, steps: u64) -> u64 {
        let nth = region % REGIONS_PER_WORKER;
        (steps + REGIONS_PER_WORKER - 1 - nth) / REGIONS_PER_WORKER
    }

    pub(crate) fn worker_of(region: u64) -> u64 {
        region / REGIONS_PER_WORKER
    }

    /// Steps of each worker after which each line was appended.
    pub(crate) fn steps_for_all_lines(&self) -> u64 {
        self.corpus.len().div_ceil(self.regions()) * REGIONS_PER_WORKER
    }
}
