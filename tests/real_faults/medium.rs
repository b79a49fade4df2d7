//! A medium that fails: sectors that cannot be read or written any more, files cut short under a map.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;

use rustix::fs::Advice;
use tidelog::{BackendChoice, Batch, Error, Log, Options, ReadMode, ReadOptions, StreamId};

use crate::alone;
use crate::common::disk::{FileSystem, LoopDisk, place_of};
use crate::common::{append, backends, files, one, payload, read, try_read};

const A: StreamId = StreamId::new(1, 1);
const LEN: usize = 8000;

fn options(backend: BackendChoice) -> Options {
    Options::new().backend(backend).first_segment_size(1 << 20).segment_size(1 << 20).frame_size(64 << 10)
}

/// A closed log of several segments, one entry a frame.
fn fill(log: &Log) -> u64 {
    let mut last = 0;
    while log.stats().rotations < 5 {
        last += 1;
        let mut batch: Batch = Batch::new();
        batch.append(A, last, payload(last, LEN));
        log.append_durable(&batch).unwrap();
    }
    log.close().unwrap();
    last
}

/// Entries up to the first that cannot be had, and why it cannot.
fn read_until_error(log: &Log, from: u64, mode: ReadMode) -> (Vec<u64>, Option<Error>) {
    let mut ids = Vec::new();
    for entry in log.read(A, from.., ReadOptions::new().mode(mode)).unwrap() {
        match entry {
            Ok(entry) => {
                assert!(entry.payload == payload(entry.id, LEN), "wrong bytes of {}", entry.id);
                ids.push(entry.id);
            }
            Err(error) => return (ids, Some(error)),
        }
    }
    (ids, None)
}

/// The lowest id in a segment file.
fn first_id(path: &std::path::Path) -> u64 {
    let rows = files::frames(path).into_iter().flat_map(|(_, rows)| rows);
    rows.filter(tidelog_format::Row::is_entry).map(|row| row.entry_id).min().unwrap()
}

/// Moves a segment's blocks behind those of all others, so that they can be lost without them.
fn move_last(disk: &LoopDisk, path: &PathBuf) {
    for number in 0..50 {
        let others = files::segments(&disk.log()).into_values().filter(|other| other != path);
        if others.map(|other| place_of(&other)).max().unwrap() < place_of(path) {
            return;
        }
        // The old blocks stay taken.
        fs::rename(path, disk.mount_point().join(format!("old {number}"))).unwrap();
        fs::copy(disk.mount_point().join(format!("old {number}")), path).unwrap();
        File::open(path).unwrap().sync_all().unwrap();
    }
    panic!("the blocks stay where they are");
}

#[test]
fn bad_sectors_are_the_error_of_who_reads_them() {
    let _alone = alone();
    for (backend, mode) in [(BackendChoice::Auto, ReadMode::Map), (BackendChoice::Std, ReadMode::Copy)] {
        let Some(disk) = LoopDisk::new(FileSystem::PlainExt4, 64) else { return };
        let last = fill(&Log::open(disk.log(), options(backend)).unwrap());
        let victim = files::segments(&disk.log()).into_values().nth(2).unwrap();
        let after = files::segments(&disk.log()).into_values().nth(3).unwrap();
        let (first, next) = (first_id(&victim), first_id(&after));
        move_last(&disk, &victim);
        // What is cached could still be read.
        disk.unmount().unwrap();
        disk.mount().unwrap();

        let log = Log::open(disk.log(), options(backend)).unwrap();
        assert_eq!(log.read(A, first..=first, ReadOptions::new()).unwrap().count(), 1, "it is mapped");
        // The kernel has read ahead.
        rustix::fs::fadvise(File::open(&victim).unwrap(), 0, None, Advice::DontNeed).unwrap();
        disk.lose_from(place_of(&victim) + (512 << 10));
        let (ids, error) = read_until_error(&log, 1, mode);
        let reached = *ids.last().unwrap();
        assert_eq!(ids, (1..=reached).collect::<Vec<_>>());
        assert!((first..next - 1).contains(&reached), "{reached} of {first}..{next}");
        let Some(Error::Io { source, path, .. }) = &error else { panic!("{error:?}") };
        assert_eq!((source.raw_os_error(), path), (Some(5), &victim));
        let (ids, error) = read_until_error(&log, next, mode);
        assert_eq!((ids, error.map(|error| error.to_string())), ((next..=last).collect(), None));
        assert!(log.failure().is_none());
        log.close().unwrap();
    }
}

