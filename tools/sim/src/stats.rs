//! What was done, counted.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use tidelog::sim::SimDisk;

/// Counts over histories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Histories run.
    pub histories: u64,
    /// Batches taken.
    pub batches: u64,
    /// Images, each recovered twice and checked in full.
    pub points: u64,
    /// Of these, images of crashes inside a recovery.
    pub inner: u64,
    /// Openings.
    pub recoveries: u64,
    /// How often each fault came, and each kind of damage was done.
    pub faults: BTreeMap<&'static str, u64>,
    /// Folded from all images: the same histories give the same.
    pub trace: u64,
}

impl Stats {
    /// Takes in what the disk had.
    pub fn faults_of(&mut self, disk: &SimDisk) {
        for (kind, count) in disk.faults().into_iter().filter(|(_, count)| *count > 0) {
            *self.faults.entry(kind.name()).or_default() += count;
        }
    }

    /// Counts a piece of damage.
    pub fn damaged(&mut self, what: &'static str) {
        *self.faults.entry(what).or_default() += 1;
    }

    /// Folds a value into the trace.
    pub fn fold(&mut self, value: u64) {
        self.trace = (self.trace.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.batches += other.batches;
        self.points += other.points;
        self.inner += other.inner;
        self.recoveries += other.recoveries;
        for (what, count) in other.faults {
            *self.faults.entry(what).or_default() += count;
        }
        self.trace ^= other.trace;
    }
}
