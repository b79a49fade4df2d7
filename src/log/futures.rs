//! Appending and waiting without blocking. No runtime is assumed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidelog_format::Lsn;

use crate::commit::{Batch, Blocked, Engine, Goal, TruncateHint};
use crate::error::{Error, Result};
use crate::sync::RoomListener;

/// What an [`Append`] is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The batch is staged, and nobody waits for more.
    Staged,
    /// The batch is staged, and will be waited for: its frame is written durably at once.
    Wanted,
    /// The batch is durable.
    Durable,
}

/// Stages a batch once there is room: resolves to the LSN of its frame.
///
/// Dropped before it has resolved, it leaves no trace; after that the batch is in the log.
#[derive(Debug)]
#[must_use = "a future does nothing unless polled"]
pub struct Append<P> {
    engine: Arc<Engine>,
    batch: Batch<P>,
    /// For truncations where ids have gaps, looked up when the future is first polled.
    hints: Vec<TruncateHint>,
    looked_up: bool,
    aim: Aim,
    room: Option<RoomListener>,
    wait: Option<Durable>,
}

impl<P> Append<P> {
    pub(super) fn new(engine: Arc<Engine>, batch: Batch<P>, aim: Aim) -> Self {
        Self { engine, batch, hints: Vec::new(), looked_up: false, aim, room: None, wait: None }
    }
}

impl<P: AsRef<[u8]> + Unpin> Append<P> {
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lsn>> {
        if !std::mem::replace(&mut self.looked_up, true) {
            self.hints = super::hints(&self.engine, &self.batch)?;
        }
        loop {
            match self.engine.try_append(&self.batch, &self.hints, self.aim != Aim::Staged, false) {
                Ok(lsn) => return Poll::Ready(Ok(lsn)),
                // Another changed a stream that is truncated here: look it up again.
                Err(Blocked::Refused(Error::Contended { .. })) => {
                    self.hints = super::hints(&self.engine, &self.batch)?;
                    continue;
                }
                Err(Blocked::Refused(error)) => return Poll::Ready(Err(error)),
                Err(Blocked::NoRoom) => {}
            }
            // Listen first, then try again: room freed in between is not missed.
            if let Some(room) = &mut self.room {
                if Pin::new(room).poll(cx).is_pending() {
                    self.engine.ring_if_asleep();
                    return Poll::Pending;
                }
                self.room = None;
            } else {
                self.room = Some(self.engine.room.listen());
            }
        }
    }
}

impl<P: AsRef<[u8]> + Unpin> Future for Append<P> {
    type Output = Result<Lsn>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.wait.is_none() {
            let Poll::Ready(staged) = self.poll_stage(cx) else { return Poll::Pending };
            let lsn = staged?;
            if self.aim != Aim::Durable {
                return Poll::Ready(Ok(lsn));
            }
            self.wait = Some(Durable::new(Arc::clone(&self.engine), lsn));
        }
        let Some(wait) = &mut self.wait else { return Poll::Pending };
        let lsn = wait.goal.frame;
        Pin::new(wait).poll(cx).map(|outcome| outcome.map(|()| lsn))
    }
}

/// Resolves once all up to a frame is durable, or cannot become so.
#[derive(Debug)]
#[must_use = "a future does nothing unless polled"]
pub struct Durable {
    engine: Arc<Engine>,
    goal: Goal,
    asked: bool,
    number: Option<u64>,
}

impl Durable {
    pub(super) fn new(engine: Arc<Engine>, lsn: Lsn) -> Self {
        Self { engine, goal: Goal::durable(lsn), asked: false, number: None }
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.engine.check_fork()?;
        if !std::mem::replace(&mut this.asked, true) {
            this.engine.check_position(this.goal.frame)?;
            this.engine.want(this.goal.frame);
        }
        this.engine.progress.poll(this.goal, &mut this.number, cx)
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.engine.progress.forget(self.goal, number);
        }
    }
}
