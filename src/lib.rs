#![doc = include_str!("lib_docs.md")]

mod commit;
mod error;
mod io;
mod log;
pub mod log_store;
mod observe;
mod options;
mod planted;
mod reader;
pub mod readonly;
mod recovery;
pub mod remote_log;
mod segment;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod state;
mod sync;

pub use commit::Batch;
pub use error::{Corruption, Error, Result};
pub use log::{Append, Durable, Log, StreamInfo};
pub use observe::{Event, Observer, Stats};
pub use options::{BackendChoice, Create, IdRule, Options, ReadMode};
pub use reader::{
    Entry, EntryStream, ReadOptions, ReadUpTo, Reader, Scan, ScanItem, ScanRecord, Subscription,
    SubscriptionStream, Tail,
};
pub use recovery::{RecoveryReport, TornTail};
pub use tidelog_format::{Lsn, StreamId};

/// Compiles the examples of the read-me.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
