//! Frames in flight, and the durability rule.
//!
//! The durable watermark passes a frame, in LSN order, when its own write carried `RWF_DSYNC`, or
//! when it had completed before a flush was submitted that then succeeded. A completion alone
//! proves nothing: an unwritten extent reads back as zeros after a crash, and a device cache may
//! drop it (SPEC.md, "Durability").

use std::collections::VecDeque;

use tidelog_format::Lsn;

use crate::planted::{Planted, planted};

#[derive(Clone, Copy, Debug)]
struct Flight {
    lsn: Lsn,
    end: Lsn,
    dsync: bool,
    done: bool,
    /// Carries records (an empty frame needs nobody to vouch for it).
    records: bool,
    /// The durable watermark in its header.
    watermark: Lsn,
}

#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// In LSN order; a frame leaves when it is durable.
    frames: VecDeque<Flight>,
    in_flight: usize,
    /// Bytes of frames that were submitted plainly and that no flush covers yet.
    unflushed: u64,
    written: Lsn,
    durable: Lsn,
    /// The flush in flight covers what lies below.
    flushing: Option<Lsn>,
    /// Highest watermark in a frame that is durable itself.
    vouched: Lsn,
    /// End of the last durable frame with records.
    records_end: Lsn,
}

impl Flights {
    /// A log that is durable up to `at`, and all of it vouched for.
    pub(crate) fn starting_at(at: Lsn) -> Self {
        Self { written: at, durable: at, vouched: at, records_end: at, ..Self::default() }
    }

    pub(crate) fn written(&self) -> Lsn {
        self.written
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    /// Writes on their way.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn unflushed(&self) -> u64 {
        self.unflushed
    }

    /// Nothing on its way and nothing unflushed.
    pub(crate) fn is_settled(&self) -> bool {
        self.frames.is_empty() && self.flushing.is_none()
    }

    /// Nothing on its way, and what was written is not flushed.
    pub(crate) fn is_idle_but_unflushed(&self) -> bool {
        let waits = self.frames.back().is_some_and(|flight| flight.records);
        waits && self.in_flight == 0 && self.flushing.is_none()
    }

    /// Whether durable records lie above every watermark written so far.
    pub(crate) fn wants_vouching(&self) -> bool {
        self.records_end > self.vouched
    }

    /// A frame goes to the device. Frames are submitted in LSN order.
    pub(crate) fn submit(&mut self, lsn: Lsn, len: u64, dsync: bool, records: bool) {
        let above_plain = planted(Planted::PlainBelowDsync) || planted(Planted::IdleVouchesUnflushed);
        debug_assert!(
            !dsync || self.unflushed == 0 || above_plain,
            "RWF_DSYNC only when nothing below is unflushed"
        );
        let end = Lsn(lsn.0 + len);
        self.in_flight += 1;
        self.unflushed += if dsync { 0 } else { len };
        self.frames.push_back(Flight { lsn, end, dsync, done: false, records, watermark: self.durable });
    }

    /// The frame's write has completed.
    pub(crate) fn complete(&mut self, lsn: Lsn) {
        let Ok(index) = self.frames.binary_search_by_key(&lsn, |flight| flight.lsn) else { return };
        if std::mem::replace(&mut self.frames[index].done, true) {
            return;
        }
        self.in_flight -= 1;
        let written = self.frames.iter().take_while(|flight| flight.done).last().map(|flight| flight.end);
        self.written = self.written.max(written.unwrap_or(self.written));
        self.advance(Lsn::ZERO);
    }

    /// Whether a flush now would cover something that is not durable yet.
    pub(crate) fn can_flush(&self) -> bool {
        self.flushing.is_none() && self.unflushed > 0 && self.written > self.durable
    }

    /// A flush is submitted: it covers what has completed by now, without a gap.
    pub(crate) fn begin_flush(&mut self) {
        self.flushing = Some(self.written);
        if planted(Planted::FlushCoversSubmitted) {
            self.flushing = self.frames.back().map(|flight| flight.end);
        }
    }

    /// The flush has succeeded.
    pub(crate) fn end_flush(&mut self) {
        if let Some(mut covered) = self.flushing.take() {
            if planted(Planted::FlushCoversLater) {
                covered = self.written;
            }
            self.advance(covered);
        }
    }

    /// A flush has failed and is to be tried again.
    pub(crate) fn forget_flush(&mut self) {
        self.flushing = None;
    }

