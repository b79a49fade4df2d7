//! The thread that makes segment files ready before they are needed, and keeps the reserve for
//! the day when the disk is full.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use tidelog_format::FILE_SIZE_UNIT;

use super::engine::Engine;
use super::succession::Ask;
use crate::error::{Error, Result};
use crate::io::DiskFile;
use crate::observe::{Counters, Event};
use crate::segment::{Fill, Pace, PrepareError, SegmentSpec, make_spare, name, prepare, take_spare};

/// The reserve, as found or made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) size: u64,
}

impl Spare {
    /// The number for the next one. Names in the directory may have any number.
    pub(crate) fn number_after(number: u64) -> u64 {
        number.checked_add(1).unwrap_or(1)
    }
}

pub(super) struct Preparer {
    engine: Arc<Engine>,
    spare: Option<Spare>,
    next_spare: u64,
}

/// Serves requests until the log ends. `spare` is the reserve that opening found; numbers from
/// `next_spare` on are free.
pub(crate) fn run(engine: &Arc<Engine>, asks: &Receiver<Ask>, spare: Option<Spare>, next_spare: u64) {
    let mut preparer = Preparer::new(engine, spare, next_spare);
    while let Ok(ask) = asks.recv() {
        preparer.prepare(&ask);
    }
    // Their locks would keep the next opening waiting for as long as a reader keeps the engine.
    engine.prepared.lock().clear();
}

impl Preparer {
    pub(super) fn new(engine: &Arc<Engine>, spare: Option<Spare>, next_spare: u64) -> Self {
        Self { engine: Arc::clone(engine), spare, next_spare }
    }

    /// Makes what is asked for, and tells the pipeline how that went.
    pub(super) fn prepare(&mut self, ask: &Ask) {
        let result = self.serve(ask);
        self.report(ask, result);
    }

    fn report(&self, ask: &Ask, result: Result<(Arc<dyn DiskFile>, u64), PrepareError>) {
        let engine = &self.engine;
        let result = match result {
            Ok((file, size)) => {
                engine.prepared.lock().insert(ask.sequence, file);
                Ok(size)
            }
            Err(PrepareError::Poison(error)) => {
                engine.poison(&format!("fsync of {}: {error}", engine.disk.path().display()));
                return;
            }
            Err(PrepareError::NoSpace(needed)) => Err(Error::NoSpace { needed }),
            Err(PrepareError::Stopped) => Err(Error::Closed),
            Err(PrepareError::Failed(error)) => {
                Err(Error::io("prepare a segment in", engine.disk.path(), error))
            }
        };
        if let Err(error) = &result {
            engine.tell(Event::PrepareFailed { cause: error.to_string() });
        }
        let freeing = result.is_err();
        engine.core.lock().prepared(ask.sequence, result);
        engine.room.notify(usize::MAX);
        engine.bell.ring();
        if freeing {
            // What is dead may go although it is the newest segment's predecessor.
            engine.ask_retire();
        }
    }

    fn serve(&mut self, ask: &Ask) -> Result<(Arc<dyn DiskFile>, u64), PrepareError> {
        if ask.reserve {
            return self.take_reserve(ask);
        }
        self.ensure_spare(ask.checkpoint)?;
        let engine = Arc::clone(&self.engine);
        let fill = if ask.oversize { Fill::Allocate } else { Fill::Zero };
        let spec = SegmentSpec { fill, ..self.spec(ask, ask.size) };
        let prepared = self.with_pace(|pace| prepare(&*engine.disk, &spec, pace))?;
        Ok((prepared, ask.size))
    }

    fn spec(&self, ask: &Ask, size: u64) -> SegmentSpec {
        let identity = self.engine.identity(ask.sequence, ask.base);
        SegmentSpec { identity, block_size: self.engine.options.block_size, size, fill: Fill::Zero }
    }

    fn with_pace<T>(&self, work: impl FnOnce(&mut Pace<'_>) -> T) -> T {
        let engine = &self.engine;
        work(&mut Pace {
            rate: engine.options.prepare_rate,
            stop: &|| engine.ending.load(Ordering::Acquire),
            written: &mut |bytes| Counters::add(&engine.counters.prepared_bytes, bytes),
        })
    }

    /// The reserve exists before a segment takes data and before a successor is prepared: it is
    /// large enough for a checkpoint now, and another one as large.
    fn ensure_spare(&mut self, checkpoint: u64) -> Result<(), PrepareError> {
        let needed = (2 * checkpoint + FILE_SIZE_UNIT).next_multiple_of(FILE_SIZE_UNIT);
        if self.spare.is_some_and(|spare| spare.size >= needed) {
            return Ok(());
        }
        let (engine, number) = (Arc::clone(&self.engine), self.next_spare);
        self.with_pace(|pace| make_spare(&*engine.disk, number, needed, pace))?;
        self.next_spare = Spare::number_after(number);
        if let Some(old) = self.spare.replace(Spare { number, size: needed }) {
            // Left behind, it is found and removed by the next opening.
            let _ = engine.disk.unlink(&name::spare(old.number));
        }
        Ok(())
    }

    fn take_reserve(&mut self, ask: &Ask) -> Result<(Arc<dyn DiskFile>, u64), PrepareError> {
        let Some(spare) = self.spare else { return Err(PrepareError::NoSpace(ask.size)) };
        let file = take_spare(&*self.engine.disk, spare.number, &self.spec(ask, spare.size))?;
        self.spare = None;
        Ok((file, spare.size))
    }
}
