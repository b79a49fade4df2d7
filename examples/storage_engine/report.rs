//! The table.

use std::fmt::{self, Display};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use comfy_table::{Table, presets};
use hdrhistogram::Histogram;
use indicatif::{BinaryBytes, HumanCount};
use tidelog::{RecoveryReport, Stats};

use crate::args::Args;
use crate::child::Told;
use crate::verify::Read;
use crate::workload::Workload;

/// The part that the figures are of.
pub(crate) struct Measured {
    pub(crate) took: Duration,
    /// Nanoseconds of each append.
    pub(crate) latency: Histogram<u64>,
    pub(crate) before: Stats,
    pub(crate) after: Stats,
}

/// What was done, checked and measured.
pub(crate) struct Report(Table);

impl Report {
    pub(crate) fn new() -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        Self(table)
    }

    fn row(&mut self, name: &str, value: impl Display) {
        self.0.add_row([name.to_owned(), value.to_string()]);
    }

    pub(crate) fn input(&mut self, args: &Args, workload: &Workload) {
        let corpus = &workload.corpus;
        self.row("input", format!("{} lines, {}", HumanCount(corpus.len()), BinaryBytes(corpus.bytes())));
        let regions = workload.regions();
        self.row(
            "threads",
            format!("{}, over {regions} regions, {} lines an append", args.threads, args.batch),
        );
    }

    pub(crate) fn recovered(&mut self, told: &Told, found: &Read, took: Duration, recovery: &RecoveryReport) {
        let acknowledged: u64 = told.acknowledged.iter().sum();
        self.row("killed after", format!("{} acknowledged lines", HumanCount(acknowledged)));
        self.row("found", format!("all of them, and {} more", HumanCount(found.entries - acknowledged)));
        let torn = if recovery.torn_tail.is_some() { ", a torn tail cut off" } else { "" };
        self.row("recovery time", format!("{took:.2?}, {} segments{torn}", recovery.segments));
    }

    pub(crate) fn measured(&mut self, measured: &Measured) {
        let Measured { took, latency, before, after } = measured;
        let entries = after.entries - before.entries;
        let bytes = after.payload_bytes - before.payload_bytes;
        let commits = after.frames - before.frames;
        let direct = if after.direct { ", direct I/O" } else { "" };
        self.row("backend", format!("{}{direct}", after.backend));
        self.row("entries a second", HumanCount(rate(entries, *took)));
        self.row("bytes a second", BinaryBytes(rate(bytes, *took)));
        self.row("appends", format!("{} in {took:.2?}", HumanCount(latency.len())));
        self.row("commits", HumanCount(commits));
        self.row("mean appends a commit", format!("{:.2}", ratio(latency.len(), commits)));
        self.row("durable writes", HumanCount(after.durable_writes - before.durable_writes));
        self.row("flushes", HumanCount(after.flushes - before.flushes));
        for (name, quantile) in [("commit latency p50", 0.5), ("commit latency p99", 0.99)] {
            let latency = Duration::from_nanos(latency.value_at_quantile(quantile));
            self.row(name, format!("{latency:.2?}"));
        }
    }

    pub(crate) fn read_back(&mut self, read: &Read) {
        let (entries, bytes) = (rate(read.entries, read.took), rate(read.bytes, read.took));
        self.row("entries read and compared", HumanCount(read.entries));
        self.row("entries read a second", HumanCount(entries));
        self.row("bytes read a second", BinaryBytes(bytes));
    }

    pub(crate) fn restarted(&mut self, took: Duration, flushed: usize, left: &Read) {
        self.row("restart time", format!("{took:.2?}"));
        self.row("regions", format!("{flushed} flushed, 1 dropped, which stays away"));
        self.row("entries left, compared", HumanCount(left.entries));
    }

    pub(crate) fn shut_down(&mut self, flushes: u64, retired: u64) {
        self.row("segments retired", retired);
        self.row("flushes and durable writes", format!("{} in all", HumanCount(flushes)));
    }

    /// Bytes that the log's files take on the disk.
    pub(crate) fn disk(&mut self, when: &str, dir: &Path) -> anyhow::Result<()> {
        /// What `st_blocks` counts in.
        const SECTOR: u64 = 512;
        let mut used = 0;
        for entry in fs::read_dir(dir)? {
            used += entry?.metadata()?.blocks() * SECTOR;
        }
        self.row(&format!("bytes on disk{when}"), BinaryBytes(used));
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Times that the log made frames durable: on `std` each is one `fdatasync`.
pub(crate) fn flushes(stats: &Stats) -> u64 {
    stats.flushes + stats.durable_writes
}

/// A second.
fn rate(value: u64, took: Duration) -> u64 {
    let a_second = u128::from(value) * 1_000_000 / took.as_micros().max(1);
    u64::try_from(a_second).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts that are shown with two digits")]
fn ratio(value: u64, of: u64) -> f64 {
    value as f64 / of as f64
}
