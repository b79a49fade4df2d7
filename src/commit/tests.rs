//! The pipeline against a device that records: over random schedules of appends, copies, submissions,
//! completions out of their order, flushes and preparations, what it calls durable is durable by the rule, and all
//! that was staged becomes so.

#[cfg(feature = "shuttle")]
mod hand_over_model;
#[cfg(feature = "loom")]
mod progress_model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidelog_format::{FRAME_HEADER_LEN, FrameHeader, LogId, Lsn, SegmentHeader, SegmentIdentity, StreamId};

use super::batch::Batch;
use super::core::{Action, Core};
use super::frame::{FrameWrite, SealedFrame};
use super::plan::Plan;
use super::stage::Blocked;
use super::succession::{Ask, Succession};
use crate::error::Error;
use crate::io::{Claimed, FrameBuf, Reservation};
use crate::options::{IdRule, Options};
use crate::state::State;

const BLOCK: u32 = 512;
const BUFFERS: usize = 3;
/// No flush falls due by itself.
const NEVER: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
enum Event {
    /// An append of so many bytes; somebody may wait for it, or write it himself if he can.
    Append {
        stream: u64,
        len: usize,
        wait: Wait,
    },
    Mark {
        stream: u64,
    },
    Release {
        stream: u64,
    },
    /// Somebody comes to wait for what was staged last, and writes it himself if he can.
    Want {
        here: bool,
    },
    /// Somebody comes to read it.
    Hurry,
    /// All that is under way comes to its end: a wake-up that was missed shows here.
    Rest,
    /// One of the copies under way is done.
    Copied(prop::sample::Index),
    /// The next action is asked for and carried out, as far as submitting goes.
    Poll,
    Completed(prop::sample::Index),
    Flushed,
    Prepared {
        fails: bool,
    },
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nobody,
    Blocked,
    Direct,
}

fn event() -> impl Strategy<Value = Event> {
    let wait = prop_oneof![3 => Just(Wait::Nobody), 1 => Just(Wait::Blocked), 1 => Just(Wait::Direct)];
    let len = prop_oneof![8 => 0..700_usize, 3 => 700..6000_usize, 1 => 6000..90_000_usize];
    prop_oneof![
        8 => (0..3_u64, len, wait).prop_map(|(stream, len, wait)| Event::Append { stream, len, wait }),
        1 => (0..3_u64).prop_map(|stream| Event::Mark { stream }),
        1 => (0..3_u64).prop_map(|stream| Event::Release { stream }),
        2 => any::<bool>().prop_map(|here| Event::Want { here }),
        1 => Just(Event::Hurry),
        1 => Just(Event::Rest),
        6 => any::<prop::sample::Index>().prop_map(Event::Copied),
        12 => Just(Event::Poll),
        6 => any::<prop::sample::Index>().prop_map(Event::Completed),
        2 => Just(Event::Flushed),
        2 => prop::bool::weighted(0.1).prop_map(|fails| Event::Prepared { fails }),
        1 => Just(Event::Idle),
    ]
}

/// A write, as the device saw it.
struct Written {
    sequence: u64,
    lsn: Lsn,
    end: Lsn,
    dsync: bool,
    done: bool,
    /// A flush of its file that was submitted after it was done has succeeded.
    flushed: bool,
}

/// A write that is under way.
struct Sent {
    lsn: Lsn,
    frame: SealedFrame,
    direct: bool,
}

/// A frame that its appender writes once he has copied, or that somebody writes who waits for it.
struct Direct {
    place: Option<Reservation>,
    frame: FrameWrite,
}

struct Driver {
    core: Core,
    now: Duration,
    bases: BTreeMap<u64, (Lsn, u64)>,
    log: Vec<Written>,
    sent: Vec<Sent>,
    direct: Option<Direct>,
    /// Copies under way, and whether the committer is to be woken after one.
    copies: Vec<(Reservation, bool)>,
    /// Nobody woke the committer since it had nothing to do.
    asleep: bool,
    /// The file that is being flushed, and the writes to it that were done before.
    flushing: Option<Vec<usize>>,
    preparing: Option<Ask>,
    durable: Lsn,
    /// The last frame that somebody waits for.
    waited: Lsn,
    /// The last frame that something was staged in.
    newest: Lsn,
    /// The last frame that somebody comes to read.
    hurried: Lsn,
    stopped: bool,
}

