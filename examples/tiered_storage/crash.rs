//! Where a process is killed: its threads pass points, and at one of them it ends, whatever the
//! other threads are at. Or it ends after a while, which may be before the log is open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

pub(crate) struct Crash {
    passed: AtomicU64,
    at: Option<u64>,
}

impl Crash {
    pub(crate) fn new(at: Option<u64>) -> Self {
        Self { passed: AtomicU64::new(0), at }
    }

    pub(crate) fn point(&self) {
        let passed = self.passed.fetch_add(1, Ordering::Relaxed) + 1;
        if self.at == Some(passed) {
            kill();
        }
    }
}

/// Kills this process after a while.
pub(crate) fn after(time: Duration) {
    thread::spawn(move || {
        thread::sleep(time);
        kill();
    });
}

fn kill() -> ! {
    let killed = kill_process(getpid(), Signal::KILL);
    unreachable!("SIGKILL does not return: {killed:?}")
}
