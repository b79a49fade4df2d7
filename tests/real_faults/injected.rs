//! System calls that fail or are interrupted, as strace makes them.

use std::path::Path;
use std::process::Command;

use tidelog::{BackendChoice, Log, StreamId};

use crate::writer::{self, LARGE, Orders, THREADS, Told, options};
use crate::{alone, common};

/// Runs the writer with these rules. None where strace cannot.
pub(crate) fn writer(rules: &[&str], dir: &Path, orders: &Orders<'_>) -> Option<Told> {
    let traced: Vec<&str> = rules.iter().map(|rule| rule.split(['=', ':']).nth(1).unwrap()).collect();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={}", traced.join(","))]);
    for rule in rules {
        strace.args(["-e", rule]);
    }
    match writer::run(Some(strace), dir, orders) {
        Some((status, told)) if status.success() => Some(told),
        outcome => {
            assert!(!has_strace(), "{outcome:?}");
            eprintln!("skipped: no strace, or it may not trace");
            None
        }
    }
}

fn has_strace() -> bool {
    Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success())
}

/// Runs the writer, and then without any rule what was acknowledged is there.
fn check(rules: &[&str], backend: BackendChoice, count: u64) -> Option<Told> {
    check_with("", rules, backend, count)
}

fn check_with(before: &str, rules: &[&str], backend: BackendChoice, count: u64) -> Option<Told> {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let told = writer(rules, &dir, &Orders { before, backend, count })?;
    let log = Log::open(&dir, options(backend)).unwrap();
    told.check(&log);
    let large = common::read(&log, LARGE).len();
    assert!(before != "large" || large == 1 || !told.errors.is_empty(), "the large entry is gone: {told:?}");
    log.append_durable(&common::one(StreamId::new(9, 9), 1)).unwrap();
    log.close().unwrap();
    Some(told)
}

#[test]
fn interrupted_calls_are_made_again() {
    let _alone = alone();
    for backend in common::backends() {
        let rules = [
            "inject=io_uring_enter:error=EINTR:when=1+3",
            "inject=fdatasync,fsync:error=EINTR:when=1+2",
            "inject=pwrite64,pwritev,pwritev2:error=EINTR:when=1+2",
            // The program is loaded with the first ones.
            "inject=pread64:error=EINTR:when=20+2",
        ];
        let Some(told) = check(&rules, backend, 100) else { return };
        assert!(told.is_clean(), "{told:?}");
    }
}

/// Every thread that waits, and the closing, gets the one error.
fn poisons(rule: &str, backend: BackendChoice) {
    let Some(told) = check(&[rule], backend, 200) else { return };
    assert!(told.acknowledged.iter().all(|id| *id < 200), "{rule}: {told:?}");
    assert_eq!(told.errors.len() as u64, THREADS + 1, "{rule}: {told:?}");
    let first = &told.errors[0];
    assert!(first.starts_with("Poisoned") && first.contains("os error 5"), "{rule}: {told:?}");
    assert!(told.errors.iter().all(|error| error == first), "{rule}: {told:?}");
}

#[test]
fn a_failed_flush_poisons_and_costs_nothing_acknowledged() {
    let _alone = alone();
    for when in [3, 8, 20] {
        poisons(&format!("inject=fdatasync:error=EIO:when={when}+"), BackendChoice::Std);
    }
}

#[test]
fn a_failed_write_poisons_and_costs_nothing_acknowledged() {
    let _alone = alone();
    for backend in common::backends() {
        // By the threads that append, and the one that commits.
        poisons("inject=pwrite64,pwritev,pwritev2:error=EIO:when=12+", backend);
    }
}

#[test]
fn a_failed_flush_of_the_directory_poisons() {
    let _alone = alone();
    // Of the file, then of the directory, for each of the first files.
    for when in [2, 4, 6] {
        let rule = format!("inject=fsync:error=EIO:when={when}");
        let Some(told) = check(&[&rule], BackendChoice::Std, 400) else { return };
        let refused = |error: &String| error.starts_with("Poisoned") || error.starts_with("Io");
        assert!(!told.errors.is_empty() && told.errors.iter().all(refused), "{told:?}");
        assert!(when != 6 || told.errors[0].starts_with("Poisoned { cause: \"fsync of"), "{told:?}");
    }
}

#[test]
fn a_file_system_without_fallocate_is_done_without() {
    let _alone = alone();
    for error in ["EOPNOTSUPP", "ENOSYS", "EINTR:when=1"] {
        let rule = format!("inject=fallocate:error={error}");
        let Some(told) = check_with("large", &[&rule], BackendChoice::Auto, 60) else { return };
        assert!(told.is_clean(), "{error}: {told:?}");
    }
}

#[test]
fn a_disk_that_is_full_when_a_segment_is_made_is_no_failure() {
    let _alone = alone();
    for call in ["fsync", "renameat2,renameat,rename"] {
        let rule = format!("inject={call}:error=ENOSPC:when=3");
        let Some(told) = check(&[&rule], BackendChoice::Auto, 300) else { return };
        assert_eq!(told.errors.len() as u64, THREADS, "{call}: {told:?}");
        assert!(told.errors.iter().all(|error| error.starts_with("NoSpace")), "{call}: {told:?}");
    }
    let rules = ["inject=fallocate:error=ENOSPC"];
    let Some(told) = check_with("large", &rules, BackendChoice::Auto, 300) else { return };
    assert!(matches!(&told.errors[..], [error] if error.starts_with("NoSpace")), "{told:?}");
    assert!(told.acknowledged.iter().all(|id| *id == 300), "the others go on: {told:?}");
}
