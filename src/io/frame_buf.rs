//! The staging buffer of one frame.
//!
//! Appenders reserve disjoint ranges and fill them in parallel, outside any lock. When the buffer is closed and the last
//! reservation is gone, one owner claims it, seals the frame in it and writes it out. Claiming excludes all else until
//! the owner reopens the buffer.
//!
//! The whole protocol is one word: the next free offset, the number of reservations alive, and two flags.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::aligned::AlignedBuf;
use crate::sync::AtomicU64;

/// Ranges start at multiples of this.
const ROW: usize = 8;

const NEXT_BITS: u32 = 40;
const NEXT_MASK: u64 = (1 << NEXT_BITS) - 1;
const ALIVE_ONE: u64 = 1 << NEXT_BITS;
const ALIVE_MASK: u64 = ((1 << 22) - 1) << NEXT_BITS;
const CLAIMED: u64 = 1 << 62;
const CLOSED: u64 = 1 << 63;

/// A staging buffer, shared by those who fill it.
pub(crate) struct FrameBuf {
    mem: AlignedBuf,
    slot: Option<u16>,
    state: AtomicU64,
}

impl FrameBuf {
    /// The size in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.mem.size()
    }

    /// The first offset that no reservation has taken.
    pub(crate) fn used(&self) -> usize {
        (self.state.load(Ordering::Acquire) & NEXT_MASK) as usize
    }

    /// Takes the next `len` bytes, rounded up to a multiple of 8. `None` when the buffer is closed or has no room.
    pub(crate) fn reserve(self: &Arc<Self>, len: usize) -> Option<Reservation> {
        let size = len.checked_next_multiple_of(ROW)?;
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let start = (state & NEXT_MASK) as usize;
            let full = size > self.capacity().checked_sub(start)? || state & ALIVE_MASK == ALIVE_MASK;
            if state & CLOSED != 0 || full {
                return None;
            }
            let next = state + size as u64 + ALIVE_ONE;
            // Acquire: pairs with the release of `reopen`, so that the previous use of the bytes lies behind us.
            match self.state.compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let end = start + size;
                    return Some(Reservation { buf: Arc::clone(self), start, at: start, end, ended: false });
                }
                Err(seen) => state = seen,
            }
        }
    }

    /// Refuses further reservations. Returns true when none is alive, so that the buffer can be claimed at once.
    pub(crate) fn close(&self) -> bool {
        self.state.fetch_or(CLOSED, Ordering::AcqRel) & ALIVE_MASK == 0
    }

    /// Whether the buffer could be claimed now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.load(Ordering::Acquire) & (CLOSED | CLAIMED | ALIVE_MASK) == CLOSED
    }

    /// Takes the buffer for exclusive use: once, and only when it is closed and no reservation is alive.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<Claimed> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & (CLOSED | CLAIMED | ALIVE_MASK) != CLOSED {
                return None;
            }
            // Acquire: pairs with the release by which each reservation ended, so that its bytes are visible.
            match self.state.compare_exchange_weak(
                state,
                state | CLAIMED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Claimed { buf: Arc::clone(self) }),
                Err(seen) => state = seen,
            }
        }
    }

    /// The start and length of the memory, to register it with the kernel.
    pub(super) fn region(&self) -> (*mut u8, usize) {
        (self.mem.base().as_ptr(), self.mem.size())
    }
}

impl fmt::Debug for FrameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load(Ordering::Relaxed);
        f.debug_struct("FrameBuf")
            .field("capacity", &self.capacity())
            .field("used", &(state & NEXT_MASK))
            .field("alive", &((state & ALIVE_MASK) / ALIVE_ONE))
            .field("closed", &(state & CLOSED != 0))
            .field("claimed", &(state & CLAIMED != 0))
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

/// A range of a [`FrameBuf`] that one appender fills. What it leaves unwritten is zeroed when it ends.
pub(crate) struct Reservation {
    buf: Arc<FrameBuf>,
    start: usize,
    at: usize,
    end: usize,
    ended: bool,
}

impl Reservation {
    /// Where the range begins in the buffer.
    pub(crate) fn offset(&self) -> usize {
        self.start
    }

