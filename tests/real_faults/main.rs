//! Faults for real, on real file systems: of the test's own, in image files behind loop devices, and in child
//! processes with limits, filters and injected errors. What cannot run here says so and skips.

#[path = "../common/mod.rs"]
mod common;
mod injected;
mod limits;
mod medium;
mod power_cut;
mod processes;
mod read_only;
mod refused;
mod workload;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mounts, loop devices and the locks of open logs are seen by children that others start: one at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
