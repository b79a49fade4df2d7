//! From an append to a durable frame.
//!
//! [`core`] and what it is made of are pure; [`engine`] is the appender's side of it, and the
//! other threads carry out what it asks for: [`committer`] writes, [`preparer`] makes segment
//! files, [`keeper`] retires them, [`notifier`] runs what belongs to others.

mod batch;
mod clock;
mod committer;
mod core;
mod direct;
mod engine;
mod flight;
mod frame;
mod gather;
mod keeper;
mod linger;
mod notifier;
mod plan;
mod poll;
mod preparer;
mod progress;
mod resolve;
mod stage;
#[cfg(any(test, feature = "sim"))]
mod stepped;
mod succession;
#[cfg(test)]
mod tests;
mod threads;

pub use batch::Batch;
pub(crate) use batch::{Op, TruncateHint};
pub(crate) use engine::{Engine, Patience};
pub(crate) use notifier::Notice;
pub(crate) use preparer::Spare;
pub(crate) use progress::{Goal, Mark};
pub(crate) use stage::Blocked;
#[cfg(any(test, feature = "sim"))]
pub(crate) use stepped::Stepped;
pub(crate) use threads::{Start, Threads};
