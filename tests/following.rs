//! Readers that go on, and readers that block nobody.

use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures::executor::{block_on, block_on_stream};
use futures::{Stream, StreamExt};
use tempfile::TempDir;
use tidelog::{Batch, EntryStream, Error, Log, Options, ReadOptions, ReadUpTo, StreamId};

const A: StreamId = StreamId::new(1, 1);
const B: StreamId = StreamId::new(1, 2);
/// Far more than anything here takes; only a fault makes a test wait so long.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

fn options() -> Options {
    Options::new().first_segment_size(128 << 10).segment_size(128 << 10).frame_size(16 << 10)
}

fn open() -> (TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), options()).unwrap();
    (dir, log)
}

fn fill(log: &Log, stream: StreamId, ids: RangeInclusive<u64>) {
    let mut batch: Batch<Vec<u8>> = Batch::new();
    for id in ids {
        batch.clear();
        log.append(batch.append(stream, id, vec![id as u8; 1000])).unwrap();
    }
}

#[test]
fn a_tail_goes_on_over_segments_until_the_log_is_closed() {
    let (_dir, log) = open();
    fill(&log, A, 1..=50);
    let tail = log.tail(A, 40, ReadOptions::new()).unwrap();
    let follower = thread::spawn(move || tail.map(|entry| entry.unwrap().id).collect::<Vec<_>>());
    for id in 51..=600 {
        fill(&log, A, id..=id);
        fill(&log, B, id..=id);
    }
    log.close().unwrap();
    assert!(log.stats().segments > 3);
    assert_eq!(follower.join().unwrap(), (40..=600).collect::<Vec<_>>());
}

#[test]
fn a_tail_waits_no_longer_than_it_is_told() {
    let (_dir, log) = open();
    let mut tail = log.tail(A, 3, ReadOptions::new()).unwrap();
    assert!(tail.next_timeout(SHORT).unwrap().is_none());
    fill(&log, A, 1..=3);
    assert_eq!(tail.next_timeout(LONG).unwrap().unwrap().id, 3);
    fill(&log, B, 1..=9);
    assert!(tail.next_timeout(SHORT).unwrap().is_none(), "entries of others are not its own");
    log.obsolete(A, 3).unwrap();
    fill(&log, A, 4..=4);
    assert_eq!(tail.next_timeout(LONG).unwrap().unwrap().id, 4);
    log.close().unwrap();
    assert!(matches!(tail.next_timeout(LONG), Err(Error::Closed)));
    assert!(tail.next().is_none());
}

#[test]
fn a_tail_ends_where_its_place_was_cut() {
    let (_dir, log) = open();
    fill(&log, A, 1..=20);
    let mut tails: Vec<_> = (0..2).map(|_| log.tail(A, 11, ReadOptions::new()).unwrap()).collect();
    for tail in &mut tails {
        assert_eq!(tail.by_ref().take(10).last().unwrap().unwrap().id, 20);
    }
    log.truncate(A, 21).unwrap();
    fill(&log, A, 21..=22);
    let mut cut = tails.pop().unwrap();
    assert_eq!(cut.next_timeout(LONG).unwrap().unwrap().id, 21, "nothing that it has passed was cut");
    log.truncate(A, 15).unwrap();
    fill(&log, A, 15..=40);
    let end: Vec<_> = cut.collect();
    let [.., Err(Error::Truncated { stream: A, next })] = end[..] else { panic!("{end:?}") };
    assert!(next == 22 || next == 23, "{next}");
    let mut other = tails.pop().unwrap();
    assert!(matches!(other.next(), Some(Err(Error::Truncated { stream: A, next: 21 }))));
    assert!(other.next().is_none());

    let mut released = log.tail(A, 41, ReadOptions::new()).unwrap();
    log.release(A).unwrap();
    fill(&log, A, 1..=60);
    assert!(matches!(released.next(), Some(Err(Error::Truncated { stream: A, next: 41 }))));
}

