//! Inputs for each target, from small real logs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidelog::readonly::{Item, Kind, Payload, ReadOnlyLog, Record};
use tidelog::remote_log::{
    JOURNAL_CLASS, Journal, JournalOptions, LeaderEpoch, RemoteLogMetadataManager, RemoteLogSegmentDetails,
    RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    RemotePartitionDeleteMetadata, RemotePartitionDeleteState, TideRemoteLogMetadataManager,
    TopicIdPartition, Uuid,
};
use tidelog::{BackendChoice, Batch, Log, Options, ReadOptions, StreamId};
use tidelog_format::{
    Checkpoint, INDEX_HEADER_LEN, INDEX_ROW_LEN, IndexView, Lsn, SEGMENT_HEADER_LEN, SegmentHeader, Step,
    Walk, encode_index,
};

use crate::targets::{IDENTITY, pack};

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);
const BLOCK: usize = 512;

fn options() -> Options {
    Options::new()
        .backend(BackendChoice::Std)
        .block_size(BLOCK as u32)
        .first_segment_size(64 << 10)
        .segment_size(64 << 10)
        .frame_size(16 << 10)
        .idle_after(Duration::from_secs(3600))
        .flush_interval(Duration::from_secs(3600))
}

/// Target, name and bytes of each.
pub(crate) fn all() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, log) in [("closed", closed()), ("crashed", crashed())] {
        for target in ["directory_read", "directory_write", "tool"] {
            // As they are, and with all checksums made to fit.
            seeds.push((target, name.to_owned(), pack(0, log.path())));
            seeds.push((target, format!("{name}-fitted"), pack(7, log.path())));
        }
        for (sequence, path) in files(log.path(), ".log") {
            let bytes = fs::read(&path).unwrap();
            seeds.push((
                "segment_header",
                format!("{name}-{sequence}"),
                [&[0], &bytes[..SEGMENT_HEADER_LEN]].concat(),
            ));
            seeds.push(("frames", format!("{name}-{sequence}"), frames(&bytes)));
            if let Some(checkpoint) = checkpoint(&bytes) {
                seeds.push(("checkpoint", format!("{name}-{sequence}"), checkpoint));
            }
            if let Ok(index) = fs::read(path.with_extension("idx")) {
                seeds.push(("index_cache", format!("{name}-{sequence}"), self::index(&bytes, &index)));
            }
        }
        let records = journal(log.path());
        for (number, record) in records.iter().enumerate().filter(|(_, record)| record[0] != 0) {
            seeds.push(("journal_event", format!("{name}-{number}"), record.clone()));
        }
        let entries = records
            .iter()
            .flat_map(|record| [&(record.len() as u16).to_le_bytes(), record.as_slice()].concat());
        seeds.push(("journal", name.to_owned(), [0].into_iter().chain(entries).collect()));
    }
    seeds
}

/// A log of several openings, with each kind of record, closed in the end.
pub(crate) fn closed() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for opening in 0..3 {
        let log = Log::open(home.path(), options()).unwrap();
        write(&log, opening);
        settle(&log);
        log.close().unwrap();
    }
    home
}

/// The same, and then entries that nothing vouches for.
fn crashed() -> TempDir {
    let (home, copy) = (closed(), tempfile::tempdir().unwrap());
    let log = Log::open(home.path(), options()).unwrap();
    for id in 1..=3 {
        let mut batch: Batch<&[u8]> = Batch::new();
        log.append(batch.append(StreamId::new(1, 3), id, [7; 100].as_slice())).unwrap();
    }
    settle(&log);
    for entry in fs::read_dir(home.path()).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn write(log: &Log, opening: u64) {
    let next = |stream| log.stream(stream).and_then(|known| known.last).map_or(1, |last| last + 1);
    for _ in 0..2 {
        let mut batch: Batch<Vec<u8>> = Batch::new();
        for stream in [A, B] {
            let id = next(stream);
            batch.append(stream, id, vec![id as u8 + 1; 20]).append(stream, id + 1, vec![]);
        }
        log.append_durable(&batch).unwrap();
    }
    // Zeros cost an input nothing; these fill the segment.
    for _ in 0..u64::from(opening == 0) * 4 {
        let mut batch: Batch<Vec<u8>> = Batch::new();
        log.append_durable(batch.append(A, next(A), vec![0; 20_000])).unwrap();
    }
    log.truncate(B, next(B) - 1).unwrap();
    log.create_namespace(StreamId::new(2, opening)).unwrap();
    log.delete_namespace(StreamId::new(2, opening.wrapping_sub(1))).unwrap();
    log.obsolete(A, if opening == 1 { next(A) - 1 } else { 1 }).unwrap();
    log.append_durable(Batch::<Vec<u8>>::new().append(StreamId::new(3, opening), 5, vec![1; 9])).unwrap();
    log.release(StreamId::new(3, opening)).unwrap();
    write_journal(log, opening);
}

fn write_journal(log: &Log, opening: u64) {
    let journal = Journal::open(log, 1, JournalOptions::new()).unwrap();
    let manager = TideRemoteLogMetadataManager::new(journal.clone());
    let number = |number: u64| Uuid::from_u128(u128::from(number));
    let orders = TopicIdPartition::new(number(1), "orders", 0);
    for segment in opening as u32 * 2..opening as u32 * 2 + 2 {
        let id = RemoteLogSegmentId::new(orders.clone(), number(10 + u64::from(segment)));
        let start = i64::from(segment) * 100;
        let epochs = BTreeMap::from([(LeaderEpoch(segment.cast_signed()), start)]);
        let started = RemoteLogSegmentState::CopySegmentStarted;
        let details = RemoteLogSegmentDetails::new(4096, started, epochs);
        let metadata = RemoteLogSegmentMetadata::new(id.clone(), start, start + 99, -1, 1, 10, details);
        manager.add_remote_log_segment_metadata(metadata.unwrap()).unwrap();
        let finished = RemoteLogSegmentState::CopySegmentFinished;
        let update = RemoteLogSegmentMetadataUpdate::new(id, 20, None, finished, 1);
        manager.update_remote_log_segment_metadata(update).unwrap();
    }
    let gone = TopicIdPartition::new(number(2), "gone", opening as i32);
    let marked = RemotePartitionDeleteState::DeletePartitionMarked;
    manager
        .put_remote_partition_delete_metadata(RemotePartitionDeleteMetadata::new(gone, marked, 5, 6))
        .unwrap();
    if opening == 2 {
        journal.checkpoint().unwrap();
    }
}

/// Waits until all is written and the index caches are there.
fn settle(log: &Log) {
    for (stream, _) in log.streams() {
        assert!(log.read(stream, .., ReadOptions::new()).unwrap().all(|entry| entry.is_ok()));
    }
    let (begun, mut before) = (Instant::now(), Vec::new());
    loop {
        std::thread::sleep(Duration::from_millis(30));
        let mut now: Vec<_> = fs::read_dir(log.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len())))
            .collect();
        now.sort();
        if now == before && !now.iter().any(|(name, _)| name.to_string_lossy().ends_with(".new")) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the directory keeps changing");
        before = now;
    }
}

