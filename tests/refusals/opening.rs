//! Directories and options with which no log is opened.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

use tidelog::{Create, Error, Log, Options};

use crate::common::{backends, child, snapshot, tiny};
use crate::filled::{COUNT, Filled};
use crate::{A, one, opened_elsewhere, std_options};

#[test]
fn there_is_one_writer() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("log");
        let log = Log::open(&dir, tiny(backend)).unwrap();
        log.append_durable(&one(A, 1)).unwrap();
        let Error::Locked { path } = Log::open(&dir, tiny(backend)).map(drop).unwrap_err() else { panic!() };
        assert_eq!(path, dir);
        // The same directory by another name.
        symlink(&dir, home.path().join("name")).unwrap();
        let again = Log::open(home.path().join("name"), tiny(backend));
        assert!(matches!(again, Err(Error::Locked { .. })));
        assert!(opened_elsewhere(&dir).starts_with("Locked"), "another process is refused");
        log.append_durable(&one(A, 2)).unwrap();
        log.close().unwrap();
        assert_eq!(opened_elsewhere(&dir), "opened");
    }
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let log = Filled::new();
    let outcome = tempfile::NamedTempFile::new().unwrap();
    fs::set_permissions(outcome.path(), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(log.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let before = snapshot(log.dir());
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let arguments = [child::text(log.dir()), child::text(outcome.path())];
    let ran = child::behind(nobody, "opener", &arguments).status();
    if !ran.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no setpriv, or no right to become another user who may run the tests");
        return;
    }
    let text = fs::read_to_string(outcome.path()).unwrap();
    assert!(text.starts_with("Io {") && text.contains("PermissionDenied"), "{text}");
    assert!(before == snapshot(log.dir()));
}

#[test]
fn files_that_are_not_the_logs_are_left_alone() {
    let log = Filled::new();
    let names = ["notes", "00000000000000000001.LOG", "0000000000000000001.log", "00000000000000000009.idx~"];
    for name in names {
        fs::write(log.dir().join(name), b"mine").unwrap();
    }
    fs::create_dir(log.dir().join("folder.new")).unwrap();
    let opened = log.opened();
    let mut strangers: Vec<_> = names.iter().map(|name| log.dir().join(name)).collect();
    strangers.push(log.dir().join("folder.new"));
    strangers.sort();
    assert_eq!(opened.recovery().strangers, strangers);
    opened.append_durable(&one(A, COUNT + 1)).unwrap();
    opened.close().unwrap();
    for name in names {
        assert_eq!(fs::read(log.dir().join(name)).unwrap(), b"mine");
    }
    assert!(log.dir().join("folder.new").is_dir());

    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes"), b"mine").unwrap();
    let Err(Error::NotALog { path, reason }) = Log::open(dir.path(), std_options()) else { panic!() };
    assert!(path == dir.path() && reason.contains("notes"), "{reason}");
    assert_eq!(snapshot(dir.path()).len(), 1);
}

#[test]
fn a_segments_name_on_something_else_is_refused() {
    let log = Filled::new();
    let whole = fs::read(log.segment(2)).unwrap();
    let aside = log.home.path().with_extension("aside");
    fs::write(&aside, &whole).unwrap();
    let refused = |what: &str| match log.refused() {
        Error::NotALog { path, reason } => {
            assert_eq!(path, log.dir());
            assert!(reason.contains(child::text(&log.segment(2))), "{reason}");
        }
        error => panic!("{what}: {error:?}"),
    };
    fs::remove_file(log.segment(2)).unwrap();
    symlink(&aside, log.segment(2)).unwrap();
    refused("a symbolic link");
    fs::remove_file(log.segment(2)).unwrap();
    fs::create_dir(log.segment(2)).unwrap();
    refused("a directory");
    fs::remove_dir(log.segment(2)).unwrap();
    fs::write(log.segment(2), whole).unwrap();
    fs::remove_file(aside).unwrap();
    log.opened();
}

#[test]
fn a_log_is_made_only_where_it_may_be() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("a/b");
    for create in [Create::Never, Create::Empty] {
        let Err(Error::NotALog { path, .. }) = Log::open(&missing, std_options().create(create)) else {
            panic!("{create:?}")
        };
        assert!(path == missing && !home.path().join("a").exists());
    }
    let Err(Error::NotALog { path, .. }) = Log::open(home.path(), std_options().create(Create::Never)) else {
        panic!()
    };
    assert_eq!((path.as_path(), snapshot(home.path()).len()), (home.path(), 0));
    Log::open(&missing, std_options()).unwrap().close().unwrap();
    let log = Log::open(home.path().join("a/b"), std_options().create(Create::Empty)).unwrap();
    log.append_durable(&one(A, 1)).unwrap();
    log.close().unwrap();
    Log::open(&missing, std_options().create(Create::Never)).unwrap();
    let file = home.path().join("file");
    fs::write(&file, b"").unwrap();
    assert!(matches!(Log::open(file, std_options()), Err(Error::NotALog { .. } | Error::Io { .. })));
}

#[test]
fn options_that_cannot_work_are_refused_by_name_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new;
    let bad = [
        (options().block_size(1000), "block_size", 1000),
        (options().block_size(256), "block_size", 256),
        (options().block_size(131_072), "block_size", 131_072),
        (options().first_segment_size(65_537), "first_segment_size", 65_537),
        (options().segment_size(0), "segment_size", 0),
        (options().segment_size(1 << 41), "segment_size", 1 << 41),
        (options().segment_size(65_536).block_size(16_384), "segment_size", 65_536),
        (options().frame_size(5000), "frame_size", 5000),
        (options().frame_size(0), "frame_size", 0),
        (options().frame_size(1 << 29), "frame_size", 1 << 29),
        (options().staging_buffers(1), "staging_buffers", 1),
        (options().staging_buffers(65), "staging_buffers", 65),
        (options().queue_depth(0), "queue_depth", 0),
        (options().queue_depth(65), "queue_depth", 65),
        (options().prepare_rate(1), "prepare_rate", 1),
    ];
    for (options, option, bad) in bad {
        match Log::open(dir.path(), options) {
            Err(Error::InvalidOption { name, value, .. }) => assert_eq!((name, value), (option, bad)),
            other => panic!("{option} = {bad}: {other:?}"),
        }
    }
    assert_eq!(snapshot(dir.path()).len(), 0);
}

#[test]
fn times_without_end_are_taken() {
    for backend in backends() {
        let dir = tempfile::tempdir().unwrap();
        let options =
            tiny(backend).flush_interval(Duration::MAX).idle_after(Duration::MAX).lock_wait(Duration::MAX);
        let log = Log::open(dir.path(), options).unwrap();
        log.append_timeout(&one(A, 1), Duration::MAX).unwrap();
        let lsn = log.append(&one(A, 2)).unwrap();
        log.wait_durable(lsn).unwrap();
        log.append(&one(A, 3)).unwrap();
        log.close().unwrap();
        assert!(log.failure().is_none_or(|error| matches!(error, Error::Closed)));
    }
}