#[test]
fn a_durable_tail_gives_nothing_before_it_is_durable() {
    let (_dir, log) = open();
    let tail = log.tail(A, 1, ReadOptions::new().up_to(ReadUpTo::Durable)).unwrap();
    fill(&log, A, 1..=5);
    for entry in tail.take(5) {
        assert!(entry.unwrap().lsn < log.durable_lsn());
    }
}

#[test]
fn a_stream_gives_the_same_batches_without_a_runtime() {
    let (_dir, log) = open();
    fill(&log, A, 1..=500);
    let options = ReadOptions::new().max_batch_entries(70);
    let stream = log.read(A, .., options).unwrap().into_stream();
    let batches: Vec<_> = block_on_stream(stream).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [70, 70, 70, 70, 70, 70, 70, 10]);
    assert!(batches.iter().flatten().map(|entry| entry.id).eq(1..=500));
    assert!(block_on(log.read(A, 501.., options).unwrap().into_stream().next()).is_none());
}

#[test]
fn a_tail_as_a_stream_is_woken_and_ends_with_the_log() {
    let (_dir, log) = open();
    let stream = log.tail(A, 1, ReadOptions::new()).unwrap().into_stream();
    let (send, received) = channel();
    let follower = thread::spawn(move || {
        for batch in block_on_stream(stream) {
            batch.unwrap().iter().for_each(|entry| send.send(entry.id).unwrap());
        }
    });
    for id in 1..=30 {
        assert_eq!(received.recv_timeout(SHORT / 10), Err(RecvTimeoutError::Timeout));
        fill(&log, A, id..=id);
        assert_eq!(received.recv_timeout(LONG), Ok(id));
    }
    log.close().unwrap();
    follower.join().unwrap();
}

fn assert_free<T: Stream + Send + Unpin + 'static>(_: &T) {}

#[test]
fn a_stream_owns_what_it_needs_and_may_be_dropped_at_any_time() {
    let (dir, log) = open();
    fill(&log, A, 1..=300);
    let streams: Vec<EntryStream> =
        (0..10).map(|_| log.read(A, .., ReadOptions::new()).unwrap().into_stream()).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut kept = None;
    for mut stream in streams {
        assert_free(&stream);
        let first = pin!(stream.next()).as_mut().poll(&mut context);
        assert!(matches!(first, Poll::Pending | Poll::Ready(Some(Ok(_)))));
        kept = Some(log.read(A, .., ReadOptions::new()).unwrap().into_stream());
    }
    log.close().unwrap();
    drop(log);
    // A stream does not keep the directory locked, nor the newest segment's file.
    let log = Log::open(dir.path(), options().lock_wait(SHORT)).unwrap();
    fill(&log, A, 301..=301);
    let entries: Vec<_> = block_on_stream(kept.unwrap()).flat_map(Result::unwrap).collect();
    assert!(entries.iter().map(|entry| entry.id).eq(1..=300));
}

#[test]
fn a_subscription_sees_the_watermark_move_and_the_log_end() {
    let (_dir, log) = open();
    let mut subscription = log.subscribe().unwrap();
    assert_eq!(subscription.watermark(), log.durable_lsn());
    assert_eq!(subscription.next_timeout(SHORT).unwrap(), None);
    let stream = log.subscribe().unwrap().into_stream();
    assert_free(&stream);
    let follower = thread::spawn(move || block_on_stream(stream).map(Result::unwrap).collect::<Vec<_>>());
    let mut batch: Batch<&[u8]> = Batch::new();
    for id in 1..=20 {
        batch.clear();
        let lsn = log.append_durable(batch.append(A, id, b"x".as_slice())).unwrap();
        let moved = subscription.next_timeout(LONG).unwrap().unwrap();
        assert!(moved > lsn && moved <= log.durable_lsn());
    }
    log.close().unwrap();
    let last = subscription.by_ref().last().map(Result::unwrap);
    let last = last.unwrap_or(subscription.watermark());
    assert_eq!(last, log.durable_lsn());
    assert!(matches!(subscription.next_timeout(LONG), Err(Error::Closed)));
    let seen = follower.join().unwrap();
    assert!(seen.is_sorted() && seen.last() == Some(&last));
}
