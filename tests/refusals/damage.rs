//! Damage is told from the end of the log, and from what is not the log's.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tidelog::{Error, ReadOptions};

use crate::common::files;
use crate::filled::{COUNT, Filled, corruption};
use crate::{A, one, read};

#[test]
fn a_version_of_the_future_is_not_touched() {
    let log = Filled::new();
    for sequence in [log.newest(), 2] {
        let whole = fs::read(log.segment(sequence)).unwrap();
        log.reheader(sequence, 8, &7_u32.to_le_bytes());
        let Error::UnsupportedVersion { file, found, supported } = log.refused() else { panic!() };
        assert_eq!((file, found, supported), (log.segment(sequence), 7, tidelog_format::VERSION));
        fs::write(log.segment(sequence), whole).unwrap();
    }
    log.opened();
}

#[test]
fn a_file_of_another_log_is_told_from_damage() {
    let (log, other) = (Filled::new(), Filled::new());
    let id = |file: &Path| fs::read(file).unwrap()[24..40].to_vec();
    assert_ne!(id(&log.segment(2)), id(&other.segment(2)));
    fs::copy(other.segment(2), log.segment(2)).unwrap();
    let Error::ForeignLog { file, expected, found } = log.refused() else { panic!() };
    assert_eq!(file, log.segment(2));
    assert_ne!(expected, found);

    let log = Filled::new();
    log.reheader(log.newest(), 24, b"another log's id");
    assert!(matches!(log.refused(), Error::ForeignLog { .. }));
}

#[test]
fn missing_segments_are_damage() {
    let log = Filled::new();
    fs::remove_file(log.segment(2)).unwrap();
    let found = corruption(log.refused());
    assert!(found.file == log.segment(2) && found.what.contains("missing"), "{found}");

    let log = Filled::new();
    let newest = log.newest();
    for (sequence, path) in files::segments(log.dir()) {
        if sequence >= newest {
            fs::remove_file(path).unwrap();
        }
    }
    let found = corruption(log.refused());
    assert!(found.file == log.segment(newest) && found.what.contains("successor"), "{found}");

    let log = Filled::new();
    let newest = log.newest();
    let file = File::options().write(true).open(log.segment(newest)).unwrap();
    file.set_len(file.metadata().unwrap().len() - 65_536).unwrap();
    let found = corruption(log.refused());
    assert_eq!(found.file, log.segment(newest));
    assert_eq!(found.expected, found.actual + 65_536, "{found}");
}

#[test]
fn damage_to_what_opening_reads_is_not_taken_for_the_end_of_the_log() {
    let places = |log: &Filled| {
        let frames = files::frames(&log.segment(log.newest()));
        let (middle, rows) = &frames[frames.len() / 2];
        let checkpoint = frames[0].0.start;
        assert!(middle.start > checkpoint);
        let payloads =
            rows.iter().map(|row| u64::from(row.offset) + tidelog_format::payload_room(row.length));
        let table = middle.start + payloads.max().unwrap();
        [
            ("the segment's header", 20),
            ("the checkpoint's frame", checkpoint + 8),
            ("the checkpoint", checkpoint + 64 + 8),
            ("a frame's header", middle.start + 16),
            ("a frame's table", table),
        ]
    };
    let log = Filled::new();
    let newest = log.newest();
    let places = places(&log);
    for (what, offset) in places {
        log.patch(newest, offset, |bytes| bytes[3] ^= 0x10);
        let found = corruption(log.refused());
        assert_eq!(found.file, log.segment(newest), "{what}: {found}");
        assert_ne!(found.expected, found.actual, "{what}: {found}");
        log.patch(newest, offset, |bytes| bytes[3] ^= 0x10);
    }
    assert_eq!(read(&log.opened(), A).len() as u64, COUNT);
}

#[test]
fn a_damaged_payload_is_the_error_of_who_reads_it_and_of_nobody_else() {
    for sequence in [2, 4] {
        let log = Filled::new();
        let (frame, rows) = files::frames(&log.segment(sequence)).swap_remove(2);
        let row = rows.iter().find(|row| row.is_entry()).unwrap();
        log.patch(sequence, frame.start + u64::from(row.offset), |bytes| bytes[0] ^= 1);
        let opened = log.opened();
        let outcome: Vec<_> = opened.read(A, .., ReadOptions::new()).unwrap().collect();
        let good = outcome.iter().take_while(|entry| entry.is_ok()).count();
        assert_eq!(good as u64, row.entry_id - 1, "what lies before it is read");
        let found = corruption(outcome[good].clone().unwrap_err());
        assert_eq!((found.file, found.stream), (log.segment(sequence), Some(A)));
        let from = row.entry_id + 1;
        let rest = opened.read(A, from.., ReadOptions::new()).unwrap();
        assert_eq!(rest.flatten().count() as u64, COUNT - row.entry_id);
        opened.append_durable(&one(A, COUNT + 1)).unwrap();
        assert!(opened.failure().is_none());
    }
}

#[test]
fn a_torn_tail_is_cut_off_and_reported() {
    let log = Filled::new();
    let newest = log.newest();
    let frames = files::frames(&log.segment(newest));
    let end = frames.last().unwrap().0.end;
    log.patch(newest, end + 512, |bytes| *bytes = *b"remains!");
    let opened = log.opened();
    let torn = opened.recovery().torn_tail.clone().unwrap();
    assert_eq!((torn.file, torn.offset), (log.segment(newest), end));
    assert_eq!(read(&opened, A).len() as u64, COUNT);
    opened.close().unwrap();

    // Without the frame by which closing vouches for it, the last frame is not known to have been acknowledged.
    let log = Filled::new();
    let newest = log.newest();
    let mut frames = files::frames(&log.segment(newest));
    let (vouch, rows) = frames.pop().unwrap();
    assert!(rows.is_empty());
    let file = File::options().write(true).open(log.segment(newest)).unwrap();
    file.write_all_at(&vec![0; (vouch.end - vouch.start) as usize], vouch.start).unwrap();
    let (last, rows) = frames.pop().unwrap();
    let row = rows.iter().find(|row| row.is_entry()).unwrap();
    log.patch(newest, last.start + u64::from(row.offset), |bytes| bytes[0] ^= 1);
    let opened = log.opened();
    let torn = opened.recovery().torn_tail.clone().unwrap();
    assert_eq!((torn.file, torn.offset), (log.segment(newest), last.start));
    let read = read(&opened, A);
    assert_eq!(read.last().map(|(id, _)| *id), Some(row.entry_id - 1));
    opened.append_durable(&one(A, row.entry_id)).unwrap();
    opened.close().unwrap();
    let opened = log.opened();
    assert_eq!(opened.recovery().torn_tail, None, "it is cut off once");
    assert_eq!(opened.stream(A).unwrap().last, Some(row.entry_id));
}

#[test]
fn what_a_preparation_left_behind_is_removed() {
    let log = Filled::new();
    let left = log.dir().join(format!("{:020}.log.new", 99));
    fs::write(&left, b"half").unwrap();
    let orphan = log.dir().join(format!("{:020}.idx", 98));
    fs::write(&orphan, b"an index of nothing").unwrap();
    let opened = log.opened();
    assert_eq!(opened.recovery().removed, [left.clone(), orphan.clone()]);
    assert!(!left.exists() && !orphan.exists());
    assert_eq!(read(&opened, A).len() as u64, COUNT);
}
