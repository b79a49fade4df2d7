//! A log to be damaged.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tidelog::{Error, Log};

use crate::common::snapshot;
use crate::{A, one, std_options};

/// Entries of the log that the tests damage.
pub(crate) const COUNT: u64 = 200;

/// A closed log with its entries in several segments, each in a frame of its own, and an empty frame at the end
/// that vouches for them.
pub(crate) struct Filled {
    pub(crate) home: tempfile::TempDir,
}

impl Filled {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), std_options()).unwrap();
        for id in 1..=COUNT {
            log.append_durable(&one(A, id)).unwrap();
        }
        log.close().unwrap();
        Self { home }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.home.path()
    }

    /// The newest segment that holds frames.
    pub(crate) fn newest(&self) -> u64 {
        let log = Log::open(self.dir(), std_options()).unwrap();
        let newest = log.recovery().newest.unwrap();
        log.close().unwrap();
        assert!(newest >= 4, "a log of {newest} segments is too short for these tests");
        newest
    }

    pub(crate) fn segment(&self, sequence: u64) -> PathBuf {
        self.dir().join(format!("{sequence:020}.log"))
    }

    pub(crate) fn patch(&self, sequence: u64, offset: u64, change: impl FnOnce(&mut [u8; 8])) {
        let file = File::options().read(true).write(true).open(self.segment(sequence)).unwrap();
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, offset).unwrap();
        change(&mut bytes);
        file.write_all_at(&bytes, offset).unwrap();
    }

    /// Changes bytes of a segment's header, and makes its checksum fit.
    pub(crate) fn reheader(&self, sequence: u64, at: usize, bytes: &[u8]) {
        let file = File::options().read(true).write(true).open(self.segment(sequence)).unwrap();
        let mut header = [0; tidelog_format::SEGMENT_HEADER_LEN];
        file.read_exact_at(&mut header, 0).unwrap();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        let checksum = crc32fast::hash(&header[..60]);
        header[60..].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&header, 0).unwrap();
    }

    /// Opening is refused and touches nothing.
    pub(crate) fn refused(&self) -> Error {
        let before = snapshot(self.dir());
        let error = Log::open(self.dir(), std_options()).map(drop).unwrap_err();
        assert!(before == snapshot(self.dir()), "a refusal changed the directory: {error}");
        error
    }

    pub(crate) fn opened(&self) -> Log {
        Log::open(self.dir(), std_options()).unwrap()
    }
}

pub(crate) fn corruption(error: Error) -> tidelog::Corruption {
    match error {
        Error::Corrupt(corruption) => *corruption,
        other => panic!("{other:?}"),
    }
}