fn options(max_unflushed: u64) -> Options {
    Options::new()
        .block_size(BLOCK)
        .first_segment_size(64 << 10)
        .segment_size(128 << 10)
        .frame_size(4096)
        .staging_buffers(BUFFERS)
        .queue_depth(3)
        .max_unflushed_bytes(max_unflushed)
        .flush_interval(NEVER)
}

impl Driver {
    fn new(max_unflushed: u64) -> Self {
        let options = options(max_unflushed);
        let succession = Succession::new(Core::sizes(&options), 1, Lsn(0), BTreeMap::new());
        let buffer = |slot| Claimed::new(options.frame_size, Some(slot)).unwrap().reopen(FRAME_HEADER_LEN);
        let pool: Vec<Arc<FrameBuf>> = (0..BUFFERS as u16).map(buffer).collect();
        Self {
            core: Core::new(&options, State::default(), succession, None, Lsn(0), pool),
            now: Duration::ZERO,
            bases: BTreeMap::new(),
            log: Vec::new(),
            sent: Vec::new(),
            direct: None,
            copies: Vec::new(),
            asleep: false,
            flushing: None,
            preparing: None,
            durable: Lsn(0),
            waited: Lsn(0),
            newest: Lsn(0),
            hurried: Lsn(0),
            stopped: false,
        }
    }

    fn identity(&self, sequence: u64) -> SegmentIdentity {
        SegmentIdentity { log_id: LogId([7; 16]), sequence, base: self.bases[&sequence].0 }
    }

    /// Where the frames end that are durable by the rule, all below them too.
    fn safe(&self) -> Lsn {
        let durable = |written: &&Written| written.done && (written.dsync || written.flushed);
        self.log.iter().take_while(durable).last().map_or(Lsn(0), |written| written.end)
    }

    fn stage(&mut self, batch: &Batch<Vec<u8>>, wait: Wait) {
        let mut plan = Plan::default();
        plan.fill(batch, IdRule::Contiguous, &[]).unwrap();
        let own = match plan.large(BLOCK.into(), self.core.frame_size).unwrap() {
            None => None,
            Some(_) if !self.core.take_large() => return,
            Some(bytes) => Some(Claimed::new(bytes as usize, None).unwrap().reopen(FRAME_HEADER_LEN)),
        };
        let direct = (wait == Wait::Direct).then_some(self.now);
        let staged = self.core.stage(&plan, own.as_ref(), wait != Wait::Nobody, direct);
        if own.is_some() && !staged.as_ref().is_ok_and(|staged| staged.place.is_some()) {
            self.core.release_large();
        }
        let staged = match staged {
            Ok(staged) => staged,
            Err(Blocked::NoRoom) => {
                self.asleep = false;
                return;
            }
            Err(Blocked::Refused(Error::NoSpace { .. } | Error::Closed)) => return,
            Err(Blocked::Refused(error)) => panic!("{error}"),
        };
        if wait != Wait::Nobody && staged.lsn > Lsn(0) {
            self.waited = self.waited.max(staged.lsn);
        }
        if staged.place.is_some() {
            self.newest = staged.lsn;
        }
        match (staged.place, staged.direct) {
            (place @ Some(_), Some(frame)) => self.take_token(Direct { place, frame }),
            (Some(place), None) => self.copies.push((place, staged.wake)),
            (None, direct) => {
                assert!(direct.is_none());
                self.asleep &= !staged.wake;
            }
        }
    }

    fn take_token(&mut self, direct: Direct) {
        self.submitted(&direct.frame);
        assert!(self.direct.replace(direct).is_none(), "one writes himself at a time");
    }

    /// Somebody waits for the newest frame.
    fn want(&mut self, here: bool) {
        if self.newest < self.core.durable() || self.core.check_running().is_err() {
            return;
        }
        self.waited = self.waited.max(self.newest);
        let wake = self.core.want(self.newest);
        match here.then(|| self.core.take_staged(self.newest, self.now)).flatten() {
            Some(frame) => self.take_token(Direct { place: None, frame }),
            None => self.asleep &= !wake,
        }
    }

    fn hurry(&mut self) {
        self.hurried = self.newest;
        let wake = self.core.hurry(self.newest);
        self.asleep &= !wake;
    }

