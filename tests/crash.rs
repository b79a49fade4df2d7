//! A writer that is killed at any moment, over and over, in the same directory: nothing that it had
//! acknowledged is missing, nothing is reordered, no batch is there by half, and what was obsolete or released
//! stays so.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidelog::{BackendChoice, Batch, Entry, Log, Options, ReadOptions, StreamId};

use common::child::{self, Killed};
use common::{backends, payload, tiny};

const ROUNDS: u64 = 50;
const PLAIN_STREAMS: u64 = 4;
/// Entries that a plain stream keeps: the older ones are made obsolete, so that segments retire.
const KEPT: u64 = 200;

fn plain(number: u64) -> StreamId {
    StreamId::new(16, number)
}

/// Appended to together, by batches that each carry the same id for all of them.
fn joined() -> [StreamId; 3] {
    [StreamId::new(16, 100), StreamId::new(17, 100), StreamId::new(18, 100)]
}

/// Filled, marked and released, over and over.
const RELEASED: StreamId = StreamId::new(19, 0);

/// What a child vouches for. The numbers say which write of which child it was, so that the bytes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ack {
    Entry { stream: StreamId, id: u64, nonce: u64 },
    Mark { stream: StreamId, id: u64 },
    Released { nonce: u64 },
}

impl Ack {
    const LEN: usize = 27;

    fn encode(self) -> [u8; Self::LEN] {
        let (kind, stream, id, nonce) = match self {
            Self::Entry { stream, id, nonce } => (0, stream, id, nonce),
            Self::Mark { stream, id } => (1, stream, id, 0),
            Self::Released { nonce } => (2, RELEASED, 0, nonce),
        };
        let mut bytes = [0; Self::LEN];
        bytes[0] = kind;
        bytes[1..3].copy_from_slice(&stream.class.to_le_bytes());
        bytes[3..11].copy_from_slice(&stream.id.to_le_bytes());
        bytes[11..19].copy_from_slice(&id.to_le_bytes());
        bytes[19..27].copy_from_slice(&nonce.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let stream = StreamId::new(u16::from_le_bytes([bytes[1], bytes[2]]), word(3));
        match bytes[0] {
            0 => Self::Entry { stream, id: word(11), nonce: word(19) },
            1 => Self::Mark { stream, id: word(11) },
            2 => Self::Released { nonce: word(19) },
            kind => panic!("an acknowledgement of kind {kind}"),
        }
    }
}

/// A payload that says which write it is from; most are small, some larger than a frame.
fn content(stream: StreamId, id: u64, nonce: u64) -> Bytes {
    let len = match nonce % 97 {
        0 => 20_000,
        few @ 1..8 => 1000 * few,
        _ => 8 + nonce % 300,
    };
    let rest =
        payload(nonce ^ id.rotate_left(32) ^ u64::from(stream.class) ^ (stream.id << 16), len as usize);
    [&nonce.to_le_bytes(), &*rest].concat().into()
}

/// The nonce of an entry, all of whose bytes are those of that write.
fn checked(entry: &Entry) -> u64 {
    let nonce = u64::from_le_bytes(entry.payload[..8].try_into().unwrap());
    assert!(
        entry.payload == content(entry.stream, entry.id, nonce),
        "bytes of {} {}",
        entry.stream,
        entry.id
    );
    nonce
}

fn options(backend: BackendChoice) -> Options {
    tiny(backend).segment_size(256 << 10).idle_after(Duration::from_millis(3))
}

/// What the process does that is killed.
struct Writer {
    log: Log,
    acks: File,
    round: u64,
    count: AtomicU64,
}

impl Writer {
    fn nonce(&self) -> u64 {
        (self.round << 32) | self.count.fetch_add(1, Ordering::Relaxed)
    }

    fn ack(&self, acks: &[Ack]) {
        let bytes: Vec<u8> = acks.iter().flat_map(|ack| ack.encode()).collect();
        assert_eq!((&self.acks).write(&bytes).unwrap(), bytes.len());
    }

    fn next(&self, stream: StreamId) -> u64 {
        self.log.stream(stream).and_then(|info| info.last).map_or(1, |last| last + 1)
    }

