//! Staging: a batch gets its place in a frame, or is told why not. Ids are checked and taken and
//! room is reserved in one critical section, so what is staged can always be written.

use std::sync::Arc;
use std::time::Duration;

use tidelog_format::{FRAME_HEADER_LEN, Lsn, Row, TRUNCATE_PAYLOAD_LEN};

use super::core::Core;
use super::frame::{Body, FrameWrite, OpenFrame, frame_bytes};
use super::plan::Plan;
use super::succession::Writing;
use crate::error::{Error, Result};
use crate::io::{FrameBuf, Reservation};
use crate::planted::{Planted, planted};
use crate::state::{Change, Position};

/// A batch with its place. Its payloads are still to be copied, without the lock.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The frame that it rides in.
    pub(crate) lsn: Lsn,
    /// Where its payloads go; `None` when the batch changes nothing.
    pub(crate) place: Option<Reservation>,
    /// Payloads that were settled here: truncations.
    pub(crate) fixups: Vec<(u32, [u8; TRUNCATE_PAYLOAD_LEN])>,
    /// The caller writes the frame itself: it holds the submit token.
    pub(crate) direct: Option<FrameWrite>,
    /// The committer must be woken once the payloads are copied.
    pub(crate) wake: bool,
}

/// Why a batch was not staged.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// For good.
    Refused(Error),
    /// There is no room now. All who wait are woken when some is freed, and compete.
    NoRoom,
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Core {
    /// Takes the one buffer outside the pool, to be given back with [`Self::release_large`]
    /// unless a batch is staged in it.
    pub(crate) fn take_large(&mut self) -> bool {
        !std::mem::replace(&mut self.large_taken, true)
    }

    pub(crate) fn release_large(&mut self) {
        self.large_taken = false;
    }

    /// Stages the batch. `own` is its own buffer where it is larger than the pooled ones; with
    /// `durable` somebody will wait for it; with `direct` the caller would write the frame itself.
    pub(crate) fn stage(
        &mut self,
        plan: &Plan,
        own: Option<&Arc<FrameBuf>>,
        durable: bool,
        direct: Option<Duration>,
    ) -> Result<Staged, Blocked> {
        self.check_running()?;
        // An awake committer is about to submit what is staged, for a whole group perhaps. Whoever
        // stages beside us from now on does so in the next frame.
        let direct = direct.filter(|_| self.is_idle() && self.is_asleep());
        let mut resolved = std::mem::take(&mut self.resolved);
        let staged = match resolved.fill(plan, &self.state, self.rule) {
            Err(error) => Err(error.into()),
            Ok(()) if resolved.rows.is_empty() => Ok(self.unchanged()),
            Ok(()) => self.place(plan, &resolved.rows, &resolved.fenced, own).map(|at| {
                let (place, lsn) = at;
                let base = place.offset() as u32;
                self.commit(&resolved.rows, &resolved.changes, base);
                let fixups = std::mem::take(&mut resolved.fixups);
                Staged { lsn, place: Some(place), fixups, direct: None, wake: false }
            }),
        };
        self.resolved = resolved;
        let mut staged = staged?;
        if staged.place.is_none() {
            staged.wake = durable && self.want(staged.lsn);
            return Ok(staged);
        }
        if durable {
            self.want(staged.lsn);
        } else {
            self.stay_near();
        }
        if own.is_some() {
            self.close_open();
        }
        staged.direct = direct.and_then(|now| self.take_token(now));
        staged.wake = staged.direct.is_none() && self.must_wake_to_stage();
        Ok(staged)
    }

    /// Nothing to write: what the batch asks for was staged before, at the latest in the last frame.
    fn unchanged(&self) -> Staged {
        let end = self.end();
        Staged {
            lsn: Lsn(end.0.saturating_sub(1)),
            place: None,
            fixups: Vec::new(),
            direct: None,
            wake: false,
        }
    }

    /// Finds room for the rows and the payloads, closing and rotating where needed.
    fn place(
        &mut self,
        plan: &Plan,
        rows: &[Row],
        fenced: &[tidelog_format::StreamId],
        own: Option<&Arc<FrameBuf>>,
    ) -> Result<(Reservation, Lsn), Blocked> {
        let (block, rows) = (self.succession.block(), rows.len() as u64);
        if self.succession.is_reserved() && !plan.only_frees() {
            self.next_segment(frame_bytes(plan.bytes, rows, block), false)?;
        }
        if let Some(open) = &self.open {
            // Control rows come first in a frame, so what they void must lie in a lower one.
            let state = &self.state;
            let voids = |stream: &tidelog_format::StreamId| {
                let shares = state.get(*stream).is_some_and(|stream| stream.last_frame == open.lsn);
                shares && !planted(Planted::FenceInFrame)
            };
            let full = open.bytes_with(plan.bytes, rows, block) > open.limit;
            if full || own.is_some() || fenced.iter().any(voids) {
                self.close_open();
            }
        }
        if self.open.is_none() {
            self.open_frame(frame_bytes(plan.bytes, rows, block), own, plan.only_frees())?;
        }
        let open = self.open.as_mut().ok_or(Blocked::NoRoom)?;
        let place = open.buf.reserve(plan.bytes as usize).ok_or(Blocked::NoRoom)?;
        Ok((place, open.lsn))
    }

    /// Opens a frame that can come to `needed` bytes.
    fn open_frame(&mut self, needed: u64, own: Option<&Arc<FrameBuf>>, frees: bool) -> Result<(), Blocked> {
        if own.is_none() && self.pool.is_empty() {
            return Err(Blocked::NoRoom);
        }
        let block = self.succession.block();
        let room = |writing: &Writing| writing.room(block);
        if self.succession.writing.as_ref().map_or(0, room) < needed {
            self.next_segment(needed, frees)?;
        }
        let Some(writing) = self.succession.writing else { return Err(Blocked::NoRoom) };
        let buf = match own {
            Some(own) => Arc::clone(own),
            None => self.pool.pop().ok_or(Blocked::NoRoom)?,
        };
        let limit = (buf.capacity() as u64).min(writing.room(block));
        self.start(writing.lsn(), buf, limit);
        Ok(())
    }

    fn start(&mut self, lsn: Lsn, buf: Arc<FrameBuf>, limit: u64) {
        debug_assert_eq!(buf.used(), FRAME_HEADER_LEN, "a free buffer has room for the header alone");
        let rows = self.take_rows();
        self.open = Some(OpenFrame { lsn, buf, rows, links: Vec::new(), limit, seen: None });
    }

    /// Rotates, or asks for the segment that is missing.
    fn next_segment(&mut self, needed: u64, frees: bool) -> Result<(), Blocked> {
        // One checkpoint at a time; the next rotation waits for it.
        let pending = self.queue.iter().any(|frame| matches!(frame.body, Body::Checkpoint(_)));
        if self.state.is_capturing() || pending {
            return Err(Blocked::NoRoom);
        }
        let checkpoint = self.checkpoint_bytes();
        self.check_checkpoint(checkpoint)?;
        if self.succession.is_ready(checkpoint, needed, frees) {
            self.rotate(checkpoint);
            // The reserve is not for everybody; what comes behind it is asked for once its checkpoint has gone.
            let refused = self.succession.is_reserved() && !frees;
            return if refused { Err(Blocked::NoRoom) } else { Ok(()) };
        }
        if let Some(error) = self.succession.failure_for(checkpoint, needed).cloned() {
            if frees && self.succession.want_reserve(checkpoint, needed) {
                return Err(Blocked::NoRoom);
            }
            self.demand = Some(self.demand.map_or(needed, |least| least.min(needed)));
            return Err(error.into());
        }
        self.succession.want(checkpoint, needed);
        Err(Blocked::NoRoom)
    }

    /// The rows enter the open frame, and the state changes with them.
    fn commit(&mut self, rows: &[Row], changes: &[Change], base: u32) {
        let open = self.open.as_mut().expect("a batch is committed to the frame that has its place");
        let moved = |row: &Row| match row.length {
            0 if !row.is_entry() => *row,
            _ => Row { offset: row.offset + base, ..*row },
        };
        open.rows.extend(rows.iter().map(moved));
        let segment = self.succession.writing.map_or(0, |writing| writing.sequence);
        let at = Position { frame: open.lsn, segment, durable: self.flights.durable() };
        for change in changes {
            open.links.extend(self.state.apply(change, at));
        }
    }

    /// The submit token: a pipeline that was idle lets the caller write its own frame, which saves
    /// the hand-over to the committer. The frame holds the caller's batch alone, so that its
    /// copies are done once the caller's are.
    fn take_token(&mut self, now: Duration) -> Option<FrameWrite> {
        self.close_open();
        // More than one frame: a rotation came in between.
        if self.queue.len() > 1 {
            return None;
        }
        let frame = self.queue.pop_front()?;
        Some(self.submit(frame, true, now))
    }

    /// The submit token for somebody who waits for the frame at `lsn`, which is staged and not on its way: where
    /// nothing else is, he writes it himself.
    pub(crate) fn take_staged(&mut self, lsn: Lsn, now: Duration) -> Option<FrameWrite> {
        let still = self.is_asleep() && self.flights.is_settled() && self.rotated.is_empty();
        let staged = self.queue.is_empty() && self.open.as_ref().is_some_and(|open| open.lsn <= lsn);
        if !(still && staged && self.check_running().is_ok()) {
            return None;
        }
        self.close_open();
        // Others may still copy: the last of them wakes the committer.
        self.queue.front().filter(|frame| frame.is_copied())?;
        let frame = self.queue.pop_front()?;
        Some(self.submit(frame, true, now))
    }

    /// Stages the record that lets segments below `sequence` go. It may take the block that is
    /// kept for it.
    pub(crate) fn stage_oldest(&mut self, sequence: u64) -> Result<Lsn, Blocked> {
        self.check_running()?;
        let block = self.succession.block();
        let fits = self.open.as_ref().is_some_and(|open| open.bytes_with(0, 1, block) <= open.limit);
        if !fits {
            self.close_open();
            let writing = self.succession.writing.ok_or(Blocked::NoRoom)?;
            if writing.room_for_oldest(block) < block {
                self.next_segment(block, true)?;
            }
            let writing = self.succession.writing.ok_or(Blocked::NoRoom)?;
            let buf = self.pool.pop().ok_or(Blocked::NoRoom)?;
            let limit = writing.room(block).min(buf.capacity() as u64).max(block);
            self.start(writing.lsn(), buf, limit);
        }
        let lsn = self.open.as_ref().map(|open| open.lsn).ok_or(Blocked::NoRoom)?;
        self.commit(&[Row::oldest(sequence)], &[Change::Oldest { sequence }], 0);
        self.want(lsn);
        Ok(lsn)
    }
}
