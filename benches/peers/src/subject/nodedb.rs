//! nodedb-wal: a writer for one thread, below the same group commit as the floor's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use nodedb_wal::mmap_reader::replay_segments_mmap;
use nodedb_wal::record::RecordType;
use nodedb_wal::{DwbMode, SegmentedWal, SegmentedWalConfig};
use tidelog_tools::bare::{Blocks, Group, Sink};

use super::{Caller, HEADER, Packed, Record, Subject, Summed, summed};
use crate::case::Job;

struct Writer(Mutex<SegmentedWal>);

impl Writer {
    fn lock(&self) -> MutexGuard<'_, SegmentedWal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for &Writer {
    fn write(&self, buffer: &Blocks, bytes: usize) -> io::Result<()> {
        self.write_group(&buffer.get()[..bytes]).map_err(io::Error::other)
    }
}

impl Writer {
    fn write_group(&self, group: &[u8]) -> Result<()> {
        let (mut log, mut at) = (self.lock(), 0);
        while at < group.len() {
            let record = Packed::get(&group[at..]).context("a group ends within a record")?;
            append(&mut log, record.region, record.payload)?;
            at += HEADER + record.payload.len();
        }
        Ok(log.sync()?)
    }
}

fn append(log: &mut SegmentedWal, region: u32, payload: &[u8]) -> Result<()> {
    log.append(RecordType::Put as u32, 1, region, 0, payload)?;
    Ok(())
}

pub(crate) struct Nodedb {
    writer: &'static Writer,
    group: Group<&'static Writer>,
    dir: PathBuf,
}

impl Nodedb {
    pub(crate) fn open(job: &Job, dir: &Path) -> Result<Self> {
        let mut config = SegmentedWalConfig::new(dir.into());
        config.writer_config.dwb_mode = Some(DwbMode::Off);
        // One a process, so it may stay.
        let writer: &'static Writer = Box::leak(Box::new(Writer(Mutex::new(SegmentedWal::open(config)?))));
        Ok(Self { writer, group: Group::new(writer, 1, job.bytes_at_once()), dir: dir.into() })
    }
}

impl Subject for Nodedb {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(NodedbCaller { log: self, summed: Vec::new() })
    }

    fn flush(&self) -> Result<()> {
        Ok(self.writer.lock().sync()?)
    }

    fn replay(&self, _region: Option<u32>) -> Result<u64> {
        let records = replay_segments_mmap(&self.dir, 1, None)?;
        let puts = records.iter().filter(|record| record.header.record_type == RecordType::Put as u32);
        let (count, touched) =
            puts.fold((0, 0), |(count, sum), record| (count + 1, sum + u64::from(record.payload[0])));
        std::hint::black_box(touched);
        Ok(count)
    }

    fn obsolete(&self, regions: u32, id: u64) -> Result<()> {
        self.writer.lock().truncate_before(u64::from(regions) * id)?;
        Ok(())
    }
}

struct NodedbCaller<'a> {
    log: &'a Nodedb,
    summed: Vec<Summed>,
}

impl Caller for NodedbCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        // The log takes checksums of its own.
        summed(records, |_| 0, &mut self.summed);
        Ok(self.log.group.append(&self.summed)?)
    }

    fn staged(&mut self, records: &[Record]) -> Result<()> {
        let mut log = self.log.writer.lock();
        records.iter().try_for_each(|record| append(&mut log, record.region, record.payload))
    }
}
