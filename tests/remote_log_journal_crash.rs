//! A journal whose process is killed at any moment, over and over: while it records, while it writes checkpoints and
//! while it opens. What was acknowledged holds, what was refused is not there, and every query answers as the store in
//! memory does.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tidelog::readonly::ReadOnlyLog;
use tidelog::remote_log::{
    CustomMetadata, Event, InmemoryRemoteLogMetadataManager, Journal, JournalOptions, JournalView,
    LeaderEpoch, PartitionView, RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId,
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    RemotePartitionDeleteMetadata, RemotePartitionDeleteState, RemoteStorageError,
    TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};
use tidelog::{BackendChoice, Log, Options};

use common::child::{self, Killed};
use common::{backends, payload, tiny};

const ROUNDS: u64 = 24;
const PARTITIONS: u8 = 4;
const SEGMENTS: u32 = 10;
const OFFSETS: u32 = 40;
const EPOCHS: u16 = 3;

fn options(backend: BackendChoice) -> Options {
    tiny(backend).segment_size(256 << 10).idle_after(Duration::from_millis(3))
}

fn partition(number: u8) -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(5), "orders", number.into())
}

/// What a child writes down; where it ends is what the child was at when it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Opening,
    Opened,
    CheckpointBegun,
    CheckpointEnded,
    /// About to be recorded.
    Trying,
    Accepted,
    Refused,
}

impl Note {
    const ALL: [Self; 7] = [
        Self::Opening,
        Self::Opened,
        Self::CheckpointBegun,
        Self::CheckpointEnded,
        Self::Trying,
        Self::Accepted,
        Self::Refused,
    ];
}

/// A mutation of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mutation {
    Record(Event),
    Purge,
}

impl Mutation {
    fn apply(
        &self,
        manager: &dyn RemoteLogMetadataManager,
        purge: impl FnOnce() -> Result<usize, RemoteStorageError>,
    ) -> Result<(), RemoteStorageError> {
        match self.clone() {
            Self::Record(Event::AddSegment(metadata)) => manager.add_remote_log_segment_metadata(metadata),
            Self::Record(Event::UpdateSegment(update)) => manager.update_remote_log_segment_metadata(update),
            Self::Record(Event::DeletePartition(delete)) => {
                manager.put_remote_partition_delete_metadata(delete)
            }
            Self::Purge => purge().map(drop),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Record(event) => event.encode().unwrap().to_vec(),
            Self::Purge => Vec::new(),
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::Purge } else { Self::Record(Event::decode(bytes).unwrap()) }
    }

    fn any(random: &mut Random, number: u8) -> Self {
        let id = RemoteLogSegmentId::new(partition(number), Uuid::from_u128(random.below(SEGMENTS).into()));
        let (time, broker) = (random.below(2).into(), i32::from(random.below(2) == 0));
        Self::Record(match random.below(100) {
            0..30 => {
                let [one, other] = [(); 2].map(|()| i64::from(random.below(OFFSETS)));
                let epochs: BTreeMap<_, _> = (0..=random.below(2))
                    .map(|_| {
                        let epoch = random.below(EPOCHS.into()) as u16;
                        (LeaderEpoch(epoch.into()), random.below(OFFSETS).into())
                    })
                    .collect();
                let state = RemoteLogSegmentState::ALL[usize::from(random.below(20) == 0)];
                let details = RemoteLogSegmentDetails::new(1, state, epochs);
                let (start, end) = (one.min(other), one.max(other));
                Event::AddSegment(
                    RemoteLogSegmentMetadata::new(id, start, end, -1, broker, time, details).unwrap(),
                )
            }
            30..94 => {
                let custom =
                    (random.below(4) == 0).then(|| CustomMetadata(vec![7; random.below(600) as usize]));
                let state = RemoteLogSegmentState::ALL[random.below(4) as usize];
                Event::UpdateSegment(RemoteLogSegmentMetadataUpdate::new(id, time, custom, state, broker))
            }
            94..97 => {
                let state = RemotePartitionDeleteState::ALL[random.below(3) as usize];
                let tp = partition(number);
                Event::DeletePartition(RemotePartitionDeleteMetadata::new(tp, state, time, broker))
            }
            _ => return Self::Purge,
        })
    }
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(u64::from_le_bytes(payload(seed, 8)[..8].try_into().unwrap()))
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % bound
    }
}

/// The process that is killed.
struct Writer {
    manager: TideRemoteLogMetadataManager,
    notes: File,
    round: u64,
}

fn note(mut notes: &File, note: Note, number: u8, bytes: &[u8]) {
    let head = [note as u8, number];
    let len = u16::try_from(bytes.len()).unwrap().to_le_bytes();
    let line = [&head[..], &len, bytes].concat();
    assert_eq!(notes.write(&line).unwrap(), line.len());
}

