//! Files of retired segments become the next ones: as many as are wanted, and only where nobody reads them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tidelog::{BackendChoice, Batch, Entry, Log, Options, ReadOptions, Reader, StreamId};

const A: StreamId = StreamId::new(1, 1);
const BACKENDS: [BackendChoice; 2] = [BackendChoice::Ring, BackendChoice::Std];
const SIZE: u64 = 128 << 10;

fn options(backend: BackendChoice, recycled: usize) -> Options {
    Options::new()
        .backend(backend)
        .first_segment_size(SIZE)
        .segment_size(SIZE)
        .frame_size(16 << 10)
        .staging_buffers(4)
        .recycled_files(recycled)
}

fn payload(id: u64) -> Vec<u8> {
    id.to_le_bytes().repeat(125)
}

/// Appends and lets go of all but the last ten, as a log in use does.
fn turn_over(log: &Log, ids: std::ops::RangeInclusive<u64>) {
    let mut batch: Batch<Vec<u8>> = Batch::new();
    for id in ids {
        batch.clear();
        batch.append(A, id, payload(id));
        if id % 10 == 0 {
            batch.obsolete(A, id - 10);
        }
        log.append_durable(&batch).unwrap();
        if id % 50 == 0 {
            // The keeper owes nobody a time, and files are missed while it is behind.
            eventually("the dead retire", || files(log.path(), ".log").len() <= 3);
        }
    }
}

fn files(dir: &Path, suffix: &str) -> Vec<String> {
    let mut found: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.retain(|name| name.ends_with(suffix));
    found.sort();
    found
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn check(log: &Log, last: u64) {
    let entries = log.read(A, .., ReadOptions::new()).unwrap().map(Result::unwrap);
    let ids: Vec<u64> = entries
        .map(|entry| {
            assert_eq!(entry.payload, payload(entry.id), "{}", entry.id);
            entry.id
        })
        .collect();
    assert!((10..20).contains(&ids.len()) && ids.last() == Some(&last), "{ids:?}");
}

#[test]
fn a_log_in_use_goes_round_with_its_files() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), options(backend, 2)).unwrap();
        turn_over(&log, 1..=600);
        let before = log.stats();
        turn_over(&log, 601..=2000);
        let after = log.stats();
        let (rotations, recycled) = (after.rotations - before.rotations, after.recycled - before.recycled);
        assert!(rotations >= 10 && 2 * recycled >= rotations, "{recycled} of {rotations}");
        assert!(
            after.prepared_bytes - before.prepared_bytes <= rotations * SIZE / 2,
            "zeros are the exception"
        );
        assert!(files(dir.path(), ".log").len() + files(dir.path(), ".free").len() <= 7);
        check(&log, 2000);
        log.close().unwrap();

        let log = Log::open(dir.path(), options(backend, 2)).unwrap();
        let found = log.recovery();
        assert!(found.torn_tail.is_none(), "{found:?}: what an earlier segment left is no torn write");
        assert_eq!(found.void_segments, 0, "closing leaves no unused segment behind");
        check(&log, 2000);
        turn_over(&log, 2001..=2100);
        check(&log, 2100);
    }
}

/// Fills some segments, and takes bytes of the first ones and a reader that has begun in the middle.
fn hold(log: &Log) -> (Vec<Entry>, Reader) {
    turn_over(log, 1..=9);
    let mut batch: Batch<Vec<u8>> = Batch::new();
    for id in 10..=400 {
        batch.clear();
        log.append_durable(batch.append(A, id, payload(id))).unwrap();
    }
    let held = log.read(A, 1..=20, ReadOptions::new()).unwrap().map(Result::unwrap).collect();
    let mut reader = log.read(A, 150..=250, ReadOptions::new()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().id, 150);
    (held, reader)
}

/// Lets go of those segments and goes round with the files, some times; what is held stays as it is.
fn go_round(log: &Log, held: &[Entry]) {
    log.obsolete(A, 390).unwrap();
    turn_over(log, 401..=2000);
    assert!(log.stats().recycled > 5);
    for entry in held {
        assert_eq!(entry.payload, payload(entry.id), "{}", entry.id);
    }
}

/// The bytes of a segment stay as they are for whoever holds them, however often the log goes round.
#[test]
fn what_is_read_is_not_written_over() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), options(backend, 2)).unwrap();
        // Bytes that share a map, a reader in the middle, and another name: of three segments.
        let (held, reader) = hold(&log);
        let linked = dir.path().join("backup");
        let name = files(dir.path(), ".log")[0].clone();
        fs::hard_link(dir.path().join(&name), &linked).unwrap();
        let backup = fs::read(&linked).unwrap();

        go_round(&log, &held);
        for (entry, id) in reader.zip(151..) {
            let entry = entry.unwrap();
            assert_eq!((entry.id, &entry.payload[..]), (id, &payload(id)[..]));
        }
        assert!(fs::read(&linked).unwrap() == backup, "a file with another name is left alone");
        check(&log, 2000);
    }
}

/// Bytes and readers outlive their log, and the next opening knows nothing of them.
#[test]
fn what_an_earlier_opening_handed_out_is_not_written_over() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), options(backend, 2)).unwrap();
        let (held, reader) = hold(&log);
        log.close().unwrap();
        drop(log);

        let log = Log::open(dir.path(), options(backend, 2)).unwrap();
        go_round(&log, &held);
        // What it has open it reads; a file that it had not opened is gone with its name.
        for (entry, id) in reader.map_while(Result::ok).zip(151..) {
            assert_eq!((entry.id, &entry.payload[..]), (id, &payload(id)[..]));
        }
        check(&log, 2000);
    }
}

#[test]
fn no_more_files_are_kept_than_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let free = || files(dir.path(), ".free").len();
    let fill = |log: &Log, from: u64| {
        let mut batch: Batch<Vec<u8>> = Batch::new();
        for id in from..from + 700 {
            batch.clear();
            log.append(batch.append(A, id, payload(id))).unwrap();
        }
        batch.clear();
        log.append_durable(batch.obsolete(A, from + 699)).unwrap();
        eventually("the dead retire", || files(dir.path(), ".log").len() <= 3);
    };
    let log = Log::open(dir.path(), options(BackendChoice::Auto, 3)).unwrap();
    fill(&log, 1);
    eventually("three are kept", || free() == 3);
    log.close().unwrap();
    let log = Log::open(dir.path(), options(BackendChoice::Auto, 1)).unwrap();
    assert_eq!(free(), 1, "the surplus is removed");
    fill(&log, 701);
    assert!(free() <= 1);
    log.close().unwrap();
    let log = Log::open(dir.path(), options(BackendChoice::Auto, 0)).unwrap();
    fill(&log, 1401);
    assert_eq!((free(), log.stats().recycled), (0, 0));
    log.close().unwrap();
    assert_eq!(free(), 0);
    // Of another size, and so of no use.
    fs::write(dir.path().join("00000000000000000001.free"), vec![7; 1000]).unwrap();
    Log::open(dir.path(), options(BackendChoice::Auto, 3)).unwrap();
    assert_eq!(free(), 0);
}
