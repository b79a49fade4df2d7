//! Batches, marks, cuts, waits and reads that ask for what cannot be.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use tidelog::{Batch, Error, Log, Lsn, ReadOptions, StreamId};

use crate::common::{backends, payload};
use crate::{A, B, WAYS, ids, one, options, read, told};

/// One with ids 5 to 9 in one stream, the first of them obsolete.
fn log_with_entries(dir: &std::path::Path, backend: tidelog::BackendChoice) -> Log {
    let log = Log::open(dir, options(backend)).unwrap();
    for id in 5..=9 {
        log.append_durable(&one(A, id)).unwrap();
    }
    log.obsolete(A, 5).unwrap();
    log.create_namespace(A).unwrap();
    log
}

#[test]
fn a_batch_with_one_bad_step_leaves_no_trace_whichever_way_it_comes() {
    type Spoil = fn(&mut Batch);
    type Right = fn(&Error) -> bool;
    let steps: [(&str, Spoil, Right); 8] = [
        (
            "a gap",
            |batch| {
                batch.append(A, 10, payload(1, 9)).append(A, 12, payload(1, 9));
            },
            |error| {
                matches!(
                    error,
                    Error::OutOfOrder { stream: A, first: Some(6), last: Some(10), attempted: 12 }
                )
            },
        ),
        (
            "an id twice",
            |batch| {
                batch.append(A, 10, payload(1, 9)).append(A, 10, payload(1, 9));
            },
            |error| matches!(error, Error::OutOfOrder { stream: A, last: Some(10), attempted: 10, .. }),
        ),
        (
            "an id going back",
            |batch| {
                batch.append(A, 10, payload(1, 9)).append(A, 9, payload(1, 9));
            },
            |error| matches!(error, Error::OutOfOrder { stream: A, last: Some(10), attempted: 9, .. }),
        ),
        (
            "around the end of the ids",
            |batch| {
                batch.append(B, u64::MAX, payload(1, 9)).append(B, 0, payload(1, 9));
            },
            |error| {
                let max = u64::MAX;
                matches!(error, Error::OutOfOrder { stream: B, last: Some(last), attempted: 0, .. } if *last == max)
            },
        ),
        (
            "an id below a mark of the batch",
            |batch| {
                batch.obsolete(A, 9).append(A, 9, payload(1, 9));
            },
            |error| matches!(error, Error::Obsolete { stream: A, mark: 9, attempted: 9 }),
        ),
        (
            "a gap behind a cut of the batch",
            |batch| {
                batch.truncate(A, 8).append(A, 9, payload(1, 9));
            },
            |error| matches!(error, Error::OutOfOrder { stream: A, last: Some(7), attempted: 9, .. }),
        ),
        (
            "the log's own stream",
            |batch| {
                batch.release(A).append(StreamId::new(0, 7), 1, payload(1, 9));
            },
            |error| matches!(error, Error::ReservedStream { stream } if *stream == StreamId::new(0, 7)),
        ),
        (
            "the log's own stream, marked",
            |batch| {
                batch.release(A).delete_namespace(A).obsolete(StreamId::new(0, 0), 1);
            },
            |error| matches!(error, Error::ReservedStream { stream } if *stream == StreamId::new(0, 0)),
        ),
    ];
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = log_with_entries(home.path(), backend);
        let before = told(&log);
        for (what, spoil, right) in steps {
            for (way, append) in WAYS {
                // What comes first is good, and would change the log.
                let mut batch: Batch = Batch::new();
                batch.create_namespace(B).append(StreamId::new(1, 3), 1, payload(3, 100));
                spoil(&mut batch);
                let error = append(&log, &batch).expect_err(what);
                assert!(right(&error), "{way}: {what}: {error:?}");
                assert_eq!(told(&log), before, "{way}: {what}");
            }
        }
        log.append_durable(&one(A, 10)).unwrap();
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!((ids(&log, A), log.namespaces()), (vec![6, 7, 8, 9, 10], vec![A]));
        assert_eq!(log.streams().len(), 1);
    }
}

#[test]
fn empty_batches_and_payloads_pass_whichever_way_they_come() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        for (id, (way, append)) in (1..).zip(WAYS) {
            let before = told(&log);
            let lsn = append(&log, &Batch::new()).unwrap();
            log.wait_durable(lsn).unwrap();
            assert_eq!(told(&log).end, before.end, "{way}: nothing is written for nothing");
            assert_eq!(told(&log).streams, before.streams);
            let mut batch: Batch = Batch::new();
            let lsn = append(&log, batch.append(A, id, payload(0, 0))).unwrap();
            assert!(lsn < log.end_lsn());
        }
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!(read(&log, A), (1..=6).map(|id| (id, payload(0, 0))).collect::<Vec<_>>());
    }
}

