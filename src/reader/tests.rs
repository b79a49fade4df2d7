//! Readers over segments written by hand: what no log writes by itself.

use std::sync::Arc;

use tempfile::TempDir;
use tidelog_format::{
    Checkpoint, Extent, FRAME_HEADER_LEN, Fence, FrameSpec, LogId, Lsn, Row, RowFlags, SegmentHeader,
    SegmentIdentity, StreamId, StreamSummary, frame_len, payload_crc, payload_room, seal_frame, sort_rows,
};

use super::origin::Origin;
use super::scan::Scan;
use super::shelf::Shelf;
use super::snapshot::{Coming, Snapshot};
use super::{ReadOptions, Reader, ScanItem};
use crate::error::{Error, Result};
use crate::io::{DirOptions, Disk, RealDisk};
use crate::options::{IdRule, ReadMode};
use crate::segment::{Segment, name};
use crate::state::StreamState;

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);
const LOG: LogId = LogId(*b"the log of tests");
const SIZE: u64 = 64 << 10;
const BLOCK: u32 = 4096;

struct Home {
    dir: TempDir,
    disk: Arc<dyn Disk>,
}

fn natural(stream: StreamId, id: u64) -> (Row, Vec<u8>) {
    let payload = format!("{stream} {id}").into_bytes();
    (Row::entry(stream, id, 0, payload.len() as u32, payload_crc(&payload)), payload)
}

fn moved(stream: StreamId, id: u64) -> (Row, Vec<u8>) {
    let (row, payload) = natural(stream, id);
    (Row { flags: RowFlags::MOVED, ..row }, payload)
}

fn frame(identity: &SegmentIdentity, at: usize, records: &[(Row, Vec<u8>)]) -> Vec<u8> {
    let (mut frame, mut rows) = (vec![0; FRAME_HEADER_LEN], Vec::new());
    for (row, payload) in records {
        rows.push(Row { offset: frame.len() as u32, ..*row });
        let end = frame.len() + payload_room(row.length) as usize;
        frame.extend_from_slice(payload);
        frame.resize(end, 0);
    }
    sort_rows(&mut rows);
    let (table_offset, lsn) = (frame.len() as u32, identity.lsn(at as u64));
    frame.resize(frame_len(table_offset.into(), rows.len(), BLOCK).unwrap() as usize, 0);
    let (watermark, clock) = (lsn, 0);
    let spec = FrameSpec { identity, block_size: BLOCK, lsn, watermark, clock, rows: &rows, table_offset };
    seal_frame(&mut frame, &spec).unwrap();
    frame
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = DirOptions { create: false, allow_network_fs: true, direct: false, lock: false };
        let disk = Arc::new(RealDisk::open(dir.path(), options).unwrap());
        Self { dir, disk }
    }

    /// Writes a segment with these frames behind its checkpoint, which names each stream's newest segment.
    fn segment(
        &self,
        sequence: u64,
        newest: &[(StreamId, u64)],
        frames: &[&[(Row, Vec<u8>)]],
    ) -> Arc<Segment> {
        let identity = SegmentIdentity { log_id: LOG, sequence, base: Lsn((sequence - 1) * SIZE) };
        let header = SegmentHeader::new(identity, BLOCK, SIZE).unwrap();
        let summary = |&(stream, newest_segment): &(StreamId, u64)| StreamSummary {
            stream,
            first: Some(1),
            last: Some(1),
            newest_segment,
            ..StreamSummary::default()
        };
        let streams = newest.iter().map(summary).collect();
        let checkpoint = Checkpoint { oldest: 1, streams, ..Checkpoint::default() }.encode(identity.seed());
        let mut file = header.encode().to_vec();
        file.resize(BLOCK as usize, 0);
        file.extend(frame(&identity, file.len(), &[(Row::checkpoint(&checkpoint), checkpoint)]));
        for records in frames {
            file.extend(frame(&identity, file.len(), records));
        }
        let end = identity.lsn(file.len() as u64);
        file.resize(SIZE as usize, 0);
        std::fs::write(self.dir.path().join(name::segment(sequence)), file).unwrap();
        Arc::new(Segment::ended(Arc::clone(&self.disk), LOG, sequence, None, Some(end)))
    }

    fn snapshot(&self, segments: &[Arc<Segment>], state: StreamState) -> Snapshot {
        let end = Lsn(segments.last().unwrap().sequence() * SIZE);
        Snapshot {
            stream: A,
            range: state.first.zip(state.last),
            state,
            rule: IdRule::Contiguous,
            mode: ReadMode::Map,
            bound: end,
            shelf: Shelf::new(Arc::new(segments.to_vec())),
            coming: Coming::default(),
            directory: self.dir.path().to_path_buf(),
            origin: Origin::still(end),
        }
    }
}

fn state(first: u64, last: u64, newest_segment: u64) -> StreamState {
    StreamState { first: Some(first), last: Some(last), newest_segment, ..StreamState::default() }
}

fn read(snapshot: Snapshot) -> Vec<Result<u64>> {
    let check = |entry: Result<super::Entry>| {
        entry.map(|entry| {
            assert_eq!(entry.payload, natural(entry.stream, entry.id).1);
            entry.id
        })
    };
    Reader::over(snapshot, &ReadOptions::new()).map(check).collect()
}

fn ids(snapshot: Snapshot) -> Vec<u64> {
    read(snapshot).into_iter().map(Result::unwrap).collect()
}

