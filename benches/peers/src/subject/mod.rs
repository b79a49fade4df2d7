//! What is measured, behind one interface.

mod floor;
#[cfg(feature = "nodedb-wal")]
mod nodedb;
#[cfg(feature = "okaywal")]
mod okaywal;
#[cfg(feature = "raft-engine")]
mod raft_engine;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tidelog;
#[cfg(feature = "walrus")]
mod walrus;

use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tidelog_tools::bare::Put;

use crate::case::{Case, Job, Read};

/// One entry. Payloads live as long as the process, so that nobody has to copy them for the harness's sake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) region: u32,
    pub(crate) id: u64,
    pub(crate) payload: &'static [u8],
}

/// Bytes of the header that the bare writers put before a payload: length, crc, region, id.
pub(crate) const HEADER: usize = 16;

/// A record and its checksum, as the bare writers store it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summed {
    record: Record,
    crc: u32,
}

impl Put for Summed {
    fn size(&self) -> usize {
        HEADER + self.record.payload.len()
    }

    fn put(&self, into: &mut [u8], at: usize) -> usize {
        let Record { region, id, payload } = self.record;
        let (head, end) = (at + HEADER, at + self.size());
        let fields = [payload.len() as u32, self.crc, region, id as u32];
        for (bytes, field) in into[at..head].chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        into[head..end].copy_from_slice(payload);
        end
    }
}

/// Fields of a header, and the payload behind it; `None` where there is no record.
pub(crate) struct Packed<'a> {
    pub(crate) crc: u32,
    pub(crate) region: u32,
    pub(crate) id: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Packed<'a> {
    pub(crate) fn get(from: &'a [u8]) -> Option<Self> {
        let header = from.get(..HEADER)?;
        let field =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let payload = from.get(HEADER..HEADER + field(0) as usize)?;
        (!payload.is_empty()).then_some(Self { crc: field(4), region: field(8), id: field(12), payload })
    }
}

/// A log that is open.
pub(crate) trait Subject: Send + Sync {
    /// What one thread appends through.
    fn caller(&self) -> Box<dyn Caller + '_>;

    /// Everything that was staged is durable on return, if the log has a way to do so.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Ends a log with data as its owner would. Others do so where they are dropped.
    fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Reads one region, or all in the order of the log, a byte of each payload, and gives the number of entries.
    fn replay(&self, _region: Option<u32>) -> Result<u64> {
        bail!("it has no such reader")
    }

    /// Drops the entries of the regions below `regions` whose ids are at or below `id`, as far as the log can.
    fn obsolete(&self, _regions: u32, _id: u64) -> Result<()> {
        bail!("it cannot")
    }
}

pub(crate) trait Caller {
    /// Durable on return, all or nothing where the log can do that.
    fn durable(&mut self, records: &[Record]) -> Result<()>;

    /// Acknowledged on return, by whatever that is worth.
    fn staged(&mut self, _records: &[Record]) -> Result<()> {
        bail!("it has no such mode")
    }

    /// Appends and goes on as long as fewer than so many appends are not durable.
    fn pipelined(&mut self, _record: Record, _outstanding: usize) -> Result<()> {
        bail!("it has no such mode")
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A bare group commit, one write in flight.
    Floor,
    /// The same with four.
    Floor4,
    /// One thread that packs what all threads would append into a write.
    Loop,
    /// On segments made of retired ones.
    Tidelog,
    /// On segments that are filled with zeros first.
    TidelogFresh,
    RaftEngine,
    Okaywal,
    NodedbWal,
    Rocksdb,
    Walrus,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Floor,
        Self::Tidelog,
        Self::RaftEngine,
        Self::TidelogFresh,
        Self::Okaywal,
        Self::Floor4,
        Self::NodedbWal,
        Self::Rocksdb,
        Self::Walrus,
        Self::Loop,
    ];

    /// Which of them the program was built with.
    pub(crate) fn is_built(self) -> bool {
        match self {
            Self::RaftEngine => cfg!(feature = "raft-engine"),
            Self::Okaywal => cfg!(feature = "okaywal"),
            Self::NodedbWal => cfg!(feature = "nodedb-wal"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
            Self::Walrus => cfg!(feature = "walrus"),
            _ => true,
        }
    }

    pub(crate) const fn is_floor(self) -> bool {
        matches!(self, Self::Floor | Self::Floor4)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Floor4 => "floor, 4 in flight",
            Self::Loop => "loop",
            Self::Tidelog => "tidelog",
            Self::TidelogFresh => "tidelog, fresh",
            Self::RaftEngine => "raft-engine 0.4.2",
            Self::Okaywal => "okaywal 0.3.1",
            Self::NodedbWal => "nodedb-wal 0.6.2",
            Self::Rocksdb => "RocksDB 7.8",
            Self::Walrus => "walrus 0.2.0",
        }
    }

