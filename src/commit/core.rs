//! The commit pipeline, without clock, thread or file: events go in (staged, written, flushed,
//! prepared), actions come out. One lock protects it, the *tail lock*.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidelog_format::{Checkpoint, FRAME_HEADER_LEN, Lsn, Row, frame_len};

use super::flight::Flights;
use super::frame::{Body, ClosedFrame, FrameWrite, OpenFrame, frame_bytes};
use super::linger::Sleep;
use super::resolve::Resolved;
use super::succession::{Ask, Sizes, Succession, Writing};
use crate::error::{Error, Result};
use crate::io::{Claimed, FrameBuf};
use crate::options::{IdRule, Options};
use crate::planted::{Planted, planted};
use crate::state::State;

/// Frames below this size go ahead of completions only while fewer than [`SMALL_IN_FLIGHT`] are
/// in flight: with one 4 KiB write in flight groups form by themselves, with many they do not. On
/// a simulated disk all is smaller, so that many are in flight there too.
pub(super) const SMALL: u64 = if cfg!(feature = "sim") { 2 << 10 } else { 64 << 10 };
const SMALL_IN_FLIGHT: usize = 1;

/// What the driver is to do.
#[derive(Debug)]
pub(crate) enum Action {
    Write(FrameWrite),
    /// Flush the segment's file, then [`Core::flushed`].
    Flush {
        sequence: u64,
    },
    /// Prepare a segment, then [`Core::prepared`].
    Prepare(Ask),
    /// Frames go to this segment from now on.
    Rotated(Writing),
    /// The segment's last frame is durable.
    Ended {
        sequence: u64,
        end: Lsn,
    },
    /// All that was staged is durable and the log was closed.
    Stop,
}

#[derive(Clone, Debug)]
pub(crate) enum Status {
    Running,
    /// Nothing more is staged; what is staged becomes durable.
    Closing,
    Closed,
    Poisoned(Arc<str>),
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(super) rule: IdRule,
    pub(super) frame_size: u64,
    pub(super) depth: usize,
    pub(super) linger: Duration,
    pub(super) flush_interval: Duration,
    pub(super) max_unflushed: u64,
    pub(super) idle_after: Duration,
    pub(crate) state: State,
    pub(crate) succession: Succession,
    pub(super) flights: Flights,
    pub(super) status: Status,
    /// The log was closed, and all that was staged is durable.
    pub(crate) complete: bool,
    pub(super) open: Option<OpenFrame>,
    pub(super) queue: VecDeque<ClosedFrame>,
    /// Buffers free for the next frames.
    pub(super) pool: Vec<Arc<FrameBuf>>,
    pub(super) spare_rows: Vec<Vec<Row>>,
    /// The one buffer outside the pool is in use.
    pub(super) large_taken: bool,
    /// Frames below it are waited for.
    pub(super) wanted: Lsn,
    /// Frames below it are waited for by somebody who wants them written, not durable.
    pub(super) hurried: Lsn,
    /// The next flush is due once all below it has completed.
    pub(super) flush_target: Lsn,
    /// The newest segment with frames before the one being written, and its end.
    pub(super) newest: Option<(u64, Lsn)>,
    pub(super) ended: Option<(u64, Lsn)>,
    /// The segment that writes went to last.
    pub(super) submitted_sequence: u64,
    pub(super) rotated: VecDeque<Writing>,
    pub(super) last_submit: Duration,
    pub(super) unflushed_since: Option<Duration>,
    pub(super) failed_at: Option<Duration>,
    /// The smallest frame for which somebody wanted room that a failed preparation could not give.
    pub(super) demand: Option<u64>,
    pub(super) sleep: Sleep,
    pub(super) resolved: Resolved,
}

