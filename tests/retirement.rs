//! Segments go from the oldest end once nothing in them is live, and only then.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tidelog::{BackendChoice, Batch, Log, Options, StreamId};

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);
const BACKENDS: [BackendChoice; 2] = [BackendChoice::Ring, BackendChoice::Std];

fn options(backend: BackendChoice) -> Options {
    Options::new()
        .backend(backend)
        .first_segment_size(128 << 10)
        .segment_size(128 << 10)
        .frame_size(16 << 10)
        .staging_buffers(4)
}

fn fill(log: &Log, stream: StreamId, ids: std::ops::RangeInclusive<u64>) {
    let mut batch: Batch<&[u8]> = Batch::new();
    let payload = [stream.id as u8; 1000];
    for id in ids {
        batch.clear();
        log.append(batch.append(stream, id, payload.as_slice())).unwrap();
    }
    log.wait_durable(tidelog::Lsn(log.end_lsn().0 - 1)).unwrap();
}

fn files(dir: &Path, suffix: &str) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(suffix));
    names.sort();
    names
}

/// The background threads owe nobody a time; a minute is what a broken one takes.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn dead_segments_go_and_the_log_reopens_without_them() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), options(backend)).unwrap();
        fill(&log, A, 1..=1000);
        let before = files(dir.path(), ".log").len();
        assert!(before > 8, "{before} segments");
        log.obsolete(A, 1000).unwrap();
        // Left: the newest, its predecessor, and the one prepared next.
        eventually("dead segments retire", || files(dir.path(), ".log").len() <= 3);
        assert!(log.stats().retired as usize >= before - 3);
        fill(&log, A, 1001..=1010);
        log.close().unwrap();

        let log = Log::open(dir.path(), options(backend)).unwrap();
        let info = log.stream(A).unwrap();
        assert_eq!((info.first, info.last, info.mark), (Some(1001), Some(1010), Some(1000)));
        log.close().unwrap();
    }
}

#[test]
fn one_live_entry_pins_all_that_came_after_it() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), options(backend)).unwrap();
        fill(&log, B, 1..=1);
        fill(&log, A, 1..=600);
        let pinned = files(dir.path(), ".log");
        log.obsolete(A, 600).unwrap();
        fill(&log, A, 601..=800);
        assert!(
            files(dir.path(), ".log").starts_with(&pinned),
            "a live entry keeps its segment and all after it"
        );
        log.release(B).unwrap();
        log.obsolete(A, 700).unwrap();
        eventually("a release lets its segment go", || !files(dir.path(), ".log").contains(&pinned[0]));
        log.close().unwrap();

        let log = Log::open(dir.path(), options(backend)).unwrap();
        assert_eq!(log.stream(B), None, "a released stream stays released");
        assert_eq!(log.stream(A).unwrap().first, Some(701));
        log.close().unwrap();
    }
}

#[test]
fn openings_alone_do_not_pile_files_up() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..12_u64 {
            let log = Log::open(dir.path(), options(backend)).unwrap();
            fill(&log, A, round * 60 + 1..=round * 60 + 60);
            log.obsolete(A, round * 60 + 60).unwrap();
            log.close().unwrap();
        }
        let log = Log::open(dir.path(), options(backend)).unwrap();
        fill(&log, A, 721..=1000);
        log.obsolete(A, 1000).unwrap();
        eventually("what old openings left retires", || files(dir.path(), ".log").len() <= 3);
        eventually("their caches too", || files(dir.path(), ".idx").len() <= 2);
        log.close().unwrap();
    }
}

#[test]
fn an_empty_log_takes_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), Options::new()).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    fill(&log, A, 1..=1);
    let size: u64 =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size <= 2_306_867, "{size} bytes after the first write");
    log.close().unwrap();
}
