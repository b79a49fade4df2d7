//! `RocksDB`: its log with `sync`, and the memtable that comes with it.

use std::path::Path;

use anyhow::{Context, Result};
use rocksdb::{DB, Direction, IteratorMode, Options, WriteBatch, WriteOptions};

use super::{Caller, Purpose, Record, Subject};

pub(crate) struct Rocks {
    db: DB,
}

fn key(region: u32, id: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&region.to_be_bytes());
    key[4..].copy_from_slice(&id.to_be_bytes());
    key
}

impl Rocks {
    pub(crate) fn open(dir: &Path, purpose: Purpose) -> Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        match purpose {
            // So large that no flush of a memtable disturbs.
            Purpose::Durable => options.set_write_buffer_size(1 << 30),
            Purpose::Staged | Purpose::Keep => options.set_write_buffer_size(3 << 30),
            Purpose::Empty => {}
        }
        Ok(Self { db: DB::open(&options, dir)? })
    }

    fn write(&self, records: &[Record], sync: bool) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        if let [record] = records {
            self.db.put_opt(key(record.region, record.id), record.payload, &options)?;
        } else {
            let mut batch = WriteBatch::default();
            for record in records {
                batch.put(key(record.region, record.id), record.payload);
            }
            self.db.write_opt(batch, &options)?;
        }
        Ok(())
    }
}

impl Subject for Rocks {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(RocksCaller(self))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn replay(&self, region: Option<u32>) -> Result<u64> {
        let region = region.context("its order is that of the keys")?;
        let first = key(region, 0);
        let (mut count, mut touched) = (0, 0_u64);
        for item in self.db.iterator(IteratorMode::From(&first, Direction::Forward)) {
            let (key, value) = item?;
            if key[..4] != region.to_be_bytes() {
                break;
            }
            touched += u64::from(value[0]);
            count += 1;
        }
        std::hint::black_box(touched);
        Ok(count)
    }
}

struct RocksCaller<'a>(&'a Rocks);

impl Caller for RocksCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        self.0.write(records, true)
    }

    fn staged(&mut self, records: &[Record]) -> Result<()> {
        self.0.write(records, false)
    }
}
