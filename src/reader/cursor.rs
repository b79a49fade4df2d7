//! Going over the entries of a snapshot, one by one.

use std::ops::Range;

use tidelog_format::{Lsn, Row};

use super::Entry;
use super::legs::{Leg, Runs};
use super::origin::Wait;
use super::plan::plan;
use super::snapshot::{Coming, Snapshot};
use crate::error::{Corruption, Error, Result};
use crate::options::IdRule;
use crate::segment::{FrameRead, Moment, Window};

#[derive(Debug)]
pub(super) struct Cursor {
    snapshot: Snapshot,
    /// The lowest id that may come next; `None` at the end.
    next: Option<u64>,
    last: u64,
    /// Still to be read, the next one at the end; `None` until the first read.
    legs: Option<Vec<Leg>>,
    place: Option<Place>,
    window: Window,
    /// What was looked at since the caller last had the turn.
    moment: Moment,
}

/// Where in a leg the cursor is.
#[derive(Debug)]
struct Place {
    runs: Runs,
    frame: Option<OpenFrame>,
}

#[derive(Debug)]
struct OpenFrame {
    read: FrameRead,
    /// Rows of the run that are still to be looked at.
    rows: Range<usize>,
}

impl Cursor {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let (next, last) = snapshot.range.map_or((None, 0), |(first, last)| (Some(first), last));
        Self {
            snapshot,
            next,
            last,
            legs: None,
            place: None,
            window: Window::default(),
            moment: Moment::Later,
        }
    }

    /// The id of the entry that comes next, or a lower bound of it; `None` at the end.
    pub(super) fn position(&self) -> Option<u64> {
        self.next
    }

    /// What must be waited for, before reading waits for nothing but the disk.
    pub(super) fn wait(&self) -> Option<Wait> {
        if self.legs.is_some() { None } else { self.snapshot.wait() }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        self.moment = Moment::Later;
        self.next_of_batch()
    }

    /// As [`Self::next`], where the caller did nothing since the last entry.
    pub(super) fn next_of_batch(&mut self) -> Result<Option<Entry>> {
        while let Some(next) = self.next {
            if let Some(row) = self.next_row() {
                if let Some(entry) = self.entry(next, &row)? {
                    return Ok(Some(entry));
                }
            } else if !self.next_frame(next)? {
                return self.finish(next);
            }
        }
        Ok(None)
    }

    fn next_row(&mut self) -> Option<Row> {
        let frame = self.place.as_mut()?.frame.as_mut()?;
        frame.rows.next().and_then(|index| frame.read.row(index))
    }

    /// Opens the next frame with entries that are wanted; false when there is none.
    fn next_frame(&mut self, next: u64) -> Result<bool> {
        if self.legs.is_none() {
            self.start()?;
        }
        let limit = self.snapshot.origin.limit();
        loop {
            let Some(place) = &mut self.place else {
                let Some(leg) = self.legs.as_mut().and_then(Vec::pop) else { return Ok(false) };
                self.place = Some(Place { runs: Runs::new(leg)?, frame: None });
                continue;
            };
            place.frame = None;
            let Some(run) = place.runs.next(&self.snapshot, next, limit)? else {
                self.place = None;
                continue;
            };
            let (segment, stream) = (&place.runs.leg.segment, Some(self.snapshot.stream));
            let rows = run.row as usize..run.row as usize + run.count as usize;
            self.window.want(rows.clone());
            let read = segment.frame_in(&mut self.window, run.frame, limit, self.snapshot.mode, stream)?;
            place.runs.read_ahead(u64::from(read.header().frame_len), self.window.was_cold());
            place.frame = Some(OpenFrame { read, rows });
            self.moment = Moment::Same;
            return Ok(true);
        }
    }

    /// Waits for what the range needs, and finds the way.
    fn start(&mut self) -> Result<()> {
        if let Some(wait) = self.snapshot.wait()
            && let Err(Error::Forked) = wait.block(None)
        {
            return Err(Error::Forked);
        }
        // Any other failure leaves what was durable before it: the origin knows how far that goes.
        self.snapshot.complete_shelf();
        self.legs = Some(plan(&self.snapshot)?);
        // The legs keep the segments of the range; all others may go.
        self.snapshot.shelf.clear();
        self.snapshot.coming = Coming::default();
        Ok(())
    }

    /// The row's entry, if it is live and wanted.
    fn entry(&mut self, next: u64, row: &Row) -> Result<Option<Entry>> {
        let Some(Place { runs, frame: Some(frame) }) = &self.place else { return Ok(None) };
        let Snapshot { stream, state, rule, .. } = &self.snapshot;
        let (leg, id, lsn) = (&runs.leg, row.entry_id, frame.read.header().lsn);
        if row.stream != *stream || !row.is_entry() || row.is_moved() != leg.moved {
            return Err(self.damage(lsn, "row that the index tells of, of stream", stream.id, row.stream.id));
        }
        if !(next.max(leg.first)..=leg.last).contains(&id) || !state.is_live(id, lsn) {
            return Ok(None);
        }
        if *rule == IdRule::Contiguous && id != next {
            return Err(self.damage(lsn, "id that follows the one before", next, id));
        }
        // Whoever reads on behind a damaged payload can tell which one it was.
        self.next = Some(id);
        let payload = frame.read.payload_at(row, self.moment)?;
        self.moment = Moment::Same;
        let entry = Entry { stream: *stream, id, lsn, payload };
        self.next = id.checked_add(1).filter(|next| *next <= self.last);
        Ok(Some(entry))
    }

    /// There is no more to read, and the range goes on.
    fn finish(&mut self, next: u64) -> Result<Option<Entry>> {
        self.next = None;
        if self.snapshot.is_cut() {
            return self.snapshot.origin.failure().map_or(Ok(None), Err);
        }
        if self.snapshot.rule == IdRule::Increasing {
            return Ok(None);
        }
        let what = format!("entry {next} of stream {}", self.snapshot.stream);
        Err(Error::missing(&self.snapshot.directory, what))
    }

    fn damage(&self, frame: Lsn, what: &str, expected: u64, actual: u64) -> Error {
        let place = self.place.as_ref().map(|place| &place.runs);
        Error::Corrupt(Box::new(Corruption {
            file: place.map_or_else(Default::default, |runs| runs.leg.segment.path().to_path_buf()),
            offset: place.map_or(0, |runs| frame.0.saturating_sub(runs.base.0)),
            what: what.into(),
            expected,
            actual,
            stream: Some(self.snapshot.stream),
        }))
    }
}
