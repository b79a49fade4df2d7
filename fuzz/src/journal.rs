//! The journal of remote log metadata: its events, and what a journal of any records comes to.

use std::sync::Mutex;

use tempfile::TempDir;
use tidelog::remote_log::{
    Event, JOURNAL_CLASS, Journal, JournalOptions, LeaderEpoch, RemoteLogMetadataManager,
    RemoteLogSegmentMetadata, TideRemoteLogMetadataManager, TopicIdPartition,
};
use tidelog::{BackendChoice, Batch, Log, Options, StreamId};

use super::split;

/// One event. What is one encodes to itself.
pub fn journal_event(input: &[u8]) {
    if let Ok(event) = Event::decode(input) {
        assert_eq!(event.encode().unwrap(), input);
    }
}

/// A log that takes one journal after the other, and how many it took.
struct Bench {
    log: Log,
    journals: u64,
    _home: TempDir,
}

/// Journals of one log: so many that it does not get long.
const JOURNALS_MAX: u64 = 500;

static BENCH: Mutex<Option<Bench>> = Mutex::new(None);

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = Options::new()
            .backend(BackendChoice::Std)
            .block_size(512)
            .first_segment_size(1 << 20)
            .segment_size(1 << 20)
            .frame_size(64 << 10);
        Self { log: Log::open(home.path(), options).unwrap(), journals: 0, _home: home }
    }
}

/// Entries, each behind its length (2 bytes), that are opened as a journal.
pub fn journal(input: &[u8]) {
    let (choice, mut rest) = split(input);
    let mut entries = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(behind.len());
        entries.push(&behind[..len]);
        rest = &behind[len..];
    }
    // One that a panic left behind is as good as any.
    let mut slot = BENCH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if slot.as_ref().is_none_or(|bench| bench.journals == JOURNALS_MAX) {
        *slot = Some(Bench::new());
    }
    let bench = slot.as_mut().unwrap();
    bench.journals += 1;
    check(&bench.log, bench.journals, u64::from(choice) + 1, &entries);
    bench.log.release(StreamId::new(JOURNAL_CLASS, bench.journals)).unwrap();
}

fn check(log: &Log, number: u64, first: u64, entries: &[&[u8]]) {
    let mut batch: Batch<&[u8]> = Batch::new();
    for (id, entry) in (first..).zip(entries) {
        batch.append(StreamId::new(JOURNAL_CLASS, number), id, *entry);
    }
    if !entries.is_empty() {
        log.append_durable(&batch).unwrap();
    }
    let options = JournalOptions::new().checkpoint_after(None);
    let Ok(journal) = Journal::open(log, number, options) else { return };
    let report = journal.report().unwrap();
    assert_eq!(report.entries, entries.len() as u64);
    let manager = TideRemoteLogMetadataManager::new(journal.clone());
    let partitions = partitions(entries);
    let before: Vec<_> = partitions.iter().map(|tp| look(&manager, tp)).collect();
    journal.checkpoint().unwrap();
    assert_eq!(journal.stats().live + 2, journal.stats().entries, "a checkpoint holds what is live");
    drop((manager, journal));
    // What the checkpoint says is what the events said.
    let journal = Journal::open(log, number, options).unwrap();
    assert_eq!(journal.report().unwrap().refused, 0);
    let manager = TideRemoteLogMetadataManager::new(journal);
    for (tp, before) in partitions.iter().zip(before) {
        assert_eq!(look(&manager, tp), before, "{tp:?}");
        let _ = manager.purge_partition(tp);
    }
}

/// Those that an event or a state in these entries is about.
fn partitions(entries: &[&[u8]]) -> Vec<TopicIdPartition> {
    let mut partitions = Vec::new();
    for entry in entries {
        let state = entry.get(18..).and_then(|state| Event::decode(state).ok());
        let tp = match Event::decode(entry).ok().or(state) {
            Some(Event::AddSegment(metadata)) => metadata.remote_log_segment_id().topic_id_partition.clone(),
            Some(Event::UpdateSegment(update)) => update.remote_log_segment_id.topic_id_partition,
            Some(Event::DeletePartition(delete)) => delete.topic_id_partition,
            None => continue,
        };
        if !partitions.contains(&tp) {
            partitions.push(tp);
        }
    }
    partitions
}

type Look = (Vec<RemoteLogSegmentMetadata>, Vec<(Option<RemoteLogSegmentMetadata>, Option<i64>)>);

/// All that can be asked of a partition.
fn look(manager: &TideRemoteLogMetadataManager, tp: &TopicIdPartition) -> Look {
    // What is being deleted or gone is not to be asked for.
    let all = manager.list_remote_log_segments(tp).unwrap_or_default();
    let mut answers = Vec::new();
    for segment in &all {
        for epoch in segment.segment_leader_epochs().keys() {
            for offset in [segment.start_offset(), segment.end_offset()] {
                answers.push(ask(manager, tp, *epoch, offset));
            }
        }
    }
    (all, answers)
}

fn ask(
    manager: &TideRemoteLogMetadataManager,
    tp: &TopicIdPartition,
    epoch: LeaderEpoch,
    offset: i64,
) -> (Option<RemoteLogSegmentMetadata>, Option<i64>) {
    let found = manager.remote_log_segment_metadata(tp, epoch, offset).unwrap();
    if let Some(found) = &found {
        assert!(found.start_offset() <= offset && offset <= found.end_offset());
    }
    let of_epoch = manager.list_remote_log_segments_by_epoch(tp, epoch).unwrap();
    assert!(found.is_none_or(|found| of_epoch.contains(&found)));
    let found = manager.remote_log_segment_metadata(tp, epoch, offset).unwrap();
    (found, manager.highest_offset_for_epoch(tp, epoch).unwrap())
}
