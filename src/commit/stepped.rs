//! The pipeline without threads: whoever has it says whose turn it is.
//!
//! The same committer, preparer and keeper as those that the threads run, a turn at a time. What
//! would wait there is left and taken up again in a later turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::clock::Clock;
use super::committer::{Committer, Turn};
use super::engine::Engine;
use super::keeper::{Keeper, Wait};
use super::preparer::Preparer;
use super::threads::{Inboxes, Start, assemble};
use crate::error::{Error, Result};
use crate::io::{Bell, FrameBuf, WriteQueue};
use crate::observe::Event;

/// What the threads of a log do, by hand.
pub(crate) struct Stepped {
    engine: Arc<Engine>,
    /// None once the log has ended.
    committer: Option<Committer>,
    preparer: Preparer,
    keeper: Keeper,
    /// What the keeper waits for.
    wait: Wait,
    inboxes: Inboxes,
}

impl Stepped {
    /// A pipeline whose writes go to the queue that `queue` makes, and whose time stands still.
    pub(crate) fn start(
        start: Start,
        queue: impl FnOnce(&[Arc<FrameBuf>], Bell) -> io::Result<Box<dyn WriteQueue>>,
    ) -> Result<(Arc<Engine>, Self)> {
        let (spare, next_spare) = (start.spare, start.next_spare);
        let (engine, pool, inboxes) = assemble(start, Clock::Stepped(AtomicU64::new(0)))?;
        let queue = queue(&pool, engine.bell.clone())
            .map_err(|error| Error::io("make a queue for", engine.disk.path(), error))?;
        engine.backend.get_or_init(|| queue.backend());
        let stepped = Self {
            committer: Some(Committer::new(&engine, queue)),
            preparer: Preparer::new(&engine, spare, next_spare),
            keeper: Keeper::new(&engine),
            wait: Wait::Nothing,
            inboxes,
            engine: Arc::clone(&engine),
        };
        Ok((engine, stepped))
    }

    /// The log was closed or has failed: nothing is written any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.committer.is_none()
    }

    /// The committer takes in what has completed and starts what is due. False: there was nothing.
    pub(crate) fn commit(&mut self) -> bool {
        let Some(committer) = &mut self.committer else { return false };
        match committer.turn() {
            Ok(_) if committer.has_stopped() => self.end(None),
            Ok(Turn::Busy) => {}
            Ok(Turn::Idle(wait)) => return wait == Some(Duration::ZERO),
            Err(error) => self.end(Some(&error)),
        }
        true
    }

    /// Some of what is on its way completes, as the queue has it; the next commit takes that in.
    pub(crate) fn complete(&mut self) -> bool {
        let Some(committer) = self.committer.as_mut().filter(|committer| committer.in_flight() > 0) else {
            return false;
        };
        if let Err(error) = committer.reap(Some(Duration::ZERO)) {
            self.end(Some(&error));
        }
        true
    }

    fn end(&mut self, failure: Option<&Error>) {
        if let Some(committer) = self.committer.take() {
            committer.end(failure.map(ToString::to_string));
            // As its thread does: what it was asked for comes first.
            while self.prepare() {}
            self.preparer.end();
        }
    }

    /// The preparer makes what it was asked for. False: it was asked for nothing.
    pub(crate) fn prepare(&mut self) -> bool {
        let asked = self.inboxes.asks.try_recv();
        asked.map(|ask| self.preparer.prepare(&ask)).is_ok()
    }

    /// The keeper goes on with what it does, or begins with the next. False: it waits.
    pub(crate) fn keep(&mut self) -> bool {
        let step = match self.wait {
            Wait::Nothing => match self.inboxes.jobs.try_recv() {
                Ok(job) => self.keeper.begin(job),
                Err(_) => return false,
            },
            Wait::Room | Wait::Durable(_) => self.keeper.advance(),
        };
        let waited = self.wait;
        self.wait = step.unwrap_or_else(|error| {
            self.engine.tell(Event::Background { cause: error.to_string() });
            Wait::Nothing
        });
        waited != self.wait
    }

    /// Wakers, callbacks and observers are told. False: there was nothing to tell.
    pub(crate) fn notify(&mut self) -> bool {
        let notice = self.inboxes.notices.try_recv();
        notice.map(|notice| notice.deliver(self.engine.options.observer.as_ref())).is_ok()
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, by: Duration) {
        self.engine.clock.advance(by);
    }
}
