//! A log that is read and opened, and the bare reading of its files.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidelog::readonly::{ReadOnlyLog, SegmentState};
use tidelog::{Batch, Log, Lsn, Options, ReadOptions, StreamId};

use super::plan::{BATCH, BATCH_STREAMS, PAYLOAD, Runner};
use super::window::{Meter, Window, measure};
use crate::args::{BenchArgs, Case};
use crate::failure::Failure;

/// Streams of the log that is read.
const STREAMS: u64 = 100;
/// Items of a scan that count as one call.
const ITEMS: usize = 1024;
/// A batch fills a frame: a log that was written durably has such, and opening takes time by the number of frames.
const FRAME: usize = 26 * 4096;
/// Bytes that the bare reader reads at once.
const CHUNK: usize = 1 << 20;

/// What is read.
#[derive(Debug)]
pub(crate) struct Dataset {
    dir: PathBuf,
    options: Options,
    entries: u64,
    /// The files, oldest first, with the bytes in use.
    files: Vec<(PathBuf, u64)>,
    newest: (PathBuf, u64),
}

impl Dataset {
    /// Writes it: batches of records over some of the streams, a frame each.
    pub(crate) fn write(dir: &Path, args: &BenchArgs) -> Result<Self, Failure> {
        let options =
            Options::new().backend(args.backend.into()).segment_size(args.segment).frame_size(FRAME);
        let log = Log::open(dir, options.clone())?;
        let payload = vec![0x5a; PAYLOAD as usize];
        let run = BATCH / BATCH_STREAMS;
        let batches = args.data.div_ceil(BATCH * PAYLOAD).max(STREAMS / BATCH_STREAMS);
        let mut batch: Batch<&[u8]> = Batch::new();
        for number in 0..batches {
            let turn = STREAMS / BATCH_STREAMS;
            let (group, first) = (number % turn, number / turn * run + 1);
            batch.clear();
            for stream in group * BATCH_STREAMS..(group + 1) * BATCH_STREAMS {
                for id in first..first + run {
                    batch.append(StreamId::new(1, stream), id, payload.as_slice());
                }
            }
            log.append(&batch)?;
        }
        log.close()?;
        drop(log);
        let found = ReadOnlyLog::open(dir)?;
        let segments = found.segments().iter();
        let used = |state: SegmentState| !matches!(state, SegmentState::Void | SegmentState::LeftOver);
        let files: Vec<_> = segments
            .filter(|segment| used(segment.state) && segment.used() > 0)
            .map(|segment| (segment.file.clone(), segment.used()))
            .collect();
        let newest = files
            .last()
            .cloned()
            .ok_or_else(|| Failure::File(dir.to_owned(), std::io::Error::other("no segment was written")))?;
        Ok(Self { dir: dir.to_owned(), options, entries: batches * BATCH, files, newest })
    }

    fn open(&self) -> Result<Log, Failure> {
        Ok(Log::open(&self.dir, self.options.clone())?)
    }

    /// Bytes in use of all files.
    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, used)| used).sum()
    }
}

/// One who reads.
#[derive(Debug)]
pub(crate) enum Readers<'a> {
    Replay {
        log: Log,
        next: u64,
    },
    Scan {
        log: Log,
    },
    Reopen {
        data: &'a Dataset,
    },
    /// Reads and sums the files.
    Bytes {
        data: &'a Dataset,
    },
    /// Reads the newest file.
    Newest {
        data: &'a Dataset,
    },
}

impl<'a> Readers<'a> {
    pub(crate) fn new(data: &'a Dataset, case: Case, runner: Runner) -> Result<Self, Failure> {
        Ok(match (case, runner) {
            (Case::Replay, Runner::Log) => Self::Replay { log: data.open()?, next: 0 },
            (Case::Scan, Runner::Log) => Self::Scan { log: data.open()? },
            (_, Runner::Log) => Self::Reopen { data },
            (Case::Reopen, _) => Self::Newest { data },
            _ => Self::Bytes { data },
        })
    }

