//! Small logs with everything in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelog::readonly::{Item, ReadOnlyLog, Record};
use tidelog::remote_log::{
    JOURNAL_CLASS, Journal, JournalOptions, LeaderEpoch, RemoteLogMetadataManager, RemoteLogSegmentDetails,
    RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};
use tidelog::{Batch, Error, IdRule, Log, Lsn, ReadOptions, StreamId};

use crate::base::{Base, Snapshot, home, load, options, settle};
use crate::places::{Place, survey};

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);
const FILLER: StreamId = StreamId::new(1, 9);
const RELEASED: StreamId = StreamId::new(3, 1);
const NAMESPACE: StreamId = StreamId::new(4, 1);

pub(crate) struct Specimen {
    pub(crate) closed: bool,
    pub(crate) base: Base,
    pub(crate) places: Vec<Place>,
    /// Every record, in order, as the read-only view shows it.
    pub(crate) records: Vec<Record>,
    /// What the journal lists, by the place in the log behind which it does.
    journal: BTreeMap<Lsn, Vec<RemoteLogSegmentMetadata>>,
}

impl Specimen {
    /// A log of several openings, closed in the end or left as by a crash.
    pub(crate) fn new(closed: bool) -> Self {
        let home = home();
        let mut writer = Writer::new(home.path());
        writer.retire_the_first_segments(home.path());
        writer.fill();
        writer.reopen(home.path());
        writer.write_all_kinds();
        writer.journal.checkpoint().unwrap();
        writer.note();
        writer.reopen(home.path());
        writer.write_all_kinds();
        writer.leave_a_tail();
        if closed {
            writer.close();
        }
        settle(&writer.log);
        writer.finish(closed)
    }

    pub(crate) fn place(&self, file: &str, at: usize) -> Option<&Place> {
        self.places.iter().find(|place| place.file == file && place.range.contains(&at))
    }

    /// What the manager of a journal lists in a log that ends at `end`, unless the journal is damaged. `complete` is
    /// whether all entries can be read.
    pub(crate) fn check_journal(&self, log: &Log, complete: bool) {
        match Journal::open(log, 1, JournalOptions::new().checkpoint_after(None)) {
            Ok(journal) => {
                let end = log.recovery().end;
                let expected = self.journal.range(..end).next_back().map_or(&[][..], |(_, list)| list);
                assert_eq!(list(&journal), expected, "the journal of a log that ends at {end}");
            }
            Err(error) => assert!(!complete, "all can be read, and the journal says: {error}"),
        }
    }
}

fn orders() -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(1), "orders", 0)
}

fn list(journal: &Journal) -> Vec<RemoteLogSegmentMetadata> {
    TideRemoteLogMetadataManager::new(journal.clone()).list_remote_log_segments(&orders()).unwrap()
}

struct Writer {
    log: Log,
    journal: Journal,
    snapshots: BTreeMap<Lsn, Snapshot>,
    written: BTreeMap<(Lsn, StreamId, u64), Arc<Vec<u8>>>,
    lists: BTreeMap<Lsn, Vec<RemoteLogSegmentMetadata>>,
    stamp: u64,
}

fn open(dir: &std::path::Path) -> (Log, Journal) {
    let log = Log::open(dir, options(IdRule::Contiguous)).unwrap();
    let journal = Journal::open(&log, 1, JournalOptions::new().checkpoint_after(None)).unwrap();
    (log, journal)
}

impl Writer {
    fn new(dir: &std::path::Path) -> Self {
        let (log, journal) = open(dir);
        let snapshots = BTreeMap::from([(Lsn::ZERO, Snapshot::default())]);
        Self { log, journal, snapshots, written: BTreeMap::new(), lists: BTreeMap::new(), stamp: 0 }
    }

    fn reopen(&mut self, dir: &std::path::Path) {
        self.close();
        let deadline = Instant::now() + Duration::from_secs(30);
        (self.log, self.journal) = loop {
            match Log::open(dir, options(IdRule::Contiguous)) {
                Err(Error::Locked { .. }) if Instant::now() < deadline => std::thread::yield_now(),
                other => {
                    let log = other.unwrap();
                    let journal = Journal::open(&log, 1, JournalOptions::new().checkpoint_after(None));
                    break (log, journal.unwrap());
                }
            }
        };
        self.note();
    }

    fn close(&mut self) {
        settle(&self.log);
        self.log.close().unwrap();
    }

    /// Takes what the log means now.
    fn note(&mut self) {
        let mut now = Snapshot {
            streams: self.log.streams(),
            namespaces: self.log.namespaces(),
            ..Snapshot::default()
        };
        for (stream, _) in &now.streams {
            for entry in self.log.read(*stream, .., ReadOptions::new()).unwrap().map(Result::unwrap) {
                let payload = Arc::new(entry.payload.to_vec());
                self.written.insert((entry.lsn, *stream, entry.id), Arc::clone(&payload));
                now.live.entry(*stream).or_default().insert(entry.id, (entry.lsn, payload));
            }
        }
        let last = Lsn(self.log.end_lsn().0.saturating_sub(1));
        self.snapshots.insert(last, now);
        self.lists.insert(last, list(&self.journal));
    }

