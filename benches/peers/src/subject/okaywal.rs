//! okaywal: an entry a batch, a chunk a record.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use okaywal::{Configuration, Entry, EntryId, LogManager, ReadChunkResult, SegmentReader, WriteAheadLog};

use super::{Caller, Purpose, Record, Subject};

/// Region and id, in front of each payload.
const HEADER: u32 = 12;

pub(crate) struct Okay {
    log: WriteAheadLog,
    recovered: Arc<AtomicU64>,
}

/// Reads and checks what is recovered; keeps the number.
#[derive(Debug)]
struct Manager(Arc<AtomicU64>);

impl LogManager for Manager {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        while let ReadChunkResult::Chunk(mut chunk) = entry.read_chunk()? {
            std::hint::black_box(chunk.read_all()?);
            if !chunk.check_crc()? {
                return Err(io::Error::other("checksum"));
            }
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _last: EntryId,
        _entries: &mut SegmentReader,
        _log: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

impl Okay {
    pub(crate) fn open(dir: &Path, purpose: Purpose) -> Result<Self> {
        let config = Configuration::default_for(dir);
        let config = match purpose {
            // The size of tidelog's segments; a checkpoint drops what it covers at once, and the file is used again.
            Purpose::Durable | Purpose::Staged => {
                config.preallocate_bytes(64 << 20).checkpoint_after_bytes(60 << 20)
            }
            // No checkpoint, which would drop the data.
            Purpose::Keep => config.preallocate_bytes(64 << 20).checkpoint_after_bytes(u64::MAX),
            Purpose::Empty => config,
        };
        let recovered = Arc::new(AtomicU64::new(0));
        Ok(Self { log: config.open(Manager(Arc::clone(&recovered)))?, recovered })
    }

    fn commit(&self, records: &[Record]) -> Result<()> {
        let mut entry = self.log.begin_entry()?;
        for record in records {
            let mut chunk = entry.begin_chunk(HEADER + record.payload.len() as u32)?;
            chunk.write_all(&record.region.to_le_bytes())?;
            chunk.write_all(&record.id.to_le_bytes())?;
            chunk.write_all(record.payload)?;
            chunk.finish()?;
        }
        entry.commit()?;
        Ok(())
    }
}

impl Subject for Okay {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(OkayCaller(self))
    }

    /// It reads all when it opens.
    fn replay(&self, _region: Option<u32>) -> Result<u64> {
        Ok(self.recovered.load(Ordering::Relaxed))
    }
}

struct OkayCaller<'a>(&'a Okay);

impl Caller for OkayCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        self.0.commit(records)
    }

    /// It knows only durable entries; this fills a log.
    fn staged(&mut self, records: &[Record]) -> Result<()> {
        self.0.commit(records)
    }
}
