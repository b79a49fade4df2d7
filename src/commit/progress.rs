//! The watermarks, and those who wait for them: threads, futures, callbacks.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tidelog_format::Lsn;

use crate::error::{Error, Result};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, OnceLock, Thread, current, park, park_timeout};

/// Which watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Written,
    Durable,
}

/// The frame at `frame` lies below the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Goal {
    pub(crate) mark: Mark,
    pub(crate) frame: Lsn,
}

impl Goal {
    pub(crate) fn durable(frame: Lsn) -> Self {
        Self { mark: Mark::Durable, frame }
    }

    pub(crate) fn written(frame: Lsn) -> Self {
        Self { mark: Mark::Written, frame }
    }
}

/// Is told the outcome of a [`Goal`].
pub(crate) type Callback = Box<dyn FnOnce(Result<()>) + Send>;

enum Waiter {
    Waker(Waker),
    Callback(Callback),
}

/// Those whose wait is over. To be fired outside every lock.
#[derive(Default)]
#[must_use]
pub(crate) struct Wakes {
    threads: Vec<Thread>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) callbacks: Vec<(Callback, Result<()>)>,
}

impl Wakes {
    fn add(&mut self, waiter: Waiter, outcome: &Result<()>) {
        match waiter {
            Waiter::Waker(waker) => self.wakers.push(waker),
            Waiter::Callback(callback) => self.callbacks.push((callback, outcome.clone())),
        }
    }

    pub(crate) fn append(&mut self, mut more: Self) {
        self.threads.append(&mut more.threads);
        self.wakers.append(&mut more.wakers);
        self.callbacks.append(&mut more.callbacks);
    }

    pub(crate) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn take_threads(&mut self) -> Vec<Thread> {
        std::mem::take(&mut self.threads)
    }

    pub(crate) fn unpark(&mut self) {
        self.threads.drain(..).for_each(|thread| thread.unpark());
    }
}

#[derive(Default)]
struct Waiting {
    /// Apart from the others, since pushing to a vector that has grown allocates nothing.
    threads: Vec<(Goal, u64, Thread)>,
    /// By goal, then by a number that makes each wait its own.
    by_goal: BTreeMap<(Goal, u64), Waiter>,
    next: u64,
}

