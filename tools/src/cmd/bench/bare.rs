//! The bare writers: what the device gives without a log.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::plan::Setting;
use super::window::{Meter, Window, measure};
use crate::args::Case;
use crate::bare::{Blocks, Device, Group, Put, Ring, Sink, Stage};
use crate::failure::Failure;

/// Writes in flight that the group commit tries: what is best depends on the device, the callers and their sizes.
const DEPTHS: [usize; 3] = [1, 2, 4];

/// A record as the bare writers store it: a header of 16 bytes, and the payload.
#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    id: u64,
    crc: u32,
    payload: &'a [u8],
}

/// Of a record: length, checksum, id.
pub(crate) const HEADER: usize = 16;

impl<'a> Record<'a> {
    fn new(id: u64, payload: &'a [u8]) -> Self {
        Self { id, crc: crc32fast::hash(payload), payload }
    }
}

impl Put for Record<'_> {
    fn size(&self) -> usize {
        HEADER + self.payload.len()
    }

    fn put(&self, into: &mut [u8], at: usize) -> usize {
        let (head, end) = (at + HEADER, at + HEADER + self.payload.len());
        into[at..at + 4].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        into[at + 4..at + 8].copy_from_slice(&self.crc.to_le_bytes());
        into[at + 8..head].copy_from_slice(&self.id.to_le_bytes());
        into[head..end].copy_from_slice(self.payload);
        end
    }
}

/// What is like the log under a setting, without the log.
#[derive(Debug)]
pub(crate) enum Bare {
    Group { group: Box<Group<Ring>>, callers: Vec<Caller>, depth: usize },
    Stage { stage: Stage, callers: Vec<Caller> },
}

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    id: u64,
    payload: Vec<u8>,
    batch: u64,
    think: Option<Duration>,
}

impl Bare {
    /// The group commit with the depth that does best in a short window.
    pub(crate) fn new(device: &Arc<Device>, setting: &Setting, probe: Duration) -> Result<Self, Failure> {
        let caller = Caller {
            id: 0,
            payload: vec![0x5a; setting.payload as usize],
            batch: setting.batch(),
            think: setting.think,
        };
        let callers = vec![caller; usize::from(setting.threads)];
        if setting.case == Case::Staged {
            return Ok(Self::Stage {
                stage: Stage::new(Ring::new(Arc::clone(device)), setting.room()),
                callers,
            });
        }
        let group = |depth| {
            let group = Box::new(Group::new(Ring::new(Arc::clone(device)), depth, setting.room()));
            Self::Group { group, callers: callers.clone(), depth }
        };
        let mut best = (group(1), f64::NEG_INFINITY);
        if setting.threads > 1 {
            for depth in DEPTHS {
                let mut bare = group(depth);
                let rate = bare.window(probe)?.rate();
                if rate > best.1 {
                    best = (bare, rate);
                }
            }
        }
        Ok(best.0)
    }

    pub(crate) fn depth(&self) -> Option<usize> {
        match self {
            Self::Group { depth, .. } => Some(*depth),
            Self::Stage { .. } => None,
        }
    }

    pub(crate) fn window(&mut self, length: Duration) -> Result<Window, Failure> {
        match self {
            Self::Group { group, callers, .. } => measure(callers, length, |caller, meter| {
                caller.commit(group, meter).map_err(Failure::of_file(Path::new("floor")))
            }),
            Self::Stage { stage, callers } => measure(callers, length, |caller, meter| {
                caller.stage(stage, meter).map_err(Failure::of_file(Path::new("floor")))
            }),
        }
    }
}

impl Caller {
    fn commit(&mut self, group: &Group<Ring>, meter: &mut Meter<'_>) -> io::Result<()> {
        let mut records = Vec::with_capacity(self.batch as usize);
        while meter.goes_on() {
            let begun = Instant::now();
            records.clear();
            records.extend((0..self.batch).map(|index| Record::new(self.id + index, &self.payload)));
            group.append(&records)?;
            meter.note(begun, 1, self.batch);
            self.id += self.batch;
            if let Some(think) = self.think {
                thread::sleep(think);
            }
        }
        Ok(())
    }

    fn stage(&mut self, stage: &Stage, meter: &mut Meter<'_>) -> io::Result<()> {
        while meter.goes_on() {
            let begun = Instant::now();
            stage.append(&[Record::new(self.id, &self.payload)])?;
            meter.note(begun, 1, 1);
            self.id += 1;
        }
        stage.flush()
    }
}

/// One thread that packs what is outstanding under a setting into each write.
#[derive(Debug)]
pub(crate) struct Loop {
    ring: Ring,
    payload: Vec<u8>,
    blocks: Blocks,
    id: u64,
    records: u64,
}

impl Loop {
    pub(crate) fn new(device: &Arc<Device>, setting: &Setting) -> Self {
        Self {
            ring: Ring::new(Arc::clone(device)),
            payload: vec![0x5a; setting.payload as usize],
            blocks: Blocks::new(setting.room()),
            id: 0,
            records: u64::from(setting.threads) * u64::from(setting.outstanding) * setting.batch(),
        }
    }

    pub(crate) fn window(&mut self, length: Duration) -> Result<Window, Failure> {
        measure(&mut [self], length, |own, meter| {
            own.run(meter).map_err(Failure::of_file(Path::new("floor")))
        })
    }

    fn run(&mut self, meter: &mut Meter<'_>) -> io::Result<()> {
        while meter.goes_on() {
            let begun = Instant::now();
            let mut len = 0;
            for id in self.id..self.id + self.records {
                len = Record::new(id, &self.payload).put(self.blocks.get_mut(), len);
            }
            self.ring.write(&self.blocks, len)?;
            self.id += self.records;
            meter.note(begun, self.records, self.records);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_its_header_and_its_payload() {
        let mut blocks = Blocks::new(5000);
        let end = Record::new(7, b"payload").put(blocks.get_mut(), 0);
        assert_eq!(end, HEADER + 7);
        assert_eq!(blocks.get()[HEADER..end], *b"payload");
    }
}
