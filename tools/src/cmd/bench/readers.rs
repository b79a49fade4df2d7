//! Those who read and open a log, and the bare reading of its files.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidelog::{Log, Lsn, ReadOptions, StreamId};

use super::dataset::{CHUNK, Dataset, Piece, STREAMS, read_file};
use super::plan::Runner;
use super::window::{Meter, Window, measure};
use crate::args::Case;
use crate::failure::Failure;

/// Items of a scan that count as one call, and entries of the bare reading of a stream.
const ITEMS: u64 = 1024;

/// One who reads.
#[derive(Debug)]
pub(crate) struct Readers<'a> {
    data: &'a Dataset,
    case: Case,
    runner: Runner,
    log: Option<Log>,
    /// Streams that were read.
    streams: u64,
}

impl<'a> Readers<'a> {
    pub(crate) fn new(data: &'a Dataset, case: Case, runner: Runner) -> Self {
        Self { data, case, runner, log: None, streams: 0 }
    }

    /// The way that reading goes.
    pub(crate) fn way(&self) -> String {
        if self.runner == Runner::Log && self.case != Case::Reopen { "map" } else { "pread" }.to_owned()
    }

    pub(crate) fn window(&mut self, length: Duration) -> Result<Window, Failure> {
        measure(&mut [self], length, |own, meter| match (own.case, own.runner) {
            (Case::Reopen, Runner::Log) => reopen(own.data, meter),
            (Case::Reopen, _) => read_newest(own.data, meter),
            (Case::Replay | Case::ReplayCold, Runner::Log) => own.replay(meter),
            (Case::Replay | Case::ReplayCold, _) => own.read_pieces(meter),
            (_, Runner::Log) => own.scan(meter),
            (..) => own.sum(meter),
        })
    }

    /// Opens the log where need be, and for a cold case lets the page cache forget it. Not counted.
    fn log(&mut self, meter: &mut Meter<'_>) -> Result<&Log, Failure> {
        meter.aside(|| {
            if self.case.is_cold() {
                // Whose maps keep what they have mapped.
                self.log = None;
            }
            let log = match self.log.take() {
                Some(log) => log,
                None => self.data.open()?,
            };
            self.forget()?;
            Ok(&*self.log.insert(log))
        })
    }

    fn forget(&self) -> Result<(), Failure> {
        if self.case.is_cold() { self.data.chill() } else { Ok(()) }
    }

    fn next_stream(&mut self) -> StreamId {
        self.streams += 1;
        StreamId::new(1, (self.streams - 1) % STREAMS)
    }

    fn replay(&mut self, meter: &mut Meter<'_>) -> Result<(), Failure> {
        loop {
            let stream = self.next_stream();
            let log = self.log(meter)?;
            let mut begun = Instant::now();
            let mut reader = log.read(stream, .., ReadOptions::new())?;
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

    fn scan(&mut self, meter: &mut Meter<'_>) -> Result<(), Failure> {
        loop {
            let log = self.log(meter)?;
            let mut begun = Instant::now();
            let mut scan = log.scan(Lsn::ZERO, ReadOptions::new())?;
            loop {
                let mut records = 0;
                for record in scan.by_ref().take(ITEMS as usize) {
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
                begun = Instant::now();
            }
        }
    }

    /// Reads and sums the payloads of one stream after the other, knowing where they are.
    fn read_pieces(&mut self, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let open = |(path, _): &(PathBuf, u64)| File::open(path).map_err(Failure::of_file(path));
        let files: Vec<_> = self.data.files.iter().map(open).collect::<Result<_, _>>()?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let stream = self.next_stream();
            meter.aside(|| self.forget())?;
            let (mut begun, mut entries) = (Instant::now(), 0);
            for &Piece { file, start, end, entries: more } in
                self.data.pieces.get(&stream).into_iter().flatten()
            {
                let bytes = &mut buffer[..(end - start) as usize];
                files[file]
                    .read_exact_at(bytes, start)
                    .map_err(Failure::of_file(&self.data.files[file].0))?;
                black_box(crc32fast::hash(bytes));
                entries += more;
                if entries >= ITEMS {
                    meter.note(begun, 1, entries);
                    (begun, entries) = (Instant::now(), 0);
                    if !meter.goes_on() {
                        return Ok(());
                    }
                }
            }
            if entries > 0 {
                meter.note(begun, 1, entries);
            }
            if !meter.goes_on() {
                return Ok(());
            }
        }
    }

    /// Reads and sums all files, and counts the entries that would lie in the bytes read.
    fn sum(&self, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (total, mut read, mut counted) = (u128::from(self.data.bytes()), 0_u128, 0);
        let mut buffer = vec![0; CHUNK];
        loop {
            meter.aside(|| self.forget())?;
            for file in &self.data.files {
                let mut begun = Instant::now();
                let more = read_file(file, &mut buffer, |chunk| {
                    black_box(crc32fast::hash(chunk));
                    read += chunk.len() as u128;
                    let entries =
                        u64::try_from(read * u128::from(self.data.entries) / total).unwrap_or(u64::MAX);
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

fn read_newest(data: &Dataset, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let mut buffer = vec![0; CHUNK];
    let Some(newest) = data.files.last() else { return Ok(()) };
    loop {
        let begun = Instant::now();
        read_file(newest, &mut buffer, |chunk| {
            black_box(chunk);
            true
        })?;
        meter.note(begun, 1, 1);
        if !meter.goes_on() {
            return Ok(());
        }
    }
}