fn files(dir: &Path, suffix: &str) -> BTreeMap<u64, PathBuf> {
    let named = |path: PathBuf| {
        let number = path.file_name()?.to_str()?.strip_suffix(suffix)?.parse().ok()?;
        Some((number, path))
    };
    fs::read_dir(dir).unwrap().filter_map(|entry| named(entry.unwrap().path())).collect()
}

/// The frames of a segment, moved to the segment that the targets take them for; the checksums are theirs to fit.
fn frames(file: &[u8]) -> Vec<u8> {
    let header = SegmentHeader::decode(file).unwrap();
    let mut walk = Walk::new(&header, file.len() as u64, Lsn::ZERO);
    let (mut moved, mut end) = (file.to_vec(), BLOCK);
    while let Step::Frame(frame) = walk.next(&mut &*file).unwrap() {
        let at = frame.offset as usize;
        let watermark = header.identity.offset(frame.header.watermark);
        let watermark = watermark.map_or(Lsn::ZERO, |offset| IDENTITY.lsn(offset));
        moved[at + 24..at + 32].copy_from_slice(&IDENTITY.lsn(frame.offset).0.to_le_bytes());
        moved[at + 32..at + 40].copy_from_slice(&watermark.0.to_le_bytes());
        // What takes much room shows nothing new.
        if frame.header.frame_len > 4096 {
            break;
        }
        end = frame.end() as usize;
    }
    [&[1], &moved[BLOCK..end]].concat()
}

fn checkpoint(file: &[u8]) -> Option<Vec<u8>> {
    let header = SegmentHeader::decode(file).unwrap();
    let mut walk = Walk::new(&header, file.len() as u64, Lsn::ZERO);
    let Step::Frame(frame) = walk.next(&mut &*file).unwrap() else { return None };
    let row = frame.table.checkpoint()?;
    let bytes = row.payload_in(&file[BLOCK..], frame.offset).unwrap();
    let checkpoint = Checkpoint::decode(bytes, header.identity.seed(), 0).unwrap();
    Some([vec![1], checkpoint.encode(IDENTITY.seed())].concat())
}

fn index(segment: &[u8], index: &[u8]) -> Vec<u8> {
    let identity = SegmentHeader::decode(segment).unwrap().identity;
    let rows = u32::from_le_bytes(index[12..16].try_into().unwrap()) as usize;
    // What fills the last block does not count.
    let view = IndexView::parse(&index[..INDEX_HEADER_LEN + rows * INDEX_ROW_LEN], &identity).unwrap();
    let end = IDENTITY.lsn(identity.offset(view.end()).unwrap());
    [vec![1], encode_index(&IDENTITY, end, &view.rows().collect::<Vec<_>>())].concat()
}

/// The entries of the journal, those too that are obsolete.
fn journal(dir: &Path) -> Vec<Vec<u8>> {
    let log = ReadOnlyLog::open(dir).unwrap();
    let payload = |item| match item {
        Item::Record(Record { row, payload: Payload::Sound(bytes), .. })
            if row.kind == Kind::Entry && row.stream.class == JOURNAL_CLASS =>
        {
            Some(bytes.to_vec())
        }
        _ => None,
    };
    log.items().filter_map(|item| payload(item.unwrap())).collect()
}
