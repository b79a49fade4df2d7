//! A journal whose log fails to write, for real: past a limit on the size of files, which holds
//! for a whole process and so is set in a child.
//!
//! A binary of its own: whoever forks holds the locks of all open logs until the child has become
//! another program, and tests that reopen a log at once would meet them.

#[path = "common/limits.rs"]
mod limits;
#[allow(dead_code, reason = "the other tests need the rest")]
#[path = "remote_log/support.rs"]
mod segments;
#[allow(dead_code, reason = "the other tests need the rest")]
#[path = "remote_log_journal/support.rs"]
mod support;

use tidelog::remote_log::{JournalError, RemoteLogMetadataManager, TideRemoteLogMetadataManager};
use tidelog::{BackendChoice, Error, Log, Options};

use limits::{is_child, limit_files};
use segments::segment;
use support::{Env, add_finished, assert_failed, assert_io, journal, list, payments};

/// Every manager answers `Io` to every call: never that nothing is there.
#[test]
fn a_poisoned_journal_fails_every_call() {
    if !is_child("a_poisoned_journal_fails_every_call") {
        return;
    }
    let env = Env::new();
    let log = Log::open(env.dir.path(), Options::new().backend(BackendChoice::Std)).unwrap();
    let manager = TideRemoteLogMetadataManager::new(journal(&log));
    let other = TideRemoteLogMetadataManager::with_partitions(journal(&log), [payments()]);
    add_finished(&manager, 1, [0, 99]);
    let before = list(&manager);

    limit_files(Some(4096));
    let outcome = manager.add_remote_log_segment_metadata(segment(2, [100, 199], &[(0, 100)]));
    limit_files(None);
    let error = assert_io(outcome);
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<JournalError>());
    assert!(matches!(inner, Some(JournalError::Log(Error::Poisoned { .. }))), "{inner:?}");
    for manager in [&manager, &other] {
        assert_failed(manager);
        assert_io(manager.journal().checkpoint());
        assert_io(manager.deleted_partitions_with_segments());
    }

    drop((log, manager, other));
    let (_log, manager) = env.open();
    let after = list(&manager);
    assert!(after.starts_with(&before), "{after:?}");
    add_finished(&manager, 3, [200, 299]);
}
