//! The runs of one segment that belong to a range.

use std::collections::VecDeque;
use std::sync::Arc;

use tidelog_format::Lsn;

use super::snapshot::Snapshot;
use crate::error::Result;
use crate::segment::{Run, Segment, Select};

/// Runs looked up at a time.
const PAGE: usize = 256;
/// Bytes that are on their way from the device while a frame is read: several frames, as many as the device takes at
/// a time, if they are not large.
const AHEAD: u64 = 4 << 20;
/// Of so many frames at most, and of so many bytes each.
const AHEAD_RUNS: u64 = 32;
const AHEAD_FRAME: u64 = 256 << 10;

/// A part of a range, in one segment.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) segment: Arc<Segment>,
    /// Ids, both included.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Only the rows that were copied forward, or only those that were not.
    pub(super) moved: bool,
}

/// The runs of a leg, looked up in pages.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) leg: Leg,
    /// The segment's.
    pub(super) base: Lsn,
    page: VecDeque<Run>,
    /// Frame and row of the last run that was looked up.
    seen: Option<(u64, u32)>,
    complete: bool,
    /// Where in the file that begins which the device was not asked for, once something had to come from it.
    ahead: Option<u64>,
}

impl Runs {
    pub(super) fn new(leg: Leg) -> Result<Self> {
        let base = leg.segment.base()?;
        Ok(Self { leg, base, page: VecDeque::new(), seen: None, complete: false, ahead: None })
    }

    /// The next run with an entry that is live in the snapshot, not below `next`, in a frame that
    /// the snapshot has and that may be read up to `limit`.
    pub(super) fn next(&mut self, snapshot: &Snapshot, next: u64, limit: Lsn) -> Result<Option<Run>> {
        if self.page.is_empty() && !self.complete {
            self.look_up(snapshot, next, limit.min(snapshot.bound))?;
        }
        // What was looked up before a failure may lie beyond what can be read after it.
        Ok(self.page.pop_front().filter(|run| self.base.saturating_add(run.frame) < limit))
    }

    /// Tells how large the frame of the last run was, and whether the page cache lacked it. If so, the next runs are
    /// asked for before they are read: their frames will be about as large.
    pub(super) fn read_ahead(&mut self, frame_len: u64, cold: bool) {
        if cold {
            self.ahead.get_or_insert(0);
        }
        let Some(ahead) = &mut self.ahead else { return };
        let len = frame_len.min(AHEAD_FRAME);
        let runs = AHEAD.div_ceil(len.max(1)).min(AHEAD_RUNS) as usize;
        for run in self.page.iter().take(runs) {
            if run.frame >= *ahead {
                self.leg.segment.will_need(run.frame, len);
                *ahead = run.frame + len;
            }
        }
    }

    fn look_up(&mut self, snapshot: &Snapshot, next: u64, cut: Lsn) -> Result<()> {
        let Self { leg, base, seen, .. } = self;
        let start = seen.map_or(0, |(frame, _)| frame);
        let end = cut.checked_sub(*base).unwrap_or(0);
        let from = next.max(leg.first);
        let mut keep = |run: &Run| {
            let new = Some((run.frame, run.row)) > *seen;
            let live = snapshot.state.highest_live(
                run.first,
                run.last.min(leg.last),
                base.saturating_add(run.frame),
            );
            new && run.moved == leg.moved && live.is_some_and(|live| live >= from)
        };
        let select = Select { frames: start..end, limit: PAGE, keep: &mut keep };
        let found = leg.segment.runs(snapshot.stream, select)?.unwrap_or_default().runs;
        self.complete = found.len() < PAGE;
        self.seen = found.last().map(|run| (run.frame, run.row));
        self.page = found.into();
        Ok(())
    }
}
