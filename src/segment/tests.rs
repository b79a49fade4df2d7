//! Segments on a real disk: their entries are found, read, and missed loudly.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidelog_format::{Lsn, Row, StreamId, What};

use super::stale::StaleDisk;
use super::testing::{A, B, BLOCK, Home, LOG, Record, SIZE, Writer, entry, identity, moved, release};
use super::{Run, Segment, StreamRuns, name};
use crate::error::{Corruption, Error};
use crate::options::ReadMode;
use crate::state::{Change, Link, Position, State};

const MODES: [ReadMode; 2] = [ReadMode::Map, ReadMode::Copy];

/// A segment as the log writes it: its state gives the links.
struct Live {
    writer: Writer,
    segment: Segment,
    state: State,
}

impl Live {
    /// With a checkpoint that says that the newest segment of stream A is 4.
    fn new(home: &Home, sequence: u64) -> Self {
        let mut writer = Writer::new(home, sequence);
        let segment = Segment::writing(Arc::clone(&home.disk), writer.header, Arc::clone(&writer.file));
        let mut state = State::default();
        let entries = Change::Entries { stream: A, first: 1, last: 1 };
        state.apply(&entries, Position { frame: Lsn(1), segment: 4, durable: Lsn(u64::MAX) });
        let (at, rows) = writer.checkpoint(Some((4, Lsn(4 * SIZE))), &[(A, 4)]);
        segment.add_frame(at, &rows, &[]);
        Self { writer, segment, state }
    }

    fn frame(&mut self, records: &[Record]) -> (u64, Vec<Row>) {
        let (at, rows) = self.writer.frame(records);
        let identity = self.writer.header.identity;
        let position =
            Position { frame: identity.lsn(at), segment: identity.sequence, durable: Lsn(u64::MAX) };
        let links: Vec<Link> =
            rows.iter().filter_map(|row| self.state.apply(&change(row)?, position)).collect();
        self.segment.add_frame(at, &rows, &links);
        (at, rows)
    }

    /// The same segment as a later opening has it.
    fn reopened(&self, home: &Home) -> Segment {
        let (sequence, end) = (self.writer.header.identity.sequence, self.writer.end());
        Segment::ended(Arc::clone(&home.disk), LOG, sequence, None, Some(end))
    }
}

fn change(row: &Row) -> Option<Change> {
    if row.is_entry() {
        let (stream, id) = (row.stream, row.entry_id);
        (!row.is_moved()).then_some(Change::Entries { stream, first: id, last: id })
    } else {
        Some(Change::Release { stream: row.stream })
    }
}

fn all(segment: &Segment) -> Vec<(StreamId, StreamRuns)> {
    segment.streams(None, usize::MAX).unwrap()
}

fn corruption<T: std::fmt::Debug>(result: Result<T, Error>) -> Corruption {
    match result.unwrap_err() {
        Error::Corrupt(corruption) => *corruption,
        other => panic!("{other}"),
    }
}

/// Several frames: moved rows, a release and what comes after it.
fn busy(home: &Home) -> Live {
    let mut live = Live::new(home, 5);
    live.frame(&[entry(A, 2, b"two"), entry(A, 3, b"three"), moved(B, 1, b"old")]);
    live.frame(&[entry(B, 7, &[7; 9000]), entry(A, 4, b"")]);
    live.frame(&[release(A), entry(A, 1, b"again")]);
    live.frame(&[release(B)]);
    live
}

