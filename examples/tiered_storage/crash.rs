//! Where a process is killed: its threads pass points, and at one of them it ends, whatever the
//! other threads are at.

use std::sync::atomic::{AtomicU64, Ordering};

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
            let killed = kill_process(getpid(), Signal::KILL);
            unreachable!("SIGKILL does not return: {killed:?}");
        }
    }
}