    /// Bytes that are still free.
    pub(crate) fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// Appends `bytes` and zeros up to the next multiple of 8.
    ///
    /// # Panics
    /// When they do not fit: the reservation was sized for other data.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let padding = bytes.len().wrapping_neg() % ROW;
        // `at` and `end` are multiples of 8, so where the bytes fit their padding does.
        assert!(bytes.len() <= self.remaining(), "a reservation of {} bytes is over", self.end - self.start);
        // SAFETY: [at, end) lies inside the buffer, and the bump pointer gave it to this reservation alone; nobody
        // reads or claims it before the reservation has ended. `bytes` cannot overlap it: safe code gets no reference
        // into the buffer while it is not claimed.
        unsafe {
            let to = self.buf.mem.base().as_ptr().add(self.at);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            to.add(bytes.len()).write_bytes(0, padding);
        }
        self.at += bytes.len() + padding;
    }

    /// Ends the reservation. True when it was the last one of a closed buffer, which can now be claimed.
    pub(crate) fn finish(mut self) -> bool {
        self.end_range()
    }

    fn end_range(&mut self) -> bool {
        self.ended = true;
        // SAFETY: as in `write`: [at, end) belongs to this reservation, which is not counted out yet.
        unsafe { self.buf.mem.base().as_ptr().add(self.at).write_bytes(0, self.end - self.at) };
        // Release: whoever claims the buffer sees the bytes.
        let before = self.buf.state.fetch_sub(ALIVE_ONE, Ordering::AcqRel);
        before & (CLOSED | ALIVE_MASK) == CLOSED | ALIVE_ONE
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.ended {
            self.end_range();
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("range", &(self.start..self.end))
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// A [`FrameBuf`] in exclusive use. Dropped without [`reopen`](Self::reopen), the buffer is never used again.
pub(crate) struct Claimed {
    buf: Arc<FrameBuf>,
}

impl Claimed {
    /// A new buffer of zeros; [`reopen`](Self::reopen) opens it for reservations. `slot` is its index among the buffers
    /// that are registered with the kernel.
    pub(crate) fn new(capacity: usize, slot: Option<u16>) -> io::Result<Self> {
        if capacity as u64 > NEXT_MASK {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mem = AlignedBuf::new(capacity)?;
        let state = AtomicU64::new(CLOSED | CLAIMED);
        Ok(Self { buf: Arc::new(FrameBuf { mem, slot, state }) })
    }

    /// The index among the registered buffers.
    pub(crate) fn slot(&self) -> Option<u16> {
        self.buf.slot
    }

    /// The first offset that no reservation had taken.
    pub(crate) fn used(&self) -> usize {
        self.buf.used()
    }

    /// The shared buffer, of no use to anybody until it is reopened.
    pub(crate) fn shared(&self) -> &Arc<FrameBuf> {
        &self.buf
    }

    /// Opens the buffer for reservations from `start` on, rounded up to a multiple of 8.
    ///
    /// # Panics
    /// When `start` lies outside the buffer.
    pub(crate) fn reopen(self, start: usize) -> Arc<FrameBuf> {
        assert!(
            start <= self.buf.capacity(),
            "a start of {start} in a buffer of {} bytes",
            self.buf.capacity()
        );
        let start = start.next_multiple_of(ROW).min(self.buf.capacity() & !(ROW - 1));
        // Release: later reservations come after everything that the owner did to the bytes.
        self.buf.state.store(start as u64, Ordering::Release);
        self.buf
    }
}

impl Deref for Claimed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the CLAIMED flag makes this the only handle: no reservation is alive, none can begin and nobody else
        // can claim before `reopen` takes `self`. The memory is initialised and lives as long as the Arc.
        unsafe { std::slice::from_raw_parts(self.buf.mem.base().as_ptr(), self.buf.capacity()) }
    }
}

impl DerefMut for Claimed {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` excludes other borrows of this handle.
        unsafe { std::slice::from_raw_parts_mut(self.buf.mem.base().as_ptr(), self.buf.capacity()) }
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claimed").field(&self.buf).finish()
    }
}
