//! The queue of writes on a simulated disk: operations complete in any order, when asked.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::disk::{SimDisk, SimFile};
use crate::io::disk::DiskFile;
use crate::io::queue::{Backend, Completion, WriteOp, WriteQueue};

/// Stands for the ring: nothing completes by itself.
#[derive(Debug)]
pub(crate) struct SimQueue {
    disk: SimDisk,
    queued: VecDeque<Op>,
    started: Vec<Started>,
}

#[derive(Debug)]
enum Op {
    Write(WriteOp),
    Flush(u64, Arc<dyn DiskFile>),
}

#[derive(Debug)]
struct Started {
    op: Op,
    /// Of a write its number, of a flush what it covers.
    number: u64,
}

impl SimQueue {
    pub(crate) fn new(disk: &SimDisk) -> Self {
        Self { disk: disk.clone(), queued: VecDeque::new(), started: Vec::new() }
    }

    fn start(op: &Op) -> io::Result<u64> {
        match op {
            Op::Write(op) => {
                let bytes = op.buf.get(..op.len).ok_or(io::ErrorKind::InvalidInput)?;
                let file = simulated(&*op.file)?;
                Ok(file.writer()?.submit(file.ino, op.offset, bytes.into(), op.dsync))
            }
            Op::Flush(_, file) => Ok(simulated(&**file)?.world()?.begin_flush()),
        }
    }

    fn finish(Started { op, number }: Started) -> Completion {
        match op {
            Op::Write(WriteOp { token, file, buf, .. }) => {
                let result = simulated(&*file).and_then(|file| file.writer()?.complete(number));
                Completion { token, result, buf: Some(buf) }
            }
            Op::Flush(token, file) => {
                let result =
                    simulated(&*file).and_then(|file| file.world()?.end_flush(file.ino, number, true));
                Completion { token, result, buf: None }
            }
        }
    }
}

fn simulated(file: &dyn DiskFile) -> io::Result<&SimFile> {
    file.simulated().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

impl WriteQueue for SimQueue {
    fn write(&mut self, op: WriteOp) {
        self.queued.push_back(Op::Write(op));
    }

    fn flush(&mut self, token: u64, file: Arc<dyn DiskFile>) {
        self.queued.push_back(Op::Flush(token, file));
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.started.len()
    }

    fn submit(&mut self) -> io::Result<()> {
        while let Some(op) = self.queued.pop_front() {
            let number = Self::start(&op)?;
            self.started.push(Started { op, number });
        }
        Ok(())
    }

    /// One operation completes, any of them, and perhaps more.
    fn wait(&mut self, _timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.submit()?;
        while !self.started.is_empty() {
            let (at, more) = {
                let rng = &mut self.disk.world().rng;
                (rng.usize(..self.started.len()), rng.bool())
            };
            out.push(Self::finish(self.started.swap_remove(at)));
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn backend(&self) -> Backend {
        Backend::Ring
    }
}
