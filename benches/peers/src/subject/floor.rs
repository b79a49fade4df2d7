//! What the device gives without a log.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tidelog_tools::bare::{BLOCK, Blocks, Device, Group, Put, Ring, Sink, Stage};

use super::{Caller, HEADER, Packed, Purpose, Record, Subject, Summed, summed};
use crate::case::Job;

/// Bytes of the file that windows write to.
const LEN: u64 = 64 << 20;
/// Bytes read at once; more than any write of a log that is kept.
const CHUNK: usize = 4 << 20;

/// A file that is written past the page cache: what is compared with it is.
fn ring(path: &Path, bytes: u64) -> Result<Ring> {
    let device = Device::prepare(path, bytes)?;
    ensure!(device.is_direct(), "{}: no direct writes here", path.display());
    Ok(Ring::new(Arc::new(device)))
}

/// Where each region's records are, and their bytes.
type Index = HashMap<u32, Vec<(u64, usize)>>;

enum Way {
    Group(Group<Ring>),
    Stage(Stage),
    /// One that is read.
    Index(Index),
}

pub(crate) struct Floor {
    way: Way,
    path: PathBuf,
}

impl Floor {
    pub(crate) fn open(job: &Job, dir: &Path, purpose: Purpose, depth: usize) -> Result<Self> {
        let path = dir.join("file");
        let room = job.bytes_at_once();
        let way = if purpose == Purpose::Keep && path.exists() {
            Way::Index(index(&path)?)
        } else if purpose == Purpose::Staged {
            Way::Stage(Stage::new(ring(&path, LEN)?, room))
        } else {
            // Of data that stays, every batch has whole blocks of its own.
            let batches = if purpose == Purpose::Keep { job.batches() } else { 0 };
            let bytes = LEN.max(batches * room.next_multiple_of(BLOCK) as u64);
            Way::Group(Group::new(ring(&path, bytes)?, depth, room))
        };
        Ok(Self { way, path })
    }
}

impl Subject for Floor {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(FloorCaller { floor: self, summed: Vec::new() })
    }

    fn flush(&self) -> Result<()> {
        match &self.way {
            Way::Stage(stage) => Ok(stage.flush()?),
            _ => Ok(()),
        }
    }

    fn replay(&self, region: Option<u32>) -> Result<u64> {
        let Some(region) = region else {
            let mut touched = 0_u64;
            let count = scan(&self.path, |record, _| touched += u64::from(record.payload[0]))?;
            std::hint::black_box(touched);
            return Ok(count);
        };
        let Way::Index(index) = &self.way else { return Ok(0) };
        let file = File::open(&self.path)?;
        let mut buffer = Vec::new();
        let places = index.get(&region).context("no such region")?;
        for &(at, bytes) in places {
            buffer.resize(bytes, 0);
            file.read_exact_at(&mut buffer, at)?;
            check(&Packed::get(&buffer).context("no record")?)?;
        }
        Ok(places.len() as u64)
    }
}

struct FloorCaller<'a> {
    floor: &'a Floor,
    summed: Vec<Summed>,
}

impl Caller for FloorCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        summed(records, crc32fast::hash, &mut self.summed);
        match &self.floor.way {
            Way::Group(group) => Ok(group.append(&self.summed)?),
            _ => anyhow::bail!("not opened for that"),
        }
    }

    fn staged(&mut self, records: &[Record]) -> Result<()> {
        summed(records, crc32fast::hash, &mut self.summed);
        match &self.floor.way {
            Way::Group(group) => Ok(group.append(&self.summed)?),
            Way::Stage(stage) => Ok(stage.append(&self.summed)?),
            Way::Index(_) => anyhow::bail!("not opened for that"),
        }
    }
}

/// One thread, no hand-over.
pub(crate) struct Loop {
    ring: Ring,
    room: usize,
}

impl Loop {
    pub(crate) fn open(job: &Job, dir: &Path) -> Result<Self> {
        Ok(Self { ring: ring(&dir.join("file"), LEN)?, room: job.bytes_at_once() })
    }
}

impl Subject for Loop {
    fn caller(&self) -> Box<dyn Caller + '_> {
        Box::new(LoopCaller { ring: &self.ring, buffer: Blocks::new(self.room), summed: Vec::new() })
    }
}

struct LoopCaller<'a> {
    ring: &'a Ring,
    buffer: Blocks,
    summed: Vec<Summed>,
}

impl Caller for LoopCaller<'_> {
    fn durable(&mut self, records: &[Record]) -> Result<()> {
        summed(records, crc32fast::hash, &mut self.summed);
        let into = self.buffer.get_mut();
        let len = self.summed.iter().fold(0, |len, record| record.put(into, len));
        Ok(self.ring.write(&self.buffer, len)?)
    }
}

fn check(record: &Packed<'_>) -> Result<()> {
    ensure!(crc32fast::hash(record.payload) == record.crc, "checksum of {} in {}", record.id, record.region);
    Ok(())
}

fn index(path: &Path) -> Result<Index> {
    let mut index = Index::new();
    scan(path, |record, at| {
        index.entry(record.region).or_default().push((at, HEADER + record.payload.len()));
    })?;
    Ok(index)
}

/// Reads the file from its start to the first block without a record, and checks each.
fn scan(path: &Path, mut each: impl FnMut(&Packed<'_>, u64)) -> Result<u64> {
    let mut file = File::open(path)?;
    let (mut buffer, mut filled, mut base, mut count) = (vec![0; CHUNK], 0, 0_u64, 0);
    loop {
        let read = file.read(&mut buffer[filled..])?;
        filled += read;
        let (mut at, mut whole) = (0, 0);
        loop {
            if let Some(record) = Packed::get(&buffer[at..filled]) {
                check(&record)?;
                each(&record, base + at as u64);
                count += 1;
                at += HEADER + record.payload.len();
                whole = at;
                continue;
            }
            // A record that is cut off by the buffer's end, or the rest of a block.
            let cut = filled - at < HEADER || buffer[at..at + 4] != [0; 4];
            let next = ((base + at as u64).next_multiple_of(BLOCK as u64) - base) as usize;
            if cut || next == at || next > filled {
                break;
            }
            (at, whole) = (next, next);
        }
        if read == 0 || whole == 0 {
            return Ok(count);
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
        base += whole as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn what_was_written_is_found_by_scan_and_by_region() {
        let dir = tempfile::tempdir().unwrap();
        // More than is read at once, so that records are cut by the buffer's end.
        let job = Job::new(Case::W4, 3 * CHUNK as u64);
        let payload: &'static [u8] = vec![7; 1024].leak();
        let floor = Floor::open(&job, dir.path(), Purpose::Keep, 1).unwrap();
        for id in 1..=job.batches() {
            let batch: Vec<Record> = (0..100).map(|region| Record { region, id, payload }).collect();
            floor.caller().durable(&batch).unwrap();
        }
        let floor = Floor::open(&job, dir.path(), Purpose::Keep, 1).unwrap();
        assert_eq!(floor.replay(None).unwrap(), 100 * job.batches());
        assert_eq!(floor.replay(Some(99)).unwrap(), job.batches());
        assert!(floor.replay(Some(100)).is_err());

        let path = dir.path().join("file");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEADER + 5] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(floor.replay(None).is_err(), "a wrong byte is noticed");
    }
}
