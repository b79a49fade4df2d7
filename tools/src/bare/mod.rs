//! What the device gives without a log: a bare file under a bare group commit, and buffers that two threads write.
//!
//! For comparisons. Records are packed as whoever makes them likes.

mod device;
mod group;
mod stage;

pub use self::{
    device::{BLOCK, Blocks, Device, Ring},
    group::{Group, Sink},
    stage::Stage,
};

/// A record that is to be stored.
pub trait Put {
    /// Bytes that it takes.
    fn size(&self) -> usize;

    /// Copies it there, and gives its end.
    fn put(&self, into: &mut [u8], at: usize) -> usize;
}