impl Core {
    /// A pipeline behind a recovered state that is durable up to `end`.
    pub(crate) fn new(
        options: &Options,
        state: State,
        succession: Succession,
        newest: Option<(u64, Lsn)>,
        end: Lsn,
        pool: Vec<Arc<FrameBuf>>,
    ) -> Self {
        Self {
            rule: options.id_rule,
            frame_size: options.frame_size as u64,
            depth: options.queue_depth as usize,
            linger: options.linger,
            flush_interval: options.flush_interval,
            max_unflushed: options.max_unflushed_bytes,
            idle_after: options.idle_after,
            state,
            succession,
            flights: Flights::starting_at(end),
            status: Status::Running,
            complete: false,
            open: None,
            queue: VecDeque::new(),
            pool,
            spare_rows: Vec::new(),
            large_taken: false,
            wanted: Lsn::ZERO,
            hurried: Lsn::ZERO,
            flush_target: Lsn::ZERO,
            newest,
            ended: None,
            submitted_sequence: 0,
            rotated: VecDeque::new(),
            last_submit: Duration::ZERO,
            unflushed_since: None,
            failed_at: None,
            demand: None,
            sleep: Sleep::default(),
            resolved: Resolved::default(),
        }
    }

    pub(crate) fn sizes(options: &Options) -> Sizes {
        Sizes {
            block: options.block_size.into(),
            first: options.first_segment_size,
            normal: options.segment_size,
        }
    }

    pub(crate) fn written(&self) -> Lsn {
        self.flights.written()
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.flights.durable()
    }

    /// The newest segment with frames before the one that is written, and its end.
    pub(crate) fn newest(&self) -> Option<(u64, Lsn)> {
        self.newest
    }

    /// Where the log ends, staged frames included.
    pub(crate) fn end(&self) -> Lsn {
        let staged = self.open.as_ref().map(|open| Lsn(open.lsn.0 + 1));
        let queued = self.queue.back().map(|frame| Lsn(frame.lsn.0 + frame.len));
        let submitted = self.succession.writing.map(|writing| writing.lsn());
        staged.or(queued).or(submitted).unwrap_or(self.flights.durable()).max(self.flights.durable())
    }

    /// Whether the log takes appends, else why not.
    pub(crate) fn check_running(&self) -> Result<()> {
        match &self.status {
            Status::Running => Ok(()),
            Status::Closing | Status::Closed => Err(Error::Closed),
            Status::Poisoned(cause) => Err(Error::Poisoned { cause: Arc::clone(cause) }),
        }
    }

