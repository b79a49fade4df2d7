//! Directories of any files: the read-only view, opening for writing, and the tool.

use std::time::Duration;

use tidelog::readonly::{Item, ReadOnlyLog};
use tidelog::{BackendChoice, Batch, Error, IdRule, Log, Lsn, Options, ReadMode, ReadOptions, StreamId};

use super::image::unpack_to_directory;
use super::{is_set, split};

/// What a log of a few files of 64 KiB and frames of a block may come to, and no more.
const ITEMS_MAX: usize = 1 << 20;

/// Opening them read-only and reading all there is.
pub fn directory_read(input: &[u8]) {
    let home = unpack_to_directory(input);
    let log = match ReadOnlyLog::open(home.path()) {
        Ok(log) => log,
        Err(error) => return assert_is_typed(&error),
    };
    let (mut items, mut last) = (0, None);
    for item in log.items() {
        items += 1;
        assert!(items < ITEMS_MAX, "the items do not end");
        match item.unwrap() {
            Item::Frame(frame) => {
                assert!(last < Some(frame.header.lsn), "frames in the order of LSNs");
                last = Some(frame.header.lsn);
            }
            Item::Damage(damage) | Item::Torn(damage) => assert!(damage.file.starts_with(home.path())),
            _ => {}
        }
    }
    assert!(log.items().skip_payloads().all(|item| item.is_ok()));
    let _ = (log.log_id(), log.oldest(), log.damaged_files().count());
    assert!(log.segments().is_sorted_by_key(|info| info.sequence));
}

fn assert_is_typed(error: &Error) {
    match error {
        Error::Corrupt(_) | Error::ForeignLog { .. } | Error::NotALog { .. } => {}
        Error::UnsupportedVersion { found, supported, .. } => assert_ne!(found, supported),
        other => panic!("{other:?}"),
    }
}

fn options(choice: u8) -> Options {
    Options::new()
        .backend(BackendChoice::Std)
        .block_size(512)
        .first_segment_size(64 << 10)
        .segment_size(64 << 10)
        .frame_size(16 << 10)
        .staging_buffers(2)
        .id_rule(if is_set(choice, 3) { IdRule::Increasing } else { IdRule::Contiguous })
        .idle_after(Duration::from_secs(3600))
        .flush_interval(Duration::from_secs(3600))
}

/// Opening them for writing, reading, writing, and opening what came of it.
pub fn directory_write(input: &[u8]) {
    let (choice, _) = split(input);
    let home = unpack_to_directory(input);
    let log = match Log::open(home.path(), options(choice)) {
        Ok(log) => log,
        Err(error) => return assert_is_typed(&error),
    };
    read_all(&log);
    let stream = StreamId::new(9, 9);
    for (other, known) in log.streams().into_iter().filter(|(other, _)| *other != stream) {
        let _ = log.truncate(other, known.last.unwrap_or(0));
        let _ = log.obsolete(other, known.first.unwrap_or(0));
    }
    let known = log.stream(stream).unwrap_or_default();
    let next = known.last.max(known.mark).map_or(Some(1), |last| last.checked_add(1));
    let appended = next.is_some_and(|id| {
        let mut batch: Batch<&[u8]> = Batch::new();
        log.append_durable(batch.append(stream, id, b"what was acknowledged".as_slice())).is_ok()
    });
    let closed = log.close();
    drop(log);
    let again = Log::open(home.path(), options(choice));
    if appended && closed.is_ok() {
        let log = again.unwrap();
        let last = log.stream(stream).and_then(|known| known.last);
        assert_eq!(last, next, "an acknowledged entry is not known any more");
    }
}

fn read_all(log: &Log) {
    for (place, (stream, known)) in log.streams().into_iter().enumerate() {
        let mode = if place % 2 == 0 { ReadMode::Map } else { ReadMode::Copy };
        let mut ids = Vec::new();
        for entry in log.read(stream, .., ReadOptions::new().mode(mode)).unwrap() {
            match entry {
                Ok(entry) => ids.push(entry.id),
                // A forged checkpoint may name a segment that is not there yet.
                Err(Error::Truncated { .. }) => {}
                Err(error) => assert_is_typed(&error),
            }
            assert!(ids.len() < ITEMS_MAX, "the entries do not end");
        }
        let above = ids.iter().all(|id| known.mark.is_none_or(|mark| *id > mark));
        assert!(above && ids.is_sorted_by(|one, next| one < next), "{stream}: {ids:?} with {known:?}");
        let _ = log.entry_lsn(stream, known.last.unwrap_or(1));
    }
    let scanned = log.scan(Lsn::ZERO, ReadOptions::new()).unwrap().take(ITEMS_MAX).count();
    assert!(scanned < ITEMS_MAX, "the scan does not end");
}

/// What the tool says of them.
pub fn tool(input: &[u8]) {
    let (choice, _) = split(input);
    let home = unpack_to_directory(input);
    let dir = home.path().to_str().unwrap();
    let run = |args: &[&str]| {
        let mut out = Vec::new();
        let status = tidelog_tools::run(["tidelog"].iter().chain(args).chain(&[dir]), &mut out);
        assert!(matches!(status, 0 | 1 | 3), "{args:?} ends with {status}");
        let out = String::from_utf8(out).unwrap();
        let drives_terminals = |c: char| c != '\n' && c.is_control();
        assert!(!out.contains(drives_terminals), "{args:?}: {out:?}");
        (status, out)
    };
    let (verified, _) = run(&["verify"]);
    let (dumped, _) = run(&["dump"]);
    assert_eq!(dumped, verified, "dump and verify do not agree");
    let payload = ["none", "len", "hex", "utf8", "base64"][usize::from(choice >> 4) % 5];
    let (_, lines) = run(&["dump", "--format", "jsonl", "--payload", payload]);
    assert!(lines.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{lines:?}");
    run(&["dump", "--payload", payload, "--kind", "entry", "--max-payload", "3"]);
    run(&["stat"]);
    run(&["stat", "--format", "json"]);
}
