//! The queue on an `io_uring`.
//!
//! One thread makes, drives and drops the ring. What the kernel works on stays in a table until its completion: buffers
//! and files outlive every operation, also where the queue is dropped early.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use rustix::io::Errno;

use super::bell::Bell;
use super::disk::DiskFile;
use super::frame_buf::{Claimed, FrameBuf};
use super::queue::{Backend, Completion, WriteOp, WriteQueue};

/// Marks the completions of the bell; operations have an index of the table in the low half.
const BELL: u64 = u64::MAX;

/// The longest piece of a write that goes in one entry: a multiple of every block size.
const MAX_PIECE: usize = 1 << 30;

/// How often in a row the kernel may put an operation or an entry off.
const MAX_PUT_OFF: u32 = 1000;

/// How long dropping the queue waits for what is in flight.
const DROP_WAIT: Duration = Duration::from_secs(30);

/// How long to try for a ring when memory that may be locked is short: the kernel gives back that of a closed ring, such
/// as the one of a probe, some time after it was closed.
const MEMORY_WAIT: Duration = Duration::from_millis(250);

pub(super) struct RingQueue {
    ring: IoUring,
    table: Vec<Slot>,
    /// Indices of the table that nothing uses.
    free: Vec<u32>,
    /// Operations that wait for a place in the table.
    waiting: VecDeque<Op>,
    /// Indices whose operation has to go to the kernel, for the first time or with its rest.
    ready: VecDeque<u32>,
    done: Vec<Completion>,
    registered: Vec<Arc<FrameBuf>>,
    bell: BellPoll,
    /// A ring belongs to the thread that made it.
    _thread: PhantomData<*const ()>,
}

struct Slot {
    /// Counts what went to the kernel from here, so that a late completion of an earlier use is told apart.
    generation: u32,
    op: Option<Op>,
    /// Whether the kernel has the operation, or will at the next submission.
    sent: bool,
}

struct Op {
    token: u64,
    file: Arc<dyn DiskFile>,
    kind: Kind,
    put_off: u32,
}

enum Kind {
    Write { offset: u64, buf: Claimed, len: usize, done: usize, dsync: bool },
    Flush,
}

/// How long to wait for a completion.
#[derive(Clone, Copy)]
enum Sleep {
    No,
    AtMost(Duration),
    Forever,
}

struct BellPoll {
    bell: Bell,
    armed: bool,
    multishot: bool,
    woken: bool,
}

impl RingQueue {
    pub(super) fn new(depth: u32, buffers: &[Arc<FrameBuf>], bell: Bell) -> io::Result<Self> {
        let depth = depth.clamp(1, 4096);
        // One more for the bell. The completion queue is twice as long, so it cannot overflow.
        let ring = build_ring((depth + 1).next_power_of_two())?;
        let registered = register(&ring, buffers);
        Ok(Self {
            ring,
            table: (0..depth).map(|_| Slot { generation: 0, op: None, sent: false }).collect(),
            free: (0..depth).rev().collect(),
            waiting: VecDeque::new(),
            ready: VecDeque::with_capacity(depth as usize),
            done: Vec::with_capacity(depth as usize),
            registered,
            bell: BellPoll { bell, armed: false, multishot: true, woken: false },
            _thread: PhantomData,
        })
    }

    /// Moves operations into the table and from there into the submission queue, as far as there is room.
    fn fill(&mut self) {
        while let Some(op) = self.waiting.pop_front() {
            let Some(index) = self.free.pop() else {
                self.waiting.push_front(op);
                break;
            };
            self.table[index as usize].op = Some(op);
            self.ready.push_back(index);
        }
        if !self.bell.armed {
            let fd = Fd(self.bell.bell.as_fd().as_raw_fd());
            let poll =
                opcode::PollAdd::new(fd, u32::from(libc::POLLIN.unsigned_abs())).multi(self.bell.multishot);
            self.bell.armed = self.push(&poll.build().user_data(BELL));
        }
        while let Some(index) = self.ready.pop_front() {
            match self.entry_of(index) {
                Ok(entry) => {
                    if !self.push(&entry) {
                        self.ready.push_front(index);
                        break;
                    }
                    self.table[index as usize].sent = true;
                }
                Err(error) => self.complete(index, Err(error)),
            }
        }
    }

    fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: the entry names a descriptor and at most a buffer. The bell's lives as long as the queue. An
        // operation's file and buffer are owned by its slot of the table, which only `complete` empties, when the
        // kernel has reported the end of the operation or never saw it. `drop` leaks the table otherwise.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// The entry for what is left of the operation at `index`, under a new generation.
    fn entry_of(&mut self, index: u32) -> io::Result<Entry> {
        let slot = &mut self.table[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let user_data = u64::from(slot.generation) << 32 | u64::from(index);
        let op = slot.op.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let Some(fd) = op.file.write_fd() else {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is not open for writing"));
        };
        let fd = Fd(fd.as_raw_fd());
        let entry = match &op.kind {
            Kind::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            Kind::Write { offset, buf, len, done, dsync } => {
                let rest = buf.get(*done..*len).ok_or(io::ErrorKind::InvalidInput)?;
                let at = offset.checked_add(*done as u64).ok_or(io::ErrorKind::InvalidInput)?;
                let piece = rest.len().min(MAX_PIECE) as u32;
                let flags = if *dsync { libc::RWF_DSYNC } else { 0 };
                match fixed_slot(&self.registered, buf) {
                    Some(fixed) => {
                        let write = opcode::WriteFixed::new(fd, rest.as_ptr(), piece, fixed);
                        write.offset(at).rw_flags(flags).build()
                    }
                    None => opcode::Write::new(fd, rest.as_ptr(), piece).offset(at).rw_flags(flags).build(),
                }
            }
        };
        Ok(entry.user_data(user_data))
    }

    /// Gives the submission queue to the kernel, then sleeps until there is a completion or the time is over.
    fn enter(&mut self, mut sleep: Sleep) -> io::Result<()> {
        let mut put_off = 0;
        loop {
            let entered = self.enter_once(sleep);
            let all_taken = self.ring.submission().is_empty();
            match entered.map_err(|error| (Errno::from_io_error(&error), error)) {
                Ok(_) | Err((Some(Errno::TIME | Errno::INTR), _)) if all_taken => return Ok(()),
                Ok(_) | Err((Some(Errno::TIME | Errno::INTR), _)) => {}
                // Short of memory, or completions pile up.
                Err((Some(Errno::AGAIN | Errno::BUSY), _)) if put_off < MAX_PUT_OFF => {
                    // What was reaped may have been all there was to wait for.
                    if self.reap() {
                        sleep = Sleep::No;
                    }
                    put_off += 1;
                    std::thread::sleep(Duration::from_millis(u64::from(put_off.min(10))));
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    fn enter_once(&self, sleep: Sleep) -> io::Result<usize> {
        match sleep {
            Sleep::No => self.ring.submit(),
            Sleep::Forever => self.ring.submit_and_wait(1),
            Sleep::AtMost(limit) => {
                let limit = Timespec::from(limit);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        }
    }

    /// Takes in what has completed. True when there was anything.
    fn reap(&mut self) -> bool {
        let mut any = false;
        while let Some(entry) = self.next_completion() {
            any = true;
            if entry.user_data() == BELL {
                self.bell.completed(&entry);
            } else {
                self.completed(&entry);
            }
        }
        any
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn completed(&mut self, entry: &cqueue::Entry) {
        let (index, generation) = (entry.user_data() as u32, (entry.user_data() >> 32) as u32);
        let Some(slot) = self.table.get_mut(index as usize).filter(|slot| slot.generation == generation)
        else {
            return;
        };
        let Some(op) = &mut slot.op else { return };
        slot.sent = false;
        match op.advance(entry.result()) {
            Some(result) => self.complete(index, result),
            None => self.ready.push_back(index),
        }
    }

    fn complete(&mut self, index: u32, result: io::Result<()>) {
        let slot = &mut self.table[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        if let Some(op) = slot.op.take() {
            self.free.push(index);
            self.done.push(op.finish(result));
        }
    }

    /// Waits until the kernel has let go of every operation; rests of short writes are not sent. False when it does not.
    fn quiesce(&mut self) -> bool {
        let begin = Instant::now();
        while self.table.iter().any(|slot| slot.sent) {
            let left = DROP_WAIT.saturating_sub(begin.elapsed());
            if left.is_zero() || self.enter(Sleep::AtMost(left)).is_err() {
                return false;
            }
            self.reap();
        }
        true
    }
}

#[cfg(test)]
impl RingQueue {
    /// Has the kernel complete an entry that carries the identity before the present one of the slot at `index`.
    pub(super) fn forge_stale_completion(&mut self, index: u32) {
        let generation = self.table[index as usize].generation.wrapping_sub(1);
        let nop = opcode::Nop::new().build().user_data(u64::from(generation) << 32 | u64::from(index));
        assert!(self.push(&nop));
    }
}

impl Op {
    /// Takes the kernel's result in. None when there is more to do.
    fn advance(&mut self, result: i32) -> Option<io::Result<()>> {
        let Ok(count) = usize::try_from(result) else {
            let error = io::Error::from_raw_os_error(result.wrapping_neg());
            let again = matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock);
            if again && self.put_off < MAX_PUT_OFF {
                self.put_off += 1;
                return None;
            }
            return Some(Err(error));
        };
        let Kind::Write { len, done, .. } = &mut self.kind else { return Some(Ok(())) };
        if count == 0 && *done < *len {
            return Some(Err(io::ErrorKind::WriteZero.into()));
        }
        self.put_off = 0;
        *done = done.saturating_add(count).min(*len);
        (*done == *len).then_some(Ok(()))
    }

    fn finish(self, result: io::Result<()>) -> Completion {
        let buf = match self.kind {
            Kind::Write { buf, .. } => Some(buf),
            Kind::Flush => None,
        };
        Completion { token: self.token, result, buf }
    }
}

impl BellPoll {
    fn completed(&mut self, entry: &cqueue::Entry) {
        self.armed = cqueue::more(entry.flags());
        if entry.result() >= 0 {
            self.bell.drain();
            self.woken = true;
        } else {
            // A kernel before 5.13 polls once at a time.
            self.multishot = false;
        }
    }
}

impl WriteQueue for RingQueue {
    fn write(&mut self, op: WriteOp) {
        let WriteOp { token, file, offset, buf, len, dsync } = op;
        let kind = Kind::Write { offset, buf, len, done: 0, dsync };
        self.waiting.push_back(Op { token, file, kind, put_off: 0 });
    }

    fn flush(&mut self, token: u64, file: Arc<dyn DiskFile>) {
        self.waiting.push_back(Op { token, file, kind: Kind::Flush, put_off: 0 });
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + (self.table.len() - self.free.len()) + self.done.len()
    }

    fn submit(&mut self) -> io::Result<()> {
        self.fill();
        self.enter(Sleep::No)
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        let begin = Instant::now();
        self.bell.woken = false;
        let mut awake = !self.bell.bell.park();
        let result = loop {
            self.fill();
            // Completions that are there already, or a bell that has rung, leave nothing to sleep for.
            let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            awake |= !self.done.is_empty() || left == Some(Duration::ZERO);
            let entered = self.enter(match left {
                _ if awake => Sleep::No,
                Some(left) => Sleep::AtMost(left),
                None => Sleep::Forever,
            });
            self.reap();
            if entered.is_err() || awake || self.bell.woken || !self.done.is_empty() {
                break entered;
            }
        };
        self.bell.bell.unpark();
        out.append(&mut self.done);
        // What became free or ready in the meantime goes out before the caller looks at the rest.
        result.and_then(
            |()| if self.ready.is_empty() && self.waiting.is_empty() { Ok(()) } else { self.submit() },
        )
    }

    fn backend(&self) -> Backend {
        Backend::Ring
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        if !self.quiesce() {
            // The kernel may read the buffers for a while yet: they must never be freed.
            std::mem::forget(std::mem::take(&mut self.table));
            std::mem::forget(std::mem::take(&mut self.registered));
        }
    }
}

/// A ring, made in the best way that the kernel knows.
fn build_ring(entries: u32) -> io::Result<IoUring> {
    let begin = Instant::now();
    let ring = loop {
        match build_once(entries) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && begin.elapsed() < MEMORY_WAIT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            built => break built?,
        }
    };
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "io_uring without timed waits (Linux before 5.11)",
        ));
    }
    Ok(ring)
}

/// With what the kernel offers to a single thread that waits for its own completions, or without.
fn build_once(entries: u32) -> io::Result<IoUring> {
    let mut wishes = [IoUring::builder(), IoUring::builder(), IoUring::builder()];
    wishes[0].setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    wishes[1].setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    let mut built = Err(io::ErrorKind::Unsupported.into());
    for wish in &mut wishes {
        // A child must not find the parent's queues.
        built = wish.dontfork().build(entries);
        let unknown_flag = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::INVAL);
        if !built.as_ref().is_err_and(unknown_flag) {
            break;
        }
    }
    built
}

/// Registers the buffers, in their order. None of them where the kernel refuses, as under a small `RLIMIT_MEMLOCK`.
fn register(ring: &IoUring, buffers: &[Arc<FrameBuf>]) -> Vec<Arc<FrameBuf>> {
    let region = |buffer: &Arc<FrameBuf>| {
        let (start, len) = buffer.region();
        libc::iovec { iov_base: start.cast(), iov_len: len }
    };
    let regions: Vec<_> = buffers.iter().map(region).collect();
    if regions.is_empty() {
        return Vec::new();
    }
    // SAFETY: each region is the memory of a buffer that the queue keeps alive longer than the ring.
    match unsafe { ring.submitter().register_buffers(&regions) } {
        Ok(()) => buffers.to_vec(),
        Err(_) => Vec::new(),
    }
}

/// The index of the buffer among the registered ones.
fn fixed_slot(registered: &[Arc<FrameBuf>], buf: &Claimed) -> Option<u16> {
    let slot = buf.slot()?;
    Arc::ptr_eq(registered.get(usize::from(slot))?, buf.shared()).then_some(slot)
}
