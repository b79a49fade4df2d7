//! A file system that turns read-only, under an open log or before it is opened.

use std::io::ErrorKind;

use tidelog::readonly::{Item, ReadOnlyLog};
use tidelog::{BackendChoice, Error, Log, StreamId};

use crate::alone;
use crate::common::disk::{FileSystem, LoopDisk};
use crate::common::{append, one, read, tiny};

const A: StreamId = StreamId::new(1, 1);

fn ids(log: &Log) -> Vec<u64> {
    read(log, A).into_iter().map(|(id, _)| id).collect()
}

/// Reading works, appending is refused, by the log and by who looks on.
fn check_that_it_is_read(disk: &LoopDisk, backend: BackendChoice, last: u64) {
    let expected: Vec<u64> = (1..=last).collect();
    let log = Log::open(disk.log(), tiny(backend)).unwrap();
    assert_eq!(ids(&log), expected);
    let refusal = log.append(&one(A, last + 1)).unwrap_err();
    let Error::Io { source, .. } = &refusal else { panic!("{refusal}") };
    assert_eq!(source.kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!((log.stream(A).unwrap().last, ids(&log)), (Some(last), expected), "nothing was staged");
    drop(log);
    assert_eq!(looked_at(disk), last);
}

/// How many entries somebody sees who looks on.
fn looked_at(disk: &LoopDisk) -> u64 {
    let looked = ReadOnlyLog::open(disk.log()).unwrap();
    let entries = looked.items().filter(|item| match item.as_ref().unwrap() {
        Item::Record(record) => record.row.is_entry(),
        _ => false,
    });
    entries.count() as u64
}

#[test]
fn a_read_only_mount_is_read_and_refuses_appends() {
    let _alone = alone();
    for kind in [FileSystem::Ext4, FileSystem::Xfs] {
        for backend in [BackendChoice::Auto, BackendChoice::Std] {
            let Some(disk) = LoopDisk::new(kind, 320) else { return };
            let log = Log::open(disk.log(), tiny(backend)).unwrap();
            append(&log, A, 1..=300);
            log.close().unwrap();
            disk.remount_read_only();
            check_that_it_is_read(&disk, backend, 300);
        }
    }
}

#[test]
fn a_mount_that_turns_read_only_poisons_the_open_log() {
    let _alone = alone();
    for backend in [BackendChoice::Auto, BackendChoice::Std] {
        let Some(disk) = LoopDisk::new(FileSystem::Ext4, 64) else { return };
        let log = Log::open(disk.log(), tiny(backend)).unwrap();
        append(&log, A, 1..=300);
        // As after an error of its own; a plain remount is refused while the log is open.
        disk.fail_to_read_only();
        let error =
            (301..2000).find_map(|id| log.append_durable(&one(A, id)).err()).expect("all was written");
        let typed = matches!(&error, Error::Poisoned { cause } if cause.contains("Read-only file system"));
        assert!(typed, "{error:?}");
        assert_eq!(log.append(&one(A, 301)).unwrap_err().to_string(), error.to_string());
        assert_eq!(ids(&log)[..300], (1..=300).collect::<Vec<_>>());
        assert_eq!(log.close().unwrap_err().to_string(), error.to_string());
        drop(log);
        // Recovery would have to write. Whoever only looks needs none.
        let refusal = Log::open(disk.log(), tiny(backend)).unwrap_err();
        let Error::Io { source, .. } = &refusal else { panic!("{refusal}") };
        assert_eq!(source.kind(), ErrorKind::ReadOnlyFilesystem);
        assert!(looked_at(&disk) >= 300);
    }
}
