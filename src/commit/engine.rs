//! What the threads of a log share, and the appender's side of the pipeline.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidelog_format::{FRAME_HEADER_LEN, LogId, Lsn, SegmentIdentity, TRUNCATE_PAYLOAD_LEN};

use super::batch::{Batch, Op, TruncateHint};
use super::clock::Clock;
use super::core::Core;
use super::direct::Unfinished;
use super::frame::{FrameWrite, SealedFrame};
use super::gather::Arrivals;
use super::keeper::Job;
use super::notifier::Notice;
use super::plan::Plan;
use super::progress::{Goal, Mark, Progress, Wakes};
use super::stage::{Blocked, Staged};
use super::succession::Ask;
use crate::error::{Error, Result};
use crate::io::{Backend, Bell, Claimed, Disk, ForkGuard, FrameBuf, Reservation};
use crate::observe::{Counters, Event};
use crate::options::Options;
use crate::planted::{Planted, planted};
use crate::segment::{Free, Prepared, Segment, SegmentSet};
use crate::sync::{Listener, Mutex as TailLock, Room};

/// How long an append may wait for room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Endless,
    Until(Instant),
}

pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) log_id: LogId,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segments: SegmentSet,
    /// The tail lock.
    pub(crate) core: TailLock<Core>,
    pub(crate) progress: Progress,
    /// Rings when room is freed, and when the log ends.
    pub(crate) room: Room,
    pub(crate) bell: Bell,
    pub(crate) counters: Counters,
    pub(crate) arrivals: Arrivals,
    pub(crate) fork: ForkGuard,
    pub(crate) backend: OnceLock<Backend>,
    /// Prepared segments that no frame went to yet.
    pub(crate) prepared: Mutex<HashMap<u64, Prepared>>,
    /// Files of retired segments that are kept for the next ones.
    pub(crate) free: Mutex<Vec<Free>>,
    /// Each is taken, and its thread ends, with the log.
    pub(crate) preparer: Mutex<Option<Sender<Ask>>>,
    pub(crate) keeper: Mutex<Option<Sender<Job>>>,
    pub(crate) notifier: Mutex<Option<Sender<Notice>>>,
    /// A retirement is asked for and has not begun.
    pub(crate) retire_asked: AtomicBool,
    /// The log is being closed or was dropped: no more segments are prepared.
    pub(crate) ending: AtomicBool,
    /// The log was dropped: threads end as soon as they can.
    pub(crate) abandoned: AtomicBool,
    pub(crate) clock: Clock,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("disk", &self.disk)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// Plans keep their memory between appends, so that an append allocates nothing.
    static PLAN: RefCell<Plan> = RefCell::default();
}

impl Engine {
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn identity(&self, sequence: u64, base: Lsn) -> SegmentIdentity {
        SegmentIdentity { log_id: self.log_id, sequence, base }
    }

