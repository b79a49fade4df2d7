//! The remote log metadata in a journal: what survives, who sees what when, and how the journal stays short.

mod against_memory;
mod cases;
mod checkpoints;
mod concurrency;
mod faults;
mod reading;
#[allow(dead_code, reason = "the tests of the store in memory need the rest")]
#[path = "../remote_log/support.rs"]
mod segments;
mod sharing;
mod support;
