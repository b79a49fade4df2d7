//! The engine, from its recovery to its end.

use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tidelog::Log;

use crate::args::Args;
use crate::child::Told;
use crate::report::{Measured, Report, flushes};
use crate::verify;
use crate::workers;
use crate::workload::Workload;

/// The region that is dropped.
const DROPPED: u64 = 0;

/// Segments of a log without live entries: the newest, the one before, the one prepared next.
const SEGMENTS_KEPT: u64 = 3;
/// Segments retire in the background; whatever takes longer is broken.
const RETIRED_WITHIN: Duration = Duration::from_secs(20);

/// Every other region is flushed, with three quarters of its entries.
fn flushed_up_to(region: u64, last: u64) -> Option<u64> {
    (region % 2 == 1).then_some(last / 4 * 3).filter(|mark| *mark > 0)
}

pub(crate) struct Engine<'a> {
    log: Log,
    workload: &'a Workload,
    /// Lines that each worker has appended.
    steps: Vec<u64>,
    /// Flushes of the logs before this one.
    flushes: u64,
    /// Segments that retired in them.
    retired: u64,
}

impl<'a> Engine<'a> {
    /// Opens what the killed process left, and checks it.
    pub(crate) fn recover(
        args: &Args,
        workload: &'a Workload,
        dir: &Path,
        told: &Told,
        report: &mut Report,
    ) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let log = Log::open(dir, args.options()).context("the killed engine does not recover")?;
        let took = begun.elapsed();
        let (steps, read) = verify::survivors(&log, workload, &told.acknowledged)?;
        report.recovered(told, &read, took, log.recovery());
        Ok(Self { log, workload, steps, flushes: told.flushes, retired: 0 })
    }

    /// Appends until each line is in, for as long as asked at least; then reads everything.
    pub(crate) fn run_on(&mut self, args: &Args, report: &mut Report) -> anyhow::Result<()> {
        let before = self.log.stats();
        let all_lines = self.workload.steps_for_all_lines();
        let begun = Instant::now();
        let enough = Duration::from_secs(args.seconds);
        let latency = workers::append(&self.log, self.workload, &mut self.steps, |worker| {
            let done = worker.steps >= all_lines && begun.elapsed() >= enough;
            Ok(if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let measured = Measured { took: begun.elapsed(), latency, before, after: self.log.stats() };
        let entries = measured.after.entries - measured.before.entries;
        let expected = measured.latency.len() * self.workload.batch;
        ensure!(entries == expected, "{expected} lines were appended, the log counts {entries}");
        report.measured(&measured);
        let read = verify::entries(&self.log, self.workload, &self.steps, |_| Some(1))?;
        report.read_back(&read);
        Ok(())
    }

    /// What an engine does once a region's data is elsewhere, or not wanted any more.
    pub(crate) fn flush_and_drop(&self) -> anyhow::Result<()> {
        for region in 0..self.workload.regions() {
            if let Some(mark) = flushed_up_to(region, self.last_id(region)) {
                self.log.obsolete(Workload::stream(region), mark)?;
            }
        }
        self.log.release(Workload::stream(DROPPED))?;
        self.check_dropped()
    }

    fn check_dropped(&self) -> anyhow::Result<()> {
        let dropped = self.log.stream(Workload::stream(DROPPED));
        ensure!(dropped.is_none(), "the dropped region is there: {dropped:?}");
        Ok(())
    }

    /// Reads on where regions were flushed, and nothing of the one that was dropped.
    fn check_flushed_and_dropped(&self) -> anyhow::Result<verify::Read> {
        self.check_dropped()?;
        let first = |region| match region {
            DROPPED => None,
            _ => Some(flushed_up_to(region, self.last_id(region)).map_or(1, |mark| mark + 1)),
        };
        verify::entries(&self.log, self.workload, &self.steps, first)
    }

    /// Closes the log, opens it again, and checks what was flushed and dropped.
    pub(crate) fn restart(self, args: &Args, dir: &Path, report: &mut Report) -> anyhow::Result<Self> {
        self.log.close()?;
        let stats = self.log.stats();
        let (workload, steps) = (self.workload, self.steps);
        drop(self.log);
        let begun = Instant::now();
        let log = Log::open(dir, args.options()).context("the closed log does not open")?;
        let took = begun.elapsed();
        let restarted = Self {
            log,
            workload,
            steps,
            flushes: self.flushes + flushes(&stats),
            retired: self.retired + stats.retired,
        };
        let read = restarted.check_flushed_and_dropped()?;
        let regions = 0..workload.regions();
        let flushed = regions.filter(|&r| flushed_up_to(r, restarted.last_id(r)).is_some()).count();
        report.restarted(took, flushed, &read);
        Ok(restarted)
    }

    /// Flushes all that is left, so that the log gives its room back, and closes it.
    pub(crate) fn shut_down(self, report: &mut Report) -> anyhow::Result<()> {
        for region in 0..self.workload.regions() {
            self.log.obsolete(Workload::stream(region), u64::MAX)?;
        }
        let deadline = Instant::now() + RETIRED_WITHIN;
        while self.log.stats().segments > SEGMENTS_KEPT {
            ensure!(Instant::now() < deadline, "segments without live entries stay: {:?}", self.log.stats());
            thread::sleep(Duration::from_millis(1));
        }
        self.log.close()?;
        let stats = self.log.stats();
        report.shut_down(self.flushes + flushes(&stats), self.retired + stats.retired);
        Ok(())
    }

    fn last_id(&self, region: u64) -> u64 {
        Workload::last_id(region, self.steps[Workload::worker_of(region) as usize])
    }
}
