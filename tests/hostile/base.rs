//! Logs with every kind of record, and what is known of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidelog::{BackendChoice, Batch, IdRule, Log, Lsn, Options, ReadOptions, StreamId, StreamInfo};
use tidelog_format::{Checkpoint, FRAME_HEADER_LEN, FrameHeader, SegmentHeader, Step, Table, Walk};

use crate::rng::Rng;

pub(crate) const BLOCK: usize = 512;

/// A directory's files, with their bytes.
pub(crate) type Files = BTreeMap<String, Arc<Vec<u8>>>;
/// The entries of a stream, each with the LSN of its frame.
pub(crate) type Entries = BTreeMap<u64, (Lsn, Arc<Vec<u8>>)>;

/// What the log means behind one of its frames.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) live: BTreeMap<StreamId, Entries>,
    pub(crate) streams: Vec<(StreamId, StreamInfo)>,
    pub(crate) namespaces: Vec<StreamId>,
}

/// A frame of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) sequence: u64,
    pub(crate) offset: usize,
    pub(crate) header: FrameHeader,
    /// Where a checkpoint in it says that the frames before this segment end.
    pub(crate) previous_end: Option<Lsn>,
}

impl Frame {
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.header.frame_len as usize
    }
}

pub(crate) struct Base {
    pub(crate) name: &'static str,
    pub(crate) rule: IdRule,
    pub(crate) seed: u64,
    pub(crate) files: Files,
    /// By the LSN of the frame behind which they hold.
    pub(crate) snapshots: BTreeMap<Lsn, Snapshot>,
    pub(crate) headers: BTreeMap<u64, SegmentHeader>,
    pub(crate) frames: Vec<Frame>,
    /// All entries that were ever written: each by its frame, stream and id.
    pub(crate) written: BTreeMap<(Lsn, StreamId, u64), Arc<Vec<u8>>>,
}

pub(crate) fn options(rule: IdRule) -> Options {
    Options::new()
        .backend(BackendChoice::Std)
        .block_size(BLOCK as u32)
        .first_segment_size(64 << 10)
        .segment_size(64 << 10)
        .frame_size(16 << 10)
        .staging_buffers(2)
        .id_rule(rule)
        .idle_after(Duration::from_secs(3600))
        .flush_interval(Duration::from_secs(3600))
}

/// In memory where that can be: flushes of a real disk are not what is tested.
pub(crate) fn home() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn load(dir: &Path) -> Files {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // A file may have gone meanwhile.
    names.filter_map(|name| Some((name.clone(), Arc::new(fs::read(dir.join(name)).ok()?)))).collect()
}

/// Whether the log gave a name with this ending; it writes them in one way only.
pub(crate) fn has_suffix(name: &str, suffix: &str) -> bool {
    name.ends_with(suffix)
}

pub(crate) fn sequence(name: &str) -> Option<u64> {
    name.strip_suffix(".log")?.parse().ok()
}

struct Builder {
    rng: Rng,
    rule: IdRule,
    log: Log,
    now: Snapshot,
    snapshots: BTreeMap<Lsn, Snapshot>,
    written: BTreeMap<(Lsn, StreamId, u64), Arc<Vec<u8>>>,
    stamp: u64,
}

impl Base {
    /// A log of several openings, closed in the end or left as by a crash.
    pub(crate) fn new(name: &'static str, rule: IdRule, seed: u64, closed: bool) -> Self {
        let home = home();
        let mut builder = Builder {
            rng: Rng::new(seed),
            rule,
            log: Log::open(home.path(), options(rule)).unwrap(),
            now: Snapshot::default(),
            snapshots: BTreeMap::from([(Lsn::ZERO, Snapshot::default())]),
            written: BTreeMap::new(),
            stamp: seed << 48,
        };
        for opening in 0..5 {
            if opening > 0 {
                if opening % 2 == 0 {
                    builder.log.close().unwrap();
                }
                builder.log = reopen(home.path(), rule, builder.log);
            }
            for _ in 0..40 {
                builder.step();
            }
            // What the last openings wrote stays.
            if opening < 3 {
                builder.thin();
            }
        }
        // Nothing vouches for these, unless the log is closed behind them.
        for _ in 0..3 {
            builder.append(1500, false);
            builder.truncate();
            builder.append(1500, false);
            builder.obsolete();
        }
        if closed {
            builder.log.close().unwrap();
        }
        settle(&builder.log);
        let Builder { snapshots, written, .. } = builder;
        let base = Self::of(name, rule, seed, load(home.path()), snapshots, written);
        let segments = base.headers.len();
        assert!(segments > 3, "{segments} segments");
        base
    }