#[test]
fn marks_do_not_go_back_nor_beyond_the_last_id() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = log_with_entries(home.path(), backend);
        let before = told(&log);
        for id in [5, 4, 0] {
            log.obsolete(A, id).unwrap();
            assert_eq!((told(&log).streams, told(&log).end), (before.streams.clone(), before.end), "{id}");
        }
        log.obsolete(B, u64::MAX).unwrap();
        assert_eq!(log.stream(B), None);
        log.obsolete(A, u64::MAX).unwrap();
        let info = log.stream(A).unwrap();
        assert_eq!((info.first, info.last, info.mark), (None, Some(9), Some(9)));
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!((log.stream(A), ids(&log, A)), (Some(info), vec![]));
        let error = log.append(&one(A, 9)).unwrap_err();
        assert!(matches!(error, Error::Obsolete { stream: A, mark: 9, attempted: 9 }), "{error:?}");
        log.append_durable(&one(A, 10)).unwrap();
    }
}

#[test]
fn cuts_beyond_the_end_or_below_the_mark_stay_within_what_there_is() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = log_with_entries(home.path(), backend);
        let before = told(&log);
        for from in [10, 11, u64::MAX] {
            let lsn = log.truncate(A, from).unwrap();
            log.wait_durable(lsn).unwrap();
            assert_eq!((told(&log).streams, told(&log).end), (before.streams.clone(), before.end), "{from}");
        }
        log.truncate(A, 0).unwrap();
        let info = log.stream(A).unwrap();
        assert_eq!((info.first, info.last, info.mark), (None, Some(5), Some(5)));
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!((log.stream(A), ids(&log, A)), (Some(info), vec![]));
        let error = log.append(&one(A, 5)).unwrap_err();
        assert!(matches!(error, Error::Obsolete { stream: A, mark: 5, attempted: 5 }), "{error:?}");
        log.append_durable(&one(A, 6)).unwrap();
        assert_eq!(ids(&log, A), [6]);
    }
}

#[test]
fn the_last_id_can_be_cut_and_marked_and_come_again() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        let max = u64::MAX;
        let mut batch = one(A, max - 1);
        log.append(batch.append(A, max, payload(7, 7))).unwrap();
        log.truncate(A, max).unwrap();
        assert_eq!((log.stream(A).unwrap().last, ids(&log, A)), (Some(max - 1), vec![max - 1]));
        log.append(&one(A, max)).unwrap();
        for id in [0, 1, max] {
            let error = log.append(&one(A, id)).unwrap_err();
            let Error::OutOfOrder { stream: A, first, last, attempted } = error else { panic!("{error:?}") };
            assert_eq!((first, last, attempted), (Some(max - 1), Some(max), id));
        }
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!(read(&log, A), [max - 1, max].map(|id| (id, payload(id, 300))));
        log.obsolete(A, max).unwrap();
        let mut batch = one(A, 0);
        log.append_durable(batch.restart_emptied(true)).unwrap();
        let error = log.append(&one(A, max)).unwrap_err();
        assert!(matches!(error, Error::OutOfOrder { last: Some(0), .. }), "{error:?}");
        log.close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!(read(&log, A), [(0, payload(0, 300))]);
    }
}

#[test]
fn ranges_that_hold_nothing_are_read_as_nothing() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = log_with_entries(home.path(), backend);
        let max = u64::MAX;
        let range = |from: Bound<u64>, to: Bound<u64>| {
            let narrow = ReadOptions::new().max_batch_bytes(0).max_batch_entries(0);
            let entries = log.read(A, (from, to), narrow).unwrap();
            entries.map(|entry| entry.unwrap().id).collect::<Vec<_>>()
        };
        let none = [
            (Included(9), Included(6)),
            (Included(max), Excluded(0)),
            (Excluded(max), Unbounded),
            (Unbounded, Excluded(0)),
            (Excluded(7), Excluded(8)),
            (Excluded(7), Excluded(7)),
            (Included(10), Included(max)),
            (Unbounded, Included(5)),
        ];
        for (from, to) in none {
            assert_eq!(range(from, to), [0_u64; 0], "{from:?} {to:?}");
        }
        assert_eq!(range(Included(0), Included(max)), [6, 7, 8, 9]);
        assert_eq!(range(Excluded(8), Excluded(max)), [9]);
        for stream in [B, StreamId::new(0, 0), StreamId::new(u16::MAX, max)] {
            assert_eq!(
                (log.stream(stream), ids(&log, stream), log.entry_lsn(stream, max)),
                (None, vec![], None)
            );
        }
    }
}

#[test]
fn nobody_waits_beyond_the_end_of_a_reopened_log() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        log_with_entries(home.path(), backend).close().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        let end = log.end_lsn();
        log.wait_durable(Lsn(end.0 - 1)).unwrap();
        for beyond in [end.0, end.0 + 1, u64::MAX] {
            for error in [
                log.wait_durable(Lsn(beyond)).unwrap_err(),
                futures::executor::block_on(log.durable(Lsn(beyond))).unwrap_err(),
            ] {
                let Error::BeyondEnd { attempted, end: named } = error else { panic!("{error:?}") };
                assert_eq!((attempted, named), (beyond, end.0));
            }
        }
        let lsn = log.append(&one(A, 10)).unwrap();
        log.wait_durable(lsn).unwrap();
    }
}
