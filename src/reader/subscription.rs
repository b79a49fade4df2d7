//! The durable watermark, as it moves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tidelog_format::Lsn;

use super::origin::Wait;
use crate::commit::{Engine, Goal, Mark};
use crate::error::{Error, Result};

/// Hands out the durable watermark whenever it has moved: each time the newest, so a slow
/// subscriber skips some. Ends when the log is closed, and with its error when it fails.
#[derive(Debug)]
pub struct Subscription {
    engine: Arc<Engine>,
    last: Lsn,
    done: bool,
}

impl Subscription {
    pub(crate) fn new(engine: &Arc<Engine>) -> Result<Self> {
        engine.check_fork()?;
        Ok(Self { engine: Arc::clone(engine), last: engine.progress.get(Mark::Durable), done: false })
    }

    /// The watermark handed out last; at first the one at the time of the subscription.
    pub fn watermark(&self) -> Lsn {
        self.last
    }

    /// Waits for the watermark to move, but no longer than `limit`: then `None`. When the log is
    /// closed, [`Error::Closed`].
    pub fn next_timeout(&mut self, limit: Duration) -> Result<Option<Lsn>> {
        let outcome = self.wait().block(Instant::now().checked_add(limit));
        match outcome {
            Err(Error::Busy) => Ok(None),
            outcome => self.moved(outcome).unwrap_or(Err(Error::Closed)).map(Some),
        }
    }

    /// The same as a [`Stream`], for asynchronous code. No runtime is needed.
    pub fn into_stream(self) -> SubscriptionStream {
        SubscriptionStream { wait: None, subscription: self }
    }

    fn wait(&self) -> Wait {
        Wait::new(&self.engine, Goal::durable(self.last))
    }

    /// What a wait that is over has brought.
    fn moved(&mut self, outcome: Result<()>) -> Option<Result<Lsn>> {
        let now = self.engine.progress.get(Mark::Durable);
        if now > self.last {
            self.last = now;
            return Some(Ok(now));
        }
        match outcome {
            _ if std::mem::replace(&mut self.done, true) => None,
            Err(error) if !matches!(error, Error::Closed) => Some(Err(error)),
            _ => None,
        }
    }
}

impl Iterator for Subscription {
    type Item = Result<Lsn>;

    fn next(&mut self) -> Option<Result<Lsn>> {
        let outcome = self.wait().block(None);
        self.moved(outcome)
    }
}

/// A [`Subscription`] for asynchronous code.
#[derive(Debug)]
#[must_use = "a stream does nothing unless polled"]
pub struct SubscriptionStream {
    subscription: Subscription,
    wait: Option<Wait>,
}

impl Stream for SubscriptionStream {
    type Item = Result<Lsn>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { subscription, wait } = &mut *self;
        let waiting = wait.get_or_insert_with(|| subscription.wait());
        let outcome = ready!(Pin::new(waiting).poll(cx));
        *wait = None;
        Poll::Ready(subscription.moved(outcome))
    }
}