/// The watermarks rise alone. They are stored after the state that they stand for and with
/// `Release`, so whoever reads one sees what lies below it.
pub(crate) struct Progress {
    written: AtomicU64,
    durable: AtomicU64,
    /// Set once, by the first failure or the end of the log; a goal reached before is still reached.
    failed: OnceLock<Error>,
    waiting: Mutex<Waiting>,
    /// Threads that others of them wake: see [`Progress::relay`].
    relay: Mutex<Vec<Thread>>,
    relayed: AtomicUsize,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress")
            .field("written", &self.written)
            .field("durable", &self.durable)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Progress {
    pub(crate) fn new(at: Lsn) -> Self {
        Self {
            written: AtomicU64::new(at.0),
            durable: AtomicU64::new(at.0),
            failed: OnceLock::new(),
            waiting: Mutex::default(),
            relay: Mutex::default(),
            relayed: AtomicUsize::new(0),
        }
    }

    pub(crate) fn get(&self, mark: Mark) -> Lsn {
        Lsn(match mark {
            Mark::Written => self.written.load(Ordering::Acquire),
            Mark::Durable => self.durable.load(Ordering::Acquire),
        })
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// The outcome, once it is known.
    pub(crate) fn outcome(&self, goal: Goal) -> Option<Result<()>> {
        if self.reached(goal) {
            return Some(Ok(()));
        }
        // Looked at once more behind the failure: it may have been reached since, and before.
        self.failed.get().map(|error| if self.reached(goal) { Ok(()) } else { Err(error.clone()) })
    }

    fn reached(&self, goal: Goal) -> bool {
        self.get(goal.mark) > goal.frame
    }

    /// Raises the watermarks. Gives those whose goal is reached.
    pub(crate) fn publish(&self, written: Lsn, durable: Lsn) -> Wakes {
        self.written.fetch_max(written.0, Ordering::Release);
        self.durable.fetch_max(durable.0, Ordering::Release);
        let mut wakes = Wakes::default();
        let mut waiting = self.waiting.lock();
        let reached_by = |goal: &Goal| match goal.mark {
            Mark::Written => goal.frame < written,
            Mark::Durable => goal.frame < durable,
        };
        wakes
            .threads
            .extend(waiting.threads.extract_if(.., |(goal, ..)| reached_by(goal)).map(|(.., thread)| thread));
        for (mark, reached) in [(Mark::Written, written), (Mark::Durable, durable)] {
            let from = (Goal { mark, frame: Lsn::ZERO }, 0);
            while let Some((&key, _)) = waiting.by_goal.range(from..).next()
                && key.0.mark == mark
                && key.0.frame < reached
            {
                if let Some(waiter) = waiting.by_goal.remove(&key) {
                    wakes.add(waiter, &Ok(()));
                }
            }
        }
        wakes
    }

    /// Wakes two of the threads, each of which wakes two more as it ends its wait, and so on. One
    /// that had seen its outcome already is not waiting any more and wakes nobody, so whoever
    /// relays calls [`Self::wake_rest`] before long.
    pub(crate) fn relay(&self, threads: Vec<Thread>) {
        if !threads.is_empty() {
            let mut relay = self.relay.lock();
            relay.extend(threads);
            self.relayed.store(relay.len(), Ordering::Release);
            drop(relay);
            self.pass_on();
        }
    }

    fn pass_on(&self) {
        if self.relayed.load(Ordering::Acquire) == 0 {
            return;
        }
        let next = {
            let mut relay = self.relay.lock();
            let next = [relay.pop(), relay.pop()];
            self.relayed.store(relay.len(), Ordering::Release);
            next
        };
        next.into_iter().flatten().for_each(|thread| thread.unpark());
    }

    /// Wakes those that a relay has left.
    pub(crate) fn wake_rest(&self) {
        while self.relayed.load(Ordering::Acquire) > 0 {
            self.pass_on();
        }
    }

    /// Nothing more will be reached. The first error stays.
    pub(crate) fn fail(&self, error: Error) -> Wakes {
        let error = self.failed.get_or_init(|| error);
        let mut wakes = Wakes::default();
        let Waiting { threads, by_goal, .. } = std::mem::take(&mut *self.waiting.lock());
        wakes.threads.extend(threads.into_iter().map(|(.., thread)| thread));
        for ((goal, _), waiter) in by_goal {
            // Whoever raises the watermark this moment comes too late to tell.
            let outcome = if self.reached(goal) { Ok(()) } else { Err(error.clone()) };
            wakes.add(waiter, &outcome);
        }
        wakes
    }

    /// Registers the waiter unless the outcome is known. The watermarks and the failure are set
    /// before the lock is taken to collect waiters, so none that comes later is missed.
    fn register(&self, goal: Goal, waiter: Waiter) -> Result<u64, (Result<()>, Waiter)> {
        let mut waiting = self.waiting.lock();
        if let Some(outcome) = self.outcome(goal) {
            return Err((outcome, waiter));
        }
        waiting.next += 1;
        let number = waiting.next;
        waiting.by_goal.insert((goal, number), waiter);
        Ok(number)
    }

    pub(crate) fn forget(&self, goal: Goal, number: u64) {
        self.waiting.lock().by_goal.remove(&(goal, number));
    }

    fn register_thread(&self, goal: Goal) -> Result<u64, Result<()>> {
        let mut waiting = self.waiting.lock();
        if let Some(outcome) = self.outcome(goal) {
            return Err(outcome);
        }
        waiting.next += 1;
        let number = waiting.next;
        waiting.threads.push((goal, number, current()));
        Ok(number)
    }

    /// Blocks until the goal is reached, the log fails, or the time is over (`Busy`).
    pub(crate) fn wait(&self, goal: Goal, deadline: Option<Instant>) -> Result<()> {
        if let Some(outcome) = self.outcome(goal) {
            return outcome;
        }
        let number = match self.register_thread(goal) {
            Ok(number) => number,
            Err(outcome) => return outcome,
        };
        loop {
            if let Some(outcome) = self.outcome(goal) {
                self.pass_on();
                return outcome;
            }
            match deadline {
                None => park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.waiting.lock().threads.retain(|(_, other, _)| *other != number);
                        return Err(Error::Busy);
                    }
                    park_timeout(left);
                }
            }
        }
    }

