//! Calls that an open or a closed log refuses.

use std::time::Duration;

use tidelog::{Batch, Error, IdRule, Log, Lsn, StreamId, StreamInfo};

use crate::common::{backends, payload, tiny};
use crate::{A, B, one, read, std_options};

/// Something that is asked of a log.
type Call<'a> = &'a dyn Fn(&Log) -> Result<(), Error>;

/// Whatever is refused changes nothing.
fn refused<T: std::fmt::Debug>(log: &Log, call: impl FnOnce(&Log) -> Result<T, Error>) -> Error {
    let before = (log.streams(), log.namespaces(), log.stats().entries, log.stats().batches);
    let error = call(log).unwrap_err();
    let after = (log.streams(), log.namespaces(), log.stats().entries, log.stats().batches);
    assert_eq!(before, after, "a refusal left a trace: {error}");
    error
}

#[test]
fn ids_out_of_order_are_refused() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        for id in 7..=9 {
            log.append(&one(A, id)).unwrap();
        }
        for id in [11, 9, 8, 0, u64::MAX] {
            let Error::OutOfOrder { stream, first, last, attempted } =
                refused(&log, |log| log.append(&one(A, id)))
            else {
                panic!("{id}")
            };
            assert_eq!((stream, first, last, attempted), (A, Some(7), Some(9), id));
        }
        // All of a batch or nothing of it.
        let mut batch = one(B, 1);
        batch.create_namespace(B).append(A, 10, payload(10, 10)).append(A, 12, payload(12, 10));
        let error = refused(&log, |log| log.append_durable(&batch));
        assert!(matches!(error, Error::OutOfOrder { attempted: 12, last: Some(10), .. }), "{error:?}");
        log.obsolete(A, 9).unwrap();
        let error = refused(&log, |log| log.append(&one(A, 9)));
        assert!(matches!(error, Error::Obsolete { stream: A, mark: 9, attempted: 9 }), "{error:?}");
        log.append(&one(A, 20)).unwrap();
        let mut batch = one(A, 5);
        batch.restart_emptied(true);
        let error = refused(&log, |log| log.append(&batch));
        assert!(matches!(error, Error::OutOfOrder { attempted: 5, .. }), "it is not empty: {error:?}");
        log.obsolete(A, 20).unwrap();
        log.append(&batch).unwrap();
        let info = log.stream(A).unwrap();
        assert_eq!((info.first, info.last, info.mark), (Some(5), Some(5), None));
    }
}

#[test]
fn ids_that_rise_may_leave_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), std_options().id_rule(IdRule::Increasing)).unwrap();
    for id in [3, 4, 900, u64::MAX - 1] {
        log.append(&one(A, id)).unwrap();
    }
    for id in [3, u64::MAX - 1] {
        let error = refused(&log, |log| log.append(&one(A, id)));
        assert!(matches!(error, Error::OutOfOrder { last: Some(last), .. } if last == u64::MAX - 1));
    }
    log.truncate(A, 900).unwrap();
    assert_eq!(log.stream(A).unwrap().last, Some(4));
    log.append(&one(A, 5)).unwrap();
    assert_eq!(read(&log, A).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn the_first_and_the_last_id_there_can_be() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        log.append(&one(A, 0)).unwrap();
        log.append(&one(A, 1)).unwrap();
        log.append(&one(B, u64::MAX)).unwrap();
        for id in [u64::MAX, 0] {
            assert!(matches!(refused(&log, |log| log.append(&one(B, id))), Error::OutOfOrder { .. }));
        }
        log.close().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        assert_eq!(read(&log, A), [(0, payload(0, 300)), (1, payload(1, 300))]);
        assert_eq!(read(&log, B), [(u64::MAX, payload(u64::MAX, 300))]);
        log.obsolete(B, u64::MAX).unwrap();
        log.obsolete(A, 0).unwrap();
        let error = refused(&log, |log| log.append(&one(B, u64::MAX)));
        assert!(matches!(error, Error::Obsolete { mark: u64::MAX, .. }), "{error:?}");
        assert_eq!(read(&log, A).len(), 1);
        assert_eq!(read(&log, B).len(), 0);
        log.truncate(A, 0).unwrap();
        let info = log.stream(A).unwrap();
        assert_eq!((info.first, info.last, info.mark), (None, Some(0), Some(0)));
        log.release(B).unwrap();
        log.append_durable(&one(B, 0)).unwrap();
        log.close().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        assert_eq!(log.stream(A), Some(info));
        assert_eq!(read(&log, B), [(0, payload(0, 300))]);
    }
}