#[test]
fn a_file_cut_short_under_its_map_is_an_error() {
    let _alone = alone();
    for mode in [ReadMode::Map, ReadMode::Copy] {
        let home = tempfile::tempdir().unwrap();
        let last = fill(&Log::open(home.path(), options(BackendChoice::Auto)).unwrap());
        let victim = files::segments(home.path()).into_values().nth(2).unwrap();
        let next = first_id(&files::segments(home.path()).into_values().nth(3).unwrap());
        let log = Log::open(home.path(), options(BackendChoice::Auto)).unwrap();
        assert_eq!(read_until_error(&log, 1, mode).0.len() as u64, last, "all is mapped");
        File::options().write(true).open(&victim).unwrap().set_len(512 << 10).unwrap();
        let (ids, error) = read_until_error(&log, 1, mode);
        let in_it = matches!(&error, Some(Error::Io { path, .. }) if *path == victim)
            || matches!(&error, Some(Error::Corrupt(damage)) if damage.file == victim);
        assert!(in_it && !ids.is_empty(), "{error:?}");
        let (ids, error) = read_until_error(&log, next, mode);
        assert_eq!((ids, error.map(|error| error.to_string())), ((next..=last).collect(), None));
        log.append_durable(&one(StreamId::new(2, 2), 1)).unwrap();
        log.close().unwrap();
    }
}

/// The sectors come back with what they held, and the page cache may show what they never got.
#[test]
fn a_failed_write_to_the_device_poisons_and_reopening_cures() {
    let _alone = alone();
    for kind in [FileSystem::PlainExt4, FileSystem::Ext4] {
        for backend in backends() {
            let Some(disk) = LoopDisk::new(kind, 64) else { return };
            let log = Log::open(disk.log(), options(backend)).unwrap();
            append(&log, A, 1..=20);
            let segment = files::segments(&disk.log()).into_values().next().unwrap();
            let place = place_of(&segment);
            let lost = disk.lose_from(place);
            let errors: Vec<String> = thread::scope(|scope| {
                let failing = |number| {
                    let (log, stream) = (&log, StreamId::new(2, number));
                    scope.spawn(move || log.append_durable(&one(stream, 1)).unwrap_err().to_string())
                };
                let threads: Vec<_> = (0..4).map(failing).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
            assert!(errors[0].contains("poisoned") && errors[0].contains("os error 5"), "{errors:?}");
            assert_eq!(log.append(&one(A, 21)).unwrap_err().to_string(), errors[0]);
            disk.bring_back(place, &lost);
            assert!(log.close().is_err());
            drop(log);

            let log = Log::open(disk.log(), options(backend)).unwrap();
            assert_eq!(read(&log, A), (1..=20).map(|id| (id, payload(id, 300))).collect::<Vec<_>>());
            for (stream, _) in log.streams() {
                try_read(&log, stream).unwrap();
            }
            log.append_durable(&one(A, 21)).unwrap();
            let shown = log.streams();
            log.close().unwrap();
            drop(log);
            // What is shown is on the disk, too.
            disk.unmount().unwrap();
            disk.mount().unwrap();
            let log = Log::open(disk.log(), options(backend)).unwrap();
            assert_eq!(log.streams(), shown);
            log.close().unwrap();
        }
    }
}