#[test]
fn runs_are_the_same_live_scanned_and_from_the_cache() {
    let home = Home::new();
    let live = busy(&home);
    let run = |first, last, frame, row, count, moved| Run { first, last, frame, row, count, moved };
    // The release between the runs does not cut the chain of those who read from before it.
    let a = StreamRuns {
        previous: 4,
        runs: vec![
            run(2, 3, 8192, 0, 2, false),
            run(4, 4, 12288, 0, 1, false),
            run(1, 1, 24576, 1, 1, false),
        ],
    };
    let b =
        StreamRuns { previous: 0, runs: vec![run(1, 1, 8192, 2, 1, true), run(7, 7, 12288, 1, 1, false)] };
    assert_eq!(all(&live.segment), [(A, a.clone()), (B, b)]);

    let scanned = live.reopened(&home);
    assert_eq!(all(&scanned), all(&live.segment));
    scanned.write_index().unwrap();
    assert!(!scanned.holds_runs());
    assert_eq!(all(&scanned), all(&live.segment));

    live.segment.finish(live.writer.end());
    let cached = live.reopened(&home);
    assert_eq!(cached.lookup(A).unwrap(), Some(a));
    assert!(!cached.holds_runs(), "the cache was used");
    assert_eq!(cached.previous(A).unwrap(), Some(4));
    assert_eq!(cached.lookup(StreamId::new(1, 3)).unwrap(), None);
    assert_eq!(all(&cached), all(&live.segment));
    let only_b = cached.streams(Some(A), 1).unwrap();
    assert_eq!(only_b.len(), 1);
    assert_eq!(only_b[0].0, B);
}

#[test]
fn a_link_leads_to_the_segment_before() {
    let home = Home::new();
    let mut live = Live::new(&home, 5);
    live.frame(&[entry(A, 2, b"x"), entry(B, 1, b"x")]);
    live.frame(&[release(A)]);
    for segment in [&live.segment, &live.reopened(&home)] {
        assert_eq!(segment.previous(A).unwrap(), Some(4));
        assert_eq!(segment.previous(B).unwrap(), Some(0));
    }
}

/// An ended segment with an index cache, and what that says.
fn cached(home: &Home) -> (Live, Vec<(StreamId, StreamRuns)>) {
    let live = busy(home);
    live.segment.finish(live.writer.end());
    live.segment.write_index().unwrap();
    let expected = all(&live.segment);
    (live, expected)
}

#[test]
fn a_bad_or_foreign_cache_is_not_used() {
    let home = Home::new();
    let (live, expected) = cached(&home);
    let index = name::index(5);
    for offset in [0, 8, 44, 64, 100] {
        home.patch(&index, offset, |byte| byte[0] ^= 1);
        let segment = live.reopened(&home);
        assert_eq!(all(&segment), expected);
        assert!(segment.holds_runs(), "the cache with byte {offset} flipped was refused");
        home.patch(&index, offset, |byte| byte[0] ^= 1);
    }
    let shorter = Segment::ended(Arc::clone(&home.disk), LOG, 5, None, Some(identity(5).lsn(12288)));
    assert_eq!(shorter.lookup(A).unwrap().unwrap().runs.len(), 1, "the cache of another end is not used");
    home.truncate(&index, 70);
    assert_eq!(all(&live.reopened(&home)), expected);
    // Writing it anew replaces the bad one.
    let segment = live.reopened(&home);
    segment.write_index().unwrap();
    assert!(!segment.holds_runs());
    assert_eq!(home.names(), [index, name::segment(5)]);
}

/// Pages of its map can come back from a medium that has gone bad since.
#[test]
fn a_cache_that_goes_bad_while_it_is_used_is_not_believed() {
    let home = Home::new();
    let (live, expected) = cached(&home);
    let index = name::index(5);
    let len = std::fs::metadata(home.dir.path().join(&index)).unwrap().len();
    for offset in (0..len.min(400)).step_by(3) {
        for lookup in [true, false] {
            let segment = live.reopened(&home);
            assert_eq!(segment.lookup(A).unwrap().as_ref(), expected.first().map(|(_, runs)| runs));
            assert!(!segment.holds_runs(), "the cache is in use");
            home.patch(&index, offset, |byte| byte[0] ^= 0xff);
            if lookup {
                assert_eq!(segment.lookup(A).unwrap().as_ref(), expected.first().map(|(_, runs)| runs));
                assert_eq!(segment.lookup(B).unwrap().as_ref(), expected.last().map(|(_, runs)| runs));
            } else {
                assert_eq!(all(&segment), expected);
            }
            home.patch(&index, offset, |byte| byte[0] ^= 0xff);
        }
    }
}

