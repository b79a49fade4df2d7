//! The log that is read, and where its bytes are.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use tidelog::readonly::{Item, ReadOnlyLog, SegmentInfo, SegmentState};
use tidelog::{Batch, Log, Options, StreamId};

use super::plan::{BATCH, BATCH_STREAMS, PAYLOAD};
use crate::args::BenchArgs;
use crate::failure::Failure;

/// Streams of the log that is read.
pub(crate) const STREAMS: u64 = 100;
/// A batch fills a frame: a log that was written durably has such, and opening takes time by the number of frames.
const FRAME: usize = 26 * 4096;
/// Bytes that are read at once where all are.
pub(crate) const CHUNK: usize = 1 << 20;

/// What is read.
#[derive(Debug)]
pub(crate) struct Dataset {
    dir: PathBuf,
    options: Options,
    pub(crate) entries: u64,
    /// The files, oldest first, with the bytes in use.
    pub(crate) files: Vec<(PathBuf, u64)>,
    /// Of each stream, where its payloads are.
    pub(crate) pieces: BTreeMap<StreamId, Vec<Piece>>,
}

/// Payloads of a stream that lie one behind the other in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The place of its file among the files.
    pub(crate) file: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) entries: u64,
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
        Self::find(dir, options, batches * BATCH)
    }

    fn find(dir: &Path, options: Options, entries: u64) -> Result<Self, Failure> {
        let found = ReadOnlyLog::open(dir)?;
        let used = |segment: &&SegmentInfo| {
            !matches!(segment.state, SegmentState::Void | SegmentState::LeftOver) && segment.used() > 0
        };
        let segments: Vec<_> = found.segments().iter().filter(used).collect();
        let mut pieces: BTreeMap<StreamId, Vec<Piece>> = BTreeMap::new();
        for item in found.items().skip_payloads() {
            let Item::Record(record) = item? else { continue };
            let place = segments.iter().position(|segment| segment.sequence == record.segment);
            let (Some(file), true) = (place, record.row.is_entry()) else { continue };
            let (start, end) = (record.offset(), record.offset() + u64::from(record.row.length));
            let pieces = pieces.entry(record.row.stream).or_default();
            match pieces
                .last_mut()
                .filter(|last| last.file == file && last.end <= start && start - last.end < 8)
            {
                Some(last) => (last.end, last.entries) = (end, last.entries + 1),
                None => pieces.push(Piece { file, start, end, entries: 1 }),
            }
        }
        let files = segments.iter().map(|segment| (segment.file.clone(), segment.used())).collect();
        Ok(Self { dir: dir.to_owned(), options, entries, files, pieces })
    }

    pub(crate) fn open(&self) -> Result<Log, Failure> {
        Ok(Log::open(&self.dir, self.options.clone())?)
    }

    /// Bytes in use of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, used)| used).sum()
    }

    /// Brings all bytes in use into the page cache.
    pub(crate) fn warm(&self) -> Result<(), Failure> {
        let mut buffer = vec![0; CHUNK];
        self.files.iter().try_for_each(|file| read_file(file, &mut buffer, |_| true).map(drop))
    }

    /// Takes the files out of the page cache: all but what somebody has mapped.
    pub(crate) fn chill(&self) -> Result<(), Failure> {
        self.files.iter().try_for_each(|(path, _)| {
            let chill = || Ok(fadvise(File::open(path)?, 0, None, Advice::DontNeed)?);
            chill().map_err(Failure::of_file(path))
        })
    }
}

/// Reads so much of a file from its beginning, in chunks; `false` where nothing more is wanted.
pub(crate) fn read_file(
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