    fn plain(&self, number: u64) {
        let stream = plain(number);
        for id in self.next(stream).. {
            let nonce = self.nonce();
            let mut batch: Batch = Batch::new();
            batch.append(stream, id, content(stream, id, nonce));
            let mark = (id % 50 == 0 && id > KEPT).then(|| id - KEPT);
            if let Some(mark) = mark {
                self.log.obsolete(stream, mark).unwrap();
            }
            // Every way to durability.
            match id % 3 {
                0 => self.log.append_durable(&batch).map(drop).unwrap(),
                1 => {
                    let lsn = self.log.append(&batch).unwrap();
                    self.log.wait_durable(lsn).unwrap();
                }
                _ => futures::executor::block_on(self.log.append_durable_async(batch)).map(drop).unwrap(),
            }
            self.ack(&[Ack::Entry { stream, id, nonce }]);
            if let Some(id) = mark {
                self.ack(&[Ack::Mark { stream, id }]);
            }
        }
    }

    fn joined(&self) {
        let mut id = self.next(joined()[0]);
        loop {
            let (mut batch, mut acks) = (Batch::<Bytes>::new(), Vec::new());
            for stream in joined() {
                let nonce = self.nonce();
                batch.append(stream, id, content(stream, id, nonce));
                acks.push(Ack::Entry { stream, id, nonce });
            }
            if id.is_multiple_of(20) && id > KEPT {
                for stream in joined() {
                    batch.obsolete(stream, id - KEPT);
                    acks.push(Ack::Mark { stream, id: id - KEPT });
                }
            }
            self.log.append_durable(&batch).unwrap();
            self.ack(&acks);
            id += 1;
        }
    }

    fn released(&self) {
        loop {
            let first = self.next(RELEASED);
            for id in first..first + 10 {
                let nonce = self.nonce();
                let mut batch: Batch = Batch::new();
                batch.append(RELEASED, id, content(RELEASED, id, nonce));
                let mark = id - first == 5;
                if mark {
                    batch.obsolete(RELEASED, id - 2);
                }
                self.log.append_durable(&batch).unwrap();
                self.ack(&[Ack::Entry { stream: RELEASED, id, nonce }]);
                if mark {
                    self.ack(&[Ack::Mark { stream: RELEASED, id: id - 2 }]);
                }
            }
            let nonce = self.nonce();
            self.log.release(RELEASED).unwrap();
            self.ack(&[Ack::Released { nonce }]);
        }
    }
}

#[test]
#[ignore = "the body of the process that is killed"]
fn writer() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, acks, backend, round] = arguments.as_slice() else { panic!("{arguments:?}") };
    let backend = if backend == "ring" { BackendChoice::Ring } else { BackendChoice::Std };
    let log = Log::open(dir, options(backend)).unwrap();
    let acks = File::options().append(true).create(true).open(acks).unwrap();
    let writer = Writer { log, acks, round: round.parse().unwrap(), count: AtomicU64::new(1) };
    thread::scope(|scope| {
        for number in 0..PLAIN_STREAMS {
            let writer = &writer;
            scope.spawn(move || writer.plain(number));
        }
        scope.spawn(|| writer.joined());
        scope.spawn(|| writer.released());
    });
}

/// What is known to be durable.
#[derive(Default)]
struct Known {
    /// By stream and id, the write that must be there: acknowledged, or seen after a recovery.
    entries: BTreeMap<StreamId, BTreeMap<u64, u64>>,
    marks: BTreeMap<StreamId, u64>,
    /// Writes to the released stream up to this one are gone.
    released: u64,
    acknowledged: usize,
}

impl Known {
    fn learn(&mut self, acks: &Path) {
        let bytes = fs::read(acks).unwrap_or_default();
        for bytes in bytes.chunks_exact(Ack::LEN) {
            self.acknowledged += 1;
            match Ack::decode(bytes) {
                Ack::Entry { stream, id, nonce } => {
                    self.entries.entry(stream).or_default().insert(id, nonce);
                }
                Ack::Mark { stream, id } => {
                    self.marks.insert(stream, id);
                }
                Ack::Released { nonce } => {
                    self.released = nonce;
                    self.entries.remove(&RELEASED);
                    self.marks.remove(&RELEASED);
                }
            }
        }
    }