    /// The order of writes, the barrier, and the watermark that the frame is to carry.
    fn submitted(&mut self, frame: &FrameWrite) {
        let safe = self.safe();
        let (lsn, sequence) = (frame.frame.lsn, frame.frame.sequence);
        assert!(frame.watermark <= safe, "a frame vouches for {:?}, safe is {safe:?}", frame.watermark);
        match self.log.last() {
            Some(last) if last.sequence == sequence => assert_eq!(lsn, last.end, "no gap, no other order"),
            last => {
                let first = self.bases[&sequence].0.0 + u64::from(BLOCK);
                assert_eq!(lsn.0, first, "a segment begins with its first frame");
                if let Some(last) = last {
                    assert!(last.sequence < sequence && last.end <= safe, "the barrier holds");
                }
            }
        }
        let unflushed = self.log.iter().any(|written| !written.dsync && !written.flushed);
        assert!(!(frame.dsync && unflushed), "a durable write above one that nothing makes durable");
        let end = Lsn(lsn.0 + frame.frame.len);
        let (base, size) = self.bases[&sequence];
        assert!(end.0 <= base.0 + size, "it fits in its segment");
        self.log.push(Written { sequence, lsn, end, dsync: frame.dsync, done: false, flushed: false });
    }

    fn send(&mut self, frame: FrameWrite, direct: bool) {
        let (lsn, sequence, watermark) = (frame.frame.lsn, frame.frame.sequence, frame.watermark);
        let identity = self.identity(sequence);
        let sealed = frame.seal(&identity, BLOCK, 0).unwrap();
        let (base, size) = self.bases[&sequence];
        let segment = SegmentHeader::new(identity, BLOCK, size).unwrap();
        let header = FrameHeader::decode(&sealed.buf, lsn.0 - base.0, &segment).unwrap();
        assert_eq!((header.lsn, header.watermark), (lsn, watermark));
        self.sent.push(Sent { lsn, frame: sealed, direct });
    }

    /// The committer, while it is awake, carries out one action. False: there is none, and it goes to sleep.
    fn poll(&mut self) -> bool {
        if self.asleep {
            return false;
        }
        self.core.wake_up();
        let action = self.core.poll(self.now).or_else(|| self.core.poll_vouch(self.now).map(Action::Write));
        let Some(action) = action else {
            if !self.core.is_capturing() {
                self.core.fall_asleep(self.now);
                self.asleep = true;
            }
            return !self.asleep;
        };
        match action {
            Action::Write(frame) => {
                self.submitted(&frame);
                self.send(frame, false);
            }
            Action::Flush { sequence } => {
                let done = |(at, written): (usize, &Written)| {
                    (written.sequence == sequence && written.done).then_some(at)
                };
                let covered = self.log.iter().enumerate().filter_map(done).collect();
                assert!(self.flushing.replace(covered).is_none(), "one flush at a time");
            }
            Action::Prepare(ask) => assert!(self.preparing.replace(ask).is_none()),
            Action::Rotated(writing) => {
                self.bases.insert(writing.sequence, (writing.base, writing.size));
            }
            Action::Ended { end, .. } => assert!(self.safe() >= end, "what has ended is durable"),
            Action::Stop => self.stopped = true,
        }
        true
    }

    fn copied(&mut self, at: usize) {
        let (copy, wake) = self.copies.swap_remove(at);
        let last = copy.finish();
        self.asleep &= !(wake || last);
    }

    fn write_direct(&mut self) -> bool {
        let Some(Direct { place, frame }) = self.direct.take() else { return false };
        place.map(Reservation::finish);
        self.send(frame, true);
        true
    }

    fn completed(&mut self, at: usize) {
        let Sent { lsn, frame, direct } = self.sent.swap_remove(at);
        let written = self.log.iter_mut().rev().find(|written| written.lsn == lsn).unwrap();
        written.done = true;
        self.core.written_frame(lsn, Some(frame.buf), frame.rows);
        let wake = self.core.must_wake();
        self.asleep &= direct && !wake;
    }

    fn flushed(&mut self) -> bool {
        let Some(covered) = self.flushing.take() else { return false };
        for at in covered {
            self.log[at].flushed = true;
        }
        self.core.flushed(self.now);
        self.asleep = false;
        true
    }

    fn prepared(&mut self, fails: bool) -> bool {
        let Some(ask) = self.preparing.take() else { return false };
        let result = if fails { Err(Error::NoSpace { needed: ask.size }) } else { Ok(ask.size) };
        self.core.prepared(ask.sequence, result);
        self.asleep = false;
        true
    }