    /// The same for a future; `number` remembers its registration.
    pub(crate) fn poll(&self, goal: Goal, number: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result<()>> {
        if let Some(old) = number.take() {
            self.forget(goal, old);
        }
        if let Some(outcome) = self.outcome(goal) {
            return Poll::Ready(outcome);
        }
        match self.register(goal, Waiter::Waker(cx.waker().clone())) {
            Ok(new) => {
                *number = Some(new);
                Poll::Pending
            }
            Err((outcome, _)) => Poll::Ready(outcome),
        }
    }

    /// Calls back once the outcome is known: at once (the callback comes back with it) or later.
    pub(crate) fn call(&self, goal: Goal, callback: Callback) -> Option<(Callback, Result<()>)> {
        match self.register(goal, Waiter::Callback(callback)) {
            Err((outcome, Waiter::Callback(callback))) => Some((callback, outcome)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_end_in_the_order_of_the_watermark_and_not_before() {
        let progress = Arc::new(Progress::new(Lsn(10)));
        assert!(progress.wait(Goal::durable(Lsn(9)), None).is_ok());
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(matches!(progress.wait(Goal::durable(Lsn(10)), Some(soon)), Err(Error::Busy)));
        let other = Arc::clone(&progress);
        let waiter = std::thread::spawn(move || other.wait(Goal::durable(Lsn(20)), None));
        while progress.waiting.lock().threads.is_empty() {
            std::thread::yield_now();
        }
        let mut wakes = progress.publish(Lsn(21), Lsn(20));
        assert!(wakes.threads.is_empty(), "written is not durable");
        wakes.append(progress.publish(Lsn(21), Lsn(21)));
        assert_eq!(wakes.threads.len(), 1);
        wakes.unpark();
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn what_was_reached_before_a_failure_is_told_so() {
        let progress = Progress::new(Lsn(10));
        let (send, receive) = std::sync::mpsc::channel();
        for frame in [20, 30] {
            let send = send.clone();
            let callback: Callback = Box::new(move |outcome| send.send((frame, outcome.is_ok())).unwrap());
            assert!(progress.call(Goal::durable(Lsn(frame)), callback).is_none());
        }
        // Somebody raises the watermark and has not collected yet.
        progress.durable.fetch_max(21, Ordering::Release);
        for (callback, outcome) in progress.fail(Error::Closed).callbacks {
            callback(outcome);
        }
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), [(20, true), (30, false)]);
    }

    #[test]
    fn a_failure_reaches_all_who_wait_and_keeps_what_was_reached() {
        let progress = Progress::new(Lsn(10));
        let (send, receive) = std::sync::mpsc::channel();
        let callback: Callback = Box::new(move |outcome| send.send(outcome).unwrap());
        assert!(progress.call(Goal::durable(Lsn(30)), callback).is_none());
        let wakes = progress.fail(Error::Poisoned { cause: "first".into() });
        for (callback, outcome) in wakes.callbacks {
            callback(outcome);
        }
        assert!(matches!(receive.recv().unwrap(), Err(Error::Poisoned { .. })));
        let _ = progress.fail(Error::Closed);
        assert!(matches!(progress.wait(Goal::durable(Lsn(30)), None), Err(Error::Poisoned { .. })));
        assert!(progress.wait(Goal::durable(Lsn(9)), None).is_ok());
    }
}