    /// Compares a stream with what is known, and gives its last id.
    fn check(&mut self, log: &Log, stream: StreamId) -> u64 {
        let info = log.stream(stream).unwrap_or_default();
        let read: Result<Vec<Entry>, _> = log.read(stream, .., ReadOptions::new()).unwrap().collect();
        let found: BTreeMap<u64, u64> =
            read.unwrap().iter().map(|entry| (entry.id, checked(entry))).collect();
        let ids = found.keys().copied();
        let first = info.first.unwrap_or(1);
        assert!(ids.eq(first..first + found.len() as u64), "{stream} from {first}: {:?}", found.keys());
        assert_eq!(found.last_key_value().map(|(id, _)| *id), info.last, "{stream}: {info:?}");

        let mark = self.marks.get(&stream).copied();
        assert!(info.mark >= mark, "{stream}: marked up to {mark:?}, and now {info:?}");
        let known = self.entries.entry(stream).or_default();
        for (id, nonce) in known.iter().filter(|(id, _)| info.mark.is_none_or(|mark| **id > mark)) {
            assert_eq!(found.get(id), Some(nonce), "{stream}: entry {id}, {info:?}");
        }
        *known = found;
        if let Some(mark) = info.mark {
            self.marks.insert(stream, mark);
        }
        info.last.unwrap_or(0)
    }

    /// The stream that is released: a release that was not acknowledged may have happened.
    fn check_released(&mut self, log: &Log) {
        let info = log.stream(RELEASED).unwrap_or_default();
        let read: Result<Vec<Entry>, _> = log.read(RELEASED, .., ReadOptions::new()).unwrap().collect();
        let nonces: Vec<u64> = read.unwrap().iter().map(checked).collect();
        assert!(nonces.iter().all(|nonce| *nonce > self.released), "{info:?}: a released entry is back");
        // Ids start afresh with a release, and a stream is released at its tenth entry, not before.
        let known = self.entries.get(&RELEASED).map_or(0, BTreeMap::len);
        if info.last.is_none() && known >= 10 {
            self.entries.remove(&RELEASED);
            self.marks.remove(&RELEASED);
        }
        self.check(log, RELEASED);
    }

    fn check_all(&mut self, log: &Log) {
        for number in 0..PLAIN_STREAMS {
            self.check(log, plain(number));
        }
        let lasts = joined().map(|stream| self.check(log, stream));
        assert!(lasts.iter().all(|last| *last == lasts[0]), "a batch is there by half: {lasts:?}");
        let marks = joined().map(|stream| log.stream(stream).and_then(|info| info.mark));
        assert!(marks.iter().all(|mark| *mark == marks[0]), "a batch is there by half: {marks:?}");
        self.check_released(log);
    }
}

fn check(backend: BackendChoice, name: &str) {
    if !backends().contains(&backend) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (dir, acks) = (home.path().join("log"), home.path().join("acks"));
    let mut known = Known::default();
    let mut torn = 0;
    for round in 1..=ROUNDS {
        let seed = u64::from_le_bytes(payload(round, 8)[..8].try_into().unwrap());
        let number = round.to_string();
        let arguments = [child::text(&dir), child::text(&acks), name, &number];
        let mut child = Killed(child::command("writer", &arguments).spawn().unwrap());
        if seed % 5 > 0 {
            child::wait_for(&acks, 0, &mut child.0);
        }
        // Otherwise it may be killed while it recovers.
        thread::sleep(Duration::from_micros(seed % 100_000));
        drop(child);
        known.learn(&acks);
        let _ = fs::remove_file(&acks);

        let log = Log::open(&dir, options(backend)).unwrap();
        torn += usize::from(log.recovery().torn_tail.is_some());
        known.check_all(&log);
        // A dropped log lets go of its directory a little later, which the next child would not wait for.
        log.close().unwrap();
    }
    eprintln!("{name}: {} acknowledgements held, {torn} torn tails", known.acknowledged);
    assert!(known.acknowledged > 500, "only {} acknowledgements", known.acknowledged);
}

#[test]
fn nothing_acknowledged_is_lost_on_the_ring() {
    check(BackendChoice::Ring, "ring");
}

#[test]
fn nothing_acknowledged_is_lost_without_the_ring() {
    check(BackendChoice::Std, "std");
}
