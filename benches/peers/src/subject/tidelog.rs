//! tidelog, through its own interface.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use tidelog::{Batch, Log, Lsn, Options, ReadOptions, ScanItem, StreamId};

use super::{Caller, Kind, Purpose, Record, Subject};
use crate::case::Job;

/// Live payload bytes that all callers of a window leave together before they mark them as obsolete.
const LIVE: usize = 32 << 20;
/// After so many bytes a retired segment must have become a new one.
const WARM_UP_MAX: u64 = 2 << 30;

pub(crate) struct Tide {
    log: Log,
    /// Payload bytes after which a caller drops what it appended; `None`: it stays.
    trim: Option<usize>,
    /// The highest frame that a caller's appends ride in.
    last: AtomicU64,
}

impl Tide {
    pub(crate) fn open(job: &Job, dir: &Path, purpose: Purpose) -> Result<Self> {
        let window = matches!(purpose, Purpose::Durable | Purpose::Staged);
        let mut options = Options::new();
        if window {
            // As a log that has run for a while, whose segments have grown to their size.
            options = options.first_segment_size(64 << 20);
        }
        if job.kind == Kind::TidelogFresh {
            options = options.recycled_files(0);
        }
        let log = Log::open(dir, options)?;
        match (window, job.kind) {
            (true, Kind::Tidelog) => recycle(&log)?,
            (true, _) => first_segment(&log)?,
            _ => {}
        }
        let trim = window.then(|| LIVE / job.threads as usize);
        Ok(Self { log, trim, last: AtomicU64::new(0) })
    }
}

const WARM: StreamId = StreamId::new(2, 0);

/// Appends and drops until a segment was made of a retired one.
fn recycle(log: &Log) -> Result<()> {
    let payload = vec![7_u8; 64 << 10];
    let mut batch: Batch<&[u8]> = Batch::new();
    for id in 1..=WARM_UP_MAX / payload.len() as u64 {
        batch.clear();
        batch.append(WARM, id, payload.as_slice());
        if id % 64 == 0 {
            batch.obsolete(WARM, id);
        }
        let lsn = log.append(&batch)?;
        if id % 64 == 0 {
            log.wait_durable(lsn)?;
            if log.stats().recycled > 0 {
                return Ok(());
            }
        }
    }
    bail!("no segment was recycled within {WARM_UP_MAX} bytes: {:?}", log.stats())
}

/// The first append makes the first segment, which is no part of a window.
fn first_segment(log: &Log) -> Result<()> {
    let mut batch: Batch<&[u8]> = Batch::new();
    log.append_durable(batch.append(WARM, 1, b"first".as_slice()).obsolete(WARM, 1))?;
    Ok(())
}

const fn stream(region: u32) -> StreamId {
    StreamId::new(1, region as u64)
}

impl Subject for Tide {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(TideCaller {
            tide: self,
            batch: Batch::new(),
            outstanding: VecDeque::new(),
            bytes: 0,
            last: 0,
        })
    }

    fn flush(&self) -> Result<()> {
        Ok(self.log.wait_durable(Lsn(self.last.load(Ordering::Relaxed)))?)
    }

    fn close(&self) -> Result<()> {
        Ok(self.log.close()?)
    }

    fn replay(&self, region: Option<u32>) -> Result<u64> {
        let (mut count, mut touched) = (0, 0_u64);
        if let Some(region) = region {
            for entry in self.log.read(stream(region), 1.., ReadOptions::new())? {
                touched += u64::from(entry?.payload[0]);
                count += 1;
            }
        } else {
            for record in self.log.scan(Lsn(0), ReadOptions::new())? {
                if let ScanItem::Entry { payload, .. } = record?.record {
                    touched += u64::from(payload[0]);
                    count += 1;
                }
            }
        }
        std::hint::black_box(touched);
        Ok(count)
    }

    fn obsolete(&self, regions: u32, id: u64) -> Result<()> {
        let mut batch: Batch<&[u8]> = Batch::new();
        for region in 0..regions {
            batch.obsolete(stream(region), id);
        }
        self.log.append_durable(&batch)?;
        Ok(())
    }
}

struct TideCaller<'a> {
    tide: &'a Tide,
    batch: Batch<&'static [u8]>,
    outstanding: VecDeque<Lsn>,
    /// Payload bytes since it last dropped any.
    bytes: usize,
    last: u64,
}

impl Drop for TideCaller<'_> {
    fn drop(&mut self) {
        self.tide.last.fetch_max(self.last, Ordering::Relaxed);
    }
}

impl TideCaller<'_> {
    fn fill(&mut self, records: &[Record]) {
        self.batch.clear();
        for record in records {
            self.batch.append(stream(record.region), record.id, record.payload);
            self.bytes += record.payload.len();
        }
        if self.tide.trim.is_some_and(|limit| self.bytes >= limit) {
            self.bytes = 0;
            for (index, record) in records.iter().enumerate() {
                let last = records[index + 1..].iter().all(|later| later.region != record.region);
                if last {
                    self.batch.obsolete(stream(record.region), record.id);
                }
            }
        }
    }
}

impl Caller for TideCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        self.fill(records);
        self.tide.log.append_durable(&self.batch)?;
        Ok(())
    }

    fn staged(&mut self, records: &[Record]) -> Result<()> {
        self.fill(records);
        self.last = self.tide.log.append(&self.batch)?.0;
        Ok(())
    }

    fn pipelined(&mut self, record: Record, outstanding: usize) -> Result<()> {
        self.fill(&[record]);
        let lsn = self.tide.log.append(&self.batch)?;
        self.last = lsn.0;
        self.outstanding.push_back(lsn);
        if self.outstanding.len() >= outstanding
            && let Some(oldest) = self.outstanding.pop_front()
        {
            self.tide.log.wait_durable(oldest)?;
        }
        Ok(())
    }
}
