//! Callers and directories that mean harm: what was acknowledged stays, and nothing waits for ever.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tidelog::{BackendChoice, Batch, Error, IdRule, Log, Options, ReadOptions, StreamId};
use tidelog_format::{FRAME_HEADER_LEN, FrameSpec, Lsn, SEGMENT_HEADER_LEN, SegmentHeader, seal_frame};

mod common;

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);

fn one(stream: StreamId, id: u64) -> Batch {
    let mut batch = Batch::new();
    batch.append(stream, id, &b"payload"[..]);
    batch
}

fn segment(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{sequence:020}.log"))
}

/// Opens a log whose last handle may be on its way out.
fn reopen(dir: &Path, options: &Options) -> Log {
    loop {
        match Log::open(dir, options.clone()) {
            Err(Error::Locked { .. }) => std::thread::sleep(Duration::from_millis(1)),
            other => return other.unwrap(),
        }
    }
}

/// A payload that is looked at once without harm.
struct Bomb(AtomicUsize);

impl AsRef<[u8]> for Bomb {
    fn as_ref(&self) -> &[u8] {
        if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(200));
            panic!("the caller's own");
        }
        b"payload"
    }
}

#[test]
fn a_caller_who_panics_in_the_middle_of_his_copy_costs_nobody_what_was_acknowledged() {
    for backend in common::backends() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().backend(backend).idle_after(Duration::from_secs(3600));
        let log = Log::open(dir.path(), options.clone()).unwrap();
        log.append_durable(&one(B, 1)).unwrap();
        let bomber = log.clone();
        let bomber = std::thread::spawn(move || {
            let mut batch: Batch<Bomb> = Batch::new();
            bomber.append(batch.append(A, 1, Bomb(AtomicUsize::new(0))))
        });
        while log.stream(A).is_none() {
            std::thread::yield_now();
        }
        let (send, receive) = channel();
        let beside = log.clone();
        std::thread::spawn(move || send.send(beside.append_durable(&one(B, 2))));
        assert!(bomber.join().is_err());
        let outcome = receive.recv_timeout(Duration::from_secs(30)).expect("the wait beside him ends");
        drop(log);
        let log = reopen(dir.path(), &options);
        let read = |stream| {
            let entries = log.read(stream, .., ReadOptions::new()).unwrap();
            entries.map(|entry| entry.unwrap().id).collect::<Vec<_>>()
        };
        assert!(outcome.is_err() || read(B) == [1, 2], "acknowledged, and gone");
        assert_eq!((read(A), read(B).first()), (vec![], Some(&1)), "and nobody reads a hole");
        assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
    }
}

#[test]
fn the_highest_numbers_that_names_can_hold_do_no_harm() {
    for name in ["18446744073709551615.spare", "18446744073709551614.spare", "18446744073709551615.log.new"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), vec![0; 1 << 16]).unwrap();
        let log = Log::open(dir.path(), Options::new().backend(BackendChoice::Std)).unwrap();
        log.append_durable(&one(A, 1)).unwrap();
        log.close().unwrap();
    }
}

/// A log of a few small segments, closed.
fn log_of_segments(dir: &Path, options: &Options) {
    let log = Log::open(dir, options.clone()).unwrap();
    let mut batch: Batch = Batch::new();
    for id in 1..=30 {
        batch.clear();
        log.append_durable(batch.append(A, id, common::payload(id, 5000))).unwrap();
    }
    log.close().unwrap();
}

#[test]
fn index_caches_whose_segments_are_gone_make_no_new_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = common::tiny(BackendChoice::Std);
    log_of_segments(dir.path(), &options);
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().unwrap() != "idx" {
            fs::remove_file(path).unwrap();
        }
    }
    let before = common::snapshot(dir.path());
    assert!(!before.is_empty());
    assert!(matches!(Log::open(dir.path(), options), Err(Error::Corrupt(_))));
    assert_eq!(common::snapshot(dir.path()), before, "and nothing was touched");
}

