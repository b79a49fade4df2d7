//! A log on a simulated disk, driven by hand. For tests that break it; nothing here is promised.

use std::time::Duration;

use tidelog_format::Lsn;

use crate::commit::{Batch, Blocked, Goal, Stepped};
use crate::error::{Error, Result};
pub use crate::io::sim::{FaultKind, SimDisk, Snapshot};
use crate::log::Log;
use crate::options::Options;
pub use crate::planted::{Planted, plant};

/// A log whose threads are whoever calls [`SimLog::step`].
pub struct SimLog {
    log: Log,
    stepped: Stepped,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something, or it is on its way.
    Moved,
    /// There is nothing to do until time passes or somebody asks for something.
    Idle,
}

impl std::fmt::Debug for SimLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimLog").field("log", &self.log).finish_non_exhaustive()
    }
}

impl SimLog {
    /// Opens the log on the disk, recovering what is there.
    pub fn open(disk: &SimDisk, options: Options) -> Result<Self> {
        let (log, stepped) = Log::simulated(disk, options)?;
        Ok(Self { log, stepped })
    }

    /// The log. What blocks in it blocks for ever: nobody else moves it.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Stages a batch: `None` where there is no room for it now. With `wanted` it is waited for, so
    /// that it is written durably; with `direct` too, the caller writes it where the pipeline is idle.
    pub fn append<P: AsRef<[u8]>>(
        &self,
        batch: &Batch<P>,
        wanted: bool,
        direct: bool,
    ) -> Result<Option<Lsn>> {
        let staged = self.log.hinted(batch, |hints| {
            self.log.engine().try_append(batch, hints, wanted, direct).map_err(|blocked| match blocked {
                Blocked::Refused(error) => error,
                Blocked::NoRoom => Error::Busy,
            })
        });
        match staged {
            Ok(lsn) => Ok(Some(lsn)),
            Err(Error::Busy) => {
                self.log.engine().ring_if_asleep();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Has the frame at `lsn` made durable; with `direct` the caller writes it where the pipeline is idle.
    pub fn want(&self, lsn: Lsn, direct: bool) -> Result<()> {
        let engine = self.log.engine();
        if direct {
            return engine.want_here(lsn);
        }
        engine.want(lsn);
        Ok(())
    }

    /// Whether the frame at `lsn` is durable: as a waiter is told, an error where it cannot be any more.
    pub fn durable(&self, lsn: Lsn) -> Option<Result<()>> {
        self.log.engine().progress.outcome(Goal::durable(lsn))
    }

    /// Somebody has a turn: the committer, the device, the preparer, the keeper or the notifier, as
    /// `dice` has it; who has nothing to do leaves it to the next.
    pub fn step(&mut self, dice: u8) -> Step {
        let stepped = &mut self.stepped;
        for turn in 0..5 {
            let moved = match (dice.wrapping_add(turn)) % 5 {
                0 => stepped.commit(),
                1 => stepped.complete(),
                2 => stepped.prepare(),
                3 => stepped.keep(),
                _ => stepped.notify(),
            };
            if moved {
                return Step::Moved;
            }
        }
        Step::Idle
    }

    /// Steps until there is nothing to do; of time only what batches linger goes by. False: it does not
    /// come to rest.
    pub fn settle(&mut self) -> bool {
        let linger = self.log.engine().options.linger;
        self.rest() && {
            self.stepped.advance(linger);
            self.rest()
        }
    }

    fn rest(&mut self) -> bool {
        (0..100_000).any(|_| self.step(0) == Step::Idle)
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.stepped.advance(by);
    }

    /// The log was closed or has failed.
    pub fn has_ended(&self) -> bool {
        self.stepped.has_ended()
    }

    /// Asks the log to close: it has, once it has settled.
    pub fn close(&mut self) {
        self.log.engine().close();
    }
}
