//! Ranges of a stream and scans of the log: what they give, and what they do not.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use tempfile::TempDir;
use tidelog::{
    BackendChoice, Batch, Entry, Error, IdRule, Log, Lsn, Options, ReadMode, ReadOptions, ReadUpTo, ScanItem,
    StreamId,
};

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);

fn options() -> Options {
    Options::new().first_segment_size(128 << 10).segment_size(128 << 10).frame_size(16 << 10)
}

fn open(options: Options) -> (TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), options).unwrap();
    (dir, log)
}

/// A kilobyte that no other entry has.
fn payload(stream: StreamId, id: u64) -> Vec<u8> {
    format!("entry {id:06} of stream {stream};").repeat(40).into_bytes()
}

fn fill(log: &Log, stream: StreamId, ids: RangeInclusive<u64>) {
    let mut batch: Batch<Vec<u8>> = Batch::new();
    for id in ids {
        batch.clear();
        log.append(batch.append(stream, id, payload(stream, id))).unwrap();
    }
}

fn ids(entries: impl Iterator<Item = tidelog::Result<Entry>>) -> Vec<u64> {
    let check = |entry: tidelog::Result<Entry>| {
        let entry = entry.unwrap();
        assert_eq!(entry.payload, payload(entry.stream, entry.id));
        entry.id
    };
    entries.map(check).collect()
}

fn read(log: &Log, stream: StreamId) -> Vec<u64> {
    ids(log.read(stream, .., ReadOptions::new()).unwrap())
}

fn range(ids: RangeInclusive<u64>) -> Vec<u64> {
    ids.collect()
}

/// The segment file that holds these bytes, and where.
fn find(dir: &Path, bytes: &[u8]) -> (std::path::PathBuf, u64) {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    for path in names {
        // One that retires meanwhile does not hold them.
        let Ok(file) = fs::read(&path) else { continue };
        if let Some(at) = file.windows(bytes.len()).position(|window| window == bytes) {
            return (path, at as u64);
        }
    }
    panic!("no file holds the bytes");
}

fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn what_was_appended_is_read_at_once_by_either_backend() {
    for backend in [BackendChoice::Ring, BackendChoice::Std] {
        let (_dir, log) = open(options().backend(backend));
        for id in 1..=300 {
            fill(&log, A, id..=id);
            assert_eq!(ids(log.read(A, id.., ReadOptions::new()).unwrap()), [id]);
        }
        assert_eq!(read(&log, A), range(1..=300));
        log.close().unwrap();
        assert_eq!(read(&log, A), range(1..=300), "also from a closed log");
    }
}

#[test]
fn ranges_are_exact_over_segments_and_reopening() {
    let (dir, log) = open(options());
    fill(&log, A, 5..=200);
    fill(&log, B, 1..=200);
    fill(&log, A, 201..=400);
    log.close().unwrap();
    drop(log);
    let log = Log::open(dir.path(), options()).unwrap();
    fill(&log, A, 401..=450);
    let get = |from, to| ids(log.read(A, from..=to, ReadOptions::new()).unwrap());
    assert_eq!(get(0, u64::MAX), range(5..=450));
    assert_eq!(get(199, 203), range(199..=203));
    assert_eq!(get(399, 401), range(399..=401));
    assert_eq!(get(450, 450), [450]);
    assert!(get(451, 900).is_empty());
    assert_eq!(read(&log, B), range(1..=200));
    assert!(read(&log, StreamId::new(9, 9)).is_empty());
    assert!(log.stats().segments > 3, "the test is over several segments");
}

