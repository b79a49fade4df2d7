//! How long staged batches stay in memory, and when the committer sleeps.
//!
//! A batch that somebody waits for goes as soon as the device is free. One that nobody waits for lingers:
//! it need not wake the committer, and who appends much and then waits has all of it in one frame,
//! not the first batch alone in one and the rest behind it.

use std::time::Duration;

use tidelog_format::Lsn;

use super::core::{Core, SMALL, Status};
use super::frame::OpenFrame;

/// A frame of this size does not linger.
const LARGE: u64 = 2 * SMALL;

/// The committer waits for something to happen.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    /// Whoever gives it work must wake it.
    asleep: bool,
    /// Until when, unless it is woken.
    until: Duration,
    /// That is within the linger: what is staged meanwhile need not wake it.
    ticks: bool,
    /// Something was staged since it fell asleep that nobody waited for.
    busy: bool,
}

impl Core {
    /// The frame at `lsn` is waited for. True when the committer has to be woken.
    pub(crate) fn want(&mut self, lsn: Lsn) -> bool {
        self.wanted = self.wanted.max(lsn.saturating_add(1));
        self.sleep.asleep
    }

    /// The frame at `lsn` is waited for by somebody who wants it written. True when the committer has to be woken.
    pub(crate) fn hurry(&mut self, lsn: Lsn) -> bool {
        self.hurried = self.hurried.max(lsn.saturating_add(1));
        self.sleep.asleep && self.has_work()
    }

    /// Something was staged that nobody waits for.
    pub(super) fn stay_near(&mut self) {
        self.sleep.busy = true;
    }

    /// Something is staged that the committer would submit.
    fn has_work(&self) -> bool {
        let staged = |open: &OpenFrame| self.is_pressing(open) && self.has_turn(open);
        self.open.as_ref().is_some_and(staged)
            || self.queue.front().is_some_and(|frame| self.may_submit(frame.len))
    }

    /// The open frame goes as soon as it may.
    fn is_pressing(&self, open: &OpenFrame) -> bool {
        self.linger.is_zero()
            || self.wanted.max(self.hurried) > open.lsn
            || open.buf.used() as u64 >= LARGE
            || !matches!(self.status, Status::Running)
    }

    /// Nothing in flight is in the open frame's way.
    fn has_turn(&self, open: &OpenFrame) -> bool {
        self.may_submit(open.buf.used() as u64)
    }

    /// Whether the open frame goes now. It lingers from when this is first asked.
    pub(super) fn is_open_due(&mut self, now: Duration) -> bool {
        let linger = self.linger;
        let Some(open) = &mut self.open else { return false };
        let lingered = now >= open.seen.get_or_insert(now).saturating_add(linger);
        let due = |open: &OpenFrame| lingered || self.is_pressing(open);
        self.open.as_ref().is_some_and(|open| due(open) && self.has_turn(open))
    }

    /// When the open frame goes by itself: what keeps it from that otherwise ends with a completion.
    pub(super) fn lingers_until(&self) -> Option<Duration> {
        let open = self.open.as_ref().filter(|_| self.queue.is_empty())?;
        open.seen.filter(|_| self.has_turn(open)).map(|seen| seen.saturating_add(self.linger))
    }

    /// The committer waits for something to happen, until what it gives. While batches come that nobody waits for, it
    /// looks every now and then whether there are some, so that they need not wake it.
    pub(crate) fn fall_asleep(&mut self, now: Duration) -> Option<Duration> {
        let tick = now.saturating_add(self.linger);
        let busy = self.sleep.busy && !self.linger.is_zero();
        let until = [self.deadline(), busy.then_some(tick)].into_iter().flatten().min();
        let end = until.unwrap_or(Duration::MAX);
        self.sleep = Sleep { asleep: true, until: end, ticks: end <= tick, busy: false };
        until
    }

    pub(crate) fn wake_up(&mut self) {
        self.sleep.asleep = false;
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.sleep.asleep
    }

    /// The committer has slept as long as it wanted to.
    #[cfg(test)]
    pub(super) fn has_slept(&self, now: Duration) -> bool {
        self.sleep.until <= now
    }

    /// The committer has to be woken: for what can be submitted, for something that has a deadline and came
    /// since it fell asleep, or because the log is being closed and waits for the last write.
    pub(crate) fn must_wake(&self) -> bool {
        let closing = || !matches!(self.status, Status::Running);
        let early = || self.deadline().is_some_and(|deadline| deadline < self.sleep.until);
        self.must_wake_to_stage() || (self.sleep.asleep && (closing() || early()))
    }

    /// As [`Self::must_wake`], for what a batch that was staged can have changed.
    pub(super) fn must_wake_to_stage(&self) -> bool {
        let unseen = |open: &OpenFrame| open.seen.is_none() && self.has_turn(open);
        let overslept =
            || self.succession.is_due() || (!self.sleep.ticks && self.open.as_ref().is_some_and(unseen));
        self.sleep.asleep && (self.has_work() || overslept())
    }
}
