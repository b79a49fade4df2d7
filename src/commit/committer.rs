//! The thread that writes: the only one that touches the queue of writes and flushes.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidelog_format::{Lsn, Row};

use super::core::Action;
use super::engine::Engine;
use super::frame::{Body, FrameWrite, SealedFrame};
use super::gather::Gathering;
use super::keeper::Job;
use super::progress::Wakes;
use super::succession::Writing;
use crate::error::{Error, Result};
use crate::io::{Backend, Completion, WriteOp, WriteQueue};
use crate::observe::{Counters, Event};
use crate::planted::{Planted, planted};
use crate::segment::Segment;

/// Tokens of writes are LSNs, which are multiples of the block; this one is none.
const FLUSH: u64 = u64::MAX;

struct Sent {
    rows: Vec<Row>,
    len: u64,
    dsync: bool,
    at: Instant,
}

pub(super) struct Committer {
    engine: Arc<Engine>,
    queue: Box<dyn WriteQueue>,
    sent: HashMap<u64, Sent>,
    completions: Vec<Completion>,
    /// Empty but while they are carried out; kept for its memory.
    actions: Vec<Action>,
    /// Fired after the next submission, so that the device works while the woken run.
    wakes: Wakes,
    freed: bool,
    gathering: Gathering,
    stop: bool,
}

/// What a turn of the committer leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It started something: there may be more to do at once.
    Busy,
    /// There was nothing to do, and by itself there will be nothing for so long (None: ever).
    Idle(Option<Duration>),
}

/// Runs until the log is closed, poisoned and dropped, or abandoned. A panic poisons the log and
/// wakes everybody: a log that nobody commits must not look alive.
pub(crate) fn run(engine: &Arc<Engine>, queue: Box<dyn WriteQueue>) {
    let mut committer = Committer::new(engine, queue);
    let outcome = catch_unwind(AssertUnwindSafe(|| committer.work()));
    committer.end(match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the committer panicked".to_owned()),
    });
}

impl Committer {
    pub(super) fn new(engine: &Arc<Engine>, queue: Box<dyn WriteQueue>) -> Self {
        Self {
            engine: Arc::clone(engine),
            queue,
            sent: HashMap::new(),
            completions: Vec::new(),
            actions: Vec::new(),
            wakes: Wakes::default(),
            freed: false,
            gathering: Gathering::default(),
            stop: false,
        }
    }

    /// Tells everybody: those too whose wait was over and who were to be woken after the next submission.
    pub(super) fn end(mut self, failure: Option<String>) {
        let engine = Arc::clone(&self.engine);
        let mut wakes = std::mem::take(&mut self.wakes);
        let error = failure.map_or(Error::Closed, |cause| engine.poison(&cause));
        wakes.append(engine.progress.fail(error));
        // Dropping the queue waits for the writes in flight.
        drop(self);
        engine.end_writing();
        engine.progress.wake_rest();
        engine.fire(wakes);
        engine.room.notify(usize::MAX);
        engine.end_threads();
    }

    fn work(&mut self) -> Result<()> {
        while !self.stop {
            let turn = self.turn()?;
            if self.engine.abandoned.load(Ordering::Acquire) {
                return Ok(());
            }
            if let (Turn::Idle(timeout), false) = (turn, self.stop) {
                self.reap(timeout)?;
            }
        }
        Ok(())
    }

    /// Takes in what has completed and starts what is due.
    pub(super) fn turn(&mut self) -> Result<Turn> {
        self.settle()?;
        self.gather();
        let (mut actions, timeout) = self.plan()?;
        let (idle, alone) = (actions.is_empty(), actions.len() == 1);
        for action in actions.drain(..) {
            self.act(action, alone)?;
        }
        self.actions = actions;
        if self.queue.backend() == Backend::Std {
            // It writes before it returns.
            self.wake_ahead();
        }
        self.queue.submit().map_err(|error| Error::io("submit to", self.engine.disk.path(), error))?;
        self.engine.progress.wake_rest();
        self.wake();
        Ok(if idle { Turn::Idle(timeout) } else { Turn::Busy })
    }

    /// Waits for completions, as long as the queue's contract says.
    pub(super) fn reap(&mut self, timeout: Option<Duration>) -> Result<()> {
        let wait = self.queue.wait(timeout, &mut self.completions);
        wait.map_err(|error| Error::io("wait for", self.engine.disk.path(), error))
    }

