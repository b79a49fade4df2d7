//! The oracle: what a mutated directory may show.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidelog::readonly::{Item, Kind, Payload, ReadOnlyLog};
use tidelog::{Batch, Error, Log, Lsn, ReadMode, ReadOptions, ScanItem, StreamId};

use crate::base::{Base, Entries, Files, home, options};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// All is there.
    Intact,
    /// The tail that nothing vouches for was cut off.
    Cut,
    /// It opens, and some read tells of damage.
    Read,
    /// It does not open.
    Refused,
}

/// What a check came to.
pub(crate) struct Checked {
    pub(crate) outcome: Outcome,
    /// What opening and reading told of.
    pub(crate) told: Vec<Error>,
}

/// A directory that takes one mutated log after the other.
pub(crate) struct Bench {
    home: TempDir,
    dir: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let home = home();
        let dir = home.path().join("log");
        Self { home, dir }
    }

    fn lay_out(&self, files: &Files) {
        assert!(self.dir.starts_with(self.home.path()));
        let _ = fs::remove_dir_all(&self.dir);
        fs::create_dir(&self.dir).unwrap();
        for (name, bytes) in files {
            fs::write(self.dir.join(name), &**bytes).unwrap();
        }
    }

    /// Opens and reads all, and holds it against what is known of the log.
    pub(crate) fn check(&self, base: &Base, files: &Files, write: bool) -> Outcome {
        let Checked { outcome, told } = self.check_with(base, files, write, |_, _| ());
        let whole = matches!(outcome, Outcome::Intact | Outcome::Cut);
        assert_eq!(told.is_empty(), whole, "{outcome:?}, and told of {told:?}");
        outcome
    }

    /// The same, with more to read of a log that opens and of which the rest could be read, or not.
    pub(crate) fn check_with(
        &self,
        base: &Base,
        files: &Files,
        write: bool,
        more: impl FnOnce(&Log, bool),
    ) -> Checked {
        self.lay_out(files);
        let proven = base.proven(files);
        let damaged = view(base, &self.dir, proven);
        let log = match Log::open(&self.dir, options(base.rule)) {
            Ok(log) => log,
            Err(error) => {
                assert!(is_refusal(&error), "{error:?}");
                assert!(damaged, "refused, and the read-only view sees no damage: {error}");
                return Checked { outcome: Outcome::Refused, told: vec![error] };
            }
        };
        let end = log.recovery().end;
        assert!(end >= proven, "all below {proven} was durable, and the log ends at {end}");
        // What nothing vouches for counts only if it is whole.
        let adopted = base.frames.iter().filter(|frame| (proven..end).contains(&frame.header.lsn));
        adopted.for_each(|frame| {
            assert!(base.is_whole(files, frame), "not whole, and part of the log: {frame:?}");
        });
        let told = read(base, &log, end);
        let complete = told.is_empty();
        more(&log, complete);
        let outcome = if !complete {
            Outcome::Read
        } else if end == base.end() {
            Outcome::Intact
        } else {
            Outcome::Cut
        };
        if write {
            self.go_on(base, log, complete, end);
        } else {
            log.close().unwrap();
        }
        Checked { outcome, told }
    }

    /// Appends, and finds it again with all the rest.
    fn go_on(&self, base: &Base, log: Log, complete: bool, end: Lsn) {
        let stream = StreamId::new(9, 9);
        for id in 1..=5 {
            let mut batch: Batch<Vec<u8>> = Batch::new();
            log.append_durable(batch.append(stream, id, vec![id as u8; 3000])).unwrap();
        }
        log.close().unwrap();
        drop(log);
        let log = Log::open(&self.dir, options(base.rule)).unwrap();
        let found = log.read(stream, .., ReadOptions::new()).unwrap().map(|entry| entry.unwrap().id);
        assert_eq!(found.collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let mut live = base.at(end).live.clone();
        live.retain(|_, entries| !entries.is_empty());
        let mut all = true;
        for (stream, entries) in &live {
            all &= read_stream(&log, *stream, entries, ReadMode::Map).is_none();
        }
        assert!(all || !complete, "what could be read cannot be read any more");
        log.close().unwrap();
    }

    /// Whatever the files say: no panic, and an end.
    pub(crate) fn survive(&self, base: &Base, files: &Files) -> Outcome {
        self.lay_out(files);
        let begin = Instant::now();
        let mut sound = true;
        if let Ok(log) = ReadOnlyLog::open(&self.dir) {
            log.items().for_each(drop);
            log.items().skip_payloads().for_each(drop);
        }
        let Ok(log) = Log::open(&self.dir, options(base.rule)) else { return Outcome::Refused };
        let mut streams: Vec<StreamId> = log.streams().into_iter().map(|(stream, _)| stream).collect();
        for (place, stream) in streams.iter().enumerate() {
            let mode = if place % 2 == 0 { ReadMode::Map } else { ReadMode::Copy };
            sound &= log.read(*stream, .., ReadOptions::new().mode(mode)).unwrap().all(|entry| entry.is_ok());
        }
        sound &= log.scan(Lsn::ZERO, ReadOptions::new()).unwrap().all(|record| record.is_ok());
        streams.push(StreamId::new(9, 9));
        for stream in streams {
            abuse(&log, stream);
        }
        let _ = log.close();
        drop(log);
        if let Ok(log) = Log::open(&self.dir, options(base.rule)) {
            log.scan(Lsn::ZERO, ReadOptions::new()).unwrap().for_each(drop);
            let _ = log.close();
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "it takes {:?}", begin.elapsed());
        if sound { Outcome::Intact } else { Outcome::Read }
    }
}

