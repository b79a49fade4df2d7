//! The thread that works on what is written: index caches, and the retirement of dead segments.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use tidelog_format::{Lsn, StreamId};

use super::engine::Engine;
use super::progress::Goal;
use super::stage::Blocked;
use crate::error::{Error, Result};
use crate::observe::{Counters, Event};
use crate::planted::{Planted, planted};
use crate::segment::{Run, Segment, name};
use crate::sync::Listener;

/// Streams looked at under one hold of the tail lock.
const PAGE: usize = 64;

#[derive(Debug)]
pub(crate) enum Job {
    /// The segment has ended: write its index cache.
    Index(Arc<Segment>),
    /// Something became obsolete: see whether the oldest segments may go.
    Retire,
}

/// A row that keeps its segment; most of the time looking at it again is all it takes.
#[derive(Clone, Copy, Debug)]
struct Pin {
    sequence: u64,
    stream: StreamId,
    run: Run,
    frame: Lsn,
}

/// What a retirement has come to.
#[derive(Clone, Copy, Debug)]
struct Retiring {
    oldest: u64,
    /// The frame of the record that says so, once it is staged.
    staged: Option<Lsn>,
}

/// What the next step of a retirement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    Room,
    Durable(Lsn),
}

pub(super) struct Keeper {
    engine: Arc<Engine>,
    retiring: Option<Retiring>,
    pin: Option<Pin>,
    /// A segment whose index could not be read; told once.
    damaged: Option<u64>,
}

pub(crate) fn run(engine: &Arc<Engine>, jobs: &Receiver<Job>) {
    let mut keeper = Keeper::new(engine);
    while let Ok(job) = jobs.recv() {
        if let Err(error) = keeper.serve(job) {
            engine.tell(Event::Background { cause: error.to_string() });
        }
    }
}

