//! The metadata of remote log segments, kept in a journal: look-ups and durable mutations by one and
//! by many threads, and what it takes to open a large journal again.
//!
//! Data lie under `target/`, so that what is durable is so on a disk.

mod corpus;
mod look_ups;
mod mutations;
mod reopening;

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::Criterion;
use tidelog::remote_log::{Journal, JournalOptions};
use tidelog::{Log, Options};

/// Threads that share the work of a measurement.
const THREADS: [u64; 3] = [1, 4, 16];

fn directory() -> tempfile::TempDir {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tempfile::tempdir_in(target).expect("the build directory is writable")
}

/// A log and its journal, which writes no checkpoint by itself.
fn open(directory: &Path) -> (Log, Journal) {
    let log = Log::open(directory, Options::new()).expect("a sound log, or an empty directory");
    let options = JournalOptions::new().checkpoint_after(None);
    let journal = Journal::open(&log, corpus::JOURNAL, options).expect("a sound journal");
    (log, journal)
}

/// How long it takes until each thread has done its part.
fn timed(threads: u64, work: impl Fn(u64) + Sync) -> Duration {
    let barrier = Barrier::new(threads as usize + 1);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(thread);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for handle in handles {
            handle.join().expect("a healthy journal answers");
        }
        start.elapsed()
    })
}

fn main() {
    if reopening::is_child() {
        return reopening::child();
    }
    let is_test = std::env::args().any(|arg| arg == "--test");
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(10)
        .configure_from_args();
    look_ups::run(&mut criterion, is_test);
    mutations::run(&mut criterion);
    if is_wanted(reopening::NAME) {
        reopening::run(is_test);
    }
    criterion.final_summary();
}

/// Whether the part is among those that the command line asks for, as it is for criterion's.
fn is_wanted(name: &str) -> bool {
    let listed = std::env::args().any(|arg| arg == "--list");
    let mut filters = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    !listed && (filters.peek().is_none() || filters.any(|filter| name.contains(&filter)))
}