#[test]
fn marks_and_cuts_beyond_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), std_options()).unwrap();
    let told = |log: &Log| log.stream(A).map(|StreamInfo { first, last, mark, .. }| (first, last, mark));
    let start = log.end_lsn();
    for id in [0, 5, u64::MAX] {
        log.obsolete(A, id).unwrap();
        log.truncate(A, id).unwrap();
    }
    log.release(A).unwrap();
    assert_eq!(
        (told(&log), log.end_lsn()),
        (None, start),
        "an unknown stream stays unknown, and nothing is written"
    );
    for id in 1..=10 {
        log.append(&one(A, id)).unwrap();
    }
    log.obsolete(A, 4).unwrap();
    log.obsolete(A, 2).unwrap();
    assert_eq!(told(&log), Some((Some(5), Some(10), Some(4))), "a mark does not go back");
    log.truncate(A, 11).unwrap();
    log.truncate(A, u64::MAX).unwrap();
    assert_eq!(told(&log), Some((Some(5), Some(10), Some(4))), "there is nothing to cut");
    log.truncate(A, 2).unwrap();
    assert_eq!(told(&log), Some((None, Some(4), Some(4))), "a cut goes down to the mark alone");
    log.append(&one(A, 5)).unwrap();
    log.obsolete(A, u64::MAX).unwrap();
    assert_eq!(told(&log), Some((None, Some(5), Some(5))), "a mark above the last id is one at it");
    log.append_durable(&one(A, 6)).unwrap();
    log.close().unwrap();
    let log = Log::open(dir.path(), std_options()).unwrap();
    assert_eq!(told(&log), Some((Some(6), Some(6), Some(5))));
}

#[test]
fn batches_and_payloads_of_nothing() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        let empty: Batch = Batch::new();
        for _ in 0..2 {
            let lsn = log.append(&empty).unwrap();
            log.wait_durable(lsn).unwrap();
            log.append_durable(&empty).unwrap();
            futures::executor::block_on(log.append_durable_async(empty.clone())).unwrap();
            log.append_durable(&one(A, log.stream(A).map_or(1, |info| info.last.unwrap() + 1))).unwrap();
        }
        let mut batch: Batch<&[u8]> = Batch::new();
        for id in 3..=5 {
            batch.append(A, id, b"".as_slice());
        }
        log.append_durable(&batch).unwrap();
        log.close().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        assert_eq!(
            read(&log, A).iter().map(|(_, payload)| payload.len()).collect::<Vec<_>>(),
            [300, 300, 0, 0, 0]
        );
    }
}

#[test]
fn a_batch_must_fit_in_a_frame() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), std_options()).unwrap();
    let piece = vec![0_u8; 64 << 20];
    let mut batch: Batch<&[u8]> = Batch::new();
    for id in 1..=17 {
        batch.append(A, id, piece.as_slice());
    }
    let Error::BatchTooLarge { size, limit } = refused(&log, |log| log.append(&batch)) else { panic!() };
    assert_eq!(limit, 1 << 30);
    assert!(size > 17 * (64 << 20) && size < 18 * (64 << 20), "{size}");
    log.append_durable(&one(A, 1)).unwrap();
}

#[test]
fn the_logs_own_streams_are_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), std_options()).unwrap();
    let own = StreamId::new(0, 5);
    let calls: [Call<'_>; 6] = [
        &|log| log.append(&one(own, 1)).map(drop),
        &|log| log.obsolete(own, 1),
        &|log| log.release(own),
        &|log| log.truncate(own, 1).map(drop),
        &|log| log.create_namespace(own),
        &|log| log.delete_namespace(own),
    ];
    for call in calls {
        let error = refused(&log, call);
        assert!(matches!(error, Error::ReservedStream { stream } if stream == own), "{error:?}");
    }
}

#[test]
fn nobody_waits_for_what_was_never_handed_out() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        for _ in 0..2 {
            let end = log.end_lsn();
            for beyond in [end.0.max(1), end.0 + 4096, u64::MAX] {
                let error = refused(&log, |log| log.wait_durable(Lsn(beyond)));
                assert!(
                    matches!(error, Error::BeyondEnd { attempted, end: known } if attempted == beyond && known == end.0),
                    "{error:?}"
                );
                let (send, told) = std::sync::mpsc::channel();
                log.on_durable(Lsn(beyond), move |outcome| send.send(outcome).unwrap());
                assert!(matches!(told.recv().unwrap(), Err(Error::BeyondEnd { .. })));
                let waited = futures::executor::block_on(log.durable(Lsn(beyond)));
                assert!(matches!(waited, Err(Error::BeyondEnd { .. })), "{waited:?}");
            }
            let lsn =
                log.append_durable(&one(A, log.stream(A).map_or(1, |info| info.last.unwrap() + 1))).unwrap();
            // Until the log has vouched for it, its end moves on by itself.
            while log.end_lsn() == Lsn(lsn.0 + 4096) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn a_closed_log_takes_nothing_and_is_still_read() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), tiny(backend)).unwrap();
        let lsn = log.append(&one(A, 1)).unwrap();
        let clone = log.clone();
        log.close().unwrap();
        log.close().unwrap();
        let calls: [Call<'_>; 9] = [
            &|log| log.append(&one(A, 2)).map(drop),
            &|log| log.append_durable(&one(A, 2)).map(drop),
            &|log| log.try_append(&one(A, 2)).map(drop),
            &|log| log.append_timeout(&one(A, 2), Duration::from_secs(1)).map(drop),
            &|log| futures::executor::block_on(log.append_async(one(A, 2))).map(drop),
            &|log| log.obsolete(A, 1),
            &|log| log.release(A),
            &|log| log.truncate(A, 1).map(drop),
            &|log| log.create_namespace(A),
        ];
        for call in calls {
            let error = refused(&clone, call);
            assert!(matches!(error, Error::Closed), "{error:?}");
        }
        clone.wait_durable(lsn).unwrap();
        assert_eq!(read(&clone, A), [(1, payload(1, 300))]);
    }
}
