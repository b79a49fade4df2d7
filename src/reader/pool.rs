//! The threads on which reads of asynchronous code wait for the disk.
//!
//! They belong to the process, not to a log: started when there is something to read, ended when
//! there was nothing for a while.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

const THREADS: usize = 2;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// The process that the threads run in: the child of a fork has none of them.
    process: u32,
}

static POOL: Pool = Pool {
    state: Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0, process: 0 }),
    work: Condvar::new(),
};

/// Does the work on a thread of the pool, unless the task is dropped before it begins.
pub(super) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Task<T>> {
    let task = Task { slot: Arc::new(Mutex::new(Slot::Waiting(None))) };
    let outcome = Outcome { slot: Arc::clone(&task.slot) };
    POOL.add(Box::new(move || {
        if outcome.is_wanted() {
            outcome.settle(Slot::Done(work()));
        }
    }))?;
    Ok(task)
}

impl Pool {
    fn add(&'static self, job: Job) -> io::Result<()> {
        let mut state = self.state.lock();
        let process = std::process::id();
        if state.process != process {
            *state = State { jobs: VecDeque::new(), threads: 0, idle: 0, process };
        }
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle && state.threads < THREADS {
            match Builder::new().name("tidelog-read".into()).spawn(|| self.serve()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    state.jobs.pop_back();
                    return Err(error);
                }
                // Those that run already get to it.
                Err(_) => {}
            }
        }
        self.work.notify_one();
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                // A panic ends the job, whose task is told when it is dropped, and not the thread.
                MutexGuard::unlocked(&mut state, || drop(catch_unwind(AssertUnwindSafe(job))));
                continue;
            }
            state.idle += 1;
            let wait = self.work.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if wait.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

enum Slot<T> {
    Waiting(Option<Waker>),
    Done(T),
    /// The work panicked, or its result was taken.
    Lost,
}

/// The result to come of work on the pool; `None` where the work panicked. Dropping it cancels
/// work that has not begun.
pub(super) struct Task<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.slot.lock();
        if let Slot::Waiting(waker) = &mut *slot {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *slot, Slot::Lost) {
            Slot::Done(result) => Poll::Ready(Some(result)),
            Slot::Waiting(_) | Slot::Lost => Poll::Ready(None),
        }
    }
}

/// The working side of a [`Task`].
struct Outcome<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

impl<T> Outcome<T> {
    fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
    }

    fn settle(&self, result: Slot<T>) {
        let mut slot = self.slot.lock();
        let before = std::mem::replace(&mut *slot, result);
        drop(slot);
        if let Slot::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        let waiting = matches!(&*self.slot.lock(), Slot::Waiting(_));
        if waiting {
            self.settle(Slot::Lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use futures::executor::block_on;

    use super::*;

    #[test]
    fn work_runs_and_a_panic_costs_its_own_task_alone() {
        let tasks: Vec<_> = (0..20).map(|n| run(move || n * n).unwrap()).collect();
        assert!(block_on(run::<()>(|| panic!("as the test wants")).unwrap()).is_none());
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(block_on(task), Some(n * n));
        }
    }

    #[test]
    fn a_dropped_task_is_not_begun() {
        let (let_go, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let block = || {
            let gate = Arc::clone(&gate);
            run(move || gate.lock().recv().is_ok()).unwrap()
        };
        // As many as there are threads, each of which waits: on the channel or on its lock.
        let busy: Vec<_> = (0..THREADS).map(|_| block()).collect();
        let (begun, begins) = channel();
        drop(run(move || begun.send(()).is_ok()).unwrap());
        // Which of them gets the first is not said.
        for _ in &busy {
            let_go.send(()).unwrap();
        }
        for task in busy {
            assert_eq!(block_on(task), Some(true));
        }
        assert!(begins.recv().is_err(), "its work was dropped unused");
    }
}
