//! Logs to measure, under `target/`, so that the figures are those of a disk and not of memory.

use std::path::Path;

use tempfile::TempDir;
use tidelog::{Batch, Log, Options, StreamId};

/// A directory that is gone with the value.
pub(crate) fn place() -> TempDir {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tempfile::tempdir_in(target).expect("the build directory is writable")
}

/// A stream of entries.
pub(crate) fn stream(id: u64) -> StreamId {
    StreamId::new(1, id)
}

/// Opens the log in a directory.
pub(crate) fn open(dir: &Path) -> Log {
    Log::open(dir, Options::new()).expect("the directory is empty or holds a log")
}

/// Makes everything durable and ends the log.
pub(crate) fn close(log: &Log) {
    log.close().expect("a healthy log closes");
}

/// Appends so many batches of one entry for each of so many streams, and waits for them.
pub(crate) fn fill(log: &Log, batches: u64, streams: u64, payload: &[u8]) {
    let mut batch: Batch<&[u8]> = Batch::new();
    let mut last = None;
    for id in 1..=batches {
        batch.clear();
        for number in 0..streams {
            batch.append(stream(number), id, payload);
        }
        last = Some(log.append(&batch).expect("a healthy log takes it"));
    }
    if let Some(lsn) = last {
        log.wait_durable(lsn).expect("a healthy log writes");
    }
}