#[test]
fn batches_are_bounded_and_never_empty() {
    let (_dir, log) = open(options());
    fill(&log, A, 1..=50);
    let len = payload(A, 1).len();
    let batches = |options| {
        let mut reader = log.read(A, .., options).unwrap();
        std::iter::from_fn(move || reader.next_batch()).map(|batch| batch.unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(batches(ReadOptions::new()), [50]);
    assert_eq!(batches(ReadOptions::new().max_batch_entries(20)), [20, 20, 10]);
    assert_eq!(batches(ReadOptions::new().max_batch_bytes(len * 20 + 1)), [20, 20, 10]);
    assert_eq!(batches(ReadOptions::new().max_batch_bytes(0)), [1; 50]);
    let mut reader = log.read(A, .., ReadOptions::new().max_batch_bytes(len * 2)).unwrap();
    assert_eq!(reader.next_batch().unwrap().unwrap().len(), 2);
    assert_eq!(reader.position(), Some(3));
    assert_eq!(reader.next().unwrap().unwrap().id, 3);
    assert_eq!(ids(reader), range(4..=50));
}

#[test]
fn ended_segments_are_read_without_a_copy() {
    let (dir, log) = open(options());
    fill(&log, A, 1..=300);
    let (first, second) = (find(dir.path(), &payload(A, 10)), find(dir.path(), &payload(A, 20)));
    assert_eq!(first.0, second.0, "both lie in the first segment");
    let entries = |mode| {
        let reader = log.read(A, 10..=20, ReadOptions::new().mode(mode)).unwrap();
        let entries: Vec<Entry> = reader.map(Result::unwrap).collect();
        (entries[0].payload.clone(), entries[10].payload.clone())
    };
    let distance = |(one, other): &(bytes::Bytes, bytes::Bytes)| {
        (other.as_ptr() as usize).wrapping_sub(one.as_ptr() as usize) as u64
    };
    let mapped = entries(ReadMode::Map);
    assert_eq!(distance(&mapped), second.1 - first.1, "they are as far apart as in the file");
    assert_ne!(distance(&entries(ReadMode::Copy)), second.1 - first.1);
    drop(log);
    drop(dir);
    assert_eq!(mapped.0, payload(A, 10), "they outlive log and file");
}

#[test]
fn a_reader_delivers_what_was_there_when_it_was_made() {
    let (dir, log) = open(options());
    fill(&log, A, 1..=300);
    let mut begun = log.read(A, .., ReadOptions::new()).unwrap();
    assert_eq!(begun.next().unwrap().unwrap().id, 1);
    let fresh = log.read(A, .., ReadOptions::new()).unwrap();
    log.truncate(A, 250).unwrap();
    let cut = log.read(A, .., ReadOptions::new()).unwrap();
    fill(&log, A, 250..=260);
    log.obsolete(A, 240).unwrap();
    // Other streams move on until the segments of these entries have retired.
    let (path, _) = find(dir.path(), &payload(A, 1));
    for id in 1.. {
        fill(&log, B, id..=id);
        log.obsolete(B, id).unwrap();
        if !path.exists() {
            break;
        }
        assert!(id < 50_000, "the first segment retires");
    }
    assert_eq!(ids(begun), range(2..=300));
    assert_eq!(ids(fresh), range(1..=300));
    assert_eq!(ids(cut), range(1..=249));
    assert_eq!(read(&log, A), range(241..=260));
}

#[test]
fn rows_that_a_fence_voids_are_not_read() {
    let (dir, log) = open(options());
    fill(&log, A, 1..=100);
    log.truncate(A, 40).unwrap();
    fill(&log, A, 40..=150);
    log.truncate(A, 30).unwrap();
    fill(&log, A, 30..=35);
    fill(&log, B, 1..=10);
    log.release(B).unwrap();
    fill(&log, B, 4..=6);
    let whole = |log: &Log| {
        assert_eq!(read(log, A), range(1..=35));
        assert_eq!(read(log, B), range(4..=6));
    };
    whole(&log);
    log.close().unwrap();
    drop(log);
    whole(&Log::open(dir.path(), options()).unwrap());
}

#[test]
fn a_release_under_a_reader_loses_nothing_silently() {
    let (_dir, log) = open(options());
    fill(&log, A, 1..=300);
    let before = log.read(A, .., ReadOptions::new()).unwrap();
    log.release(A).unwrap();
    fill(&log, A, 1..=3);
    let given: Vec<_> = before.collect();
    let whole = given.len() == 300 && given.iter().all(Result::is_ok);
    assert!(whole || matches!(given[..], [Err(Error::Truncated { stream: A, next: 1 })]), "{given:?}");
    assert_eq!(read(&log, A), range(1..=3));
}

#[test]
fn ids_with_gaps_are_read_as_they_are() {
    let (dir, log) = open(options().id_rule(IdRule::Increasing));
    let odd: Vec<u64> = (1..=400).map(|n| n * 7).collect();
    for &id in &odd {
        fill(&log, A, id..=id);
    }
    assert_eq!(read(&log, A), odd);
    assert_eq!(ids(log.read(A, 8..=28, ReadOptions::new()).unwrap()), [14, 21, 28]);
    log.obsolete(A, 30).unwrap();
    log.truncate(A, 2000).unwrap();
    fill(&log, A, 3000..=3000);
    let kept: Vec<u64> = odd.iter().copied().filter(|id| (31..2000).contains(id)).chain([3000]).collect();
    assert_eq!(read(&log, A), kept);
    log.close().unwrap();
    drop(log);
    let log = Log::open(dir.path(), options().id_rule(IdRule::Increasing)).unwrap();
    assert_eq!(read(&log, A), kept);
}

#[test]
fn a_durable_read_waits_until_the_range_is_durable() {
    let (_dir, log) = open(options().flush_interval(std::time::Duration::from_secs(600)));
    fill(&log, A, 1..=20);
    for entry in log.read(A, .., ReadOptions::new().up_to(ReadUpTo::Durable)).unwrap() {
        assert!(entry.unwrap().lsn < log.durable_lsn());
    }
}

#[test]
fn a_damaged_payload_costs_one_error_that_names_it() {
    let (dir, log) = open(options());
    for id in 1..=300 {
        fill(&log, A, id..=id);
        fill(&log, B, id..=id);
    }
    let (path, at) = find(dir.path(), &payload(A, 20));
    flip(&path, at + 100);
    let mut reader = log.read(A, .., ReadOptions::new()).unwrap();
    assert_eq!(ids(reader.by_ref().take(19)), range(1..=19));
    let Some(Err(Error::Corrupt(found))) = reader.next() else { panic!("the damage is found") };
    assert_eq!((found.file, found.offset, found.stream), (path, at, Some(A)));
    assert_ne!(found.expected, found.actual);
    assert_eq!(reader.position(), Some(20));
    assert!(reader.next().is_none(), "the error is given once");
    let mut batches = log.read(A, 10.., ReadOptions::new()).unwrap();
    assert_eq!(batches.next_batch().unwrap().unwrap().len(), 10, "what is sound comes first");
    assert!(matches!(batches.next_batch(), Some(Err(Error::Corrupt(_)))));
    assert!(batches.next_batch().is_none());
    assert_eq!(ids(log.read(A, 21.., ReadOptions::new()).unwrap()), range(21..=300));
    assert_eq!(read(&log, B), range(1..=300));
    fill(&log, A, 301..=301);
    assert!(log.failure().is_none(), "it poisons nothing");
}

#[test]
fn a_file_that_shrinks_under_a_reader_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), options()).unwrap();
    for id in 1..=30 {
        fill(&log, A, 3 * id - 2..=3 * id);
        log.wait_durable(Lsn(log.end_lsn().0 - 1)).unwrap();
    }
    log.close().unwrap();
    let log = Log::open(dir.path(), options()).unwrap();
    // Each has read ahead, and is in the middle of a frame.
    let mapped = ReadOptions::new().mode(ReadMode::Map);
    let mut reader = log.read(A, .., mapped).unwrap();
    let mut scan = log.scan(Lsn::ZERO, mapped).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().id, 1);
    assert!(matches!(scan.next().unwrap().unwrap().record, ScanItem::Checkpoint(_)));
    let (path, _) = find(dir.path(), &payload(A, 1));
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(scan.next().unwrap().is_err());
}

