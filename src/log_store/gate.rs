//! Who may still change the log: everybody until the store is stopped, then nobody.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use event_listener::{Event, EventListener};

const CLOSED: usize = 1 << (usize::BITS - 1);

/// Counts those who are inside, for the length of one poll each: a future that is never polled
/// again holds nobody up. So once the gate is closed and empty, nothing more is staged.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// [`CLOSED`], and the number of passes that are out.
    state: AtomicUsize,
    /// Rings when the gate closes, and when it is closed and the last pass is given back.
    changed: Event,
}

/// The right to change the log, until it is dropped.
#[derive(Debug)]
pub(super) struct Pass<'a>(&'a Gate);

impl Gate {
    pub(super) fn enter(&self) -> Option<Pass<'_>> {
        let before = self.state.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(self);
        (before & CLOSED == 0).then_some(pass)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) & CLOSED != 0
    }

    pub(super) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// Ready once the gate is closed. `listener` remembers the registration between polls.
    pub(super) fn poll_closed(&self, listener: &mut Option<EventListener>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let waiting = listener.get_or_insert_with(|| self.changed.listen());
            if self.is_closed() {
                return Poll::Ready(());
            }
            ready!(Future::poll(Pin::new(waiting), cx));
            *listener = None;
        }
    }

    /// Waits until nobody is inside. Ends for certain only when the gate is closed.
    pub(super) async fn emptied(&self) {
        let inside = || self.state.load(Ordering::SeqCst) & !CLOSED != 0;
        while inside() {
            let changed = self.changed.listen();
            if inside() {
                changed.await;
            }
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.0.state.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            self.0.changed.notify(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_waits_for_those_inside() {
        let gate = Gate::default();
        let inside = gate.enter().unwrap();
        gate.close();
        assert!(gate.is_closed() && gate.enter().is_none());
        let mut emptied = pin!(gate.emptied());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(emptied.as_mut().poll(&mut cx).is_pending());
        drop(inside);
        assert!(emptied.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn closing_reaches_those_who_wait_for_it() {
        let gate = Gate::default();
        let mut listener = None;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(gate.poll_closed(&mut listener, &mut cx).is_pending());
        drop(gate.enter());
        assert!(gate.poll_closed(&mut listener, &mut cx).is_pending());
        gate.close();
        assert!(gate.poll_closed(&mut listener, &mut cx).is_ready());
    }
}