    pub(crate) fn check_fork(&self) -> Result<()> {
        if self.fork.is_child() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Stages the batch, waiting for room. With `durable` it is durable on return.
    pub(crate) fn append<P: AsRef<[u8]>>(
        &self,
        batch: &Batch<P>,
        hints: &[TruncateHint],
        durable: bool,
        patience: Patience,
    ) -> Result<Lsn> {
        let lsn = loop {
            match self.try_append(batch, hints, durable, durable) {
                Ok(lsn) => break lsn,
                Err(Blocked::Refused(error)) => return Err(error),
                Err(Blocked::NoRoom) => {}
            }
            // Listen first, try again, then wait: room freed in between is not missed.
            let listener = self.room.listen();
            match self.try_append(batch, hints, durable, durable) {
                Ok(lsn) => break lsn,
                Err(Blocked::Refused(error)) => return Err(error),
                Err(Blocked::NoRoom) => self.ring_if_asleep(),
            }
            match patience {
                Patience::Endless => listener.wait(),
                Patience::Until(deadline) => {
                    listener.wait_deadline(deadline).ok_or(Error::Busy)?;
                }
            }
        };
        if durable {
            self.progress.wait(Goal::durable(lsn), None)?;
        }
        Ok(lsn)
    }

    /// Stages the batch if there is room now. Gives the LSN of its frame.
    ///
    /// With `direct`, and an idle pipeline, the caller's thread writes the frame itself, and it
    /// is durable on return.
    pub(crate) fn try_append<P: AsRef<[u8]>>(
        &self,
        batch: &Batch<P>,
        hints: &[TruncateHint],
        durable: bool,
        direct: bool,
    ) -> Result<Lsn, Blocked> {
        self.check_fork()?;
        if planted(Planted::SplitBatch)
            && batch.len() > 1
            && batch.is_plain()
            && self.core.lock().has_two_frames()
        {
            return self.append_split(batch, durable);
        }
        let mut plan = PLAN.take();
        let staged = plan
            .fill(batch, self.options.id_rule, hints)
            .map_err(Blocked::from)
            .and_then(|()| self.stage(&plan, durable, direct));
        PLAN.set(plan);
        self.copy(batch, staged?)
    }

    /// Stages a batch of appends as two, in a frame each.
    fn append_split<P: AsRef<[u8]>>(&self, batch: &Batch<P>, durable: bool) -> Result<Lsn, Blocked> {
        let mut staged = Err(Blocked::NoRoom);
        for ops in batch.ops.chunks(batch.ops.len().div_ceil(2)) {
            let mut part: Batch<&[u8]> = Batch::new();
            for op in ops {
                if let Op::Append { stream, id, payload } = op {
                    part.append(*stream, *id, payload.as_ref());
                }
            }
            let mut plan = Plan::default();
            plan.fill(&part, self.options.id_rule, &[])?;
            staged = self.copy(&part, self.stage(&plan, durable, false)?);
            self.core.lock().close_open();
        }
        staged
    }

    fn stage(&self, plan: &Plan, durable: bool, direct: bool) -> Result<Staged, Blocked> {
        let own = self.own_buffer(plan)?;
        let mut overdue = false;
        let staged = {
            let mut core = self.core.lock();
            let staged = core.stage(plan, own.as_ref(), durable, direct.then(|| self.now()));
            // A refusal for want of space has the preparation tried again, by and by.
            overdue |= staged.is_err() && core.must_wake();
            if own.is_some() && !staged.as_ref().is_ok_and(|staged| staged.place.is_some()) {
                core.release_large();
            }
            staged
        };
        // Without room nobody else would have more, and a notice would wake the waiter itself, over and over.
        let settled = match &staged {
            Ok(staged) => staged.place.is_none(),
            Err(blocked) => matches!(blocked, Blocked::Refused(_)),
        };
        if settled && own.is_some() {
            self.room.notify(usize::MAX);
        }
        if overdue {
            self.bell.ring();
        }
        if staged.is_ok() {
            if plan.frees() {
                self.ask_retire();
            }
            if durable {
                self.arrivals.arrive();
            }
            Counters::add(&self.counters.batches, 1);
            Counters::add(&self.counters.entries, plan.entries);
            Counters::add(&self.counters.payload_bytes, plan.payload_bytes);
        }
        staged
    }

    /// A batch above the size of the pooled buffers gets one of its own, one at a time.
    fn own_buffer(&self, plan: &Plan) -> Result<Option<Arc<FrameBuf>>, Blocked> {
        let (block, frame_size) = (self.options.block_size.into(), self.options.frame_size as u64);
        let Some(bytes) = plan.large(block, frame_size)? else { return Ok(None) };
        {
            let mut core = self.core.lock();
            // A log that has ended does not give the buffer back.
            core.check_running()?;
            if !core.take_large() {
                return Err(Blocked::NoRoom);
            }
        }
        let made = Claimed::new(bytes as usize, None).map(|buf| buf.reopen(FRAME_HEADER_LEN));
        made.map(Some).map_err(|error| {
            self.core.lock().release_large();
            self.room.notify(usize::MAX);
            Blocked::Refused(Error::io("allocate", self.disk.path(), error))
        })
    }

    fn copy<P: AsRef<[u8]>>(&self, batch: &Batch<P>, staged: Staged) -> Result<Lsn, Blocked> {
        let mut last = false;
        if let Some(mut place) = staged.place {
            // `as_ref` is the caller's code. Should it panic, the log is poisoned before the reservation ends:
            // a frame that went out with a hole would cost everybody in it what they were promised.
            let unfinished = Unfinished { engine: self };
            copy_payloads(batch, &staged.fixups, &mut place);
            std::mem::forget(unfinished);
            last = place.finish();
        }
        self.write_or_wake(staged.direct, staged.wake || last)?;
        Ok(staged.lsn)
    }

    /// Finishes a frame and makes its rows known to readers, who see it once it is written.
    pub(crate) fn seal(&self, frame: FrameWrite) -> Result<(Arc<Segment>, SealedFrame)> {
        let (lsn, sequence) = (frame.frame.lsn, frame.frame.sequence);
        let segment = self.segments.get(sequence).ok_or_else(|| {
            Error::missing(self.disk.path(), format!("segment {sequence}, which is being written"))
        })?;
        let header = segment.header()?;
        let sealed = frame
            .seal(&header.identity, header.block_size, self.clock.wall())
            .map_err(|error| Error::io("allocate", segment.path(), error))?;
        segment.add_frame(lsn.0 - header.identity.base.0, &sealed.rows, &sealed.links);
        Ok((segment, sealed))
    }

    /// The first failure: tells everybody, and gives the error that they get.
    pub(crate) fn poison(&self, cause: &str) -> Error {
        let error = {
            let mut core = self.core.lock();
            core.poison(cause);
            core.check_poisoned().err().unwrap_or(Error::Closed)
        };
        if planted(Planted::AcknowledgeAtPoison) {
            let written = self.core.lock().end();
            self.fire(self.progress.publish(written, written));
        }
        self.fire(self.progress.fail(error.clone()));
        self.room.notify(usize::MAX);
        self.tell(Event::Poisoned { cause: cause.into() });
        self.bell.ring();
        self.progress.failure().cloned().unwrap_or(error)
    }

    /// Wakes threads here; wakers and callbacks, which run code of others, on the notifier.
    pub(crate) fn fire(&self, mut wakes: Wakes) {
        wakes.unpark();
        if !(wakes.wakers.is_empty() && wakes.callbacks.is_empty()) {
            self.notify(Notice::Wakes(wakes));
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        if self.options.observer.is_some() {
            self.notify(Notice::Event(event));
        }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        let left = match &*self.notifier.lock() {
            Some(notifier) => notifier.send(notice).err().map(|unsent| unsent.0),
            None => Some(notice),
        };
        // The log has ended, and its notifier with it.
        if let Some(notice) = left {
            notice.deliver(self.options.observer.as_ref());
        }
    }

    pub(crate) fn ask_keeper(&self, job: Job) {
        if let Some(keeper) = &*self.keeper.lock() {
            // It ends with the log alone.
            let _ = keeper.send(job);
        }
    }

    pub(crate) fn ask_preparer(&self, ask: Ask) {
        if let Some(preparer) = &*self.preparer.lock() {
            let _ = preparer.send(ask);
        }
    }

    /// Has the keeper look for segments that may retire.
    pub(crate) fn ask_retire(&self) {
        if !self.retire_asked.swap(true, Ordering::AcqRel) {
            self.ask_keeper(Job::Retire);
        }
    }

    /// The committer is done: nothing more is written. Lets go of the newest segment's file, whose
    /// lock the next opening waits for, also where readers keep the segment.
    pub(crate) fn end_writing(&self) {
        let (writing, end) = {
            let mut core = self.core.lock();
            core.end_commits();
            (
                core.succession.writing,
                if core.check_poisoned().is_ok() { core.written() } else { core.durable() },
            )
        };
        if let Some(segment) = writing.and_then(|writing| self.segments.get(writing.sequence)) {
            segment.finish(end);
        }
    }

    /// The committer is done: the other threads end once they have done what they were given.
    pub(crate) fn end_threads(&self) {
        self.ending.store(true, Ordering::Release);
        self.preparer.lock().take();
        self.keeper.lock().take();
        self.notifier.lock().take();
    }

    pub(crate) fn ring_if_asleep(&self) {
        let asleep = self.core.lock().is_asleep();
        if asleep {
            self.bell.ring();
        }
    }

    /// A position that was never handed out would be waited for for ever.
    pub(crate) fn check_position(&self, lsn: Lsn) -> Result<()> {
        self.check_fork()?;
        // A log that has failed no longer knows what it had handed out, and answers with its failure.
        if self.progress.get(Mark::Durable) > lsn || self.progress.failure().is_some() {
            return Ok(());
        }
        let end = self.core.lock().end();
        if lsn < end { Ok(()) } else { Err(Error::BeyondEnd { attempted: lsn.0, end: end.0 }) }
    }

    /// Has the frame at `lsn` made durable soon.
    pub(crate) fn want(&self, lsn: Lsn) {
        if self.progress.get(Mark::Durable) > lsn {
            return;
        }
        let wake = self.core.lock().want(lsn);
        if wake {
            self.bell.ring();
        }
    }

    /// Has the frame at `lsn` written soon.
    pub(crate) fn hurry(&self, lsn: Lsn) {
        let wake = self.core.lock().hurry(lsn);
        if wake {
            self.bell.ring();
        }
    }

    /// The size of files that one more of is kept for a later segment, beside those that are.
    pub(crate) fn keeps_now(&self, kept: &[Free]) -> Option<u64> {
        (kept.len() < self.options.recycled_files).then_some(self.options.segment_size)
    }

    /// Nothing more is staged; what is staged becomes durable, and then the log ends.
    pub(crate) fn close(&self) {
        self.core.lock().close();
        self.ending.store(true, Ordering::Release);
        self.room.notify(usize::MAX);
        self.bell.ring();
    }

    /// Nothing more is written; who waits gets `Closed`.
    pub(crate) fn abandon(&self) {
        self.ending.store(true, Ordering::Release);
        self.abandoned.store(true, Ordering::Release);
        self.bell.ring();
    }
}

fn copy_payloads<P: AsRef<[u8]>>(
    batch: &Batch<P>,
    fixups: &[(u32, [u8; TRUNCATE_PAYLOAD_LEN])],
    place: &mut Reservation,
) {
    let size = place.remaining();
    for op in &batch.ops {
        match op {
            Op::Append { payload, .. } => place.write(payload.as_ref()),
            Op::Truncate { .. } => {
                let at = (size - place.remaining()) as u32;
                let settled = fixups.iter().find(|(offset, _)| *offset == at);
                place.write(&settled.map_or([0; TRUNCATE_PAYLOAD_LEN], |(_, bytes)| *bytes));
            }
            _ => {}
        }
    }
}
