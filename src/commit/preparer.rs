//! The thread that makes segment files ready before they are needed, and keeps the reserve for
//! the day when the disk is full.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use tidelog_format::FILE_SIZE_UNIT;

use super::engine::Engine;
use super::succession::Ask;
use crate::error::{Error, Result};
use crate::observe::{Counters, Event};
use crate::segment::{
    Fill, Free, Pace, PrepareError, Prepared, SegmentSpec, make_spare, name, prepare, take,
};

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
    preparer.end();
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

    fn report(&self, ask: &Ask, result: Result<Prepared, PrepareError>) {
        let engine = &self.engine;
        let result = match result {
            Ok((file, header)) => {
                engine.prepared.lock().insert(ask.sequence, (file, header));
                Ok(header.file_size)
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

    fn serve(&mut self, ask: &Ask) -> Result<Prepared, PrepareError> {
        if ask.reserve {
            return self.take_reserve(ask);
        }
        let outcome = self.ensure_spare(ask.checkpoint).and_then(|()| self.make(ask));
        // The room of what is kept for later is needed now.
        if matches!(outcome, Err(PrepareError::NoSpace(_))) && self.let_go() {
            return self.ensure_spare(ask.checkpoint).and_then(|()| self.make(ask));
        }
        outcome
    }

    fn make(&self, ask: &Ask) -> Result<Prepared, PrepareError> {
        if let Some(old) = self.recycle(ask)? {
            return Ok(old);
        }
        let blocks = if ask.oversize { Fill::Allocate } else { Fill::Zero };
        let spec = self.spec(ask, ask.size, blocks);
        self.with_pace(|pace| prepare(&*self.engine.disk, &spec, pace))
    }

    /// Makes the segment of a file that a retired one left, which is all written already.
    fn recycle(&self, ask: &Ask) -> Result<Option<Prepared>, PrepareError> {
        let engine = &self.engine;
        let mut kept = engine.free.lock();
        let Some(place) = kept.iter().position(|free| free.size >= ask.size) else { return Ok(None) };
        let chosen = kept.remove(place);
        drop(kept);
        let spec = self.spec(ask, chosen.size, Fill::Recycle);
        match take(&*engine.disk, &chosen.name(), &spec) {
            Ok(prepared) => {
                Counters::add(&engine.counters.recycled, 1);
                Ok(Some(prepared))
            }
            Err(poison @ PrepareError::Poison(_)) => Err(poison),
            // A new file will do; this one is of no use. What stays is found by the next opening.
            Err(_) => {
                let _ = engine.disk.unlink(&chosen.name());
                Ok(None)
            }
        }
    }

    /// Removes what is kept. False: there was nothing.
    fn let_go(&self) -> bool {
        let kept = std::mem::take(&mut *self.engine.free.lock());
        kept.iter().filter(|free| self.engine.disk.unlink(&free.name()).is_ok()).count() > 0
    }

    /// No more is asked for. A successor that no frame went to is of no use to anybody: the next opening
    /// would have to read all of it to see that. Only where the log was closed: of one that has
    /// failed nobody knows what its files hold.
    pub(super) fn end(&mut self) {
        let engine = &self.engine;
        // Their locks would keep the next opening waiting for as long as a reader keeps the engine.
        let unused = std::mem::take(&mut *engine.prepared.lock());
        let written = {
            let core = engine.core.lock();
            core.complete.then(|| core.succession.writing.map_or(0, |writing| writing.sequence))
        };
        // The highest alone: a crash may keep one removal and lose another, and numbers have no gaps.
        let highest = unused.iter().max_by_key(|(sequence, _)| **sequence);
        let (Some(written), Some((&sequence, (_, header)))) = (written, highest) else { return };
        if sequence < written {
            return;
        }
        let size = header.file_size;
        drop(unused);
        let mut kept = engine.free.lock();
        let keep = engine.keeps_now(&kept) == Some(size);
        match keep.then(|| Free::keep(&*engine.disk, sequence, size)) {
            Some(Ok(free)) => kept.push(free),
            // Left behind, it is void.
            _ => drop(engine.disk.unlink(&name::segment(sequence))),
        }
    }

    fn spec(&self, ask: &Ask, size: u64, fill: Fill) -> SegmentSpec {
        let identity = self.engine.identity(ask.sequence, ask.base);
        SegmentSpec { identity, block_size: self.engine.options.block_size, size, fill }
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

    fn take_reserve(&mut self, ask: &Ask) -> Result<Prepared, PrepareError> {
        let Some(spare) = self.spare else { return Err(PrepareError::NoSpace(ask.size)) };
        let spec = self.spec(ask, spare.size, Fill::Zero);
        let prepared = take(&*self.engine.disk, &name::spare(spare.number), &spec)?;
        self.spare = None;
        Ok(prepared)
    }
}