/// Entries 1 to 4 were copied from segment 1, which is still there, to 2 and 3.
fn with_moved(home: &Home) -> (Vec<Arc<Segment>>, StreamState) {
    let first: Vec<_> = (1..=4).map(|id| natural(A, id)).collect();
    let segments = vec![
        home.segment(1, &[], &[&first]),
        home.segment(2, &[(A, 1)], &[&[moved(A, 1), moved(A, 2), natural(A, 5)], &[natural(B, 1)]]),
        home.segment(3, &[(A, 2)], &[&[moved(A, 3), moved(A, 4), natural(A, 6), natural(B, 2)]]),
    ];
    let extents = vec![Extent { first: 1, last: 2, segment: 2 }, Extent { first: 3, last: 4, segment: 3 }];
    (segments, StreamState { extents, ..state(1, 6, 3) })
}

#[test]
fn moved_entries_come_once_and_in_their_place() {
    let home = Home::new();
    let (segments, state) = with_moved(&home);
    assert_eq!(ids(home.snapshot(&segments, state.clone())), [1, 2, 3, 4, 5, 6]);
    for (from, to) in [(2, 3), (1, 1), (4, 5), (5, 6)] {
        let snapshot = Snapshot { range: Some((from, to)), ..home.snapshot(&segments, state.clone()) };
        assert_eq!(ids(snapshot), (from..=to).collect::<Vec<_>>());
    }
    // Segment 1 has retired: the chain ends above it.
    assert_eq!(ids(home.snapshot(&segments[1..], state)), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn moved_entries_obey_marks_and_fences() {
    let home = Home::new();
    let (segments, mut cut) = with_moved(&home);
    cut.obsolete(1);
    let fence = Lsn(2 * SIZE + u64::from(3 * BLOCK));
    cut.truncate(4, Some(3), fence);
    assert_eq!(cut.fences, [Fence { lsn: fence, from: 4 }]);
    assert_eq!(ids(home.snapshot(&segments, cut)), [2, 3]);
}

#[test]
fn an_entry_that_is_missing_is_damage() {
    let home = Home::new();
    let segments = [
        home.segment(1, &[], &[&[natural(A, 1), natural(A, 2)]]),
        home.segment(2, &[(A, 1)], &[&[natural(A, 4), natural(A, 5)]]),
    ];
    let [Ok(1), Ok(2), Err(Error::Corrupt(gap))] = &read(home.snapshot(&segments, state(1, 5, 2)))[..] else {
        panic!("3 is missing");
    };
    assert_eq!((gap.expected, gap.actual, gap.stream), (3, 4, Some(A)));
    assert_eq!((&*gap.file, gap.offset), (segments[1].path(), u64::from(2 * BLOCK)));
    let end = read(home.snapshot(&segments[..1], state(1, 3, 1)));
    assert!(matches!(&end[..], [Ok(1), Ok(2), Err(Error::Corrupt(_))]), "{end:?}");
    let lone = read(home.snapshot(&segments, state(1, 9, 7)));
    assert!(matches!(&lone[..], [Err(_)]), "segment 7 is not there: {lone:?}");
    let sparse = Snapshot { rule: IdRule::Increasing, ..home.snapshot(&segments, state(1, 5, 2)) };
    assert_eq!(ids(sparse), [1, 2, 4, 5]);
}

#[test]
fn a_chain_that_goes_up_is_damage_and_no_loop() {
    let home = Home::new();
    let segments =
        [home.segment(1, &[(A, 1)], &[&[natural(A, 5)]]), home.segment(2, &[(A, 2)], &[&[natural(A, 6)]])];
    for newest in [1, 2] {
        let found = read(home.snapshot(&segments, state(1, 6, newest)));
        assert!(matches!(&found[..], [Err(Error::Corrupt(_))]), "{found:?}");
    }
}

#[test]
fn what_lies_beyond_the_limit_is_not_read_after_a_failure() {
    let home = Home::new();
    let segments = [
        home.segment(1, &[], &[&[natural(A, 1)], &[natural(A, 2)], &[natural(A, 3)]]),
        home.segment(2, &[(A, 1)], &[]),
    ];
    // The state tells of entry 4, in a frame of segment 2 that was never written; 3 is not durable.
    let state = StreamState { last_frame: Lsn(SIZE + u64::from(2 * BLOCK)), ..state(1, 4, 2) };
    let limit = Lsn(u64::from(4 * BLOCK));
    let snapshot = Snapshot { origin: Origin::still(limit), ..home.snapshot(&segments, state) };
    assert_eq!(ids(snapshot), [1, 2]);
}

#[test]
fn a_scan_passes_void_segments_by() {
    let home = Home::new();
    let void = home.segment(2, &[], &[]);
    let segments = vec![
        home.segment(1, &[], &[&[natural(A, 1)]]),
        Arc::new(Segment::ended(Arc::clone(&home.disk), LOG, 2, None, Some(void.base().unwrap()))),
        home.segment(3, &[(A, 1)], &[&[moved(A, 1), natural(B, 2)]]),
    ];
    let end = Lsn(3 * SIZE);
    let scan = |from| {
        let shelf = Shelf::new(Arc::new(segments.clone()));
        let scan = Scan::over(Origin::still(end), shelf, from, end, ReadMode::Copy, home.dir.path().into());
        let entry = |item| match item {
            ScanItem::Entry { stream, id, moved, .. } => Some((stream, id, moved)),
            _ => None,
        };
        scan.filter_map(|record| entry(record.unwrap().record)).collect::<Vec<_>>()
    };
    assert_eq!(scan(Lsn::ZERO), [(A, 1, false), (A, 1, true), (B, 2, false)]);
    assert_eq!(scan(Lsn(SIZE)), [(A, 1, true), (B, 2, false)]);
    assert_eq!(scan(end), []);
}
