//! A log store whose log fails to write, for real: past a limit on the size of files, which
//! holds for a whole process and so is set in a child.
//!
//! A binary of its own: whoever forks holds the locks of all open logs until the child has
//! become another program, and tests that reopen a log at once would meet them.

#[path = "common/limits.rs"]
mod limits;
#[allow(dead_code, reason = "the other tests need the rest")]
#[path = "log_store/support.rs"]
mod support;

use futures::executor::block_on;
use tidelog::log_store::{LogStore, LogStoreError, RegionId};
use tidelog::{BackendChoice, Error};

use limits::limit_files;
use support::{append, append_ids, backends, entry, finish, ids, latest, poll_once, provider, read_ids};

const REGION: RegionId = RegionId::new(1, 1);
/// Whether this is the child of this module's test on this backend.
fn is_child(module: &str, backend: BackendChoice) -> bool {
    let (_, module) = module.split_once("::").unwrap();
    limits::is_child(&format!("{module}::{backend:?}").to_lowercase())
}

#[track_caller]
fn cause<T: std::fmt::Debug>(outcome: Result<T, LogStoreError>) -> String {
    match outcome {
        Err(error @ LogStoreError::Log(Error::Poisoned { .. })) => {
            assert!(!error.is_retryable());
            error.to_string()
        }
        outcome => panic!("{outcome:?}"),
    }
}

backends! {
    fn the_first_error_stays(env) {
        if !is_child(module_path!(), env.backend) {
            return;
        }
        let store = env.open();
        append_ids(&store, REGION, 1..=3);
        limit_files(Some(4096));
        let first = cause(append(&store, REGION, 4, "x"));
        limit_files(None);
        let by = provider(REGION);
        assert_eq!(cause(append(&store, REGION, 4, "x")), first);
        assert_eq!(cause(append(&store, REGION, 5, "x")), first);
        assert_eq!(cause(block_on(store.create_namespace(&by))), first);
        assert_eq!(cause(block_on(store.obsolete(&by, REGION, 2))), first);
        assert_eq!(cause(block_on(store.release_region(&by, REGION))), first);
        assert_eq!(cause(block_on(store.wait_durable(&by, 4))), first);
        block_on(store.wait_durable(&by, 3)).unwrap();
        assert_eq!(read_ids(&store, REGION, 0), ids(1..=3), "reads end at what is durable");
        for _ in 0..2 {
            assert_eq!(cause(block_on(store.stop())), first);
        }
        assert!(matches!(block_on(store.append_batch(vec![])), Err(LogStoreError::Stopped)));
        drop(store);
        let store = env.open();
        let last = latest(&store, REGION);
        assert!((3..=4).contains(&last), "what was never acknowledged may be there or not");
        assert_eq!(read_ids(&store, REGION, 0), ids(1..=last));
        append(&store, REGION, last + 1, "x").unwrap();
    }

    fn all_who_wait_are_told(env) {
        if !is_child(module_path!(), env.backend) {
            return;
        }
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=3);
        block_on(store.wait_durable(&provider(REGION), 3)).unwrap();
        limit_files(Some(4096));
        let append = store.append_batch(vec![entry(&store, REGION, 4, "x")]);
        // It may fail before it is even staged, when the failure comes in between.
        let _ = block_on(append);
        let by = provider(REGION);
        let mut waits: Vec<_> = (0..4).map(|_| store.wait_durable(&by, 9)).collect();
        let polled: Vec<_> = waits.iter_mut().map(|wait| poll_once(wait).0).collect();
        for (wait, polled) in waits.into_iter().zip(polled) {
            cause(finish(wait, polled));
        }
        cause(block_on(store.stop()));
        limit_files(None);
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0)[..3], [1, 2, 3]);
    }
}
