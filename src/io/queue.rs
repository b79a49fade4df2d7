//! The queue of writes and flushes that the committer thread drives.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::disk::{Disk, DiskFile};
use super::frame_buf::{Claimed, FrameBuf};
use super::ring::RingQueue;
use super::std_queue::StdQueue;

/// How long the first write through a new ring may take before the ring counts as unusable.
const PROBE_WAIT: Duration = Duration::from_secs(10);

/// Who carries writes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// An `io_uring`.
    Ring,
    /// System calls of the thread that drives the queue.
    Std,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "io_uring",
            Self::Std => "std",
        })
    }
}

/// A write of the first `len` bytes of `buf`.
#[derive(Debug)]
pub(crate) struct WriteOp {
    /// Comes back with the completion.
    pub(crate) token: u64,
    /// The file, kept open until the completion.
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where in the file.
    pub(crate) offset: u64,
    /// The bytes, owned by the queue until the completion.
    pub(crate) buf: Claimed,
    /// How many of them.
    pub(crate) len: usize,
    /// Durable when it completes.
    pub(crate) dsync: bool,
}

/// The outcome of a write or flush.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The token of the operation.
    pub(crate) token: u64,
    /// Success means that all bytes were written.
    pub(crate) result: io::Result<()>,
    /// The buffer of a write.
    pub(crate) buf: Option<Claimed>,
}

/// Writes and flushes in flight, driven by one thread. Operations complete in any order.
pub(crate) trait WriteQueue {
    /// Queues a write. Nothing is started before [`submit`](Self::submit) or [`wait`](Self::wait).
    fn write(&mut self, op: WriteOp);

    /// Queues a flush of the data of `file`. It covers the writes that had completed before it was queued, no others.
    fn flush(&mut self, token: u64, file: Arc<dyn DiskFile>);

    /// Operations queued whose completion was not handed out yet.
    fn in_flight(&self) -> usize;

    /// Starts what is queued. An error means that the queue is unusable; what is in flight may still reach the disk.
    fn submit(&mut self) -> io::Result<()>;

    /// Starts what is queued and appends completions to `out`. Returns when there are some, when the bell rang, or when
    /// `timeout` is over (never, if None); now and then for no reason. An error means the same as in [`submit`](Self::submit).
    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()>;

    /// Who carries the writes out.
    fn backend(&self) -> Backend;
}

/// Makes a queue, on the thread that will drive it. `depth` operations are in flight at most, more wait their turn.
/// `buffers` are registered with the kernel where it allows: the slot of each is its index.
pub(crate) fn open_queue(
    backend: Backend,
    depth: u32,
    buffers: &[Arc<FrameBuf>],
    bell: Bell,
) -> io::Result<Box<dyn WriteQueue>> {
    Ok(match backend {
        Backend::Ring => Box::new(RingQueue::new(depth, buffers, bell)?),
        Backend::Std => Box::new(StdQueue::new(bell)),
    })
}

/// Whether a ring works here: writes a block durably through one and reads it back. The error is the reason why not.
pub(crate) fn probe_ring(disk: &dyn Disk) -> io::Result<()> {
    let file = match disk.scratch() {
        // No room to try a write in: that the kernel gives a ring must do.
        Err(error) if is_full(&error) => return RingQueue::new(2, &[], Bell::new()?).map(drop),
        file => file?,
    };
    let len = disk.dio_align()?.max(4096) as usize;
    let mut queue = RingQueue::new(2, &[], Bell::new()?)?;
    let mut buf = Claimed::new(len, None)?;
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = at as u8;
    }
    queue.write(WriteOp { token: 1, file: Arc::clone(&file), offset: 0, buf, len, dsync: true });
    let written = match run_one(&mut queue)? {
        // The ring works, only the disk is full.
        Completion { result: Err(error), .. } if is_full(&error) => false,
        done => done.result.map(|()| true)?,
    };
    queue.flush(2, Arc::clone(&file));
    run_one(&mut queue)?.result?;

    let mut back = vec![0; len];
    if written
        && (file.read_uncached(0, &mut back)? < len || back.iter().enumerate().any(|(at, &b)| b != at as u8))
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a block written through the ring reads back otherwise",
        ));
    }
    Ok(())
}

fn run_one(queue: &mut RingQueue) -> io::Result<Completion> {
    let begin = Instant::now();
    let mut done = Vec::new();
    loop {
        queue.wait(Some(PROBE_WAIT), &mut done)?;
        if let Some(completion) = done.pop() {
            return Ok(completion);
        }
        if begin.elapsed() >= PROBE_WAIT {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "an operation of the ring does not complete",
            ));
        }
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