#[test]
fn a_scan_gives_every_record_in_the_order_of_the_log() {
    let (dir, log) = open(options());
    fill(&log, A, 1..=150);
    log.create_namespace(B).unwrap();
    log.obsolete(A, 10).unwrap();
    fill(&log, B, 1..=150);
    log.truncate(A, 100).unwrap();
    log.close().unwrap();
    drop(log);
    let log = Log::open(dir.path(), options()).unwrap();
    fill(&log, A, 100..=250);
    log.release(B).unwrap();
    let records: Vec<_> = log.scan(Lsn::ZERO, ReadOptions::new()).unwrap().map(Result::unwrap).collect();
    assert!(records.is_sorted_by_key(|record| record.lsn));
    let entries = |of: StreamId| {
        let id = |item: &ScanItem| match item {
            ScanItem::Entry { stream, id, payload: bytes, moved: false } if *stream == of => {
                assert_eq!(*bytes, payload(of, *id));
                Some(*id)
            }
            _ => None,
        };
        records.iter().filter_map(|record| id(&record.record)).collect::<Vec<_>>()
    };
    assert_eq!(entries(A), (1..=150).chain(100..=250).collect::<Vec<_>>(), "obsolete and void ones too");
    assert_eq!(entries(B), range(1..=150));
    let controls: Vec<_> = records
        .iter()
        .map(|record| &record.record)
        .filter(|item| {
            !matches!(item, ScanItem::Entry { .. } | ScanItem::Checkpoint(_) | ScanItem::SegmentEnd { .. })
        })
        .collect();
    assert_eq!(
        controls,
        [
            &ScanItem::NamespaceCreate { stream: B },
            &ScanItem::Obsolete { stream: A, id: 10 },
            &ScanItem::Truncate { stream: A, from: 100, last: Some(99) },
            &ScanItem::Release { stream: B },
        ]
    );
    // From any frame on, and from between frames, the rest is the same.
    let starts = records.iter().step_by(37).flat_map(|record| [record.lsn, Lsn(record.lsn.0 - 1)]);
    for from in starts {
        let rest: Vec<_> = log.scan(from, ReadOptions::new()).unwrap().map(Result::unwrap).collect();
        let expected: Vec<_> = records.iter().filter(|record| record.lsn >= from).cloned().collect();
        assert_eq!(rest, expected);
    }
    let mut scan = log.scan(Lsn::ZERO, ReadOptions::new()).unwrap();
    scan.by_ref().for_each(|record| drop(record.unwrap()));
    fill(&log, A, 251..=251);
    let more: Vec<_> = log.scan(scan.position(), ReadOptions::new()).unwrap().map(Result::unwrap).collect();
    assert!(matches!(&more[..], [one] if matches!(one.record, ScanItem::Entry { id: 251, .. })), "{more:?}");
}

