//! Bad input on either backend: what is refused is named with its values, and everything is as it was before.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod closed;
mod files;
mod numbers;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use tidelog::{BackendChoice, Batch, Error, Log, Lsn, Options, StreamId, StreamInfo};

use common::{one, read, tiny};

pub(crate) const A: StreamId = StreamId::new(1, 1);
pub(crate) const B: StreamId = StreamId::new(1, 2);

/// Nothing is written but what the test asks for.
pub(crate) fn options(backend: BackendChoice) -> Options {
    tiny(backend).idle_after(Duration::MAX).flush_interval(Duration::MAX)
}

pub(crate) fn ids(log: &Log, stream: StreamId) -> Vec<u64> {
    read(log, stream).into_iter().map(|(id, _)| id).collect()
}

pub(crate) fn segment(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{sequence:020}.log"))
}

/// All that a refusal could leave a trace in.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    streams: Vec<(StreamId, StreamInfo)>,
    namespaces: Vec<StreamId>,
    entries: Vec<(u64, Bytes)>,
    end: Lsn,
    counted: (u64, u64),
}

pub(crate) fn told(log: &Log) -> Told {
    let stats = log.stats();
    Told {
        streams: log.streams(),
        namespaces: log.namespaces(),
        entries: log.streams().iter().flat_map(|(stream, _)| read(log, *stream)).collect(),
        end: log.end_lsn(),
        counted: (stats.entries, stats.batches),
    }
}

type Append = fn(&Log, &Batch) -> Result<Lsn, Error>;

/// Every way in which a batch is appended.
pub(crate) const WAYS: [(&str, Append); 6] = [
    ("append", |log, batch| log.append(batch)),
    ("append_durable", |log, batch| log.append_durable(batch)),
    ("try_append", |log, batch| log.try_append(batch)),
    ("append_timeout", |log, batch| log.append_timeout(batch, Duration::from_secs(30))),
    ("append_async", |log, batch| futures::executor::block_on(log.append_async(batch.clone()))),
    ("append_durable_async", |log, batch| {
        futures::executor::block_on(log.append_durable_async(batch.clone()))
    }),
];

/// Copies the files of a directory into a new one.
pub(crate) fn copy(dir: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}