    /// Nothing on its way, nothing staged, nothing to rotate: a caller may write its own frame.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_settled() && self.has_nothing_staged()
    }

    pub(super) fn has_nothing_staged(&self) -> bool {
        self.queue.is_empty() && self.open.is_none() && self.rotated.is_empty()
    }

    pub(super) fn may_submit(&self, bytes: u64) -> bool {
        let in_flight = self.flights.in_flight();
        in_flight < self.depth && (bytes >= SMALL || in_flight < SMALL_IN_FLIGHT)
    }

    /// Whether two more frames of any size can be staged now.
    pub(super) fn has_two_frames(&self) -> bool {
        let room = self.succession.writing.map_or(0, |writing| writing.room(self.succession.block()));
        self.pool.len() > 2 && room > 3 * self.frame_size
    }

    pub(super) fn take_rows(&mut self) -> Vec<Row> {
        self.spare_rows.pop().unwrap_or_default()
    }

    /// Closes the open frame: its length is fixed now, and the next frame's place with it.
    pub(super) fn close_open(&mut self) {
        let Some(open) = self.open.take() else { return };
        let block = self.succession.block();
        let len = open.bytes_with(0, 0, block);
        open.buf.close();
        let body = Body::Data { buf: open.buf, rows: open.rows, links: open.links };
        self.push(len, body);
    }

    /// Gives the frame its place at the end of the segment being written.
    pub(super) fn push(&mut self, len: u64, body: Body) {
        let writing =
            self.succession.writing.as_mut().expect("a frame is closed in the segment it was opened in");
        self.queue.push_back(ClosedFrame { lsn: writing.lsn(), sequence: writing.sequence, len, body });
        writing.next += len;
    }

    /// Bytes of the frame that a checkpoint of the state takes now.
    pub(super) fn checkpoint_bytes(&self) -> u64 {
        let size = self.state.capture_size();
        let payload = Checkpoint::encoded_len(size.streams, size.fences, size.extents, size.namespaces);
        frame_bytes(payload.next_multiple_of(8), 1, self.succession.block())
    }

    /// Moves on to the next segment: closing frame here, checkpoint there.
    pub(super) fn rotate(&mut self, checkpoint: u64) {
        self.close_open();
        let block = self.succession.block();
        if let Some(writing) = self.succession.writing {
            // The segment that takes the next frame, not a void one in between: it is the one to be missed.
            let successor = self.succession.successor().filter(|_| !planted(Planted::NameVoidSuccessor));
            if !planted(Planted::OmitClosing) {
                self.push(block, Body::Closing { next: successor.unwrap_or(writing.sequence + 1) });
            }
            let end = self.succession.writing.map_or(Lsn::ZERO, |writing| writing.lsn());
            self.newest = Some((writing.sequence, end));
            self.ended = self.newest;
            // The barrier: nothing of the next segment is submitted before this is durable.
            self.wanted = self.wanted.max(end);
        }
        let Some(first) = self.succession.rotate(checkpoint) else { return };
        if self.state.oldest() == 0 {
            self.state.set_oldest(first.sequence);
        }
        let early = u64::from(planted(Planted::PruneFencesEarly));
        let oldest_base = self.succession.base_of(self.state.oldest() + early);
        if !planted(Planted::CaptureLate) {
            self.state.begin_capture(self.newest, oldest_base);
        }
        let body = Body::Checkpoint(None);
        self.queue.push_back(ClosedFrame {
            lsn: first.lsn(),
            sequence: first.sequence,
            len: checkpoint,
            body,
        });
        self.rotated.push_back(first);
    }

    /// A frame's write has succeeded; its buffer is free again.
    pub(crate) fn written_frame(&mut self, lsn: Lsn, buf: Option<Claimed>, mut rows: Vec<Row>) {
        self.flights.complete(lsn);
        self.give_back(buf);
        // Those of closing frames and the like come on top of what the pool's buffers go round with.
        if self.spare_rows.len() <= self.depth {
            rows.clear();
            self.spare_rows.push(rows);
        }
        self.note_flushed(None);
    }

    fn give_back(&mut self, buf: Option<Claimed>) {
        let Some(buf) = buf else { return };
        if buf.slot().is_some() {
            self.pool.push(buf.reopen(FRAME_HEADER_LEN));
        } else if buf.len() as u64 > self.frame_size {
            self.large_taken = false;
        }
    }

    /// The flush has succeeded.
    pub(crate) fn flushed(&mut self, now: Duration) {
        self.flights.end_flush();
        self.note_flushed(Some(now));
    }

    /// The flush has failed, and the next one is to make up for it.
    pub(crate) fn retry_flush(&mut self) {
        self.flights.forget_flush();
    }

    fn note_flushed(&mut self, now: Option<Duration>) {
        if self.flights.unflushed() == 0 {
            self.unflushed_since = None;
        } else if now.is_some() {
            self.unflushed_since = now;
        }
    }

    /// A segment is prepared, or could not be.
    pub(crate) fn prepared(&mut self, sequence: u64, result: Result<u64>) {
        self.succession.prepared(sequence, result);
    }

    /// The first failed write or flush: nothing is staged or submitted any more.
    pub(crate) fn poison(&mut self, cause: &str) {
        if !matches!(self.status, Status::Poisoned(_) | Status::Closed) {
            self.status = Status::Poisoned(cause.into());
            self.queue.clear();
            self.open = None;
        }
    }

    pub(crate) fn check_poisoned(&self) -> Result<()> {
        match &self.status {
            Status::Poisoned(cause) => Err(Error::Poisoned { cause: Arc::clone(cause) }),
            _ => Ok(()),
        }
    }

    /// Nothing more is staged; what is staged becomes durable.
    pub(crate) fn close(&mut self) {
        if matches!(self.status, Status::Running) {
            self.status = Status::Closing;
            let end = self.end();
            self.wanted = self.wanted.max(end);
        }
    }

    /// Nobody commits any more. What was staged and not submitted is lost, as in a crash.
    pub(crate) fn end_commits(&mut self) {
        if matches!(self.status, Status::Running | Status::Closing) {
            self.status = Status::Closed;
        }
        self.queue.clear();
        self.open = None;
    }

    /// Whether the checkpoint's frame can exist at all.
    pub(super) fn check_checkpoint(&self, bytes: u64) -> Result<()> {
        let limit = u64::from(tidelog_format::FRAME_LEN_MAX);
        if frame_len(bytes, 0, self.succession.block() as u32).is_some_and(|len| u64::from(len) <= limit) {
            return Ok(());
        }
        Err(Error::BatchTooLarge { size: bytes, limit })
    }
}
