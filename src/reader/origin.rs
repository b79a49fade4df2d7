//! The log behind a reader, and how far it may be read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tidelog_format::{Fence, Lsn, StreamId};

use super::ReadUpTo;
use crate::commit::{Engine, Goal, Mark};
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::state::StreamState;

/// Where the frames of a reader come from. It neither keeps the log open nor its directory locked.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    source: Source,
    mark: Mark,
    /// The log had failed or ended already when the reader was made: what is not there is no surprise.
    late: bool,
}

#[derive(Clone, Debug)]
enum Source {
    Log(Arc<Engine>),
    /// Segments that nobody writes, up to here.
    #[cfg(test)]
    Still(Lsn),
}

impl Origin {
    pub(super) fn new(engine: &Arc<Engine>, up_to: ReadUpTo) -> Self {
        let mark = match up_to {
            ReadUpTo::Written => Mark::Written,
            ReadUpTo::Durable => Mark::Durable,
        };
        let late = engine.progress.failure().is_some();
        Self { source: Source::Log(Arc::clone(engine)), mark, late }
    }

    #[cfg(test)]
    pub(super) fn still(end: Lsn) -> Self {
        Self { source: Source::Still(end), mark: Mark::Written, late: true }
    }

    // Always there but in tests.
    #[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
    fn engine(&self) -> Option<&Arc<Engine>> {
        match &self.source {
            Source::Log(engine) => Some(engine),
            #[cfg(test)]
            Source::Still(_) => None,
        }
    }

    /// What lies below may be read now. After a failure that is what is durable.
    pub(super) fn limit(&self) -> Lsn {
        match &self.source {
            Source::Log(engine) => {
                let failed = engine.progress.failure().is_some();
                engine.progress.get(if failed { Mark::Durable } else { self.mark })
            }
            #[cfg(test)]
            Source::Still(end) => *end,
        }
    }

    /// Why what is missing at the end will not come, unless that was plain from the start.
    pub(super) fn failure(&self) -> Option<Error> {
        self.engine().and_then(|engine| engine.progress.failure().cloned()).filter(|_| !self.late)
    }

    /// The wait for the frame at `frame`; `None` where it may be read already, or never.
    pub(super) fn wait_for(&self, frame: Lsn) -> Option<Wait> {
        let engine = self.engine()?;
        if self.limit() > frame || engine.progress.failure().is_some() {
            return None;
        }
        Some(Wait::pressing(engine, Goal { mark: self.mark, frame }))
    }

    /// All segments there are now.
    pub(super) fn segments(&self) -> Option<Arc<Vec<Arc<Segment>>>> {
        self.engine().map(|engine| engine.segments.snapshot())
    }

    /// Whether the stream was released since it was in the state `before`.
    pub(super) fn released_since(&self, stream: StreamId, before: &StreamState) -> bool {
        let Some(engine) = self.engine() else { return false };
        let core = engine.core.lock();
        let is_new = |fence: &Fence| fence.from == 0 && !before.fences.contains(fence);
        core.state.get(stream).is_none_or(|now| now.fences.iter().any(is_new))
    }
}

/// A wait for a watermark, by a thread or as a future.
#[derive(Debug)]
pub(super) struct Wait {
    engine: Arc<Engine>,
    goal: Goal,
    /// The registration of the future.
    number: Option<u64>,
}

impl Wait {
    /// Has what it waits for done soon.
    pub(super) fn pressing(engine: &Arc<Engine>, goal: Goal) -> Self {
        match goal.mark {
            Mark::Written => engine.hurry(goal.frame),
            Mark::Durable => engine.want(goal.frame),
        }
        Self::new(engine, goal)
    }

    /// Takes what it waits for as it comes.
    pub(super) fn new(engine: &Arc<Engine>, goal: Goal) -> Self {
        Self { engine: Arc::clone(engine), goal, number: None }
    }

    /// Blocks; `Busy` when the time is over.
    pub(super) fn block(&self, deadline: Option<Instant>) -> Result<()> {
        self.engine.check_fork()?;
        self.engine.progress.wait(self.goal, deadline)
    }
}

impl Future for Wait {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Self { engine, goal, number } = &mut *self;
        engine.progress.poll(*goal, number, cx)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.engine.progress.forget(self.goal, number);
        }
    }
}
