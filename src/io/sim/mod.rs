//! A simulated disk: deterministic from a seed, driven by one thread.
//!
//! Writes in flight complete in any order. What no flush has covered is kept, lost or torn by the
//! sector of 512 bytes when the power is cut, each on its own; names that the directory's fsync
//! has not covered are kept or lost; `RWF_DSYNC` covers its own bytes only, and a flush what had
//! completed on its file when it was submitted. Any operation can be given a fault, and what is on
//! the disk can be damaged.

mod crash;
mod disk;
mod fault;
mod file;
mod own_lsn;
mod pages;
mod queue;
mod snapshot;
#[cfg(all(test, feature = "shuttle"))]
mod waking;
mod world;

#[cfg(all(test, feature = "shuttle"))]
pub(crate) use self::waking::WakingQueue;
pub use self::{disk::SimDisk, fault::FaultKind, snapshot::Snapshot};
pub(crate) use self::{disk::SimFile, queue::SimQueue};