/// The newest segment is void, and yet its second frame has arrived: by the barrier, all of the
/// segment before was durable then.
#[test]
fn a_frame_in_a_void_segment_vouches_for_the_segment_before() {
    let dir = tempfile::tempdir().unwrap();
    let options = common::tiny(BackendChoice::Std);
    log_of_segments(dir.path(), &options);
    let open =
        |sequence| fs::OpenOptions::new().read(true).write(true).open(segment(dir.path(), sequence)).unwrap();
    let header = |file: &fs::File| {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        file.read_exact_at(&mut bytes, 0).unwrap();
        SegmentHeader::decode(&bytes).unwrap()
    };
    let newest = *common::files::segments(dir.path()).last_key_value().unwrap().0;
    let (last, void) = (open(newest - 1), open(newest));
    let (last, base) = ((header(&last), last), header(&void));
    let block = u64::from(base.block_size);
    let mut zeros = vec![0; (base.file_size - block) as usize];
    void.write_all_at(&zeros, block).unwrap();
    let mut frame = vec![0; block as usize];
    let spec = FrameSpec {
        identity: &base.identity,
        block_size: base.block_size,
        lsn: Lsn(base.identity.base.0 + 2 * block),
        watermark: Lsn(last.0.identity.base.0 + 3 * block),
        clock: 0,
        rows: &[],
        table_offset: FRAME_HEADER_LEN as u32,
    };
    seal_frame(&mut frame, &spec).unwrap();
    void.write_all_at(&frame, 2 * block).unwrap();
    Log::open(dir.path(), options.clone()).unwrap().close().unwrap();
    // The first frame alone would be a write that was cut short, but for that proof.
    zeros.resize((last.0.file_size - block) as usize, 0);
    last.1.write_all_at(&zeros, block).unwrap();
    let opened = Log::open(dir.path(), options);
    let Err(Error::Corrupt(found)) = opened else { panic!("{:?}", opened.unwrap().recovery()) };
    assert_eq!((found.file, found.offset), (segment(dir.path(), newest - 1), block));
}

/// Streams whose ids have gaps, cut in every way that a batch can cut them, against what they are to be.
#[test]
fn batches_that_cut_streams_with_gaps_leave_the_last_id_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().backend(BackendChoice::Std).id_rule(IdRule::Increasing);
    let mut log = Log::open(dir.path(), options.clone()).unwrap();
    let (mut ids, mut last, mut mark) = (BTreeSet::new(), None, None);
    let mut state = 88_172_645_463_325_252_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % limit
    };
    for round in 0..1500 {
        let mut batch: Batch = Batch::new();
        let mut steps = Vec::new();
        for _ in 0..=below(4) {
            let top = last.map_or(0, |last: u64| last + 1);
            match below(12) {
                0..=6 => {
                    // An emptied stream may go back to its mark.
                    let lowest = if ids.is_empty() { mark.map_or(0, |mark: u64| mark + 1) } else { top };
                    let id = lowest + below(4);
                    batch.append(A, id, &b"x"[..]);
                    steps.push(format!("append {id}"));
                    ids.insert(id);
                    last = Some(id);
                }
                7..=8 => {
                    let id = top.saturating_sub(below(9));
                    batch.obsolete(A, id);
                    steps.push(format!("obsolete {id}"));
                    let id = last.map(|last: u64| last.min(id));
                    if mark < id {
                        mark = id;
                        ids.retain(|one| Some(*one) > mark);
                    }
                }
                9..=10 => {
                    let from = top.saturating_sub(below(9));
                    batch.truncate(A, from);
                    steps.push(format!("truncate {from}"));
                    let from = mark.map_or(from, |mark: u64| from.max(mark + 1));
                    if !ids.is_empty() && last >= Some(from) {
                        ids.retain(|one| *one < from);
                        last = ids.last().copied().or(mark);
                    }
                }
                _ => {
                    batch.release(A);
                    steps.push("release".into());
                    ids.clear();
                    (last, mark) = (None, None);
                }
            }
        }
        log.append(&batch).unwrap_or_else(|error| panic!("round {round}: {steps:?}: {error}"));
        if round % 50 == 0 {
            log.close().unwrap();
            drop(log);
            log = reopen(dir.path(), &options);
        }
        let found = log.stream(A).unwrap_or_default();
        assert_eq!((found.last, found.mark), (last, mark), "round {round}: {steps:?}");
        assert_eq!(found.first.is_some(), !ids.is_empty(), "round {round}: {steps:?}");
        assert!(found.first <= ids.first().copied(), "round {round}: {steps:?}");
        if round % 10 == 0 {
            let entries = log.read(A, .., ReadOptions::new()).unwrap();
            let read: BTreeSet<_> = entries.map(|entry| entry.unwrap().id).collect();
            assert_eq!(read, ids, "round {round}: {steps:?}");
        }
    }
}
