//! Appends for a time.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use super::{Records, pool};
use crate::case::{Case, Figures, Job};
use crate::machine::Counters;
use crate::strace;
use crate::subject::{Caller, Kind, Purpose, open};

/// What one thread did.
struct Done {
    records: u64,
    /// Nanoseconds of each call.
    latency: Histogram<u64>,
}

pub(super) fn run(job: &Job, dir: &Path) -> Result<Figures> {
    let purpose = if job.case == Case::W3 { Purpose::Staged } else { Purpose::Durable };
    let (pool, subject) = (pool(), open(job, dir, purpose)?);
    let (threads, batch) = job.shape();
    let (gate, stop) = (Barrier::new(threads as usize + 1), AtomicBool::new(false));
    let work = |thread: u32| -> Result<Done> {
        // The loop stands for many threads, each with regions of its own.
        let regions = if job.kind == Kind::Loop { batch } else { job.regions() };
        let mut records = Records::new(pool, job.payload, thread * regions, regions);
        let mut caller = subject.caller();
        gate.wait();
        append(job, &mut *caller, &mut records, batch, &stop)
    };
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let before = Counters::now(dir)?;
        strace::mark(true);
        gate.wait();
        let begin = Instant::now();
        thread::sleep(Duration::from_secs_f64(job.seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in threads {
            all.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        let acknowledged = begin.elapsed();
        subject.flush()?;
        let took = begin.elapsed();
        strace::mark(false);
        figures(job, &all, (acknowledged, took), before, Counters::now(dir)?)
    })
}

fn append(
    job: &Job,
    caller: &mut dyn Caller,
    records: &mut Records,
    batch: u32,
    stop: &AtomicBool,
) -> Result<Done> {
    let mut done = Done { records: 0, latency: Histogram::new_with_bounds(1, 1 << 36, 3)? };
    let pipelined = job.case == Case::W1p && job.kind != Kind::Loop;
    // A staged append is too short for a clock before and after each.
    let timed = !pipelined && job.case != Case::W3;
    let mut begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let records = records.next(batch);
        if pipelined {
            caller.pipelined(records[0], job.outstanding)?;
        } else if job.case == Case::W3 {
            caller.staged(records)?;
        } else {
            caller.durable(records)?;
        }
        done.records += u64::from(batch);
        if timed {
            let now = Instant::now();
            done.latency.saturating_record((now - begun).as_nanos() as u64);
            begun = now;
        }
    }
    Ok(done)
}

fn figures(
    job: &Job,
    all: &[Done],
    (acknowledged, took): (Duration, Duration),
    before: Counters,
    after: Counters,
) -> Result<Figures> {
    let records: u64 = all.iter().map(|done| done.records).sum();
    ensure!(records > 0, "no record was acknowledged");
    let mut latency = Histogram::<u64>::new_with_bounds(1, 1 << 36, 3)?;
    for done in all {
        latency.add(&done.latency)?;
    }
    let count = records as f64;
    let mut figures = Figures::new();
    let mut put = |name: &str, value: f64| figures.insert(name.into(), value);
    put("records/s", count / took.as_secs_f64());
    put("acknowledged/s", count / acknowledged.as_secs_f64());
    put("records", count);
    put("CPU s/M", (after.cpu - before.cpu) * 1e6 / count);
    put("device B/B", (after.written - before.written) as f64 / (count * job.payload as f64));
    if let (Some(after), Some(before)) = (after.flushes, before.flushes) {
        put("flushes/record", (after - before) as f64 / count);
    }
    if !latency.is_empty() {
        put("p50 us", latency.value_at_quantile(0.5) as f64 / 1e3);
        put("p99 us", latency.value_at_quantile(0.99) as f64 / 1e3);
    }
    Ok(figures)
}