/// All that can be done to a stream, as it is.
fn abuse(log: &Log, stream: StreamId) {
    let info = log.stream(stream).unwrap_or_default();
    let next = info.last.max(info.mark).map_or(1, |last| last.wrapping_add(1));
    let mut batch: Batch<&[u8]> = Batch::new();
    for id in [next, next.wrapping_add(1)] {
        batch.clear();
        let _ = log.append_durable(batch.append(stream, id, [7; 5000].as_slice()));
    }
    let _ = log.truncate(stream, next);
    let _ = log.entry_lsn(stream, next);
    let _ = log.obsolete(stream, info.first.unwrap_or(0));
    batch.clear();
    let _ = log.append(batch.truncate(stream, 0));
    let _ = log.obsolete(stream, u64::MAX);
    let _ = log.release(stream);
}

pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt(_)
            | Error::ForeignLog { .. }
            | Error::NotALog { .. }
            | Error::UnsupportedVersion { .. }
    )
}

/// Holds what a log that ends at `end` shows against what it must show. Gives the damage that reads tell of.
fn read(base: &Base, log: &Log, end: Lsn) -> Vec<Error> {
    let expected = base.at(end);
    assert_eq!(log.streams(), expected.streams, "streams of a log that ends at {end}");
    assert_eq!(log.namespaces(), expected.namespaces);
    let mut told = Vec::new();
    for (place, (stream, entries)) in expected.live.iter().enumerate() {
        let mode = if place % 2 == 0 { ReadMode::Map } else { ReadMode::Copy };
        told.extend(read_stream(log, *stream, entries, mode));
    }
    told.extend(scan(base, log, end));
    told
}

fn read_stream(log: &Log, stream: StreamId, entries: &Entries, mode: ReadMode) -> Option<Error> {
    let mut expected = entries.iter();
    for entry in log.read(stream, .., ReadOptions::new().mode(mode)).unwrap() {
        match entry {
            Ok(entry) => {
                let (id, (lsn, payload)) = expected.next().expect("no more than was appended");
                assert_eq!((entry.stream, entry.id, entry.lsn), (stream, *id, *lsn));
                assert_eq!(entry.payload, payload.as_slice(), "entry {id} of {stream}");
            }
            Err(error @ Error::Corrupt(_)) => return Some(error),
            Err(error) => panic!("{error:?}"),
        }
    }
    let left = expected.next().map(|(id, _)| *id);
    assert_eq!(left, None, "the rest of {stream} is silently missing");
    None
}

/// All entries in the segments that are there, in order.
fn scan(base: &Base, log: &Log, end: Lsn) -> Option<Error> {
    let mut found = BTreeSet::new();
    for record in log.scan(Lsn::ZERO, ReadOptions::new()).unwrap() {
        match record {
            Ok(record) => {
                if let ScanItem::Entry { stream, id, payload, .. } = record.record {
                    let written = base.written.get(&(record.lsn, stream, id));
                    assert_eq!(written.map(|bytes| bytes.as_slice()), Some(&*payload), "{stream} {id}");
                    assert!(found.insert((record.lsn, stream, id)), "twice: {stream} {id}");
                }
            }
            Err(error @ Error::Corrupt(_)) => return Some(error),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(found.iter().eq(base.written_below(end)), "the scan misses something");
    None
}

/// The read-only view shows nothing that was not written, and all that is proven or some damage. True where it tells of
/// damage.
fn view(base: &Base, dir: &Path, proven: Lsn) -> bool {
    let log = match ReadOnlyLog::open(dir) {
        Ok(log) => log,
        Err(error) => {
            assert!(is_refusal(&error), "{error:?}");
            return true;
        }
    };
    let mut damaged = false;
    let mut found = BTreeSet::new();
    for item in log.items() {
        match item.unwrap() {
            Item::Record(record) => {
                let key = (record.lsn, record.row.stream, record.row.entry_id);
                match (record.row.kind, record.payload) {
                    (Kind::Entry, Payload::Sound(bytes)) => {
                        assert_eq!(base.written.get(&key).map(|written| written.as_slice()), Some(&*bytes));
                        found.insert(key);
                    }
                    (_, Payload::Damaged(_)) => damaged = true,
                    _ => {}
                }
            }
            Item::Damage(_) => damaged = true,
            _ => {}
        }
    }
    if !damaged {
        let mut expected = base.written_below(proven);
        let missing = expected.find(|key| !found.contains(*key));
        assert_eq!(missing, None, "the read-only view silently misses something below {proven}");
    }
    damaged
}