    /// These files, and what is known of them.
    pub(crate) fn of(
        name: &'static str,
        rule: IdRule,
        seed: u64,
        files: Files,
        snapshots: BTreeMap<Lsn, Snapshot>,
        written: BTreeMap<(Lsn, StreamId, u64), Arc<Vec<u8>>>,
    ) -> Self {
        let (headers, frames) = (BTreeMap::new(), Vec::new());
        let mut base = Self { name, rule, seed, files, snapshots, headers, frames, written };
        base.survey();
        base
    }

    /// What the files hold, by the format's own rules.
    fn survey(&mut self) {
        for (name, bytes) in &self.files {
            let Some(sequence) = sequence(name) else { continue };
            let header = SegmentHeader::decode(bytes).unwrap();
            self.headers.insert(sequence, header);
            let mut walk = Walk::new(&header, header.file_size, Lsn::ZERO);
            while let Step::Frame(frame) = walk.next(&mut bytes.as_slice()).unwrap() {
                let offset = frame.offset as usize;
                let payload = frame.table.checkpoint().map(|row| {
                    let start = offset + row.offset as usize;
                    &bytes[start..start + row.length as usize]
                });
                let previous_end = payload.and_then(|payload| {
                    let checkpoint = Checkpoint::decode(payload, header.identity.seed(), 0).unwrap();
                    checkpoint.previous.map(|(_, end)| end)
                });
                self.frames.push(Frame { sequence, offset, header: frame.header, previous_end });
            }
        }
        assert!(self.files.keys().any(|name| has_suffix(name, ".idx")));
        assert!(self.files.keys().any(|name| has_suffix(name, ".spare")));
    }

    /// What must be there where the log ends at `end`.
    pub(crate) fn at(&self, end: Lsn) -> &Snapshot {
        self.snapshots.range(..end).next_back().unwrap().1
    }

    /// The last LSN that a frame ends at.
    pub(crate) fn end(&self) -> Lsn {
        self.frames
            .iter()
            .filter(|frame| frame.header.row_count > 0)
            .map(|frame| frame.header.end())
            .max()
            .unwrap()
    }

    /// The entries that lie in segments which are there, in frames below `end`.
    pub(crate) fn written_below(&self, end: Lsn) -> impl Iterator<Item = &(Lsn, StreamId, u64)> {
        let oldest = self.frames.first().unwrap().header.lsn;
        self.written.range((oldest, StreamId::SYSTEM, 0)..(end, StreamId::SYSTEM, 0)).map(|(key, _)| key)
    }

    /// Whether all but index caches is as it was.
    pub(crate) fn differs_in_caches_alone(&self, files: &Files) -> bool {
        let same = |name: &String| has_suffix(name, ".idx") || files.get(name) == self.files.get(name);
        self.files.keys().chain(files.keys()).all(same)
    }

    /// The highest LSN below which surviving bytes prove that all was durable.
    pub(crate) fn proven(&self, files: &Files) -> Lsn {
        let mut proven = Lsn::ZERO;
        for frame in &self.frames {
            let name = format!("{:020}.log", frame.sequence);
            let Some(found) = files.get(&name) else { continue };
            let own = &self.files[&name];
            let same = |range: std::ops::Range<usize>| found.get(range.clone()) == own.get(range);
            if !same(0..64) || !same(frame.offset..frame.offset + 64) {
                continue;
            }
            proven = proven.max(frame.header.watermark);
            if let Some(end) = frame.previous_end.filter(|_| same(frame.range())) {
                proven = proven.max(end);
            }
        }
        proven
    }

    /// Whether a frame's header, table and payloads are as they were written.
    pub(crate) fn is_whole(&self, files: &Files, frame: &Frame) -> bool {
        let name = format!("{:020}.log", frame.sequence);
        let Some(found) = files.get(&name) else { return false };
        let own = &self.files[&name];
        let (start, header) = (frame.offset, &frame.header);
        let table = start + header.table_offset as usize;
        let table = table..table + header.table_len() as usize;
        let parsed =
            Table::parse(&own[table.clone()], header, &self.headers[&frame.sequence].identity).unwrap();
        let payloads =
            parsed.rows().map(|row| start + row.offset as usize..start + (row.offset + row.length) as usize);
        let mut parts = [start..start + FRAME_HEADER_LEN, table].into_iter().chain(payloads);
        parts.all(|range| found.get(range.clone()) == own.get(range))
    }
}

fn reopen(dir: &Path, rule: IdRule, log: Log) -> Log {
    drop(log);
    Log::open(dir, options(rule)).unwrap()
}

impl Builder {
    fn stream(&mut self) -> StreamId {
        StreamId::new(1 + self.rng.below(2) as u16, self.rng.below(4) as u64)
    }

    fn payload(&mut self, len: usize) -> Arc<Vec<u8>> {
        self.stamp += 1;
        let mut rng = Rng::new(self.stamp);
        let mut bytes = self.stamp.to_le_bytes().to_vec();
        bytes.extend((8..len.max(8)).map(|_| rng.next() as u8));
        Arc::new(bytes)
    }

