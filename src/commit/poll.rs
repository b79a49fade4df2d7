//! What the pipeline wants done next: writes, flushes, preparations, and by when.

use std::time::Duration;

use super::core::{Action, Core, Status};
use super::frame::{Body, ClosedFrame, FrameWrite};
use super::succession::Ask;
use crate::planted::{Planted, planted};

/// Streams captured for a checkpoint under one hold of the lock.
const CAPTURE_STEP: u32 = 512;
/// How long a failed preparation is left alone before it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl Core {
    /// The next thing to do, at `now` since the log was opened.
    pub(crate) fn poll(&mut self, now: Duration) -> Option<Action> {
        if let Some(writing) = self.rotated.pop_front() {
            return Some(Action::Rotated(writing));
        }
        if matches!(self.status, Status::Poisoned(_) | Status::Closed) {
            return None;
        }
        if let Some((sequence, end)) = self.ended
            && self.flights.durable() >= end
        {
            self.ended = None;
            return Some(Action::Ended { sequence, end });
        }
        if let Some(ask) = self.poll_ask(now) {
            return Some(Action::Prepare(ask));
        }
        self.poll_write(now).map(Action::Write).or_else(|| self.poll_flush(now)).or_else(|| self.poll_stop())
    }

    fn poll_ask(&mut self, now: Duration) -> Option<Ask> {
        if self.succession.failure().is_some() {
            let failed = *self.failed_at.get_or_insert(now);
            if let Some(needed) = self.demand.filter(|_| now >= failed + RETRY_AFTER) {
                self.demand = None;
                let checkpoint = self.checkpoint_bytes();
                self.succession.want(checkpoint, needed);
            }
        }
        if self.succession.is_due() && matches!(self.status, Status::Running) {
            let checkpoint = self.checkpoint_bytes();
            self.succession.want(checkpoint, 0);
        }
        let ask = self.succession.take_ask();
        if ask.is_some() {
            self.failed_at = None;
        }
        ask
    }

    fn poll_write(&mut self, now: Duration) -> Option<FrameWrite> {
        self.capture();
        if self.queue.is_empty() {
            if !self.is_open_due(now) {
                return None;
            }
            self.close_open();
        }
        let front = self.queue.front()?;
        if !self.may_submit(front.len) || !self.is_submittable(front) {
            return None;
        }
        let frame = self.queue.pop_front()?;
        let nothing_below = self.flights.unflushed() == 0 || planted(Planted::PlainBelowDsync);
        let dsync = nothing_below && self.wanted > frame.lsn;
        Some(self.submit(frame, dsync, now))
    }

    /// Whether the frame's bytes are there, and the barrier is passed.
    fn is_submittable(&self, frame: &ClosedFrame) -> bool {
        let skipped = planted(Planted::SkipBarrier)
            || (planted(Planted::FlushOneForTwo) && self.flights.unflushed() > 0);
        let behind_barrier =
            frame.sequence != self.submitted_sequence && !self.flights.is_settled() && !skipped;
        frame.is_copied() && !behind_barrier
    }

    pub(super) fn submit(&mut self, frame: ClosedFrame, dsync: bool, now: Duration) -> FrameWrite {
        let watermark = match &frame.body {
            Body::Vouch if planted(Planted::IdleVouchesUnflushed) => frame.lsn,
            _ if planted(Planted::WatermarkTooHigh) => frame.lsn,
            _ => self.flights.durable(),
        };
        let records = !matches!(frame.body, Body::Vouch);
        self.flights.submit(frame.lsn, frame.len, dsync, records);
        self.submitted_sequence = frame.sequence;
        self.last_submit = now;
        if !dsync {
            self.unflushed_since.get_or_insert(now);
        }
        FrameWrite { frame, watermark, dsync }
    }

    /// Goes on with the checkpoint of a rotation, a step at a time.
    fn capture(&mut self) {
        let waits = |frame: &ClosedFrame| matches!(frame.body, Body::Checkpoint(None));
        if planted(Planted::CaptureLate) && !self.state.is_capturing() && self.queue.iter().any(waits) {
            let oldest_base = self.succession.base_of(self.state.oldest());
            self.state.begin_capture(self.newest, oldest_base);
        }
        if !self.state.is_capturing() {
            return;
        }
        let Some(captured) = self.state.capture_step(CAPTURE_STEP) else { return };
        let waiting = self.queue.iter_mut().find(|frame| matches!(frame.body, Body::Checkpoint(None)));
        waiting.expect("a capture ends in the frame that began it").body = Body::Checkpoint(Some(captured));
    }

    /// The driver must poll again at once: a capture is under way, and it goes on between holds of the lock.
    pub(crate) fn is_capturing(&self) -> bool {
        self.state.is_capturing()
    }

    fn poll_flush(&mut self, now: Duration) -> Option<Action> {
        if !self.flights.can_flush() {
            return None;
        }
        let closing = matches!(self.status, Status::Closing);
        // A flush before the waited-for frames have completed would have to be repeated. The
        // target stays while others ask for more, else a steady stream of them would starve the first.
        if self.wanted > self.flights.durable() && self.flush_target <= self.flights.durable() {
            self.flush_target = self.wanted;
        }
        let target = self.flush_target;
        // What is waited for may lie behind the barrier: then the flush is due once all before it has completed.
        let barrier = self.queue.front().is_some_and(|frame| frame.sequence != self.submitted_sequence);
        let reached = self.flights.written() >= target || (barrier && self.flights.in_flight() == 0);
        let waited = target > self.flights.durable() && reached;
        let due = self.unflushed_since.is_some_and(|since| now >= since.saturating_add(self.flush_interval));
        if !(waited || closing || due || self.flights.unflushed() >= self.max_unflushed) {
            return None;
        }
        self.flights.begin_flush();
        self.unflushed_since = Some(now);
        Some(Action::Flush { sequence: self.submitted_sequence })
    }

    /// When [`Self::poll`] has something to do by itself, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let flush = self
            .unflushed_since
            .filter(|_| self.flights.can_flush())
            .map(|at| at.saturating_add(self.flush_interval));
        let vouch = self.wants_vouching().then_some(self.last_submit.saturating_add(self.idle_after));
        let retry = self.failed_at.filter(|_| self.demand.is_some()).map(|at| at + RETRY_AFTER);
        [flush, vouch, retry, self.lingers_until()].into_iter().flatten().min()
    }

    fn wants_vouching(&self) -> bool {
        let block = self.succession.block();
        let room = self.succession.writing.is_some_and(|writing| writing.room(block) >= block);
        let wanted = if planted(Planted::IdleVouchesUnflushed) && self.flights.is_idle_but_unflushed() {
            self.has_nothing_staged()
        } else {
            self.is_idle() && self.flights.wants_vouching()
        };
        room && wanted && self.check_poisoned().is_ok()
    }

    /// The frame by which a log that fell idle vouches for its last commits.
    pub(crate) fn poll_vouch(&mut self, now: Duration) -> Option<FrameWrite> {
        let closing = matches!(self.status, Status::Closing);
        if !self.wants_vouching() || !(closing || now >= self.last_submit.saturating_add(self.idle_after)) {
            return None;
        }
        let block = self.succession.block();
        self.push(block, Body::Vouch);
        let frame = self.queue.pop_front()?;
        Some(self.submit(frame, true, now))
    }

    fn poll_stop(&mut self) -> Option<Action> {
        let done = matches!(self.status, Status::Closing) && self.is_idle() && !self.wants_vouching();
        done.then(|| {
            self.status = Status::Closed;
            self.complete = true;
            Action::Stop
        })
    }
}