#[test]
fn payloads_are_read_while_written_and_after() {
    let home = Home::new();
    let mut live = Live::new(&home, 5);
    let large = vec![3; 150_000];
    let (small_at, small) = live.frame(&[entry(A, 2, b"two"), entry(B, 1, b"")]);
    let (large_at, rows) = live.frame(&[entry(A, 3, &large)]);
    let end = live.writer.end();
    let check = |segment: &Segment, mode| {
        let frame = segment.frame(small_at, end, mode, Some(A)).unwrap();
        assert_eq!(frame.table().rows().collect::<Vec<_>>(), small);
        assert_eq!(&frame.payload(&small[0]).unwrap()[..], b"two");
        assert_eq!(&frame.payload(&small[1]).unwrap()[..], b"");
        assert_eq!(frame.end(), large_at);
        let frame = segment.frame(large_at, end, mode, Some(A)).unwrap();
        assert_eq!(frame.payload(&rows[0]).unwrap(), large);
        let beyond = segment.frame(frame.end(), end, mode, None);
        assert!(matches!(beyond, Err(Error::BeyondEnd { .. })), "{beyond:?}");
    };
    for mode in MODES {
        check(&live.segment, mode);
    }
    let cut = live.segment.frame(large_at, identity(5).lsn(large_at + 4096), ReadMode::Map, None);
    assert_eq!(corruption(cut).offset, large_at, "a frame that passes what is written");
    live.segment.finish(end);
    for mode in MODES {
        check(&live.segment, mode);
    }
    for mode in MODES {
        check(&live.reopened(&home), mode);
    }
}

#[test]
fn a_frame_larger_than_memory_likes_is_read_in_parts() {
    let home = Home::new();
    let spec = super::SegmentSpec { size: 4 << 20, ..super::testing::spec(1) };
    let (file, _) = super::prepare(&*home.disk, &spec, &mut super::testing::unpaced(&mut |_| {})).unwrap();
    let mut writer = Writer { header: spec.header().unwrap(), file, at: BLOCK.into() };
    let payload: Vec<u8> = (0..2_000_003u32).map(|n| (n % 251) as u8).collect();
    let (at, rows) = writer.frame(&[entry(A, 1, b"first"), entry(A, 2, &payload)]);
    let segment = Segment::writing(Arc::clone(&home.disk), writer.header, Arc::clone(&writer.file));
    let frame = segment.frame(at, writer.end(), ReadMode::Map, None).unwrap();
    assert_eq!(&frame.payload(&rows[0]).unwrap()[..], b"first");
    assert_eq!(frame.payload(&rows[1]).unwrap(), payload);
}

/// A frame of 90 payloads of 2 KiB: one of A's, then eight of B's, ten times.
fn shared_frame(live: &mut Live) -> (u64, Vec<Row>) {
    let payload = |number: u64| vec![number as u8; 2048];
    let mut records = Vec::new();
    for number in 0..10 {
        records.push(entry(A, number + 2, &payload(number)));
        records.extend((0..8).map(|index| entry(B, number * 8 + index + 1, &payload(100 + number))));
    }
    live.frame(&records)
}

#[test]
fn of_a_mapped_frame_only_what_is_wanted_is_faulted_in() {
    let home = Home::new();
    let mut live = Live::new(&home, 5);
    let (at, rows) = shared_frame(&mut live);
    let end = live.writer.end();
    live.segment.finish(end);
    let segment = live.reopened(&home);
    let open = |mode, wanted: std::ops::Range<usize>| {
        let mut window = super::Window::default();
        window.want(wanted);
        segment.frame_in(&mut window, at, end, mode, Some(A)).unwrap()
    };
    let check = |frame: &super::FrameRead| {
        for (index, row) in rows.iter().enumerate() {
            let expected = if index < 10 { index } else { 100 + (index - 10) / 8 };
            assert_eq!(frame.payload(row).unwrap(), vec![expected as u8; 2048], "row {index}");
        }
    };
    // Ten rows that are far from each other, eight neighbours, many, and more than there are.
    for (wanted, held) in
        [(0..2, 9 * 2048 + 2048), (10..18, 8 * 2048), (0..90, usize::MAX), (88..200, usize::MAX)]
    {
        let frame = open(ReadMode::Map, wanted.clone());
        let whole = frame.header().frame_len as usize;
        assert_eq!(frame.held(), held.min(whole), "{wanted:?}");
        check(&frame);
        let copied = open(ReadMode::Copy, wanted);
        assert_eq!(copied.held(), whole, "a read is cheaper than many");
        check(&copied);
    }
    let frame = open(ReadMode::Map, 0..10);
    assert_eq!(frame.held(), 0, "each by itself");
    check(&frame);
}