impl Writer {
    fn mutate(&self, number: u8) {
        let mut random = Random::new(self.round * 100 + u64::from(number));
        loop {
            let mutation = Mutation::any(&mut random, number);
            let bytes = mutation.encode();
            note(&self.notes, Note::Trying, number, &bytes);
            let outcome = mutation.apply(&self.manager, || self.manager.purge_partition(&partition(number)));
            let answer = match outcome {
                Ok(()) => Note::Accepted,
                Err(error @ (RemoteStorageError::Io(_) | RemoteStorageError::NotReady { .. })) => {
                    fail(&error)
                }
                Err(_) => Note::Refused,
            };
            note(&self.notes, answer, number, &bytes);
        }
    }

    fn checkpoint(&self) {
        loop {
            note(&self.notes, Note::CheckpointBegun, 0, &[]);
            self.manager.journal().checkpoint().unwrap_or_else(|error| fail(&error));
            note(&self.notes, Note::CheckpointEnded, 0, &[]);
        }
    }
}

/// Ends the whole process, which is not to end by itself.
fn fail(error: &RemoteStorageError) -> ! {
    eprintln!("{error}");
    std::process::exit(1)
}

#[test]
#[ignore = "the body of the process that is killed"]
fn writer() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, notes, backend, round] = arguments.as_slice() else { panic!("{arguments:?}") };
    let backend = if backend == "ring" { BackendChoice::Ring } else { BackendChoice::Std };
    let notes = File::options().append(true).create(true).open(notes).unwrap();
    note(&notes, Note::Opening, 0, &[]);
    let log = Log::open(dir, options(backend)).unwrap();
    let journal = Journal::open(&log, 1, JournalOptions::new().checkpoint_after(Some(20))).unwrap();
    note(&notes, Note::Opened, 0, &[]);
    let round = round.parse().unwrap();
    let writer = Writer { manager: TideRemoteLogMetadataManager::new(journal), notes, round };
    thread::scope(|scope| {
        for number in 0..PARTITIONS {
            let writer = &writer;
            scope.spawn(move || writer.mutate(number));
        }
        if round % 2 == 0 {
            scope.spawn(|| writer.checkpoint());
        }
    });
}

/// What must be there.
#[derive(Default)]
struct Known {
    memory: InmemoryRemoteLogMetadataManager,
    /// The last event in the deletion of each partition, which no query tells.
    deletions: BTreeMap<u8, RemotePartitionDeleteMetadata>,
    accepted: usize,
    refused: usize,
    /// Children killed while they opened a journal, and while they wrote a checkpoint.
    opening: usize,
    checkpoint: usize,
    /// Mutations that were there though nobody had been told.
    unacknowledged: usize,
}

impl Known {
    fn apply(&mut self, number: u8, mutation: &Mutation) -> Result<(), RemoteStorageError> {
        mutation.apply(&self.memory, || self.memory.purge_partition(&partition(number)))?;
        if let Mutation::Record(Event::DeletePartition(delete)) = mutation {
            let known = self.deletions.entry(number).or_insert_with(|| delete.clone());
            if known.state != delete.state {
                known.clone_from(delete);
            }
        }
        Ok(())
    }

    /// Learns what the child was told; gives what it was waiting for in each partition.
    fn learn(&mut self, notes: &Path) -> BTreeMap<u8, Mutation> {
        let bytes = fs::read(notes).unwrap();
        let mut rest = bytes.as_slice();
        let mut tried = BTreeMap::new();
        let (mut opened, mut in_checkpoint) = (false, false);
        while let [kind, number, low, high, content @ ..] = rest {
            let (content, behind) = content.split_at(u16::from_le_bytes([*low, *high]).into());
            rest = behind;
            let number = *number;
            match Note::ALL[usize::from(*kind)] {
                Note::Opening => {}
                Note::Opened => opened = true,
                Note::CheckpointBegun => in_checkpoint = true,
                Note::CheckpointEnded => in_checkpoint = false,
                Note::Trying => {
                    let before = tried.insert(number, Mutation::decode(content));
                    assert_eq!(before, None);
                }
                Note::Accepted => {
                    let mutation = tried.remove(&number).unwrap();
                    let outcome = self.apply(number, &mutation);
                    assert!(outcome.is_ok(), "{mutation:?} was accepted: {outcome:?}");
                    self.accepted += 1;
                }
                Note::Refused => {
                    let mutation = tried.remove(&number).unwrap();
                    assert!(self.apply(number, &mutation).is_err(), "{mutation:?} was refused");
                    self.refused += 1;
                }
            }
        }
        assert_eq!(rest, [0u8; 0]);
        self.opening += usize::from(!opened);
        self.checkpoint += usize::from(in_checkpoint);
        tried
    }

