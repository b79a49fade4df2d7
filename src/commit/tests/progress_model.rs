//! Every interleaving of those who wait for a watermark with those who move it, within bounds. A
//! wake-up that is lost is a deadlock here.

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use tidelog_format::Lsn;

use super::super::progress::{Goal, Progress};
use crate::error::Error;

struct Model {
    progress: Progress,
    /// Moves ahead of the watermark, without any order of its own.
    state: AtomicU64,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self { progress: Progress::new(Lsn(0)), state: AtomicU64::new(0) })
    }

    fn waiter(model: &Arc<Self>, frame: u64) -> thread::JoinHandle<Result<(), Error>> {
        let model = Arc::clone(model);
        thread::spawn(move || {
            let outcome = model.progress.wait(Goal::durable(Lsn(frame)), None);
            if outcome.is_ok() {
                assert!(model.state.load(Ordering::Relaxed) > frame, "woken before the goal, or blind to it");
            }
            outcome
        })
    }

    fn publish(&self, end: u64) {
        self.state.store(end, Ordering::Relaxed);
        self.progress.publish(Lsn(end), Lsn(end)).unpark();
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn model_a_waiter_is_woken_and_not_before_its_goal() {
    loom::model(|| {
        let model = Model::new();
        let waiter = Model::waiter(&model, 1);
        model.publish(1);
        model.publish(2);
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn model_each_goal_wakes_its_own() {
    bounded(3).check(|| {
        let model = Model::new();
        let waiters = [0, 1].map(|frame| Model::waiter(&model, frame));
        model.publish(1);
        model.publish(2);
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
}

#[test]
fn model_a_failure_ends_every_wait_and_takes_back_nothing() {
    bounded(3).check(|| {
        let model = Model::new();
        let (reached, lost) = (Model::waiter(&model, 0), Model::waiter(&model, 9));
        model.publish(1);
        model.progress.fail(Error::Closed).unpark();
        reached.join().unwrap().unwrap();
        assert!(matches!(lost.join().unwrap(), Err(Error::Closed)));
    });
}

/// Threads that wake each other, and whoever has seen its outcome before wakes nobody.
#[test]
fn model_a_relay_reaches_everybody() {
    // The relay wakes two at first: it takes a third to need those.
    bounded(2).check(|| {
        let model = Model::new();
        let waiters = [0, 0, 0].map(|frame| Model::waiter(&model, frame));
        model.state.store(1, Ordering::Relaxed);
        let mut wakes = model.progress.publish(Lsn(1), Lsn(1));
        model.progress.relay(wakes.take_threads());
        model.progress.wake_rest();
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
}

/// A callback comes back with the outcome, or is called with it: one of the two, once.
#[test]
fn model_a_callback_is_told_once() {
    loom::model(|| {
        let model = Model::new();
        let told = Arc::new(AtomicU64::new(0));
        let waiter = {
            let (model, told) = (Arc::clone(&model), Arc::clone(&told));
            thread::spawn(move || {
                let callback = Box::new(move |_| {
                    told.fetch_add(1, Ordering::Relaxed);
                });
                if let Some((callback, outcome)) = model.progress.call(Goal::durable(Lsn(0)), callback) {
                    callback(outcome);
                }
            })
        };
        for (callback, outcome) in model.progress.publish(Lsn(1), Lsn(1)).callbacks {
            callback(outcome);
        }
        waiter.join().unwrap();
        assert_eq!(told.load(Ordering::Relaxed), 1);
    });
}
