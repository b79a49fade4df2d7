//! The simulated queue for a thread of its own: it sleeps as the real ones do, but for the time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::disk::SimDisk;
use super::queue::SimQueue;
use crate::io::bell::Bell;
use crate::io::disk::DiskFile;
use crate::io::queue::{Backend, Completion, WriteOp, WriteQueue};

#[derive(Debug)]
pub(crate) struct WakingQueue {
    queue: SimQueue,
    bell: Bell,
    /// Where the last write ended: they come in the order of the log, each once.
    end: u64,
}

impl WakingQueue {
    pub(crate) fn new(disk: &SimDisk, bell: Bell) -> Self {
        Self { queue: SimQueue::new(disk), bell, end: 0 }
    }

    fn has_rung(&self) -> bool {
        let now = Timespec::default();
        poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl WriteQueue for WakingQueue {
    fn write(&mut self, op: WriteOp) {
        assert!(op.offset >= self.end, "{} after {}", op.offset, self.end);
        self.end = op.offset + op.len as u64;
        self.queue.write(op);
    }

    fn flush(&mut self, token: u64, file: Arc<dyn DiskFile>) {
        self.queue.flush(token, file);
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn submit(&mut self) -> io::Result<()> {
        self.queue.submit()
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.queue.submit()?;
        if self.bell.park() {
            // The device takes its time; without anything on its way only the bell ends the sleep.
            while timeout != Some(Duration::ZERO) && self.queue.in_flight() == 0 && !self.has_rung() {
                shuttle::thread::yield_now();
            }
            shuttle::thread::yield_now();
            if self.has_rung() {
                self.bell.drain();
            }
        }
        self.bell.unpark();
        self.queue.wait(timeout, out)
    }

    fn backend(&self) -> Backend {
        Backend::Ring
    }
}
