//! The threads that append, each waiting for its acknowledgement before it goes on.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use hdrhistogram::Histogram;
use tidelog::{Batch, Log};

use crate::workload::Workload;

/// Told after each append: all of the worker's lines so far are durable.
pub(crate) struct Acknowledged {
    pub(crate) worker: u64,
    pub(crate) steps: u64,
}

/// Lets each worker go on where it stands, until `acknowledged` tells it to stop. `steps` are the
/// lines that each has appended, before and after. Gives the nanoseconds from the call of each
/// append to its acknowledgement.
pub(crate) fn append(
    log: &Log,
    workload: &Workload,
    steps: &mut [u64],
    acknowledged: impl Fn(Acknowledged) -> anyhow::Result<ControlFlow<()>> + Sync,
) -> anyhow::Result<Histogram<u64>> {
    let failed = AtomicBool::new(false);
    let work = |worker: u64, steps: &mut u64| {
        let worked = run(log, workload, worker, steps, |state| {
            if failed.load(Ordering::Relaxed) { Ok(ControlFlow::Break(())) } else { acknowledged(state) }
        });
        failed.fetch_or(worked.is_err(), Ordering::Relaxed);
        worked.with_context(|| format!("worker {worker} failed"))
    };
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..).zip(steps).map(|(worker, steps)| scope.spawn(move || work(worker, steps))).collect();
        let mut all = Histogram::new(3)?;
        for thread in threads {
            all.add(thread.join().map_err(|_| anyhow!("a worker panicked"))??)?;
        }
        Ok(all)
    })
}

fn run(
    log: &Log,
    workload: &Workload,
    worker: u64,
    steps: &mut u64,
    acknowledged: impl Fn(Acknowledged) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<Histogram<u64>> {
    let mut latency = Histogram::new(3)?;
    let mut batch = Batch::new();
    loop {
        workload.fill(worker, *steps, &mut batch);
        let begun = Instant::now();
        log.append_durable(&batch)?;
        latency.record(u64::try_from(begun.elapsed().as_nanos())?)?;
        *steps += workload.batch;
        if acknowledged(Acknowledged { worker, steps: *steps })?.is_break() {
            return Ok(latency);
        }
    }
}
