//! The queue without a ring: system calls of the thread that drives it, one after the other.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::bell::Bell;
use super::disk::DiskFile;
use super::queue::{Backend, Completion, WriteOp, WriteQueue};

/// Runs each operation when it is submitted, and so has its completion ready at once.
pub(super) struct StdQueue {
    bell: Bell,
    queued: VecDeque<Op>,
    done: Vec<Completion>,
}

enum Op {
    Write(WriteOp),
    Flush(u64, Arc<dyn DiskFile>),
}

impl StdQueue {
    pub(super) fn new(bell: Bell) -> Self {
        Self { bell, queued: VecDeque::new(), done: Vec::new() }
    }

    /// Sleeps until the bell rings or the time is over.
    fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.bell.park() {
            return Ok(());
        }
        let limit = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let woken = match poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], limit.as_ref()) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => {
                self.bell.drain();
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
        self.bell.unpark();
        woken
    }
}

impl WriteQueue for StdQueue {
    fn write(&mut self, op: WriteOp) {
        self.queued.push_back(Op::Write(op));
    }

    fn flush(&mut self, token: u64, file: Arc<dyn DiskFile>) {
        self.queued.push_back(Op::Flush(token, file));
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.done.len()
    }

    fn submit(&mut self) -> io::Result<()> {
        while let Some(op) = self.queued.pop_front() {
            self.done.push(match op {
                Op::Write(op) => {
                    let result = match op.buf.get(..op.len) {
                        Some(bytes) => op.file.write_at(op.offset, bytes, op.dsync),
                        None => Err(io::ErrorKind::InvalidInput.into()),
                    };
                    Completion { token: op.token, result, buf: Some(op.buf) }
                }
                Op::Flush(token, file) => Completion { token, result: file.sync(), buf: None },
            });
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.submit()?;
        if self.done.is_empty() {
            return self.sleep(timeout);
        }
        out.append(&mut self.done);
        Ok(())
    }

    fn backend(&self) -> Backend {
        Backend::Std
    }
}
