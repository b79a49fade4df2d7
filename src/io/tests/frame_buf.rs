use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use parking_lot::RwLock;

use super::*;

#[test]
fn ranges_are_disjoint_aligned_and_padded_with_zeros() {
    let mut claimed = Claimed::new(256, Some(3)).unwrap();
    claimed.fill(0xff);
    let buf = claimed.reopen(60);
    assert_eq!(buf.used(), 64);
    let mut a = buf.reserve(21).unwrap();
    let b = buf.reserve(8).unwrap();
    assert_eq!((a.offset(), b.offset(), buf.used()), (64, 88, 96));
    a.write(b"abc");
    a.write(b"0123456789");
    assert_eq!(a.remaining(), 0);
    assert!(!a.finish() && !b.finish());
    assert!(buf.close());

    let claimed = buf.claim().unwrap();
    assert_eq!((claimed.used(), claimed.slot(), claimed.len()), (96, Some(3), 256));
    assert_eq!(&claimed[60..64], [0xff; 4]);
    assert_eq!(&claimed[64..88], b"abc\0\0\0\0\x000123456789\0\0\0\0\0\0");
    // What a reservation leaves unwritten is zeroed as well.
    assert_eq!(&claimed[88..96], [0; 8]);
    assert_eq!(&claimed[96..], [0xff; 160]);
}

#[test]
fn no_room_no_reservation() {
    let buf = Claimed::new(100, None).unwrap().reopen(0);
    assert!(buf.reserve(101).is_none());
    assert!(buf.reserve(usize::MAX).is_none());
    let whole = buf.reserve(96).unwrap();
    assert!(buf.reserve(1).is_none());
    assert_eq!(buf.reserve(0).unwrap().offset(), 96);
    assert!(!whole.finish());
}

#[test]
fn claimed_once_and_only_when_closed_and_quiet() {
    let buf = Claimed::new(BLOCK, None).unwrap().reopen(64);
    assert!(buf.claim().is_none(), "open");
    let (first, second) = (buf.reserve(10).unwrap(), buf.reserve(10).unwrap());
    assert!(!buf.close());
    assert!(buf.reserve(10).is_none(), "closed");
    assert!(buf.claim().is_none(), "two alive");
    assert!(!first.finish());
    assert!(buf.claim().is_none(), "one alive");
    assert!(second.finish(), "the last one says so");
    let claimed = buf.claim().unwrap();
    assert!(buf.claim().is_none(), "claimed");
    assert!(buf.reserve(1).is_none(), "claimed");
    let buf = claimed.reopen(64);
    assert_eq!(buf.used(), 64);
    assert!(buf.reserve(1).is_some());
}

#[test]
fn a_dropped_reservation_counts_as_ended() {
    let buf = Claimed::new(BLOCK, None).unwrap().reopen(0);
    let mut dropped = buf.reserve(16).unwrap();
    dropped.write(b"12345678");
    drop(dropped);
    buf.close();
    assert_eq!(&buf.claim().unwrap()[..16], b"12345678\0\0\0\0\0\0\0\0");
}

#[test]
#[should_panic(expected = "a reservation of 8 bytes is over")]
fn writing_beyond_the_range_is_refused() {
    let buf = Claimed::new(BLOCK, None).unwrap().reopen(0);
    let mut reservation = buf.reserve(3).unwrap();
    reservation.write(b"abc");
    reservation.write(b"d");
}

/// Threads fill rows of one shared buffer while an owner closes, claims, checks and reopens it.
#[test]
fn rows_written_in_parallel_arrive_whole() {
    const ROW: usize = 24;
    const ROUNDS: usize = if cfg!(miri) { 10 } else { 300 };
    let shared = RwLock::new(Claimed::new(64 * ROW, None).unwrap().reopen(0));
    let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));

    let append = |who: u8| {
        let mut count = 0u8;
        while !stop.load(Ordering::Relaxed) {
            let buf = Arc::clone(&shared.read());
            if let Some(mut row) = buf.reserve(ROW) {
                count = count.wrapping_add(1);
                row.write(&[who; 8]);
                row.write(&[count; 16]);
                row.finish();
                written.fetch_add(1, Ordering::Relaxed);
            }
            thread::yield_now();
        }
    };
    let seen = thread::scope(|scope| {
        for who in 1..=3 {
            scope.spawn(move || append(who));
        }
        let mut seen = 0;
        let mut rounds = 0;
        // On a busy machine they may not come in for long.
        while rounds < ROUNDS || seen == 0 {
            rounds += 1;
            let buf = Arc::clone(&shared.read());
            buf.close();
            let mut claimed = loop {
                match buf.claim() {
                    Some(claimed) => break claimed,
                    None => thread::yield_now(),
                }
            };
            let used = claimed.used();
            for row in claimed[..used].chunks(ROW) {
                assert!((1..=3).contains(&row[0]) && row[..8] == [row[0]; 8], "{row:?}");
                assert!(row[8..] == [row[8]; 16], "{row:?}");
            }
            seen += used / ROW;
            claimed.fill(0);
            *shared.write() = claimed.reopen(0);
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        seen
    });
    let left = shared.read().used() / ROW;
    assert_eq!(seen + left, written.into_inner());
}
