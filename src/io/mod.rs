//! What the log asks of the operating system: directories and files, aligned memory, maps, and the write queue.
//!
//! The only module with `unsafe` code. Everything above it works against [`Disk`], [`DiskFile`] and [`WriteQueue`], so
//! that a simulated disk can stand in for a real one.

mod aligned;
mod bell;
mod dir;
mod disk;
mod file;
mod fork;
mod frame_buf;
mod map;
mod queue;
mod ring;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod sim;
mod std_queue;
mod tenancy;

#[allow(unused_imports)]
pub(crate) use self::{
    aligned::{AlignedBuf, MEM_ALIGN},
    bell::Bell,
    dir::{DirOptions, NetworkFileSystem, RealDisk},
    disk::{Access, Disk, DiskFile, FileKind, Listing, Mapping},
    fork::ForkGuard,
    frame_buf::{Claimed, FrameBuf, Reservation},
    queue::{Backend, Completion, WriteOp, WriteQueue, open_queue, probe_ring},
};

#[cfg(test)]
mod tests;
