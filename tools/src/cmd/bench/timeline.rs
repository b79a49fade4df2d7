//! Latency over time, in short buckets: a stall shows that a percentile of the whole hides.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// A bucket's length.
pub(crate) const BUCKET: Duration = Duration::from_millis(50);

/// What one bucket saw: calls count where they ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// When it began, from the start of the window.
    pub(crate) at: Duration,
    /// Nanoseconds.
    pub(crate) median: u64,
    pub(crate) max: u64,
}

/// The buckets of all callers.
#[derive(Debug)]
pub(crate) struct Timeline(Mutex<Vec<Slot>>);

#[derive(Clone, Debug)]
struct Slot {
    latency: Histogram<u32>,
    max: u64,
}

impl Slot {
    fn new() -> Self {
        let mut latency = Histogram::new_with_bounds(1, 1 << 30, 1).expect("the bounds are valid");
        latency.auto(true);
        Self { latency, max: 0 }
    }
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn add(&self, bucket: usize, slot: &Slot) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() <= bucket {
            slots.resize_with(bucket + 1, Slot::new);
        }
        let into = &mut slots[bucket];
        let _ = into.latency.add(&slot.latency);
        into.max = into.max.max(slot.max);
    }

    /// Those in which a call ended.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = |(index, slot): (u32, &Slot)| {
            let median = slot.latency.value_at_quantile(0.5).min(slot.max);
            (!slot.latency.is_empty()).then_some(Bucket { at: BUCKET * index, median, max: slot.max })
        };
        (0..).zip(slots.iter()).filter_map(bucket).collect()
    }
}

/// The bucket that a caller is in.
#[derive(Debug, Default)]
pub(crate) struct Current(Option<(usize, Slot)>);

impl Current {
    pub(crate) fn note(&mut self, timeline: &Timeline, at: Duration, nanos: u64, calls: u64) {
        let bucket = usize::try_from(at.as_nanos() / BUCKET.as_nanos()).unwrap_or(usize::MAX);
        if !matches!(&self.0, Some((current, _)) if *current == bucket) {
            self.finish(timeline);
            self.0 = Some((bucket, Slot::new()));
        }
        if let Some((_, slot)) = &mut self.0 {
            let _ = slot.latency.record_n(nanos, u32::try_from(calls).unwrap_or(u32::MAX));
            slot.max = slot.max.max(nanos);
        }
    }

    /// Hands over what is noted.
    pub(crate) fn finish(&mut self, timeline: &Timeline) {
        if let Some((bucket, slot)) = self.0.take() {
            timeline.add(bucket, &slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fall_into_the_bucket_they_ended_in() {
        let timeline = Timeline::new();
        let (mut one, mut two) = (Current::default(), Current::default());
        for nanos in [100, 100, 100_000_000] {
            one.note(&timeline, Duration::from_millis(1), nanos, 1);
        }
        two.note(&timeline, Duration::from_millis(49), 100, 7);
        two.note(&timeline, Duration::from_millis(151), 5000, 1);
        one.finish(&timeline);
        two.finish(&timeline);
        let buckets = timeline.buckets();
        assert_eq!(buckets.len(), 2, "empty ones are left out");
        assert_eq!((buckets[0].at, buckets[0].max), (Duration::ZERO, 100_000_000));
        assert!((100..=110).contains(&buckets[0].median), "{buckets:?}");
        assert_eq!((buckets[1].at, buckets[1].max), (Duration::from_millis(150), 5000));
    }
}
