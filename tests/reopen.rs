//! A log that was closed can be opened again at once, whatever else the process does.

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidelog::{BackendChoice, Batch, Log, StreamId};

use common::{backends, tiny};

const A: StreamId = StreamId { class: 1, id: 1 };

/// Between fork and exec a new process has all descriptors of ours, and with them their locks.
#[test]
fn processes_that_are_being_started_do_not_keep_a_closed_log_locked() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    Command::new("/bin/true").status().unwrap();
                }
            });
            let reopened = (0..60).map(|_| Log::open(dir.path(), tiny(backend))?.close());
            let outcome: Result<(), _> = reopened.collect();
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap();
        });
    }
}

#[test]
fn handles_and_waits_that_outlive_a_log_do_not_keep_it_locked() {
    for backend in [BackendChoice::Std].into_iter().chain(backends()) {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Vec::new();
        for round in 1..=6_u64 {
            let log = Log::open(dir.path(), tiny(backend)).unwrap();
            assert_eq!(log.stream(A).and_then(|info| info.last), (round > 1).then_some(round - 1));
            let lsn = log.append(Batch::<&[u8]>::new().append(A, round, b"x".as_slice())).unwrap();
            let wait = log.durable(lsn);
            if round % 2 == 0 {
                log.close().unwrap();
                kept.push((wait, Some(log)));
            } else {
                log.wait_durable(lsn).unwrap();
                drop(log);
                kept.push((wait, None));
            }
        }
    }
}
