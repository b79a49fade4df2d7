//! Crashes tidelog on a simulated disk and checks what is left.
//!
//! A [`History`] is what is done to a log: batches, turns of the pipeline, time, faults, crashes. It is
//! drawn from a seed, run beside a model that knows what the log promised, and shortened when it
//! breaks a promise. Everything is deterministic: the same history does the same.

mod content;
mod damage;
mod history;
mod run;
mod shrink;
mod stats;
mod story;

pub use content::{Content, Ids};
pub use history::{History, Kind, Step, Theme};
pub use run::{Broken, Violation, run};
pub use shrink::shrink;
pub use stats::Stats;
