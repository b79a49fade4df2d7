//! How other threads wake the one that waits for completions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::AtomicU8;

const QUIET: u8 = 0;
const PARKED: u8 = 1;
const RUNG: u8 = 2;

/// Wakes the waiter of a [`WriteQueue`](super::WriteQueue). Clones ring the same bell.
///
/// The descriptor is only written while the waiter sleeps, so ringing a busy one costs no system call.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: AtomicU8,
    event: OwnedFd,
}

impl Bell {
    /// A quiet bell.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Inner { state: AtomicU8::new(QUIET), event })))
    }

    /// Makes the current or else the next wait return. What the caller did before is visible to the waiter then.
    pub(crate) fn ring(&self) {
        if self.0.state.swap(RUNG, Ordering::AcqRel) == PARKED {
            // The only possible failure is a full counter, and then the descriptor is readable already.
            let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
        }
    }

    /// Announces that the waiter goes to sleep. False when the bell has rung: then it must not.
    pub(super) fn park(&self) -> bool {
        let parked = self.0.state.compare_exchange(QUIET, PARKED, Ordering::AcqRel, Ordering::Acquire);
        if parked.is_err() {
            self.0.state.swap(QUIET, Ordering::AcqRel);
        }
        parked.is_ok()
    }

    /// Ends the sleep. True when the bell has rung.
    pub(super) fn unpark(&self) -> bool {
        self.0.state.swap(QUIET, Ordering::AcqRel) == RUNG
    }

    /// Takes the wake-up out of the descriptor.
    pub(super) fn drain(&self) {
        let mut count = [0; 8];
        // Nothing to read is fine: another wake-up was drained together with this one.
        let _ = rustix::io::read(&self.0.event, &mut count);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
