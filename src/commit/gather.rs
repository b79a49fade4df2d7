//! When it pays to wait a moment for the threads that were just woken.

use std::time::Duration;

/// Fewer threads than this make no group.
const THREADS_MIN: u64 = 2;
/// Most commits for which a fruitless wait is not repeated.
const PAUSE_MAX: u32 = 256;
/// No wait is longer, however slow the device is.
const PATIENCE_MAX: Duration = Duration::from_micros(200);

/// Learns from the last waits: threads that think between their appends do not come back at
/// once, and waiting for them only delays those who are there.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// What a write takes, smoothed.
    write: Duration,
    /// Commits until the next try, and how many the last failure cost.
    pause: u32,
    penalty: u32,
}

impl Gathering {
    /// A write took so long.
    pub(crate) fn took(&mut self, took: Duration) {
        self.write = (self.write * 7 + took) / 8;
    }

    /// Whether to wait for as many threads as were woken.
    pub(crate) fn is_due(&mut self, woken: u64) -> bool {
        if woken < THREADS_MIN {
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
    fn patience_follows_the_device_and_is_bounded() {
        let mut gathering = Gathering::default();
        (0..64).for_each(|_| gathering.took(Duration::from_micros(80)));
        assert!((Duration::from_micros(35)..=Duration::from_micros(40)).contains(&gathering.patience()));
        (0..64).for_each(|_| gathering.took(Duration::from_secs(1)));
        assert_eq!(gathering.patience(), PATIENCE_MAX);
    }
}
