//! What the facade alone can show of the pipeline behind it.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidelog_format::StreamId;

use super::*;
use crate::options::BackendChoice;
use crate::segment::Segment;

#[test]
fn a_large_batch_that_changes_nothing_leaves_its_buffer_to_the_next() {
    let home = tempfile::tempdir().unwrap();
    let options = Options::new().backend(BackendChoice::Std).frame_size(4096);
    let log = Log::open(home.path(), options).unwrap();
    assert!(log.engine().core.lock().take_large());
    let (send, receive) = channel();
    let other = log.clone();
    std::thread::spawn(move || {
        let mut large: Batch<Vec<u8>> = Batch::new();
        send.send(other.append(large.append(StreamId::new(1, 1), 1, vec![1; 9000])))
    });
    while log.engine().room.total_listeners() == 0 {
        std::thread::yield_now();
    }
    log.engine().core.lock().release_large();
    let mut nothing: Batch<&[u8]> = Batch::new();
    for id in 0..500 {
        nothing.obsolete(StreamId::new(2, id), 1);
    }
    log.append(&nothing).unwrap();
    receive.recv_timeout(Duration::from_secs(10)).expect("the wait for the buffer ends").unwrap();
}

#[test]
fn a_large_batch_does_not_wait_for_a_buffer_that_a_failed_log_keeps() {
    let home = tempfile::tempdir().unwrap();
    let options = Options::new().backend(BackendChoice::Std).frame_size(4096);
    let log = Log::open(home.path(), options).unwrap();
    // As if another large batch were on its way when the log failed.
    assert!(log.engine().core.lock().take_large());
    log.engine().poison("a failed write");
    let mut large: Batch<Vec<u8>> = Batch::new();
    large.append(StreamId::new(1, 1), 1, vec![1; 9000]);
    let answer = log.append_timeout(&large, Duration::from_secs(2));
    assert!(matches!(answer, Err(Error::Poisoned { .. })), "{answer:?}");
}

#[test]
fn what_a_truncation_looked_up_is_not_believed_after_another_one() {
    let home = tempfile::tempdir().unwrap();
    let log = Log::open(home.path(), Options::new().id_rule(IdRule::Increasing)).unwrap();
    let stream = StreamId::new(1, 1);
    let append = |ids: &[u64]| {
        let mut batch: Batch<&[u8]> = Batch::new();
        for id in ids {
            batch.append(stream, *id, b"".as_slice());
        }
        log.append(&batch).unwrap();
    };
    append(&[1, 2, 5, 30]);
    log.truncate(stream, 10).unwrap();
    append(&[9]);
    let mut batch: Batch<&[u8]> = Batch::new();
    batch.truncate(stream, 7);
    let hints = hints(log.engine(), &batch).unwrap();
    assert_eq!(hints[0].below, Some(5));
    // The stream ends with 9 again, and has one fence as before.
    log.truncate(stream, 3).unwrap();
    append(&[9]);
    let stale = log.engine().append(&batch, &hints, false, Patience::Endless);
    assert!(matches!(stale, Err(Error::Contended { .. })));
    log.append(&batch).unwrap();
    assert_eq!(log.stream(stream).unwrap().last, Some(2));
}

/// Whoever reads first after an opening need not go over the newest segment, which recovery has gone over.
#[test]
fn recovery_finds_the_runs_that_a_scan_finds_and_the_next_segment_has_them_cached() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (StreamId::new(1, 1), StreamId::new(2, 2));
    let write = |from: u64, step: &dyn Fn(&Log)| {
        let log = Log::open(home.path(), Options::new()).unwrap();
        for id in from..from + 3 {
            let mut batch: Batch<&[u8]> = Batch::new();
            batch.append(one, id, b"1".as_slice()).append(two, id, b"22".as_slice());
            log.wait_durable(log.append(&batch).unwrap()).unwrap();
        }
        step(&log);
        log.close().unwrap();
    };
    write(1, &|_| ());
    write(4, &|log| {
        log.release(two).unwrap();
        log.wait_durable(log.append(Batch::<&[u8]>::new().append(two, 90, b"again".as_slice())).unwrap())
            .unwrap();
    });

    let log = Log::open(home.path(), Options::new()).unwrap();
    let segments = log.engine().segments.snapshot();
    let newest = segments.iter().find(|segment| segment.holds_runs()).expect("recovery keeps them");
    let disk = Arc::clone(&log.engine().disk);
    let (log_id, sequence) = (log.engine().log_id, newest.sequence());
    let scanned = Segment::ended(disk, log_id, sequence, None, newest.end());
    let found = newest.streams(None, usize::MAX).unwrap();
    assert_eq!(found, scanned.streams(None, usize::MAX).unwrap());
    let previous: Vec<_> = found.iter().map(|(stream, runs)| (*stream, runs.previous)).collect();
    assert_eq!(previous.iter().filter(|(_, previous)| *previous == 1).count(), 2, "{previous:?}");

    log.wait_durable(log.append(Batch::<&[u8]>::new().append(one, 7, b"".as_slice())).unwrap()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while newest.holds_runs() {
        assert!(Instant::now() < deadline, "the keeper writes its cache");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(newest.streams(None, usize::MAX).unwrap(), found);
}