/// Takes the log's files out of the page cache, where the file system lets them.
fn chill(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// Frames of every size, some with few rows of a stream, some far from each other: what the device gives is what the
/// page cache gives.
#[test]
fn a_log_is_read_cold_as_it_is_warm() {
    let streams: Vec<_> = (0..30).map(|id| StreamId::new(3, id)).collect();
    for (run, batch_streams) in [(1, 1), (5, 6), (60, 10)] {
        let options = Options::new().first_segment_size(1 << 20).segment_size(1 << 20).frame_size(1 << 20);
        let (dir, log) = open(options.clone());
        let mut next = vec![1; streams.len()];
        for turn in 0..60 {
            let mut batch: Batch<Vec<u8>> = Batch::new();
            for index in (turn * batch_streams..(turn + 1) * batch_streams).map(|n| n % streams.len()) {
                for _ in 0..run {
                    batch.append(streams[index], next[index], payload(streams[index], next[index]));
                    next[index] += 1;
                }
            }
            log.wait_durable(log.append(&batch).unwrap()).unwrap();
        }
        log.close().unwrap();
        for mode in [ReadMode::Map, ReadMode::Copy] {
            let log = Log::open(dir.path(), options.clone()).unwrap();
            for round in ["cold", "warm"] {
                for (stream, next) in streams.iter().zip(&next) {
                    if round == "cold" {
                        chill(dir.path());
                    }
                    let mut expected = 1;
                    for entry in log.read(*stream, .., ReadOptions::new().mode(mode)).unwrap() {
                        let entry = entry.unwrap();
                        assert_eq!(
                            (entry.id, &entry.payload[..]),
                            (expected, &payload(*stream, expected)[..])
                        );
                        expected += 1;
                    }
                    assert_eq!(expected, *next, "{round}, {mode:?}, {batch_streams} streams a batch");
                }
            }
            log.close().unwrap();
        }
    }
}