    /// The way that reading goes.
    pub(crate) fn way(&self) -> String {
        match self {
            Self::Replay { .. } | Self::Scan { .. } => "map",
            Self::Reopen { .. } | Self::Bytes { .. } | Self::Newest { .. } => "pread",
        }
        .to_owned()
    }

    pub(crate) fn window(&mut self, length: Duration) -> Result<Window, Failure> {
        measure(&mut [self], length, |own, meter| match own {
            Self::Replay { log, next } => replay(log, next, meter).map_err(Failure::Log),
            Self::Scan { log } => scan(log, meter).map_err(Failure::Log),
            Self::Reopen { data } => reopen(data, meter),
            Self::Bytes { data } => sum(data, meter),
            Self::Newest { data } => read_newest(data, meter),
        })
    }
}

fn replay(log: &Log, next: &mut u64, meter: &mut Meter<'_>) -> tidelog::Result<()> {
    loop {
        let mut reader = log.read(StreamId::new(1, *next % STREAMS), .., ReadOptions::new())?;
        *next += 1;
        let mut begun = Instant::now();
        while let Some(batch) = reader.next_batch() {
            let batch = batch?;
            for entry in &batch {
                black_box(&entry.payload);
            }
            meter.note(begun, 1, batch.len() as u64);
            if !meter.goes_on() {
                return Ok(());
            }
            begun = Instant::now();
        }
    }
}

fn scan(log: &Log, meter: &mut Meter<'_>) -> tidelog::Result<()> {
    loop {
        let mut scan = log.scan(Lsn::ZERO, ReadOptions::new())?;
        loop {
            let begun = Instant::now();
            let mut records = 0;
            for record in scan.by_ref().take(ITEMS) {
                black_box(record?);
                records += 1;
            }
            if records == 0 {
                break;
            }
            meter.note(begun, 1, records);
            if !meter.goes_on() {
                return Ok(());
            }
        }
    }
}

/// At least once, however long it takes.
fn reopen(data: &Dataset, meter: &mut Meter<'_>) -> Result<(), Failure> {
    loop {
        let begun = Instant::now();
        let log = data.open()?;
        meter.note(begun, 1, 1);
        log.close()?;
        if !meter.goes_on() {
            return Ok(());
        }
    }
}

/// Reads so much of a file from its beginning, in chunks; `false` where nothing more is wanted.
fn read_file(
    (path, bytes): &(PathBuf, u64),
    buffer: &mut [u8],
    mut chunk: impl FnMut(&[u8]) -> bool,
) -> Result<bool, Failure> {
    let mut read = || {
        let file = File::open(path)?;
        let mut at = 0;
        while at < *bytes {
            let len = (bytes - at).min(buffer.len() as u64) as usize;
            file.read_exact_at(&mut buffer[..len], at)?;
            if !chunk(&buffer[..len]) {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    };
    read().map_err(Failure::of_file(path))
}

/// Counts the entries that would lie in the bytes read.
fn sum(data: &Dataset, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let (total, mut read, mut counted) = (u128::from(data.bytes()), 0_u128, 0);
    let mut buffer = vec![0; CHUNK];
    loop {
        for file in &data.files {
            let mut begun = Instant::now();
            let more = read_file(file, &mut buffer, |chunk| {
                black_box(crc32fast::hash(chunk));
                read += chunk.len() as u128;
                let entries = u64::try_from(read * u128::from(data.entries) / total).unwrap_or(u64::MAX);
                meter.note(begun, 1, entries - counted);
                (counted, begun) = (entries, Instant::now());
                meter.goes_on()
            })?;
            if !more {
                return Ok(());
            }
        }
    }
}

fn read_newest(data: &Dataset, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let begun = Instant::now();
        read_file(&data.newest, &mut buffer, |chunk| {
            black_box(chunk);
            true
        })?;
        meter.note(begun, 1, 1);
        if !meter.goes_on() {
            return Ok(());
        }
    }
}
