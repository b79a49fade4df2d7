//! raft-engine, as `GreptimeDB`'s log store uses it: its configuration, an `add_entries` for each entry, a batch a call.

use std::path::Path;

use anyhow::{Context, Result};
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};
use raft_proto::eraftpb::Entry;

use super::{Caller, Purpose, Record, Subject};
use crate::case::{Case, Job};

/// A region number that entries do not use: zero is not allowed.
const OFFSET: u64 = 1;
const FETCH: usize = 1 << 20;
/// Purging gives up on waiting for readers after nine requests.
const PURGES: u32 = 10;

#[derive(Clone)]
struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

pub(crate) struct Raft {
    engine: Engine,
}

impl Raft {
    pub(crate) fn open(job: &Job, dir: &Path, _purpose: Purpose) -> Result<Self> {
        // A purge does nothing below the threshold, so that it has to lie below the data that is dropped.
        let purge = if job.case == Case::W6 { job.data / 2 } else { 1 << 30 };
        let config = Config {
            dir: dir.to_str().context("the path is not text")?.to_owned(),
            purge_threshold: ReadableSize(purge.max(128 << 20)),
            target_file_size: ReadableSize::mb(128),
            recovery_mode: RecoveryMode::TolerateTailCorruption,
            batch_compression_threshold: ReadableSize::kb(8),
            enable_log_recycle: true,
            prefill_for_recycle: false,
            recovery_threads: std::thread::available_parallelism()?.get(),
            ..Config::default()
        };
        Ok(Self { engine: Engine::open(config)? })
    }

    fn write(&self, records: &[Record], sync: bool) -> Result<()> {
        let mut batch = LogBatch::with_capacity(records.len());
        for record in records {
            let entry = Entry { index: record.id, data: record.payload.to_vec().into(), ..Entry::default() };
            batch.add_entries::<Entries>(u64::from(record.region) + OFFSET, &[entry])?;
        }
        self.engine.write(&mut batch, sync)?;
        Ok(())
    }

    fn replay_one(&self, region: u64) -> Result<u64> {
        let (Some(mut next), Some(last)) = (self.engine.first_index(region), self.engine.last_index(region))
        else {
            return Ok(0);
        };
        let (mut entries, mut count, mut touched) = (Vec::new(), 0, 0_u64);
        while next <= last {
            entries.clear();
            let fetched =
                self.engine.fetch_entries_to::<Entries>(region, next, last + 1, Some(FETCH), &mut entries)?
                    as u64;
            touched += entries.iter().map(|entry| u64::from(entry.data[0])).sum::<u64>();
            (next, count) = (next + fetched, count + fetched);
        }
        std::hint::black_box(touched);
        Ok(count)
    }
}

impl Subject for Raft {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(RaftCaller(self))
    }

    fn flush(&self) -> Result<()> {
        let mut batch = LogBatch::default();
        batch.put(u64::MAX, b"flush".to_vec(), Vec::new())?;
        self.engine.write(&mut batch, true)?;
        Ok(())
    }

    fn replay(&self, region: Option<u32>) -> Result<u64> {
        self.replay_one(u64::from(region.context("it has no such reader")?) + OFFSET)
    }

    fn obsolete(&self, regions: u32, id: u64) -> Result<()> {
        for region in 0..regions {
            self.engine.compact_to(u64::from(region) + OFFSET, id + 1);
        }
        for _ in 0..PURGES {
            self.engine.purge_expired_files()?;
        }
        Ok(())
    }
}

struct RaftCaller<'a>(&'a Raft);

impl Caller for RaftCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        self.0.write(records, true)
    }

    fn staged(&mut self, records: &[Record]) -> Result<()> {
        self.0.write(records, false)
    }
}
