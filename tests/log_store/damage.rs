//! A payload with a flipped bit: its read fails once and names it, and nothing else is lost.

use std::path::PathBuf;

use futures::StreamExt;
use futures::executor::block_on;
use tidelog::Error;
use tidelog::log_store::{LogStore, LogStoreError, RegionId, TideLogStore};

use crate::{Env, append, backends, ids, provider, read_ids};

const REGION: RegionId = RegionId::new(1, 1);
const OTHER: RegionId = RegionId::new(1, 2);

/// A payload that no other entry has.
fn payload(region: RegionId, id: u64) -> Vec<u8> {
    format!("<{region}/{id}>").into_bytes().repeat(200)
}

fn fill(store: &TideLogStore, last: u64) {
    for id in 1..=last {
        append(store, REGION, id, payload(REGION, id)).unwrap();
        append(store, OTHER, id, payload(OTHER, id)).unwrap();
    }
}

/// Flips one bit in the middle of the entry's payload. Gives the file.
fn flip(env: &Env, id: u64) -> PathBuf {
    let wanted = payload(REGION, id);
    for file in std::fs::read_dir(env.dir.path()).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) else { continue };
        bytes[at + wanted.len() / 2] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        return path;
    }
    panic!("entry {id} is in no file");
}

/// Reads from 1 on: the ids, and the error at which that ended.
fn read_to_error(store: &TideLogStore, id: u64) -> (Vec<u64>, Option<LogStoreError>) {
    let mut stream = block_on(store.read(&provider(REGION), id)).unwrap();
    let mut read = Vec::new();
    while let Some(batch) = block_on(stream.next()) {
        match batch {
            Ok(batch) => read.extend(batch.iter().map(tidelog::log_store::Entry::entry_id)),
            Err(error) => {
                assert!(block_on(stream.next()).is_none(), "an error ends the stream");
                return (read, Some(error));
            }
        }
    }
    (read, None)
}

/// Everything but the damaged entry is served, and the store takes appends.
fn check(env: &Env, store: &TideLogStore, damaged: u64, last: u64, path: &std::path::Path) {
    for _ in 0..2 {
        let (read, error) = read_to_error(store, 1);
        assert_eq!(read, ids(1..=damaged - 1));
        match error {
            Some(LogStoreError::Unreadable { region, entry_id, source: Error::Corrupt(corruption) }) => {
                assert_eq!((region, entry_id), (REGION, damaged));
                assert_eq!(corruption.file.file_name(), path.file_name());
                assert_eq!(corruption.stream.map(|stream| stream.id), Some(REGION.as_u64()));
            }
            error => panic!("{error:?}"),
        }
        let (read, error) = read_to_error(store, damaged);
        assert!(read.is_empty() && error.is_some());
    }
    assert_eq!(read_ids(store, REGION, damaged + 1), ids(damaged + 1..=last));
    assert_eq!(read_ids(store, OTHER, 1), ids(1..=last));
    append(store, REGION, last + 1, "goes on").unwrap();
    crate::obsolete(store, REGION, damaged);
    assert_eq!(read_ids(store, REGION, 0), ids(damaged + 1..=last + 1), "{}", env.dir.path().display());
}

backends! {
    fn in_the_newest_segment(env) {
        let store = env.open();
        fill(&store, 9);
        block_on(store.stop()).unwrap();
        drop(store);
        let path = flip(&env, 5);
        check(&env, &env.open(), 5, 9, &path);
    }

    fn in_an_older_segment(env) {
        let store = env.open_with(env.small_segments());
        fill(&store, 300);
        block_on(store.stop()).unwrap();
        drop(store);
        let path = flip(&env, 7);
        check(&env, &env.open_with(env.small_segments()), 7, 300, &path);
    }

    fn while_the_store_is_open(env) {
        let store = env.open();
        fill(&store, 9);
        let path = flip_in_place(&env, 4);
        check(&env, &store, 4, 9, &path);
    }
}

/// The same without truncating the file under the store.
fn flip_in_place(env: &Env, id: u64) -> PathBuf {
    use std::os::unix::fs::FileExt;
    let wanted = payload(REGION, id);
    for file in std::fs::read_dir(env.dir.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) else { continue };
        let at = at + wanted.len() / 2;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
        file.sync_all().unwrap();
        return path;
    }
    panic!("entry {id} is in no file");
}
