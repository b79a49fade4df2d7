//! Logs whose numbers are at the end of what there is, sealed with checksums that fit.

use std::fs;
use std::path::Path;

use tidelog::{Error, Log, StreamId};
use tidelog_format::{
    Checkpoint, FRAME_HEADER_LEN, FrameSpec, Kind, LogId, Lsn, Row, RowFlags, SegmentHeader, SegmentIdentity,
    payload_crc, seal_frame,
};

use crate::common::{backends, snapshot};
use crate::{A, ids, one, options, segment};

const BLOCK: u32 = 4096;
const SIZE: u64 = 65_536;

/// A segment that begins with a checkpoint of an empty log.
fn forge(dir: &Path, sequence: u64, base: u64) {
    let identity = SegmentIdentity { log_id: LogId(*b"0123456789abcdef"), sequence, base: Lsn(base) };
    let header = SegmentHeader::new(identity, BLOCK, SIZE).unwrap();
    let checkpoint = Checkpoint { oldest: sequence, ..Checkpoint::default() }.encode(identity.seed());
    let row = Row {
        stream: StreamId::SYSTEM,
        entry_id: 0,
        offset: FRAME_HEADER_LEN as u32,
        length: checkpoint.len() as u32,
        crc: payload_crc(&checkpoint),
        kind: Kind::Checkpoint,
        flags: RowFlags::NONE,
    };
    let mut file = vec![0; SIZE as usize];
    let head = header.encode();
    file[..head.len()].copy_from_slice(&head);
    let frame = &mut file[BLOCK as usize..];
    frame[FRAME_HEADER_LEN..FRAME_HEADER_LEN + checkpoint.len()].copy_from_slice(&checkpoint);
    let lsn = identity.lsn(u64::from(BLOCK));
    let spec = FrameSpec {
        identity: &identity,
        block_size: BLOCK,
        lsn,
        watermark: Lsn(base),
        clock: 0,
        rows: &[row],
        table_offset: (FRAME_HEADER_LEN + checkpoint.len().next_multiple_of(8)) as u32,
    };
    seal_frame(frame, &spec).unwrap();
    fs::write(segment(dir, sequence), file).unwrap();
}

#[test]
fn a_forged_log_with_usual_numbers_is_a_log() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        forge(home.path(), 7, SIZE);
        let log = Log::open(home.path(), options(backend)).unwrap();
        log.append_durable(&one(A, 1)).unwrap();
        assert_eq!((ids(&log, A), log.recovery().newest), (vec![1], Some(7)));
    }
}

#[test]
fn the_highest_sequence_is_refused_before_anything_is_removed() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        forge(home.path(), u64::MAX, SIZE);
        // Left over, were there a log to go on with.
        forge(home.path(), 3, SIZE);
        fs::write(home.path().join("00000000000000000009.log.new"), b"half").unwrap();
        let before = snapshot(home.path());
        let error = Log::open(home.path(), options(backend)).map(drop).unwrap_err();
        let Error::Corrupt(found) = &error else { panic!("{error:?}") };
        assert_eq!((found.actual, &found.file), (u64::MAX, &segment(home.path(), u64::MAX)));
        assert!(before == snapshot(home.path()), "the refusal changed something");
    }
}

#[test]
fn a_log_that_comes_to_its_last_sequence_ends_in_an_error() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        forge(home.path(), u64::MAX - 2, SIZE);
        let log = Log::open(home.path(), options(backend)).unwrap();
        let outcome = (1..=1000).try_for_each(|id| log.append_durable(&one(A, id)).map(drop));
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Io { .. } | Error::Corrupt(_)), "{error:?}");
        let last = log.stream(A).unwrap().last.unwrap();
        assert_eq!(ids(&log, A), (1..=last).collect::<Vec<_>>());
        let again = log.append_durable(&one(A, last + 1)).unwrap_err();
        assert!(matches!(again, Error::Io { .. } | Error::Corrupt(_)), "{again:?}");
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!(ids(&log, A), (1..=last).collect::<Vec<_>>());
    }
}

#[test]
fn a_log_that_comes_to_its_last_position_ends_in_an_error() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        // Room for three segments of the smallest size, and no more.
        forge(home.path(), 1, u64::MAX - 65_535 - 4 * SIZE);
        let log = Log::open(home.path(), options(backend).segment_size(SIZE)).unwrap();
        let outcome = (1..=1000).try_for_each(|id| log.append_durable(&one(A, id)).map(drop));
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        let last = log.stream(A).unwrap().last.unwrap();
        assert!(last > 10);
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!(ids(&log, A), (1..=last).collect::<Vec<_>>());
    }
}
