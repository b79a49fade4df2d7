//! A full disk is not a failure (SPEC.md, "Full disk"): on a small file system of the test's own, made in an
//! image file. Needs root and loop devices; says so and skips where it has neither.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidelog::{BackendChoice, Batch, Error, Log, Lsn, Options, ReadOptions, StreamId};

use common::disk::{FileSystem, LoopDisk};

const A: StreamId = StreamId::new(1, 1);

/// A small file system of each kind, for each way of writing.
fn cases() -> impl Iterator<Item = (LoopDisk, BackendChoice)> {
    use {BackendChoice::Ring, BackendChoice::Std, FileSystem::PlainExt4, FileSystem::Xfs};
    let cases = [(PlainExt4, Ring), (PlainExt4, Std), (Xfs, Ring), (Xfs, Std)];
    cases.into_iter().filter_map(|(kind, backend)| Some((small_disk(kind)?, backend)))
}

fn small_disk(kind: FileSystem) -> Option<LoopDisk> {
    let disk = LoopDisk::new(kind, if kind == FileSystem::Xfs { 300 } else { 16 })?;
    // XFS does not come in that size.
    disk.leave(16 << 20);
    Some(disk)
}

fn options(backend: BackendChoice) -> Options {
    Options::new().backend(backend).first_segment_size(256 << 10).segment_size(256 << 10).frame_size(64 << 10)
}

/// Appends until the log refuses; gives the last id that it took and the refusal.
fn append_until_refused(log: &Log) -> (u64, Error) {
    let mut id = log.stream(A).and_then(|stream| stream.last).unwrap_or(0);
    let payload = vec![5_u8; 8000];
    let mut batch: Batch<&[u8]> = Batch::new();
    loop {
        batch.clear();
        match log.append(batch.append(A, id + 1, payload.as_slice())) {
            Ok(_) => id += 1,
            Err(error) => {
                log.wait_durable(Lsn(log.end_lsn().0 - 1)).unwrap();
                return (id, error);
            }
        }
    }
}

fn append_soon(log: &Log, id: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut batch: Batch<&[u8]> = Batch::new();
    batch.append(A, id, b"again".as_slice());
    loop {
        match log.append_durable(&batch) {
            Ok(_) => return,
            Err(Error::NoSpace { .. }) => assert!(Instant::now() < deadline, "appends never work again"),
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn appends_are_refused_and_work_again_once_space_is_free() {
    for (disk, backend) in cases() {
        let log = Log::open(disk.log(), options(backend)).unwrap();
        let (last, refusal) = append_until_refused(&log);
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        assert!(last > 1000, "{last}");
        assert_eq!(log.stream(A).unwrap().last, Some(last), "nothing was staged");
        let read: Vec<_> =
            log.read(A, .., ReadOptions::new()).unwrap().map(|entry| entry.unwrap().id).collect();
        assert_eq!(read, (1..=last).collect::<Vec<_>>(), "reads go on");

        // Freed by marks alone, on the full disk.
        disk.fill();
        log.obsolete(A, last).unwrap();
        append_soon(&log, last + 1);
        log.close().unwrap();
        let log = Log::open(disk.log(), options(backend)).unwrap();
        assert_eq!(log.stream(A).unwrap().first, Some(last + 1));
        log.close().unwrap();
    }
}

#[test]
fn a_log_opens_on_a_full_disk_and_frees_there() {
    for (disk, backend) in cases() {
        let log = Log::open(disk.log(), options(backend)).unwrap();
        let (last, refusal) = append_until_refused(&log);
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        drop(log);
        disk.fill();

        let log = Log::open(disk.log(), options(backend)).unwrap();
        assert_eq!(log.stream(A).unwrap().last, Some(last));
        let (still, refusal) = append_until_refused(&log);
        assert_eq!(still, last);
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        log.release(A).unwrap();
        assert_eq!(log.stream(A), None);
        append_soon(&log, 1);
        drop(log);

        let log = Log::open(disk.log(), options(backend)).unwrap();
        assert_eq!(log.stream(A).unwrap().last, Some(1), "the release held");
        log.close().unwrap();
    }
}

#[test]
fn space_that_others_free_is_used() {
    for (disk, backend) in cases() {
        fs::create_dir(disk.log()).unwrap();
        fs::write(disk.ballast(), vec![0; 8 << 20]).unwrap();
        let log = Log::open(disk.log(), options(backend)).unwrap();
        let (last, refusal) = append_until_refused(&log);
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        fs::remove_file(disk.ballast()).unwrap();
        append_soon(&log, last + 1);
        log.close().unwrap();
    }
}

/// A batch that is larger than the room left is refused, however often it comes, and costs the others nothing.
#[test]
fn a_batch_that_never_fits_takes_no_room_from_those_that_do() {
    let Some(disk) = small_disk(FileSystem::PlainExt4) else { return };
    let log = Log::open(disk.log(), options(BackendChoice::Std)).unwrap();
    append_soon(&log, 1);
    let segments = || {
        let names =
            fs::read_dir(disk.log()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "log")).count()
    };
    let large = vec![7; 32 << 20];
    let mut batch: Batch<&[u8]> = Batch::new();
    batch.append(StreamId::new(1, 2), 1, large.as_slice());
    let before = segments();
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        assert!(matches!(log.append(&batch), Err(Error::NoSpace { .. })));
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = segments();
    assert!(after <= before + 2, "{before} segments, now {after}");
    // There is room for many a segment of the usual size.
    let payload = vec![5_u8; 8000];
    for id in 2..200 {
        let mut batch: Batch<&[u8]> = Batch::new();
        log.append(batch.append(A, id, payload.as_slice())).unwrap();
    }
    log.close().unwrap();
}

/// The reserve is for those who free: appends that go on knocking must not use it up.
#[test]
fn appends_that_go_on_do_not_eat_the_reserve() {
    for (disk, backend) in cases() {
        let log = Log::open(disk.log(), options(backend)).unwrap();
        let (first, second, other) = (A, StreamId::new(1, 2), StreamId::new(1, 3));
        let payload = vec![5_u8; 8000];
        for id in 1.. {
            let mut batch: Batch<&[u8]> = Batch::new();
            batch.append(first, id, payload.as_slice()).append(second, id, payload.as_slice());
            if log.append(&batch).is_err() {
                break;
            }
        }
        disk.fill();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut id = 1;
                while !stop.load(Ordering::Relaxed) {
                    let mut batch: Batch<&[u8]> = Batch::new();
                    match log.append(batch.append(other, id, payload.as_slice())) {
                        Ok(_) => id += 1,
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
            // Nothing can retire before both are freed.
            let outcome = log.obsolete(first, u64::MAX).and_then(|()| {
                std::thread::sleep(Duration::from_millis(300));
                log.obsolete(second, u64::MAX)
            });
            let deadline = Instant::now() + Duration::from_secs(60);
            while log.stream(other).is_none() && outcome.is_ok() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap();
        });
        assert!(log.stream(other).is_some(), "appends work again");
        log.close().unwrap();
    }
}