    fn next_id(&mut self, stream: StreamId) -> u64 {
        let info = self.log.stream(stream).unwrap_or_default();
        let gap = if self.rule == IdRule::Increasing { self.rng.below(5) as u64 } else { 0 };
        info.last.max(info.mark).map_or(1, |last| last + 1) + gap
    }

    /// One batch, or one operation of another kind.
    fn step(&mut self) {
        match self.rng.below(100) {
            0..=69 => {
                let most = if self.rng.chance(2) { 40_000 } else { 1500 };
                self.append(most, true);
            }
            70..=79 => self.truncate(),
            80..=87 => self.obsolete(),
            88..=91 => self.release(),
            _ => self.namespace(),
        }
    }

    fn append(&mut self, most: usize, durable: bool) {
        let mut batch: Batch<Vec<u8>> = Batch::new();
        let mut added = Vec::new();
        let first = self.stream();
        let mut streams = vec![first];
        if self.rng.chance(40) {
            let second = self.stream();
            if second != first {
                streams.push(second);
            }
        }
        for stream in streams {
            let first = self.next_id(stream);
            for id in first..=first + self.rng.below(3) as u64 {
                let len = self.rng.below(most);
                let payload = self.payload(len);
                batch.append(stream, id, payload.to_vec());
                added.push((stream, id, payload));
            }
        }
        let lsn = if durable { self.log.append_durable(&batch) } else { self.log.append(&batch) }.unwrap();
        for (stream, id, payload) in added {
            self.written.insert((lsn, stream, id), Arc::clone(&payload));
            self.now.live.entry(stream).or_default().insert(id, (lsn, payload));
        }
        self.note(lsn);
    }

    fn some_live(&mut self) -> Option<(StreamId, u64)> {
        let streams: Vec<StreamId> = self
            .now
            .live
            .iter()
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(stream, _)| *stream)
            .collect();
        if streams.is_empty() {
            return None;
        }
        let stream = *self.rng.pick(&streams);
        let ids: Vec<u64> = self.now.live[&stream].keys().copied().collect();
        Some((stream, *self.rng.pick(&ids)))
    }

    fn truncate(&mut self) {
        let Some((stream, id)) = self.some_live() else { return };
        let lsn = self.log.truncate(stream, id).unwrap();
        self.now.live.get_mut(&stream).unwrap().split_off(&id);
        self.note(lsn);
    }

    fn obsolete(&mut self) {
        let Some((stream, id)) = self.some_live() else { return };
        let mut batch: Batch<Vec<u8>> = Batch::new();
        let lsn = self.log.append(batch.obsolete(stream, id)).unwrap();
        self.now.live.get_mut(&stream).unwrap().retain(|live, _| *live > id);
        self.note(lsn);
    }

    fn release(&mut self) {
        let Some((stream, _)) = self.some_live() else { return };
        let mut batch: Batch<Vec<u8>> = Batch::new();
        let lsn = self.log.append_durable(batch.release(stream)).unwrap();
        self.now.live.remove(&stream);
        self.note(lsn);
    }

    fn namespace(&mut self) {
        let stream = self.stream();
        let mut batch: Batch<Vec<u8>> = Batch::new();
        let batch =
            if self.rng.chance(60) { batch.create_namespace(stream) } else { batch.delete_namespace(stream) };
        let lsn = self.log.append_durable(batch).unwrap();
        self.note(lsn);
    }

    /// Makes most of what there is obsolete, so that segments retire.
    fn thin(&mut self) {
        let lasts: Vec<(StreamId, u64)> = self
            .now
            .live
            .iter()
            .filter_map(|(stream, entries)| Some((*stream, *entries.keys().rev().nth(24)?)))
            .collect();
        for (stream, id) in lasts {
            let mut batch: Batch<Vec<u8>> = Batch::new();
            let lsn = self.log.append_durable(batch.obsolete(stream, id)).unwrap();
            self.now.live.get_mut(&stream).unwrap().retain(|live, _| *live > id);
            self.note(lsn);
        }
    }

    fn note(&mut self, lsn: Lsn) {
        self.now.streams = self.log.streams();
        self.now.namespaces = self.log.namespaces();
        self.snapshots.insert(lsn, self.now.clone());
    }
}

/// Waits until all is written and the threads in the background are at rest.
pub(crate) fn settle(log: &Log) {
    for (stream, _) in log.streams() {
        log.read(stream, .., ReadOptions::new()).unwrap().for_each(|entry| drop(entry.unwrap()));
    }
    let begin = Instant::now();
    let mut before = load(log.path());
    loop {
        std::thread::sleep(Duration::from_millis(30));
        let now = load(log.path());
        if now == before && !now.keys().any(|name| has_suffix(name, ".new")) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "the directory keeps changing");
        before = now;
    }
}