    /// Writes and flushes whose completion was not taken in yet.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.completions.len()
    }

    /// The log was closed, and all that was staged is durable.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn has_stopped(&self) -> bool {
        self.stop
    }

    /// Tells the pipeline what has completed.
    fn settle(&mut self) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        let mut core = engine.core.lock();
        core.wake_up();
        // Another thread's write failed: nothing more is submitted.
        core.check_poisoned()?;
        let now = engine.now();
        for completion in self.completions.drain(..) {
            let Completion { token, result, buf } = completion;
            let swallowed = match token {
                FLUSH => planted(Planted::SwallowFlushError),
                _ => planted(Planted::SwallowWriteError),
            };
            let failed = result.err().filter(|_| !swallowed);
            if token == FLUSH {
                match failed {
                    None => core.flushed(now),
                    Some(_) if planted(Planted::RetryFlush) => core.retry_flush(),
                    Some(error) => return Err(Error::io("flush", engine.disk.path(), error)),
                }
                continue;
            }
            let Some(sent) = self.sent.remove(&token) else { continue };
            match failed {
                None => {
                    core.written_frame(Lsn(token), buf, sent.rows);
                    let took = sent.at.elapsed();
                    engine.counters.wrote(sent.len, sent.dsync, took);
                    self.gathering.took(sent.len, took);
                    self.freed = true;
                }
                Some(error) => return Err(Error::io("write", engine.disk.path(), error)),
            }
        }
        let (written, durable) = (core.written(), core.durable());
        drop(core);
        self.wakes.append(engine.progress.publish(written, durable));
        Ok(())
    }

    /// Gives those whose wait has just ended the time to come back with their next append, so
    /// that they ride in one frame with those who came meanwhile.
    ///
    /// Without it two halves of the threads alternate, each waiting for the other's frame.
    fn gather(&mut self) {
        let expected = self.wakes.thread_count() as u64;
        if !self.gathering.is_due(expected) || self.queue.in_flight() > 0 {
            return;
        }
        let engine = Arc::clone(&self.engine);
        let goal = engine.arrivals.expect(expected);
        self.wake_ahead();
        let complete = engine.arrivals.wait(goal, self.gathering.patience());
        self.engine.progress.wake_rest();
        self.gathering.learn(complete);
    }

    /// Asks the pipeline what to do. Without anything to do, the committer counts as asleep,
    /// until the deadline that comes with it.
    fn plan(&mut self) -> Result<(Vec<Action>, Option<Duration>)> {
        let mut core = self.engine.core.lock();
        core.check_poisoned()?;
        let now = self.engine.now();
        let mut actions = std::mem::take(&mut self.actions);
        while let Some(action) = core.poll(now) {
            actions.push(action);
        }
        if actions.is_empty() {
            actions.extend(core.poll_vouch(now).map(Action::Write));
        }
        let timeout = match (actions.is_empty(), core.is_capturing()) {
            (true, true) => Some(Duration::ZERO),
            (true, false) => core.fall_asleep(now).map(|deadline| deadline.saturating_sub(now)),
            (false, _) => None,
        };
        Ok((actions, timeout))
    }

    fn wake(&mut self) {
        self.engine.fire(std::mem::take(&mut self.wakes));
        if std::mem::take(&mut self.freed) {
            self.engine.room.notify(usize::MAX);
        }
    }

    /// Wakes whose wait is over before this thread blocks in a write: threads wake each other, so
    /// that it costs the committer two wake-ups and not one for each.
    fn wake_ahead(&mut self) {
        self.engine.progress.relay(self.wakes.take_threads());
        self.wake();
    }

    fn act(&mut self, action: Action, alone: bool) -> Result<()> {
        match action {
            Action::Write(frame) => self.write(frame, alone)?,
            Action::Flush { sequence } => {
                let file = self.segment(sequence)?.write_file()?;
                Counters::add(&self.engine.counters.flushes, 1);
                if planted(Planted::SkipBarrier)
                    && let Ok(before) = self.segment(sequence - 1)
                    && let Ok(file) = before.write_file()
                {
                    let flushed = file.sync();
                    flushed.map_err(|error| Error::io("flush", before.path(), error))?;
                }
                if planted(Planted::SkipFlush) {
                    self.completions.push(Completion { token: FLUSH, result: Ok(()), buf: None });
                    return Ok(());
                }
                self.queue.flush(FLUSH, file);
            }
            Action::Prepare(ask) => {
                self.engine.ask_preparer(ask);
            }
            Action::Rotated(writing) => self.rotated(writing)?,
            Action::Ended { sequence, end } => {
                let segment = self.segment(sequence)?;
                segment.finish(end);
                self.engine.ask_keeper(Job::Index(segment));
                self.engine.ask_retire();
            }
            Action::Stop => self.stop = true,
        }
        Ok(())
    }

    fn segment(&self, sequence: u64) -> Result<Arc<Segment>> {
        let missing = || Error::missing(self.engine.disk.path(), format!("segment {sequence}"));
        self.engine.segments.get(sequence).ok_or_else(missing)
    }

    /// A durable frame with nothing beside it is written by this very thread: a ring hands such writes
    /// to kernel workers, which wait for a turn behind busy threads, by whole time slices.
    fn write(&mut self, frame: FrameWrite, alone: bool) -> Result<()> {
        let (lsn, dsync) = (frame.frame.lsn, frame.dsync);
        // The next rotation waits for this one's checkpoint to be on its way.
        self.freed |= matches!(frame.frame.body, Body::Checkpoint(_));
        let (segment, sealed) = self.engine.seal(frame)?;
        let SealedFrame { buf, len, rows, .. } = sealed;
        self.sent.insert(lsn.0, Sent { rows, len: len as u64, dsync, at: Instant::now() });
        let (file, offset) = (segment.write_file()?, lsn.0 - segment.base()?.0);
        if alone && dsync && self.queue.in_flight() == 0 {
            self.wake_ahead();
            let result = file.write_at(offset, &buf[..len], !planted(Planted::DsyncDroppedQueued));
            self.completions.push(Completion { token: lsn.0, result, buf: Some(buf) });
            return Ok(());
        }
        let dsync = dsync && !planted(Planted::DsyncDroppedQueued);
        self.queue.write(WriteOp { token: lsn.0, file, offset, buf, len, dsync });
        Ok(())
    }

    /// The segment that was prepared takes frames from now on.
    fn rotated(&mut self, writing: Writing) -> Result<()> {
        let engine = &self.engine;
        let Writing { sequence, size, .. } = writing;
        if engine.counters.rotations.load(Ordering::Relaxed) == 0 {
            // Of the segment that was the newest when the log was opened nobody else tells the keeper.
            let segments = engine.segments.snapshot();
            let recovered = segments.iter().filter(|segment| segment.holds_runs());
            recovered.for_each(|segment| engine.ask_keeper(Job::Index(Arc::clone(segment))));
        }
        let prepared = engine.prepared.lock().remove(&sequence);
        let (file, header) = prepared
            .ok_or_else(|| Error::missing(engine.disk.path(), format!("prepared segment {sequence}")))?;
        engine.segments.push(Arc::new(Segment::writing(Arc::clone(&engine.disk), header, file)));
        Counters::add(&engine.counters.rotations, 1);
        engine.tell(Event::Rotated { sequence, size });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::commit::Goal;
    use crate::commit::threads::tests::start;
    use crate::io::open_queue;

    #[test]
    fn who_was_to_be_woken_when_the_log_fails_is_woken_all_the_same() {
        let home = tempfile::tempdir().unwrap();
        let (engine, _threads) = start(home.path());
        let queue = open_queue(Backend::Std, 1, &[], engine.bell.clone()).unwrap();
        let mut committer = Committer::new(&engine, queue);
        let (send, receive) = channel();
        let (goal, past) = (Goal::durable(Lsn(1 << 20)), Lsn(2 << 20));
        assert!(engine.progress.call(goal, Box::new(move |outcome| send.send(outcome).unwrap())).is_none());
        // Its goal is reached, and the log fails before the next submission.
        committer.wakes = engine.progress.publish(past, past);
        engine.poison("a directory's fsync");
        let failed = committer.work();
        assert!(matches!(failed, Err(Error::Poisoned { .. })));
        committer.end(failed.err().map(|error| error.to_string()));
        receive.recv_timeout(Duration::from_secs(10)).expect("the call comes").unwrap();
    }
}
