//! Whether the log holds what it must, no less, no more, byte for byte.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use tidelog::{Log, ReadOptions};

use crate::workload::Workload;

/// What was read, and compared.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
}

/// What a crash left: for each worker its whole appends, all acknowledged ones and at most the
/// one that it was waiting for.
pub(crate) fn survivors(
    log: &Log,
    workload: &Workload,
    acknowledged: &[u64],
) -> anyhow::Result<(Vec<u64>, Read)> {
    let mut survived = Vec::with_capacity(acknowledged.len());
    for (worker, &acknowledged) in (0..).zip(acknowledged) {
        let last = |region| log.stream(Workload::stream(region)).and_then(|info| info.last).unwrap_or(0);
        let steps: u64 = Workload::regions_of(worker).map(last).sum();
        ensure!(
            steps >= acknowledged,
            "of worker {worker} {acknowledged} lines were acknowledged, {steps} are left"
        );
        ensure!(
            steps <= acknowledged + workload.batch && steps.is_multiple_of(workload.batch),
            "of worker {worker} {steps} lines are left, in appends of {} after {acknowledged}",
            workload.batch
        );
        survived.push(steps);
    }
    let read = entries(log, workload, &survived, |_| Some(1))?;
    Ok((survived, read))
}

/// Reads every region, each worker its own. `steps` are the lines of each worker that were
/// appended, `first` the lowest id of a region that must be there; `None`: the region was dropped.
pub(crate) fn entries(
    log: &Log,
    workload: &Workload,
    steps: &[u64],
    first: impl Fn(u64) -> Option<u64> + Sync,
) -> anyhow::Result<Read> {
    let ids = |region: u64| {
        let last = Workload::last_id(region, steps[Workload::worker_of(region) as usize]);
        first(region).map_or(0..0, |first| first..last + 1)
    };
    let replay = |worker: u64| {
        Workload::regions_of(worker)
            .try_fold(Read::default(), |read, region| read_region(log, workload, region, ids(region), read))
    };
    let replay = &replay;
    let mut all = Read::default();
    let begun = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..workload.workers).map(|worker| scope.spawn(move || replay(worker))).collect();
        threads.into_iter().try_for_each(|thread| {
            let read = thread.join().map_err(|_| anyhow!("a reading thread panicked"))??;
            all.entries += read.entries;
            all.bytes += read.bytes;
            anyhow::Ok(())
        })
    })?;
    all.took = begun.elapsed();
    let due: Vec<_> = (0..workload.regions()).filter(|region| !ids(*region).is_empty()).collect();
    let known: Vec<_> = log.streams().into_iter().map(|(stream, _)| stream.id).collect();
    ensure!(known == due, "the regions {due:?} are due, the log knows {known:?}");
    Ok(all)
}

fn read_region(
    log: &Log,
    workload: &Workload,
    region: u64,
    mut ids: Range<u64>,
    mut read: Read,
) -> anyhow::Result<Read> {
    for entry in log.read(Workload::stream(region), .., ReadOptions::new())? {
        let entry = entry.with_context(|| format!("region {region} cannot be read"))?;
        let id = ids.next();
        ensure!(id == Some(entry.id), "region {region} has entry {}, where {id:?} is due", entry.id);
        let line = workload.line(region, entry.id);
        ensure!(entry.payload == line, "entry {} of region {region} is not what was appended", entry.id);
        read.entries += 1;
        read.bytes += line.len() as u64;
    }
    ensure!(ids.is_empty(), "region {region} ends before {ids:?}");
    Ok(read)
}
