//! The same on primitives of loom or shuttle. Time stands still: no wait ends by it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

#[cfg(feature = "loom")]
use loom as primitives;
#[cfg(not(feature = "loom"))]
use shuttle as primitives;

use primitives::sync::Condvar;
use primitives::sync::atomic::{AtomicBool, Ordering};
pub(crate) use primitives::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
pub(crate) use primitives::thread::{Thread, current, park};

pub(crate) fn park_timeout(_: Duration) {
    park();
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(primitives::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(primitives::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> primitives::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Set at most once; a value that is seen comes with all that was done before it was set.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    set: AtomicBool,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), set: AtomicBool::new(false) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let value = self.value.get_or_init(init);
        self.set.store(true, Ordering::Release);
        value
    }
}

/// Whoever listens is told of the next notice.
#[derive(Debug)]
pub(crate) struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    notices: Mutex<(u64, Vec<Waker>)>,
    told: Condvar,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { notices: Mutex::new((0, Vec::new())), told: Condvar::new() }))
    }

    pub(crate) fn listen(&self) -> RoomListener {
        RoomListener { seen: self.0.notices.lock().0, room: Arc::clone(&self.0) }
    }

    pub(crate) fn total_listeners(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// Tells all who listen.
    pub(crate) fn notify(&self, all: usize) {
        assert_eq!(all, usize::MAX, "nobody is told alone");
        let wakers = {
            let mut notices = self.0.notices.lock();
            notices.0 += 1;
            std::mem::take(&mut notices.1)
        };
        self.0.told.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[derive(Debug)]
pub(crate) struct RoomListener {
    room: Arc<Shared>,
    seen: u64,
}

pub(crate) trait Listener {
    fn wait(self);
    fn wait_deadline(self, deadline: Instant) -> Option<()>;
}

impl Listener for RoomListener {
    fn wait(self) {
        let mut notices = self.room.notices.lock();
        while notices.0 == self.seen {
            notices = self.room.told.wait(notices).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_deadline(self, _: Instant) -> Option<()> {
        self.wait();
        Some(())
    }
}

impl Future for RoomListener {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut notices = self.room.notices.lock();
        if notices.0 != self.seen {
            return Poll::Ready(());
        }
        notices.1.push(cx.waker().clone());
        Poll::Pending
    }
}
