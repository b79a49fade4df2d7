//! What the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod child;
pub(crate) mod content;
pub(crate) mod disk;
pub(crate) mod files;

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use bytes::Bytes;
use tidelog::{BackendChoice, Batch, Entry, Error, Log, Options, ReadOptions, StreamId};

/// Segments of 64 KiB and frames of 16 KiB: rotation never rests.
pub(crate) fn tiny(backend: BackendChoice) -> Options {
    Options::new()
        .backend(backend)
        .first_segment_size(64 << 10)
        .segment_size(128 << 10)
        .frame_size(16 << 10)
        .staging_buffers(4)
}

/// The backends that this machine has.
pub(crate) fn backends() -> Vec<BackendChoice> {
    let dir = tempfile::tempdir().unwrap();
    match Log::open(dir.path(), tiny(BackendChoice::Ring)) {
        Ok(_) => vec![BackendChoice::Ring, BackendChoice::Std],
        Err(Error::RingUnavailable { cause }) => {
            eprintln!("the ring is left out: {cause}");
            vec![BackendChoice::Std]
        }
        Err(error) => panic!("{error}"),
    }
}

/// Bytes that tell their seed and their length apart from all others.
pub(crate) fn payload(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// A batch of one entry.
pub(crate) fn one(stream: StreamId, id: u64) -> Batch {
    let mut batch = Batch::new();
    batch.append(stream, id, payload(id, 300));
    batch
}

/// Appends such entries, each durable before the next.
pub(crate) fn append(log: &Log, stream: StreamId, ids: RangeInclusive<u64>) {
    for id in ids {
        log.append_durable(&one(stream, id)).unwrap();
    }
}

/// All live entries of a stream.
pub(crate) fn read(log: &Log, stream: StreamId) -> Vec<(u64, Bytes)> {
    try_read(log, stream).unwrap()
}

/// All live entries of a stream, or what is in the way.
pub(crate) fn try_read(log: &Log, stream: StreamId) -> Result<Vec<(u64, Bytes)>, Error> {
    let entries = log.read(stream, .., ReadOptions::new())?;
    entries.map(|entry| entry.map(|Entry { id, payload, .. }| (id, payload))).collect()
}

/// What is in a directory, links not followed: name, and content where it is a file.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let is_file = entry.file_type().unwrap().is_file();
        (name, is_file.then(|| fs::read(entry.path()).unwrap()))
    };
    fs::read_dir(dir).unwrap().map(|entry| file(entry.unwrap())).collect()
}
