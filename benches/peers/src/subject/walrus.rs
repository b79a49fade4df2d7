//! walrus: a topic a region.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use walrus_rust::{FsyncSchedule, ReadConsistency, Walrus};

use super::{Caller, Purpose, Record, Subject};

/// Bytes of entries read at once.
const READ: usize = 1 << 20;
/// A topic's position is written down after so many reads.
const PERSIST: u32 = 1 << 20;
const REGIONS: u32 = 100;

pub(crate) struct Topics {
    log: Walrus,
    names: Vec<String>,
}

impl Topics {
    /// The directory is the one that the environment names: it has no other way to be told.
    pub(crate) fn open(dir: &Path, purpose: Purpose) -> Result<Self> {
        let told = std::env::var_os("WALRUS_DATA_DIR").context("WALRUS_DATA_DIR is not set")?;
        ensure!(Path::new(&told) == dir, "WALRUS_DATA_DIR is another directory");
        let schedule = match purpose {
            Purpose::Durable => FsyncSchedule::SyncEach,
            _ => FsyncSchedule::Milliseconds(200),
        };
        let consistency = ReadConsistency::AtLeastOnce { persist_every: PERSIST };
        let log = Walrus::with_consistency_and_schedule(consistency, schedule)?;
        Ok(Self { log, names: (0..REGIONS).map(|region| region.to_string()).collect() })
    }

    fn append(&self, records: &[Record]) -> Result<()> {
        for record in records {
            let name = self.names.get(record.region as usize).context("too many regions")?;
            self.log.append_for_topic(name, record.payload)?;
        }
        Ok(())
    }

    /// Reads a topic, up to so many entries.
    fn read(&self, name: &str, limit: u64) -> Result<u64> {
        let (mut count, mut touched) = (0, 0_u64);
        while count < limit {
            let entries = self.log.batch_read_for_topic(name, READ, true)?;
            if entries.is_empty() {
                break;
            }
            touched += entries.iter().map(|entry| u64::from(entry.data[0])).sum::<u64>();
            count += entries.len() as u64;
        }
        std::hint::black_box(touched);
        Ok(count)
    }
}

impl Subject for Topics {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(TopicCaller(self))
    }

    fn replay(&self, region: Option<u32>) -> Result<u64> {
        self.read(&region.context("it has no such reader")?.to_string(), u64::MAX)
    }

    fn obsolete(&self, regions: u32, id: u64) -> Result<()> {
        for region in 0..regions {
            self.read(&region.to_string(), id)?;
        }
        Ok(())
    }
}

struct TopicCaller<'a>(&'a Topics);

impl Caller for TopicCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        self.0.append(records)
    }

    fn staged(&mut self, records: &[Record]) -> Result<()> {
        self.0.append(records)
    }
}