    fn batch(&mut self, make: impl FnOnce(&mut Batch<Vec<u8>>)) {
        let mut batch = Batch::new();
        make(&mut batch);
        self.log.append_durable(&batch).unwrap();
        self.note();
    }

    fn next(&self, stream: StreamId) -> u64 {
        self.log.stream(stream).unwrap_or_default().last.map_or(1, |last| last + 1)
    }

    /// Bytes that are in no other payload.
    fn payload(&mut self, len: usize) -> Vec<u8> {
        self.stamp += 1;
        self.stamp.to_le_bytes().into_iter().map(|byte| byte | 0x80).cycle().take(len).collect()
    }

    fn append(&mut self, stream: StreamId, len: usize) {
        let (id, payload) = (self.next(stream), self.payload(len));
        self.batch(|batch| {
            batch.append(stream, id, payload);
        });
    }

    /// Long entries, up to the next segment.
    fn fill(&mut self) {
        for _ in 0..5 {
            self.append(FILLER, 15_000);
        }
    }

    /// Two segments of which nothing matters any more, until they are gone: an `oldest` record says so.
    fn retire_the_first_segments(&mut self, dir: &std::path::Path) {
        self.fill();
        self.reopen(dir);
        let id = self.next(FILLER) - 1;
        self.batch(|batch| {
            batch.obsolete(FILLER, id);
        });
        self.append(A, 9);
        let begun = Instant::now();
        while load(dir).contains_key(&format!("{:020}.log", 1)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "the first segment does not retire");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn write_all_kinds(&mut self) {
        let (a, b) = (self.next(A), self.next(B));
        let payloads = [13, 0, 24].map(|len| self.payload(len));
        self.batch(|batch| {
            let [first, second, third] = payloads;
            batch.append(A, a, first).append(B, b, second).append(B, b + 1, third);
        });
        self.append(B, 31);
        self.batch(|batch| {
            batch.truncate(B, b + 2);
        });
        self.append(B, 5);
        self.batch(|batch| {
            batch.obsolete(A, a - 1);
        });
        self.append(RELEASED, 3);
        self.batch(|batch| {
            batch.release(RELEASED);
        });
        self.batch(|batch| {
            batch.create_namespace(NAMESPACE);
        });
        self.batch(|batch| {
            batch.delete_namespace(NAMESPACE);
        });
        self.batch(|batch| {
            batch.create_namespace(StreamId::new(4, 2));
        });
        self.record();
    }

    /// A segment that was copied.
    fn record(&mut self) {
        self.stamp += 1;
        let start = self.stamp.cast_signed() * 100;
        let id = RemoteLogSegmentId::new(orders(), Uuid::from_u128(self.stamp.into()));
        let manager = TideRemoteLogMetadataManager::new(self.journal.clone());
        let epochs = BTreeMap::from([(LeaderEpoch(0), start)]);
        let details = RemoteLogSegmentDetails::new(4096, RemoteLogSegmentState::CopySegmentStarted, epochs);
        let metadata = RemoteLogSegmentMetadata::new(id.clone(), start, start + 99, -1, 1, 10, details);
        manager.add_remote_log_segment_metadata(metadata.unwrap()).unwrap();
        self.note();
        let finished = RemoteLogSegmentState::CopySegmentFinished;
        let update = RemoteLogSegmentMetadataUpdate::new(id, 20, None, finished, 1);
        manager.update_remote_log_segment_metadata(update).unwrap();
        self.note();
    }

    /// What only a later frame would vouch for.
    fn leave_a_tail(&mut self) {
        for stream in [A, B, A] {
            let (id, payload) = (self.next(stream), self.payload(40));
            let mut batch: Batch<Vec<u8>> = Batch::new();
            self.log.append(batch.append(stream, id, payload)).unwrap();
            self.note();
        }
        self.record();
    }

    fn finish(self, closed: bool) -> Specimen {
        let Self { log, snapshots, written, lists, .. } = self;
        let (name, files) = (if closed { "closed" } else { "crashed" }, load(log.path()));
        let records = ReadOnlyLog::open(log.path()).unwrap().items().filter_map(|item| match item.unwrap() {
            Item::Record(record) => Some(record),
            Item::Frame(_) => None,
            other => panic!("{other:?}"),
        });
        let records: Vec<Record> = records.collect();
        let of_journal = |record: &&Record| record.row.stream.class == JOURNAL_CLASS;
        assert!(records.iter().filter(of_journal).count() > 6);
        let base = Base::of(name, IdRule::Contiguous, 0, files, snapshots, written);
        let places = survey(&base);
        Specimen { closed, base, places, records, journal: lists }
    }
}
