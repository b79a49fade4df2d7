//! A log after it was closed.

use std::sync::mpsc::channel;
use std::time::Duration;

use futures::executor::block_on;
use tidelog::{Batch, Error, Log, Lsn, ReadOptions};

use crate::common::{backends, snapshot};
use crate::{A, B, WAYS, ids, one, options, told};

#[test]
fn it_takes_nothing_whichever_way_it_comes() {
    type Call = fn(&Log) -> Result<(), Error>;
    let calls: [(&str, Call); 5] = [
        ("obsolete", |log| log.obsolete(A, 1)),
        ("truncate", |log| log.truncate(A, 1).map(drop)),
        ("release", |log| log.release(A)),
        ("create_namespace", |log| log.create_namespace(B)),
        ("delete_namespace", |log| log.delete_namespace(A)),
    ];
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        log.create_namespace(A).unwrap();
        let lsn = log.append(&one(A, 1)).unwrap();
        // Made before, polled after.
        let (append, durable) = (log.append_async(one(A, 2)), log.durable(lsn));
        log.clone().close().unwrap();
        let (files, before) = (snapshot(home.path()), told(&log));
        for (way, append) in WAYS {
            for batch in [one(A, 2), Batch::new(), one(A, 9)] {
                let error = append(&log, &batch).unwrap_err();
                assert!(matches!(error, Error::Closed), "{way}: {error:?}");
            }
        }
        for (what, call) in calls {
            let error = call(&log).unwrap_err();
            assert!(matches!(error, Error::Closed), "{what}: {error:?}");
        }
        assert!(matches!(block_on(append), Err(Error::Closed)));
        block_on(durable).unwrap();
        assert_eq!(told(&log), before);
        assert!(files == snapshot(home.path()));
        log.close().unwrap();
        drop(log);
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!((ids(&log, A), log.namespaces()), (vec![1], vec![A]));
    }
}

#[test]
fn waits_for_what_never_came_end_and_those_for_what_came_succeed() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        let lsn = log.append(&one(A, 1)).unwrap();
        log.close().unwrap();
        let told = |lsn: Lsn| {
            let (send, receive) = channel();
            log.on_durable(lsn, move |outcome| send.send(outcome).unwrap());
            // The thread that calls back may be gone by now.
            receive.recv_timeout(Duration::from_secs(30)).expect("a call back that never comes")
        };
        let waits = |lsn| [log.wait_durable(lsn), block_on(log.durable(lsn)), told(lsn)];
        for outcome in waits(lsn) {
            outcome.unwrap();
        }
        for beyond in [log.end_lsn(), Lsn(u64::MAX)] {
            for outcome in waits(beyond) {
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Closed | Error::BeyondEnd { .. }), "{error:?}");
            }
        }
    }
}

#[test]
fn it_is_read_and_not_followed_for_ever() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        for id in 1..=3 {
            log.append(&one(A, id)).unwrap();
        }
        log.close().unwrap();
        assert_eq!(ids(&log, A), [1, 2, 3]);
        let scanned = log.scan(Lsn(0), ReadOptions::new()).unwrap();
        assert!(scanned.map(Result::unwrap).count() > 0);
        let (send, receive) = channel();
        let beside = log.clone();
        std::thread::spawn(move || {
            let tail = beside.tail(A, 1, ReadOptions::new()).unwrap();
            send.send(tail.map(|entry| entry.map(|entry| entry.id)).collect::<Vec<_>>()).unwrap();
        });
        let followed = receive.recv_timeout(Duration::from_secs(30)).expect("a tail that waits for ever");
        let good: Vec<_> = followed.iter().filter_map(|id| id.as_ref().ok()).collect();
        assert_eq!(good, [&1, &2, &3], "{followed:?}");
    }
}