#[test]
fn payload_damage_is_an_error_with_place_and_stream() {
    let home = Home::new();
    let mut live = Live::new(&home, 5);
    let (at, rows) = live.frame(&[entry(A, 2, b"sound"), entry(B, 1, b"damaged")]);
    let place = at + u64::from(rows[1].offset);
    home.patch(&name::segment(5), place + 3, |byte| byte[0] ^= 0x10);
    let mut seen = 0;
    let mut check = |segment: &Segment, mode| {
        let frame = segment.frame(at, live.writer.end(), mode, None).unwrap();
        assert_eq!(&frame.payload(&rows[0]).unwrap()[..], b"sound");
        let found = corruption(frame.payload(&rows[1]));
        assert_eq!(found.file, home.dir.path().join(name::segment(5)));
        assert_eq!((found.offset, found.stream), (place, Some(B)));
        assert_eq!(found.what, What::PayloadChecksum.to_string());
        assert_eq!(found.expected, u64::from(rows[1].crc));
        assert_ne!(found.actual, found.expected);
        seen += 1;
    };
    for mode in MODES {
        check(&live.segment, mode);
    }
    live.segment.finish(live.writer.end());
    for mode in MODES {
        check(&live.segment, mode);
    }
    assert_eq!(seen, 4);
}

#[test]
fn a_bad_cache_is_not_taken_for_damage() {
    let home = Home::new();
    let mut live = Live::new(&home, 5);
    let (at, rows) = live.frame(&[entry(A, 2, b"two"), entry(A, 3, &[3; 5000])]);
    let end = live.writer.end();
    let large = at + u64::from(rows[1].offset) + 9;
    let table = live.segment.frame(at, end, ReadMode::Copy, None).unwrap().header().table_offset;
    // In the segment's header, the checkpoint, the frame's header, a payload and the table.
    for place in [20, 4096 + 70, at + 30, large, at + u64::from(table) + 8] {
        let hits = Arc::default();
        let disk = StaleDisk { disk: Arc::clone(&home.disk), place, hits: Arc::clone(&hits) };
        let segment = Segment::ended(Arc::new(disk), LOG, 5, None, Some(end));
        assert_eq!(segment.lookup(A).unwrap(), live.segment.lookup(A).unwrap());
        for mode in MODES {
            let frame = segment.frame(at, end, mode, None).unwrap();
            assert_eq!(frame.payload(&rows[1]).unwrap(), vec![3; 5000]);
        }
        assert!(hits.load(Ordering::Relaxed) > 0, "the byte at {place} was read through the cache");
    }
}

#[test]
fn header_and_table_damage_is_an_error_of_the_frame_and_of_the_scan() {
    let home = Home::new();
    let live = busy(&home);
    for (offset, what) in [(8192, What::FrameMagic), (8192 + 30, What::HeaderChecksum)] {
        home.patch(&name::segment(5), offset, |byte| byte[0] ^= 1);
        for mode in MODES {
            let segment = live.reopened(&home);
            let found = corruption(segment.frame(8192, live.writer.end(), mode, Some(A)));
            assert_eq!((found.what, found.stream), (what.to_string(), Some(A)));
            assert_eq!(corruption(segment.lookup(A)).what, what.to_string());
        }
        home.patch(&name::segment(5), offset, |byte| byte[0] ^= 1);
    }
    let frame = live.segment.frame(8192, live.writer.end(), ReadMode::Map, None).unwrap();
    let table = 8192 + u64::from(frame.header().table_offset);
    home.patch(&name::segment(5), table + 8, |byte| byte[0] ^= 1);
    let segment = live.reopened(&home);
    let found = corruption(segment.frame(8192, live.writer.end(), ReadMode::Map, None));
    assert_eq!(found.what, What::TableChecksum.to_string());
    corruption(segment.lookup(A));
}

#[test]
fn frames_that_end_before_the_known_end_are_damage() {
    let home = Home::new();
    let live = busy(&home);
    let end = live.writer.end().saturating_add(4096);
    let segment = Segment::ended(Arc::clone(&home.disk), LOG, 5, None, Some(end));
    assert_eq!(corruption(segment.lookup(A)).offset, live.writer.at);
}