    /// Where the newest frame ends whose write carried `RWF_DSYNC` and has completed.
    fn highest_dsync(&self) -> Lsn {
        let newest = self.frames.iter().rev().find(|flight| flight.dsync && flight.done);
        newest.map_or(Lsn::ZERO, |flight| flight.end)
    }

    fn advance(&mut self, mut covered: Lsn) {
        if planted(Planted::PlainBelowDsync) {
            covered = covered.max(self.highest_dsync());
        }
        if planted(Planted::AcknowledgeOutOfOrder) {
            self.durable = self.durable.max(self.highest_dsync());
        }
        while let Some(front) = self.frames.front() {
            let sure = front.dsync || planted(Planted::CompletionIsDurable);
            let durable = front.done && (sure || front.end <= covered);
            if !durable {
                return;
            }
            self.durable = front.end;
            self.vouched = self.vouched.max(front.watermark);
            if front.records {
                self.records_end = front.end;
            }
            self.unflushed -= if front.dsync { 0 } else { front.end.0 - front.lsn.0 };
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_completion_alone_makes_nothing_durable() {
        let mut flights = Flights::starting_at(Lsn(0));
        flights.submit(Lsn(0), 10, false, true);
        flights.submit(Lsn(10), 10, false, true);
        flights.complete(Lsn(10));
        assert_eq!((flights.written(), flights.durable()), (Lsn(0), Lsn(0)));
        flights.complete(Lsn(0));
        assert_eq!((flights.written(), flights.durable()), (Lsn(20), Lsn(0)));
        flights.begin_flush();
        flights.submit(Lsn(20), 10, false, true);
        flights.complete(Lsn(20));
        flights.end_flush();
        assert_eq!((flights.durable(), flights.unflushed()), (Lsn(20), 10));
    }

    #[test]
    fn durable_writes_pass_in_order() {
        let mut flights = Flights::starting_at(Lsn(0));
        flights.submit(Lsn(0), 10, true, true);
        flights.submit(Lsn(10), 10, true, true);
        flights.complete(Lsn(10));
        assert_eq!(flights.durable(), Lsn(0));
        flights.complete(Lsn(0));
        assert_eq!(flights.durable(), Lsn(20));
        assert!(flights.is_settled() && flights.wants_vouching());
        flights.submit(Lsn(20), 10, true, false);
        flights.complete(Lsn(20));
        assert!(!flights.wants_vouching());
    }

    proptest! {
        /// The rule itself, against a recording of what went to the device: over random
        /// schedules of submissions, completions and flushes, nothing is called durable that the
        /// rule does not cover, and everything is once all is done.
        #[test]
        fn nothing_is_durable_that_the_rule_does_not_cover(
            steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>()), 1..200)
        ) {
            struct Recorded { end: u64, dsync: bool, done: bool, covered: bool }
            let mut flights = Flights::starting_at(Lsn(0));
            let mut log: Vec<Recorded> = Vec::new();
            let mut flush: Option<Vec<usize>> = None;
            for (step, index) in steps {
                match step {
                    0 => {
                        let dsync = flights.unflushed() == 0 && index.index(2) == 0;
                        let lsn = log.last().map_or(0, |last| last.end);
                        flights.submit(Lsn(lsn), 1, dsync, true);
                        log.push(Recorded { end: lsn + 1, dsync, done: false, covered: false });
                    }
                    1 if !log.is_empty() => {
                        let at = index.index(log.len());
                        log[at].done = true;
                        flights.complete(Lsn(at as u64));
                    }
                    2 if flights.can_flush() => {
                        flush = Some((0..log.len()).filter(|&at| log[at].done).collect());
                        flights.begin_flush();
                    }
                    3 => {
                        for at in flush.take().unwrap_or_default() {
                            log[at].covered = true;
                        }
                        flights.end_flush();
                    }
                    _ => {}
                }
                let safe = log.iter().take_while(|r| r.done && (r.dsync || r.covered)).count() as u64;
                prop_assert!(flights.durable().0 <= safe);
                let written = log.iter().take_while(|r| r.done).count() as u64;
                prop_assert_eq!(flights.written().0, written);
            }
            flights.end_flush();
            (0..log.len()).for_each(|at| flights.complete(Lsn(at as u64)));
            if flights.can_flush() {
                flights.begin_flush();
                flights.end_flush();
            }
            prop_assert_eq!(flights.durable().0, log.len() as u64);
            prop_assert!(flights.is_settled() && flights.unflushed() == 0);
        }
    }
}
