//! Limits of the process: on the size of files, on memory that may be locked, on descriptors.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidelog::{BackendChoice, Batch, Log, StreamId};

use crate::alone;
use crate::common::{backends, one};
use crate::writer::{self, Orders, options, stream};

const SIGXFSZ: i32 = 25;

/// No write of this process reaches beyond this many bytes of its file.
pub(crate) fn limit_files(bytes: u64) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum }).unwrap();
}

/// A writer that comes to the limit in the middle, with the signal ignored or not.
fn with_limited_files(
    backend: BackendChoice,
    bytes: u64,
    ignored: bool,
) -> (std::process::ExitStatus, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let ignoring = ignored.then(|| {
        // What a shell ignores, its children ignore.
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap '' XFSZ; exec "$0" "$@""#]);
        shell
    });
    let before = &format!("files {bytes}");
    let (status, told) = writer::run(ignoring, &dir, &Orders { before, backend, count: 400 }).unwrap();
    let log = Log::open(&dir, options(backend)).unwrap();
    // The first half was acknowledged whatever became of the process.
    for number in 0..writer::THREADS {
        assert!(log.stream(stream(number)).unwrap().last >= Some(200));
    }
    told.check(&log);
    log.append_durable(&one(StreamId::new(9, 9), 1)).unwrap();
    log.close().unwrap();
    (status, told.errors)
}

#[test]
fn a_write_beyond_the_limit_of_files_poisons() {
    let _alone = alone();
    for backend in backends() {
        // Below what every segment has.
        let (status, errors) = with_limited_files(backend, 16 << 10, true);
        assert!(status.success(), "{status}");
        assert_eq!(errors.len() as u64, writer::THREADS + 1, "{errors:?}");
        let efbig = |error: &String| error.starts_with("Poisoned") && error.contains("os error 27");
        assert!(errors.iter().all(efbig), "{errors:?}");
    }
}

#[test]
fn a_segment_beyond_the_limit_of_files_is_refused() {
    let _alone = alone();
    for backend in backends() {
        // A segment has 128 KiB by then: the one that is written goes on to its end.
        let (status, errors) = with_limited_files(backend, 127 << 10, true);
        assert!(status.success(), "{status}");
        assert!(!errors.is_empty());
        let efbig = |error: &String| error.contains("FileTooLarge") || error.contains("os error 27");
        assert!(errors.iter().all(efbig), "{errors:?}");
    }
}

#[test]
fn the_signal_of_the_limit_ends_the_process_as_a_crash_does() {
    let _alone = alone();
    for backend in backends() {
        let (status, _) = with_limited_files(backend, 16 << 10, false);
        assert_eq!(status.signal(), Some(SIGXFSZ), "{status}");
    }
}

#[test]
fn an_ordinary_user_with_little_lockable_memory_has_a_log() {
    let _alone = alone();
    for bytes in ["0", "65536"] {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--memlock={bytes}:{bytes}"));
        limited.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        let orders = Orders { before: "", backend: BackendChoice::Auto, count: 200 };
        let ran = writer::run(Some(limited), &home.path().join("log"), &orders);
        let Some((_, told)) = ran.filter(|(status, _)| status.success()) else {
            return eprintln!("skipped: no right to become another user who may run the tests");
        };
        assert!(told.is_clean(), "{told:?}");
        println!("with {bytes} bytes of lockable memory: {}", told.backend);
        told.check(&Log::open(home.path().join("log"), options(BackendChoice::Std)).unwrap());
    }
}

#[test]
fn few_descriptors_are_enough_for_writing() {
    let _alone = alone();
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let mut limited = Command::new("prlimit");
        limited.arg("--nofile=64:64");
        let orders = Orders { before: "", backend, count: 4000 };
        let (status, told) = writer::run(Some(limited), home.path(), &orders).unwrap();
        assert!(status.success(), "{status}");
        let log = Log::open(home.path(), options(BackendChoice::Std)).unwrap();
        println!("{backend:?}, 64 descriptors: {} segments, {:?}", log.recovery().segments, told.errors);
        assert!(log.recovery().segments > 20);
        told.check(&log);
        let typed = |error: &String| error.contains("os error 24") || error.contains("Too many open files");
        assert!(told.errors.iter().all(typed), "{told:?}");
    }
}

#[test]
fn rotations_and_retirements_leave_no_descriptor_behind() {
    let _alone = alone();
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        let mut id = 0;
        let mut segments = |count: u64| {
            let goal = log.stats().retired + count;
            while log.stats().retired < goal {
                id += 1;
                let mut batch = Batch::<&[u8]>::new();
                log.append_durable(batch.append(stream(0), id, &[7; 5000][..]).obsolete(stream(0), id - 1))
                    .unwrap();
            }
            fs::read_dir("/proc/self/fd").unwrap().count()
        };
        let before = segments(10);
        let after = segments(100);
        assert!(after <= before + 8, "{before} descriptors, and {after} after a hundred segments");
        log.close().unwrap();
    }
}