#[test]
fn a_truncated_file_is_an_error() {
    for finished in [false, true] {
        for mode in MODES {
            let home = Home::new();
            let mut live = Live::new(&home, 5);
            let (at, rows) = live.frame(&[entry(A, 2, &vec![1; 20_000])]);
            let end = live.writer.end();
            if finished {
                live.segment.finish(end);
            }
            let frame = live.segment.frame(at, end, mode, None).unwrap();
            if finished && mode == ReadMode::Map {
                home.truncate(&name::segment(5), at + 8192);
                let found = corruption(frame.payload(&rows[0]));
                assert_eq!((found.offset, found.stream), (at + u64::from(rows[0].offset), Some(A)));
                assert_eq!((found.expected, found.actual), (20_000, 8192 - 64));
            } else {
                home.truncate(&name::segment(5), at + 32);
                // Memory that was read before is not touched by it.
                assert_eq!(frame.payload(&rows[0]).unwrap().len(), 20_000);
                corruption(live.segment.frame(at, end, mode, None));
            }
            let reopened = live.reopened(&home);
            corruption(reopened.frame(at, end, mode, None));
            corruption(reopened.lookup(A));
        }
    }
}

#[test]
fn a_missing_or_wrong_file_is_told_by_name() {
    let home = Home::new();
    let ended =
        |log, sequence, header| Segment::ended(Arc::clone(&home.disk), log, sequence, header, Some(Lsn(0)));
    let missing = corruption(ended(LOG, 9, None).header());
    assert_eq!(missing.file, home.dir.path().join(name::segment(9)));

    let writer = Writer::new(&home, 1);
    let foreign = ended(tidelog_format::LogId([9; 16]), 1, None).header();
    assert!(matches!(foreign, Err(Error::ForeignLog { .. })), "{foreign:?}");
    let mut spec = super::testing::spec(1);
    spec.identity.base = Lsn(77);
    let moved = ended(LOG, 1, Some(spec.header().unwrap()));
    assert_eq!(corruption(moved.checkpoint()).what, What::Base.to_string());
    home.disk.rename(&name::segment(1), &name::segment(2)).unwrap();
    assert_eq!(corruption(ended(LOG, 2, None).header()).what, What::Sequence.to_string());
    home.patch(&name::segment(2), 20, |byte| byte[0] ^= 1);
    assert_eq!(corruption(ended(LOG, 2, None).header()).what, What::SegmentChecksum.to_string());
    drop(writer);
}

#[test]
fn bytes_outlive_the_segment_and_its_file() {
    let home = Home::new();
    let mut live = Live::new(&home, 5);
    let (at, rows) = live.frame(&[entry(A, 2, b"kept"), entry(A, 3, &[8; 5000])]);
    let end = live.writer.end();
    live.segment.finish(end);
    live.segment.write_index().unwrap();
    let segment = Arc::new(live.reopened(&home));
    let reader = Arc::clone(&segment);
    drop(live);
    segment.retire(None).unwrap();
    assert_eq!(home.names(), [] as [&str; 0]);
    // It was never opened before it was unlinked.
    assert_eq!(reader.lookup(A).unwrap().unwrap().runs.len(), 1);
    let frame = reader.frame(at, end, ReadMode::Map, None).unwrap();
    let bytes = frame.payload(&rows[0]).unwrap();
    drop(reader);
    assert_eq!(frame.payload(&rows[1]).unwrap(), vec![8; 5000]);
    drop(frame);
    assert_eq!(&bytes[..], b"kept");
}

#[test]
fn a_void_segment_has_no_entries() {
    let home = Home::new();
    Writer::new(&home, 3);
    let segment = Segment::ended(Arc::clone(&home.disk), LOG, 3, None, Some(identity(3).base));
    assert!(all(&segment).is_empty());
    assert!(matches!(segment.frame(4096, Lsn(u64::MAX), ReadMode::Map, None), Err(Error::BeyondEnd { .. })));
    segment.write_index().unwrap();
    assert!(segment.streams(None, 9).unwrap().is_empty() && !segment.holds_runs());
}
