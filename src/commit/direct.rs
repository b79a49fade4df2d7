//! Frames that a caller writes on his own thread, which saves the hand-over to the committer: the
//! *submit token* goes to one of them at a time, and while the committer sleeps.

use std::time::Instant;

use tidelog_format::Lsn;

use super::engine::Engine;
use super::frame::FrameWrite;
use super::progress::Mark;
use crate::error::{Error, Result};
use crate::observe::Counters;
use crate::planted::{Planted, planted};

impl Engine {
    /// As [`Self::want`]; where the frame is staged and the pipeline is idle otherwise, this very thread writes it.
    pub(crate) fn want_here(&self, lsn: Lsn) -> Result<()> {
        if self.progress.get(Mark::Durable) > lsn {
            return Ok(());
        }
        let (direct, wake) = {
            let mut core = self.core.lock();
            let wake = core.want(lsn);
            (core.take_staged(lsn, self.now()), wake)
        };
        self.write_or_wake(direct, wake)
    }

    /// Writes the frame that came with the submit token; without one, wakes the committer where that is due.
    pub(super) fn write_or_wake(&self, direct: Option<FrameWrite>, wake: bool) -> Result<()> {
        match direct {
            Some(frame) => self.write_direct(frame)?,
            None if wake => self.bell.ring(),
            None => {}
        }
        Ok(())
    }

    /// Writes a frame on the caller's thread, which holds the submit token.
    fn write_direct(&self, frame: FrameWrite) -> Result<()> {
        let unfinished = Unfinished { engine: self };
        let written = self.write_and_publish(frame);
        std::mem::forget(unfinished);
        written
    }

    fn write_and_publish(&self, frame: FrameWrite) -> Result<()> {
        let lsn = frame.frame.lsn;
        let begun = Instant::now();
        let written = self.seal(frame).and_then(|(segment, sealed)| {
            let offset = lsn.0 - segment.base()?.0;
            let file = segment.write_file()?;
            file.write_at(offset, &sealed.buf[..sealed.len], !planted(Planted::DsyncDroppedDirect))
                .map_err(|error| Error::io("write", segment.path(), error))?;
            Ok(sealed)
        });
        match written {
            Ok(sealed) => {
                self.counters.wrote(sealed.len as u64, true, begun.elapsed());
                Counters::add(&self.counters.direct_commits, 1);
                let mut core = self.core.lock();
                core.written_frame(lsn, Some(sealed.buf), sealed.rows);
                let (written, durable) = (core.written(), core.durable());
                let wake = core.must_wake();
                drop(core);
                self.fire(self.progress.publish(written, durable));
                if wake {
                    self.bell.ring();
                }
                self.room.notify(usize::MAX);
                Ok(())
            }
            Err(error) if planted(Planted::SwallowDirectError) => {
                self.core.lock().written_frame(lsn, None, Vec::new());
                Err(error)
            }
            Err(error) => Err(self.poison(&error.to_string())),
        }
    }
}

/// What a staged batch owes the log: dropped, it poisons. Behind a frame that is never written, or
/// not copied in full, everybody would wait for ever.
pub(super) struct Unfinished<'a> {
    pub(super) engine: &'a Engine,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.engine.poison("an append ended before it had written what it staged");
    }
}
