//! A journal whose log fails to write, for real: past a limit on the size of files, which holds
//! for a whole process and so is set in a child.
//!
//! A binary of its own: whoever forks holds the locks of all open logs until the child has become
//! another program, and tests that reopen a log at once would meet them.

#[allow(dead_code, reason = "the other tests need the rest")]
#[path = "remote_log/support.rs"]
mod segments;
#[allow(dead_code, reason = "the other tests need the rest")]
#[path = "remote_log_journal/support.rs"]
mod support;

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidelog::remote_log::{JournalError, RemoteLogMetadataManager, TideRemoteLogMetadataManager};
use tidelog::{BackendChoice, Error, Log, Options};

use segments::segment;
use support::{Env, add_finished, assert_failed, assert_io, journal, list, payments};

const IN_CHILD: &str = "TIDELOG_TEST_IN_CHILD";

/// Whether this is the child. The parent runs one and comes back when it has succeeded.
fn is_child(test: &str) -> bool {
    if std::env::var_os(IN_CHILD).is_some() {
        return true;
    }
    // What a shell ignores, its children ignore: the write then fails with an error instead.
    let script = r#"trap '' XFSZ; exec "$0" "$@""#;
    let child = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(child).args(["--exact", test, "--nocapture"]).env(IN_CHILD, "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
    false
}

/// No write reaches beyond this many bytes of its file.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).unwrap();
}

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