    /// Whether the log has what the case asks for.
    pub(crate) fn takes_part(self, job: &Job) -> bool {
        match job.case {
            Case::W1 => true,
            Case::W1p => matches!(self, Self::Loop | Self::Tidelog | Self::TidelogFresh),
            // Its batches are of one topic.
            Case::W2 => self != Self::Walrus,
            Case::W3 => !matches!(self, Self::Okaywal | Self::Loop | Self::Floor4),
            Case::W4 => !matches!(self, Self::Loop | Self::Floor4 | Self::TidelogFresh),
            Case::W5 => {
                let reads = !matches!(self, Self::Loop | Self::Floor4 | Self::TidelogFresh | Self::Okaywal);
                let scans = matches!(self, Self::Floor | Self::Tidelog | Self::NodedbWal);
                reads && if job.read == Read::Scan { scans } else { self != Self::NodedbWal }
            }
            Case::W6 => matches!(self, Self::Tidelog | Self::RaftEngine | Self::NodedbWal | Self::Walrus),
            Case::W7 => !self.is_floor() && !matches!(self, Self::Loop | Self::TidelogFresh),
        }
    }

    /// What one has to know about the figure.
    pub(crate) const fn note(self, case: Case) -> &'static str {
        match (self, case) {
            (Self::Walrus, Case::W1) => "O_SYNC and fsync for each record; short writes are ignored",
            (Self::Walrus, Case::W3) => {
                "never flushed in the window: it has no call for it, a thread does it each 200 ms"
            }
            (Self::RaftEngine, Case::W3) => {
                "the final flush is a synced record: Engine::sync() returns without flushing (empty batch)"
            }
            (Self::NodedbWal, Case::W1 | Case::W2) => {
                "the group commit is the harness's; without its double-write buffer"
            }
            (Self::NodedbWal, Case::W3) => "behind a lock of the harness; without its double-write buffer",
            (Self::NodedbWal, Case::W4) => "reads the last segment only, and no regions",
            (Self::NodedbWal, Case::W5) => "all records of all segments in one Vec, by a thread a segment",
            (Self::NodedbWal, Case::W6) => "by position in the log, not by region",
            (Self::Okaywal, Case::W4) => "one file; its recovery hands out every entry",
            (Self::Rocksdb, Case::W1 | Case::W2 | Case::W3) => {
                "memtable included, which the others do not have"
            }
            (Self::Rocksdb, Case::W4) => "replays its log into a memtable and flushes that to a table",
            (Self::Rocksdb, Case::W5) => "iterates over the table that opening made of the log",
            (Self::RaftEngine, Case::W5) => {
                "1 MiB a fetch (GreptimeDB's setting gives an entry a fetch); an entry costs reading its whole batch"
            }
            (Self::RaftEngine, Case::W6) => {
                "it purges above half the data here (at least a file of 128 MiB), above 1 GB in GreptimeDB"
            }
            (Self::Tidelog, Case::W6) => "it keeps up to two files of retired segments to make segments of",
            (Self::Walrus, Case::W6) => "reads through all of it; files go once everything in them was read",
            (Self::Floor, Case::W4) => "reads all, checks all, builds an index",
            (Self::Floor, Case::W5) => {
                "a pread for each entry, by an index in memory; the scan reads 4 MiB at once and checks all"
            }
            _ => "",
        }
    }
}

/// What the log is opened for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A window of durable appends.
    Durable,
    /// A window of staged appends.
    Staged,
    /// Data that stays.
    Keep,
    /// Nothing: the log as it comes.
    Empty,
}

pub(crate) fn open(job: &Job, dir: &Path, purpose: Purpose) -> Result<Box<dyn Subject>> {
    Ok(match job.kind {
        Kind::Floor => Box::new(floor::Floor::open(job, dir, purpose, 1)?),
        Kind::Floor4 => Box::new(floor::Floor::open(job, dir, purpose, 4)?),
        Kind::Loop => Box::new(floor::Loop::open(job, dir)?),
        Kind::Tidelog | Kind::TidelogFresh => Box::new(tidelog::Tide::open(job, dir, purpose)?),
        #[cfg(feature = "raft-engine")]
        Kind::RaftEngine => Box::new(raft_engine::Raft::open(job, dir, purpose)?),
        #[cfg(feature = "okaywal")]
        Kind::Okaywal => Box::new(okaywal::Okay::open(dir, purpose)?),
        #[cfg(feature = "nodedb-wal")]
        Kind::NodedbWal => Box::new(nodedb::Nodedb::open(job, dir)?),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => Box::new(rocksdb::Rocks::open(dir, purpose)?),
        #[cfg(feature = "walrus")]
        Kind::Walrus => Box::new(walrus::Topics::open(dir, purpose)?),
        #[allow(unreachable_patterns, reason = "with all features")]
        other => bail!("{} was not built in", other.name()),
    })
}

/// Records with their checksums, as the bare writers take them: before any lock.
fn summed(records: &[Record], sum: impl Fn(&[u8]) -> u32, into: &mut Vec<Summed>) {
    into.clear();
    into.extend(records.iter().map(|record| Summed { record: *record, crc: sum(record.payload) }));
}
