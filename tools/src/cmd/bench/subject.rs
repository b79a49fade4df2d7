//! The log that is written to: opened once, brought to where a log in use is, and read off.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs::File, os::unix::fs::FileExt};

use tidelog::{Batch, Event, Log, Observer, Options, Stats, StreamId};
use tidelog_format::{SEGMENT_HEADER_LEN, SegmentHeader};

use crate::args::BenchArgs;
use crate::failure::Failure;

const FILLER: StreamId = StreamId::new(2, 1);
const FILLER_LEN: usize = 64 << 10;
/// Segments that are filled before the log counts as one in use, at most.
const FILLED: u64 = 12;
/// How long the log's background work may take to come to rest.
const REST: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) log: Log,
    rotations: Arc<Rotations>,
    streams: u64,
    segment: u64,
}

/// Where segments begin that the log went on to.
#[derive(Debug)]
pub(crate) struct Rotations {
    dir: PathBuf,
    bases: Mutex<Vec<u64>>,
}

impl Observer for Rotations {
    fn event(&self, event: &Event) {
        let Event::Rotated { sequence, .. } = event else { return };
        let base = || {
            let mut head = [0; SEGMENT_HEADER_LEN];
            File::open(self.dir.join(format!("{sequence:020}.log")))
                .ok()?
                .read_exact_at(&mut head, 0)
                .ok()?;
            SegmentHeader::decode(&head).ok().map(|header| header.identity.base.0)
        };
        if let Some(base) = base() {
            self.bases.lock().unwrap_or_else(PoisonError::into_inner).push(base);
        }
    }
}

impl Subject {
    /// Opens the log and writes to it until its segments are made of files of retired ones; with `fresh`, until all
    /// files that it begins with are used up.
    pub(crate) fn open(dir: &Path, args: &BenchArgs) -> Result<Self, Failure> {
        let rotations = Arc::new(Rotations { dir: dir.to_owned(), bases: Mutex::default() });
        let mut options = Options::new()
            .backend(args.backend.into())
            .segment_size(args.segment)
            .first_segment_size(args.segment)
            .observer(Arc::<Rotations>::clone(&rotations));
        if args.fresh {
            options = options.recycled_files(0);
        }
        let log = Log::open(dir, options)?;
        let subject = Self { log, rotations, streams: 0, segment: args.segment };
        subject.fill(args.fresh)?;
        subject.rest();
        Ok(subject)
    }

    fn fill(&self, fresh: bool) -> Result<(), Failure> {
        let payload = vec![0x5a; FILLER_LEN];
        let mut batch: Batch<&[u8]> = Batch::new();
        let every = (self.segment / 4 / FILLER_LEN as u64).max(1);
        for id in 1..=FILLED * self.segment / FILLER_LEN as u64 {
            batch.clear();
            batch.append(FILLER, id, payload.as_slice());
            if id.is_multiple_of(every) {
                batch.obsolete(FILLER, id - 1);
                self.log.append_durable(&batch)?;
                let stats = self.log.stats();
                if if fresh { stats.rotations >= 3 } else { stats.recycled >= 2 } {
                    break;
                }
            } else {
                self.log.append(&batch)?;
            }
        }
        Ok(self.log.release(FILLER)?)
    }

    /// Streams that nobody has used.
    pub(crate) fn new_streams(&mut self, count: u64) -> Vec<StreamId> {
        let first = self.streams;
        self.streams += count;
        (first..self.streams).map(|id| StreamId::new(1, id)).collect()
    }

    /// Drops what callers appended.
    pub(crate) fn release(&self, streams: impl IntoIterator<Item = StreamId>) -> Result<(), Failure> {
        let mut batch: Batch<&[u8]> = Batch::new();
        for stream in streams {
            batch.release(stream);
        }
        self.log.append_durable(&batch)?;
        self.rest();
        Ok(())
    }

    /// Waits until nothing moves, so that what one runner left to do does not slow the next.
    pub(crate) fn rest(&self) {
        let begin = Instant::now();
        let (mut before, mut still) = (self.log.stats(), 0);
        while still < 3 && begin.elapsed() < REST {
            thread::sleep(Duration::from_millis(20));
            let now = self.log.stats();
            still = if now == before { still + 1 } else { 0 };
            before = now;
        }
    }

    /// Where segments begin that were begun since the last call.
    pub(crate) fn take_rotations(&self) -> Vec<u64> {
        std::mem::take(&mut *self.rotations.bases.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Payload bytes after which a caller should make its entries obsolete, all callers together.
    pub(crate) fn trim_bytes(&self) -> u64 {
        self.segment / 4
    }
}

/// The log's own figures over a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) backend: String,
    pub(crate) direct: bool,
    pub(crate) payload_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) frames: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) direct_commits: u64,
    pub(crate) durable_writes: u64,
    pub(crate) flushes: u64,
    pub(crate) rotations: u64,
    pub(crate) prepared_bytes: u64,
    pub(crate) recycled: u64,
    pub(crate) retired: u64,
}

impl Counted {
    pub(crate) fn between(before: &Stats, after: &Stats) -> Self {
        Self {
            backend: after.backend.clone(),
            direct: after.direct,
            payload_bytes: after.payload_bytes - before.payload_bytes,
            batches: after.batches - before.batches,
            frames: after.frames - before.frames,
            frame_bytes: after.frame_bytes - before.frame_bytes,
            direct_commits: after.direct_commits - before.direct_commits,
            durable_writes: after.durable_writes - before.durable_writes,
            flushes: after.flushes - before.flushes,
            rotations: after.rotations - before.rotations,
            prepared_bytes: after.prepared_bytes - before.prepared_bytes,
            recycled: after.recycled - before.recycled,
            retired: after.retired - before.retired,
        }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.backend = more.backend;
        self.direct = more.direct;
        self.payload_bytes += more.payload_bytes;
        self.batches += more.batches;
        self.frames += more.frames;
        self.frame_bytes += more.frame_bytes;
        self.direct_commits += more.direct_commits;
        self.durable_writes += more.durable_writes;
        self.flushes += more.flushes;
        self.rotations += more.rotations;
        self.prepared_bytes += more.prepared_bytes;
        self.recycled += more.recycled;
        self.retired += more.retired;
    }
}