    fn event(&mut self, event: Event) {
        let name = |id| StreamId::new(1, id);
        match event {
            Event::Append { stream, len, wait } => {
                let stream = name(stream);
                let next =
                    self.core.state.get(stream).and_then(|state| state.last).map_or(1, |last| last + 1);
                self.stage(Batch::new().append(stream, next, vec![7; len]), wait);
            }
            Event::Mark { stream } => {
                let last = self.core.state.get(name(stream)).and_then(|state| state.last).unwrap_or(0);
                self.stage(Batch::new().obsolete(name(stream), last / 2), Wait::Nobody);
            }
            Event::Release { stream } => self.stage(Batch::new().release(name(stream)), Wait::Blocked),
            Event::Want { here } => self.want(here),
            Event::Hurry => self.hurry(),
            Event::Rest => self.rest(),
            Event::Copied(at) if !self.copies.is_empty() => self.copied(at.index(self.copies.len())),
            Event::Copied(_) => {}
            Event::Poll => {
                self.poll();
            }
            Event::Completed(at) if !self.sent.is_empty() => self.completed(at.index(self.sent.len())),
            Event::Completed(_) => {
                self.write_direct();
            }
            Event::Flushed => {
                self.flushed();
            }
            Event::Prepared { fails } => {
                self.prepared(fails);
            }
            Event::Idle => {
                self.pass(Duration::from_millis(150));
            }
        }
        self.check();
    }

    /// Time passes; the committer wakes when it said it would.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.asleep &= !self.core.has_slept(self.now);
    }

    fn check(&mut self) {
        let (durable, safe) = (self.core.durable(), self.safe());
        assert!(durable >= std::mem::replace(&mut self.durable, durable), "the watermark fell");
        assert!(durable <= safe, "{durable:?} is called durable, safe is {safe:?}");
        let done = self.log.iter().take_while(|written| written.done).last();
        assert_eq!(self.core.written(), done.map_or(Lsn(0), |written| written.end));
    }

    /// The device works everything off. Time stands still.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut busy = self.write_direct();
            while !self.copies.is_empty() {
                self.copied(0);
            }
            busy |= self.poll();
            if !self.sent.is_empty() {
                self.completed(self.sent.len() / 2);
                busy = true;
            }
            busy |= self.flushed() | self.prepared(false);
            self.check();
            if !busy {
                return;
            }
        }
        panic!("the pipeline does not come to rest");
    }

    /// What is waited for comes by itself, and the rest with the time that it may linger.
    fn rest(&mut self) {
        self.settle();
        let (durable, waited) = (self.core.durable(), self.waited);
        assert!(waited == Lsn(0) || durable > waited, "{waited:?} is waited for, durable is {durable:?}");
        let (written, hurried) = (self.core.written(), self.hurried);
        assert!(hurried == Lsn(0) || written > hurried, "{hurried:?} is to be read, written is {written:?}");
        for _ in 0..2 {
            self.pass(self.core.linger);
            self.settle();
        }
        assert_eq!(self.core.written(), self.core.end(), "nothing lingers longer");
    }
}

fn run(max_unflushed: u64, events: &[Event]) {
    let mut driver = Driver::new(max_unflushed);
    for event in events {
        driver.event(*event);
    }
    driver.rest();
    driver.core.close();
    driver.asleep = false;
    driver.settle();
    assert!(driver.stopped, "a closed log comes to its end");
    let end = driver.log.last().map_or(Lsn(0), |written| written.end);
    assert_eq!((driver.core.durable(), driver.core.end()), (end, end), "all that was staged is durable");
    assert_eq!(driver.core.pool.len(), BUFFERS, "all buffers are back");
    assert!(!driver.core.large_taken);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_called_durable_is_and_all_becomes_so(
        max_unflushed in prop_oneof![Just(2048), Just(1 << 30)],
        events in prop::collection::vec(event(), 1..300),
    ) {
        run(max_unflushed, &events);
    }
}

#[test]
fn the_token_goes_to_a_caller_that_finds_the_pipeline_idle_and_to_none_else() {
    let mut driver = Driver::new(1 << 30);
    let append = |stream| Event::Append { stream, len: 100, wait: Wait::Direct };
    driver.event(append(0));
    assert!(driver.direct.is_none(), "there is no segment yet");
    driver.event(Event::Poll);
    driver.prepared(false);
    driver.event(append(0));
    assert!(driver.direct.is_none(), "the segment's checkpoint comes first");
    driver.settle();
    let before = driver.log.len();
    driver.event(append(0));
    assert!(driver.direct.is_some() && driver.log.len() == before + 1, "the caller writes at once");
    driver.event(append(1));
    assert_eq!(driver.log.len(), before + 1, "while it does, others do not");
    driver.settle();
    driver.event(append(2));
    assert!(driver.direct.is_some());
}