impl Keeper {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine), retiring: None, pin: None, damaged: None }
    }

    fn serve(&mut self, job: Job) -> Result<()> {
        let mut wait = self.begin(job)?;
        let mut listener = None;
        loop {
            match wait {
                Wait::Nothing => return Ok(()),
                // Listen first, try again, then wait: room freed in between is not missed.
                Wait::Room => match listener.take() {
                    None => listener = Some(self.engine.room.listen()),
                    Some(listener) => {
                        self.engine.bell.ring();
                        listener.wait();
                    }
                },
                // A failure is the outcome that the next step finds.
                Wait::Durable(lsn) => drop(self.engine.progress.wait(Goal::durable(lsn), None)),
            }
            wait = self.advance()?;
        }
    }

    /// Begins with a job, and goes as far as that is possible at once.
    pub(super) fn begin(&mut self, job: Job) -> Result<Wait> {
        match job {
            // One that has retired meanwhile, on a full disk, would leave its cache behind.
            Job::Index(segment) if self.engine.segments.get(segment.sequence()).is_none() => {}
            Job::Index(segment) => segment.write_index()?,
            Job::Retire => {
                self.engine.retire_asked.store(false, Ordering::Release);
                return self.advance();
            }
        }
        Ok(Wait::Nothing)
    }

    /// Moves the oldest segment forward as far as all before it is dead, and removes the files
    /// once that is durable. A file goes only after a durable record says so: that record was
    /// staged after all that emptied the file, so it vouches for it (SPEC.md, "Retirement").
    ///
    /// In steps: whoever drives the keeper waits between them.
    pub(super) fn advance(&mut self) -> Result<Wait> {
        let engine = Arc::clone(&self.engine);
        let Retiring { oldest, staged } = match self.retiring.take() {
            Some(retiring) => retiring,
            None => match self.find_oldest()? {
                Some(oldest) => Retiring { oldest, staged: None },
                None => return Ok(Wait::Nothing),
            },
        };
        if planted(Planted::UnlinkFirst) {
            self.remove_below(oldest)?;
        }
        let lsn = match staged {
            Some(lsn) => lsn,
            None => match engine.core.lock().stage_oldest(oldest) {
                Ok(lsn) => lsn,
                Err(Blocked::Refused(error)) => return Err(error),
                Err(Blocked::NoRoom) => {
                    self.retiring = Some(Retiring { oldest, staged });
                    return Ok(Wait::Room);
                }
            },
        };
        engine.bell.ring();
        if planted(Planted::RetireEarly) {
            return self.remove_below(oldest).map(|()| Wait::Nothing);
        }
        let Some(outcome) = engine.progress.outcome(Goal::durable(lsn)) else {
            self.retiring = Some(Retiring { oldest, staged: Some(lsn) });
            return Ok(Wait::Durable(lsn));
        };
        outcome?;
        self.remove_below(oldest)?;
        Ok(Wait::Nothing)
    }

    /// The sequence that may become the oldest, if it is not so already.
    fn find_oldest(&mut self) -> Result<Option<u64>> {
        let (current, keep_from) = {
            let core = self.engine.core.lock();
            let Some(writing) = core.succession.writing else { return Ok(None) };
            // The newest segment keeps its predecessor, for read-only openers that find it
            // damaged; not where the disk is full.
            let crowded = core.succession.is_crowded();
            let predecessor = core.newest().filter(|_| !crowded).map(|(sequence, _)| sequence);
            (core.state.oldest(), predecessor.unwrap_or(writing.sequence))
        };
        let segments = self.engine.segments.snapshot();
        let mut oldest = current;
        for pair in segments.windows(2).take_while(|pair| pair[0].sequence() < keep_from) {
            if pair[0].sequence() >= current && !self.is_dead(&pair[0])? {
                break;
            }
            oldest = oldest.max(pair[1].sequence());
        }
        if planted(Planted::RetireOneMore) && oldest > current && oldest < keep_from {
            oldest += 1;
        }
        Ok((oldest > current).then_some(oldest))
    }

    fn is_dead(&mut self, segment: &Arc<Segment>) -> Result<bool> {
        let sequence = segment.sequence();
        if self.damaged == Some(sequence)
            || self.pin.is_some_and(|pin| pin.sequence == sequence && self.holds(&pin))
        {
            return Ok(false);
        }
        let pin = match self.find_pin(segment) {
            Ok(pin) => pin,
            Err(error @ Error::Corrupt(_)) => {
                // What cannot be read may be live: it stays, and is reported.
                self.damaged = Some(sequence);
                self.engine.tell(Event::Damaged { cause: error.to_string() });
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.pin = pin;
        Ok(pin.is_none())
    }

    fn holds(&self, pin: &Pin) -> bool {
        let core = self.engine.core.lock();
        let state = core.state.get(pin.stream);
        state.is_some_and(|state| state.highest_live(pin.run.first, pin.run.last, pin.frame).is_some())
    }

    fn find_pin(&self, segment: &Segment) -> Result<Option<Pin>> {
        let base = segment.base()?;
        self.engine.segments.end_of(segment)?;
        let mut after = None;
        loop {
            let page = segment.streams(after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(None) };
            after = Some(*last);
            let core = self.engine.core.lock();
            for (stream, runs) in &page {
                let Some(state) = core.state.get(*stream) else { continue };
                // Most of the time the mark alone decides.
                if runs.runs.iter().map(|run| run.last).max() <= state.mark {
                    continue;
                }
                // The newest rows are the likeliest to live.
                let all = if planted(Planted::RetireByNewestRow) { 1 } else { usize::MAX };
                for run in runs.runs.iter().rev().take(all) {
                    let frame = Lsn(base.0 + run.frame);
                    if state.highest_live(run.first, run.last, frame).is_some() {
                        return Ok(Some(Pin {
                            sequence: segment.sequence(),
                            stream: *stream,
                            run: *run,
                            frame,
                        }));
                    }
                }
            }
        }
    }

    fn remove_below(&self, oldest: u64) -> Result<()> {
        let engine = &self.engine;
        let gone = engine.segments.remove_below(oldest);
        Counters::add(&engine.counters.retired, gone.len() as u64);
        let mut outcome = Ok(());
        // A full disk needs the room more.
        let crowded = engine.core.lock().succession.is_crowded();
        for segment in gone {
            let mut free = engine.free.lock();
            match segment.retire(engine.keeps_now(&free).filter(|_| !crowded)) {
                Ok(kept) => free.extend(kept),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        // Void segments have a name and nothing else.
        let mut core = engine.core.lock();
        let void = core.succession.forget_below(oldest);
        if planted(Planted::ForgetMark) {
            core.state.forget_marks();
        }
        drop(core);
        for sequence in void {
            for name in [name::index(sequence), name::segment(sequence)] {
                let _ = engine.disk.unlink(&name);
            }
        }
        engine.tell(Event::Retired { oldest });
        engine.room.notify(usize::MAX);
        outcome
    }
}