    /// Compares every partition; the last mutation of each may be there if nobody was told.
    fn check(
        &mut self,
        manager: &dyn RemoteLogMetadataManager,
        view: &JournalView,
        tried: &BTreeMap<u8, Mutation>,
    ) {
        for number in 0..PARTITIONS {
            let found = answers(manager, number);
            let seen = view.partition(&partition(number));
            assert_eq!(
                seen.map(PartitionView::segments).unwrap_or_default(),
                found.list,
                "partition {number}"
            );
            let found = (found, seen.and_then(PartitionView::deletion));
            if found == self.expected(number) {
                continue;
            }
            let Some(mutation) = tried.get(&number) else {
                panic!("partition {number}: {found:?}, not {:?}", self.expected(number))
            };
            let outcome = self.apply(number, mutation);
            assert!(outcome.is_ok(), "partition {number}, {mutation:?} is there: {outcome:?}");
            assert_eq!(found, self.expected(number), "partition {number} after {mutation:?}");
            self.unacknowledged += 1;
        }
    }

    fn expected(&self, number: u8) -> (Answers, Option<&RemotePartitionDeleteMetadata>) {
        (answers(&self.memory, number), self.deletions.get(&number))
    }
}

/// Every answer about a partition.
#[derive(Debug, PartialEq, Eq)]
struct Answers {
    list: Vec<RemoteLogSegmentMetadata>,
    epochs: Vec<EpochAnswers>,
}

#[derive(Debug, PartialEq, Eq)]
struct EpochAnswers {
    list: Vec<RemoteLogSegmentMetadata>,
    highest: Option<i64>,
    at: Vec<Option<RemoteLogSegmentMetadata>>,
}

fn answers(manager: &dyn RemoteLogMetadataManager, number: u8) -> Answers {
    let tp = &partition(number);
    let epoch = |epoch| EpochAnswers {
        list: manager.list_remote_log_segments_by_epoch(tp, epoch).unwrap(),
        highest: manager.highest_offset_for_epoch(tp, epoch).unwrap(),
        at: (0..i64::from(OFFSETS))
            .map(|offset| manager.remote_log_segment_metadata(tp, epoch, offset).unwrap())
            .collect(),
    };
    let epochs = (0..EPOCHS).map(|number| epoch(LeaderEpoch(number.into()))).collect();
    Answers { list: manager.list_remote_log_segments(tp).unwrap(), epochs }
}

fn check(backend: BackendChoice, name: &str) {
    if !backends().contains(&backend) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (dir, notes) = (home.path().join("log"), home.path().join("notes"));
    let mut known = Known::default();
    for round in 1..=ROUNDS {
        let mut random = Random::new(round);
        let number = round.to_string();
        let arguments = [child::text(&dir), child::text(&notes), name, &number];
        let mut child = Killed(child::command("writer", &arguments).spawn().unwrap());
        // From its first note on it opens. How much it gets done does not depend on the machine.
        let (bytes, pause) =
            if round % 3 == 0 { (0, 6_000) } else { (200 + u64::from(random.below(30_000)), 3_000) };
        child::wait_for(&notes, bytes, &mut child.0);
        thread::sleep(Duration::from_micros(random.below(pause).into()));
        assert_eq!(child.0.try_wait().unwrap(), None, "the child ended by itself");
        drop(child);
        let tried = known.learn(&notes);
        fs::remove_file(&notes).unwrap();

        let log = Log::open(&dir, options(backend)).unwrap();
        let journal = Journal::open(&log, 1, JournalOptions::new().checkpoint_after(None)).unwrap();
        assert_eq!(journal.report().unwrap().refused, 0, "round {round}");
        let view = JournalView::read(&ReadOnlyLog::open(&dir).unwrap(), 1).unwrap();
        known.check(&TideRemoteLogMetadataManager::new(journal), &view, &tried);
        // A dropped log lets go of its directory a little later, which the next child would not wait for.
        log.close().unwrap();
    }
    let Known { accepted, refused, opening, checkpoint, unacknowledged, .. } = known;
    eprintln!(
        "{name}: {accepted} accepted and {refused} refused hold, {unacknowledged} unacknowledged are there; \
         {opening} killed while opening, {checkpoint} in a checkpoint"
    );
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn nothing_acknowledged_is_lost_on_the_ring() {
    check(BackendChoice::Ring, "ring");
}

#[test]
fn nothing_acknowledged_is_lost_without_the_ring() {
    check(BackendChoice::Std, "std");
}
