//! The workloads.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::subject::{HEADER, Kind};

/// Regions of a log that is read, and bytes of its payloads.
pub(crate) const REGIONS: u32 = 100;
pub(crate) const PAYLOAD: usize = 1024;
/// Records and regions of a batch.
const BATCH: u32 = 100;
const BATCH_REGIONS: u32 = 10;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
pub(crate) enum Case {
    /// Durable appends of a record each, by threads that wait for them.
    W1,
    /// One thread with many durable appends outstanding.
    W1p,
    /// Durable batches of 100 records over 10 regions.
    W2,
    /// Appends that nobody waits for, with the flush at the end.
    W3,
    /// Opening a log of 100 regions.
    W4,
    /// Reading it.
    W5,
    /// Dropping 99 % of it.
    W6,
    /// What a log without entries takes.
    W7,
}

impl Case {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::W1 => "W1: durable, one record a call",
            Self::W1p => "W1p: durable, one thread, many appends outstanding, 1 KiB",
            Self::W2 => "W2: durable batches of 100 x 1 KiB over 10 regions",
            Self::W3 => "W3: staged, 1 KiB, flushed at the end",
            Self::W4 => "W4: opening, 1 KiB entries over 100 regions",
            Self::W5 => "W5: replay, 1 KiB entries over 100 regions",
            Self::W6 => "W6: 99 % becomes obsolete",
            Self::W7 => "W7: disk use of an empty log",
        }
    }

    /// The figure that counts: its name, and whether more of it is better.
    pub(crate) const fn main(self) -> (&'static str, bool) {
        match self {
            Self::W1 | Self::W1p | Self::W2 | Self::W3 | Self::W5 => ("records/s", true),
            Self::W4 => ("ms", false),
            Self::W6 => ("MiB left", false),
            Self::W7 => ("KiB, one record", false),
        }
    }

    /// The other figures.
    pub(crate) const fn others(self) -> &'static [&'static str] {
        match self {
            Self::W1 | Self::W2 => &["p50 us", "p99 us", "CPU s/M", "device B/B", "flushes/record"],
            Self::W1p => &["CPU s/M", "device B/B", "flushes/record"],
            Self::W3 => &["acknowledged/s", "CPU s/M", "device B/B", "flushes/record"],
            Self::W4 => &["anon MiB", "CPU ms"],
            Self::W5 => &["anon MiB", "CPU s/M"],
            Self::W6 => &["MiB before", "MiB reusable", "done after ms"],
            Self::W7 => &["KiB, opened", "KiB of length"],
        }
    }
}

/// How a log is read.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Read {
    /// One region.
    One,
    /// Every region, one after the other.
    Each,
    /// All entries, in the order of the log.
    Scan,
}

/// What a process of its own does.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) case: Case,
    pub(crate) kind: Kind,
    pub(crate) threads: u32,
    pub(crate) payload: usize,
    /// Appends outstanding.
    pub(crate) outstanding: usize,
    /// Whether the page cache is empty.
    pub(crate) cold: bool,
    pub(crate) read: Read,
    /// Payload bytes of a log that is kept.
    pub(crate) data: u64,
    /// Of a window.
    pub(crate) seconds: f64,
}

impl Job {
    pub(crate) fn new(case: Case, data: u64) -> Self {
        let kind = Kind::Floor;
        Self {
            case,
            kind,
            threads: 1,
            payload: PAYLOAD,
            outstanding: 0,
            cold: false,
            read: Read::Scan,
            data,
            seconds: 0.0,
        }
    }

    /// What tells it from the case's others.
    pub(crate) fn label(&self) -> String {
        let warmth = if self.cold { "cold" } else { "warm" };
        let threads = if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) };
        match self.case {
            Case::W1 => format!("{} B, {threads}", self.payload),
            Case::W1p => format!("{} outstanding", self.outstanding),
            Case::W2 | Case::W3 => threads,
            Case::W4 => format!("{} MiB, {warmth}", self.data >> 20),
            Case::W5 => match self.read {
                Read::One => format!("one region, {warmth}"),
                Read::Each => format!("each region in turn, {warmth}"),
                Read::Scan => format!("all in the log's order, {warmth}"),
            },
            Case::W6 => format!("{} MiB", self.data >> 20),
            Case::W7 => String::new(),
        }
    }

    /// Whether there must be data before it.
    pub(crate) const fn wants_data(&self) -> bool {
        matches!(self.case, Case::W4 | Case::W5)
    }

    /// Records that a thread appends at once.
    pub(crate) const fn batch(&self) -> u32 {
        match self.case {
            Case::W2 => BATCH,
            Case::W4 | Case::W5 | Case::W6 => REGIONS,
            _ => 1,
        }
    }

    /// Regions that a thread appends to.
    pub(crate) const fn regions(&self) -> u32 {
        match self.case {
            Case::W2 => BATCH_REGIONS,
            Case::W4 | Case::W5 | Case::W6 => REGIONS,
            _ => 1,
        }
    }

    /// Threads, and appends of a thread at once: the loop does with one thread what the others do with many.
    pub(crate) fn shape(&self) -> (u32, u32) {
        match self.kind {
            Kind::Loop if self.case == Case::W1p => (1, self.outstanding as u32),
            Kind::Loop => (1, self.threads * self.batch()),
            _ => (self.threads, self.batch()),
        }
    }

    /// Batches of a log that is kept; an entry in each region.
    pub(crate) const fn batches(&self) -> u64 {
        self.data / (PAYLOAD as u64 * REGIONS as u64)
    }

    /// Bytes that all threads append at once, with the bare writers' headers.
    pub(crate) fn bytes_at_once(&self) -> usize {
        let (threads, batch) = self.shape();
        (threads * batch) as usize * (HEADER + self.payload)
    }
}

/// What came of a job, by name.
pub(crate) type Figures = BTreeMap<String, f64>;
