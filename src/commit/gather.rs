//! When it pays to wait a moment for the threads that were just woken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Fewer threads than this make no group.
const THREADS_MIN: u64 = 2;
/// More take as long to come back as a write takes: they had better come while the others' is under way.
const THREADS_MAX: u64 = 16;
/// A write of this many bytes takes its time by the byte: one for two spares nothing.
const LARGE: u64 = 512 << 10;
/// Most commits for which a fruitless wait is not repeated.
const PAUSE_MAX: u32 = 256;
/// No wait is longer, however slow the device is.
const PATIENCE_MAX: Duration = Duration::from_micros(200);

/// Appends staged whose callers wait for them to be durable, counted, and the committer that waits for
/// some of them to come.
///
/// It sleeps meanwhile. Turning with `yield_now` instead made the median a little better and the tail
/// ten times worse: a thread that yields again and again is put far behind the others by the
/// scheduler, and was then late by whole time slices when its write had completed.
#[derive(Debug)]
pub(crate) struct Arrivals {
    count: AtomicU64,
    /// The count that the committer waits for; `u64::MAX`: none.
    goal: AtomicU64,
    waiting: Mutex<Option<Thread>>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { count: AtomicU64::new(0), goal: AtomicU64::new(u64::MAX), waiting: Mutex::new(None) }
    }
}

impl Arrivals {
    /// One more has come. The order of count and goal is the same here as for whoever waits, so that one
    /// of the two sees the other.
    pub(crate) fn arrive(&self) {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if count >= self.goal.load(Ordering::SeqCst)
            && let Some(thread) = self.waiting.lock().take()
        {
            thread.unpark();
        }
    }

    /// What the count comes to with so many more.
    pub(crate) fn expect(&self, more: u64) -> u64 {
        self.count.load(Ordering::SeqCst) + more
    }

    /// Waits for the count to come to the goal. False where the patience is over before.
    pub(crate) fn wait(&self, goal: u64, patience: Duration) -> bool {
        let begun = Instant::now();
        *self.waiting.lock() = Some(thread::current());
        self.goal.store(goal, Ordering::SeqCst);
        let complete = loop {
            if self.count.load(Ordering::SeqCst) >= goal {
                break true;
            }
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break false;
            }
            thread::park_timeout(left);
        };
        self.goal.store(u64::MAX, Ordering::SeqCst);
        *self.waiting.lock() = None;
        complete
    }
}

/// Learns from the last waits: threads that think between their appends do not come back at
/// once, and waiting for them only delays those who are there.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// What a write takes, smoothed.
    write: Duration,
    /// The last one was large.
    large: bool,
    /// Commits until the next try, and how many the last failure cost.
    pause: u32,
    penalty: u32,
}

impl Gathering {
    /// A write of so many bytes took so long.
    pub(crate) fn took(&mut self, bytes: u64, took: Duration) {
        self.large = bytes >= LARGE;
        self.write = (self.write * 7 + took) / 8;
    }

    /// Whether to wait for as many threads as were woken.
    pub(crate) fn is_due(&mut self, woken: u64) -> bool {
        if !(THREADS_MIN..=THREADS_MAX).contains(&woken) || self.large {
            return false;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        true
    }

    /// How long at most: less than the write costs that they would otherwise wait for.
    pub(crate) fn patience(&self) -> Duration {
        (self.write / 2).min(PATIENCE_MAX)
    }

    /// Whether all came back in time.
    pub(crate) fn learn(&mut self, complete: bool) {
        self.penalty = if complete { 0 } else { (self.penalty * 2 + 1).min(PAUSE_MAX) };
        self.pause = self.penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fruitless_waits_become_rare_and_one_that_pays_brings_them_back() {
        let mut gathering = Gathering::default();
        assert!(!gathering.is_due(1));
        let mut waits = 0;
        for _ in 0..1000 {
            if gathering.is_due(16) {
                waits += 1;
                gathering.learn(false);
            }
        }
        assert!((5..=15).contains(&waits), "{waits}");
        while !gathering.is_due(16) {}
        gathering.learn(true);
        assert!(gathering.is_due(16));
    }

    #[test]
    fn many_threads_and_large_writes_are_not_waited_for() {
        let mut gathering = Gathering::default();
        assert!(gathering.is_due(THREADS_MAX));
        assert!(!gathering.is_due(THREADS_MAX + 1));
        gathering.took(LARGE, Duration::from_micros(400));
        assert!(!gathering.is_due(16));
        gathering.took(4096, Duration::from_micros(50));
        assert!(gathering.is_due(16));
    }

    #[test]
    fn patience_follows_the_device_and_is_bounded() {
        let mut gathering = Gathering::default();
        (0..64).for_each(|_| gathering.took(4096, Duration::from_micros(80)));
        assert!((Duration::from_micros(35)..=Duration::from_micros(40)).contains(&gathering.patience()));
        (0..64).for_each(|_| gathering.took(4096, Duration::from_secs(1)));
        assert_eq!(gathering.patience(), PATIENCE_MAX);
    }
}
