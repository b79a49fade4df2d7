//! Checks a batch against the state and settles what it writes: the rows, and the changes that
//! go with them. Nothing is changed here, so a refusal leaves no trace.

use tidelog_format::{Kind, Lsn, Row, StreamId, TRUNCATE_PAYLOAD_LEN};

use super::batch::TruncateHint;
use super::plan::{Group, Plan, Step, follows};
use crate::error::{Error, Result};
use crate::options::IdRule;
use crate::planted::{Planted, planted};
use crate::state::{Change, State, StreamState};

/// What a batch comes to. Offsets of rows count from the start of the batch's reservation.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) rows: Vec<Row>,
    pub(crate) changes: Vec<Change>,
    /// Payloads that only now are known: place, and the bytes of a truncation.
    pub(crate) fixups: Vec<(u32, [u8; TRUNCATE_PAYLOAD_LEN])>,
    /// Streams that get a fence: their earlier rows must lie in an earlier frame.
    pub(crate) fenced: Vec<StreamId>,
}

impl Resolved {
    fn clear(&mut self) {
        self.rows.clear();
        self.changes.clear();
        self.fixups.clear();
        self.fenced.clear();
    }

    pub(crate) fn fill(&mut self, plan: &Plan, state: &State, rule: IdRule) -> Result<()> {
        self.clear();
        for group in &plan.groups {
            let stream = state.get(group.stream);
            if group.plain && self.plain(plan, group, stream, rule)? {
                continue;
            }
            let listed = state.namespaces().contains(&group.stream);
            Simulation::new(self, group.stream, stream, listed, rule).run(plan, group)?;
        }
        Ok(())
    }

    /// The common case: appends that follow each other. `false`: the stream must be restarted.
    fn plain(
        &mut self,
        plan: &Plan,
        group: &Group,
        stream: Option<&StreamState>,
        rule: IdRule,
    ) -> Result<bool> {
        let items = &plan.items[group.start..group.end];
        let id_of = |step: &Step| match *step {
            Step::Append { id, .. } => id,
            _ => unreachable!("a plain group holds appends alone"),
        };
        let (first, last) = (id_of(&items[0].step), id_of(&items[items.len() - 1].step));
        match check(group.stream, stream, first, rule) {
            Err(Error::Obsolete { .. }) if plan.restart_emptied => return Ok(false),
            checked => checked?,
        }
        self.rows.extend(items.iter().filter_map(|item| entry_row(group.stream, &item.step)));
        self.changes.push(Change::Entries { stream: group.stream, first, last });
        Ok(true)
    }
}

/// Whether `id` may be appended to the stream as it is.
fn check(stream: StreamId, state: Option<&StreamState>, id: u64, rule: IdRule) -> Result<()> {
    let Some(state) = state else { return Ok(()) };
    if planted(Planted::SkipIdCheckReopened) && state.last_frame == Lsn::ZERO {
        return Ok(());
    }
    if state.first.is_some() {
        return match state.last {
            Some(last) if !follows(rule, last, id) => {
                Err(Error::OutOfOrder { stream, first: state.first, last: Some(last), attempted: id })
            }
            _ => Ok(()),
        };
    }
    match state.mark {
        Some(mark) if id <= mark => Err(Error::Obsolete { stream, mark, attempted: id }),
        _ => Ok(()),
    }
}

fn entry_row(stream: StreamId, step: &Step) -> Option<Row> {
    match *step {
        Step::Append { id, offset, len, crc } => Some(Row::entry(stream, id, offset, len, crc)),
        _ => None,
    }
}

/// A truncation or release within a batch: the highest id that it left of those from before the batch.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: u64,
    left: Option<u64>,
}

/// Runs the steps of one stream, in their order, on a copy of its state. Control rows come
/// before entries in a frame, so entries that a later step of the batch voids are dropped here.
struct Simulation<'a> {
    out: &'a mut Resolved,
    stream: StreamId,
    state: StreamState,
    known: bool,
    listed: bool,
    rule: IdRule,
    entries: Vec<Row>,
    /// What the stream was before the batch; a hint must have seen just that.
    before: (Option<u64>, Option<Lsn>),
    /// What the batch has cut so far of what was there before.
    cut: Option<Cut>,
    rows_from: usize,
    changes_from: usize,
}

impl<'a> Simulation<'a> {
    fn new(
        out: &'a mut Resolved,
        stream: StreamId,
        state: Option<&StreamState>,
        listed: bool,
        rule: IdRule,
    ) -> Self {
        let known = state.is_some();
        let state = state.cloned().unwrap_or_default();
        Self {
            stream,
            known,
            listed,
            before: (state.last, state.newest_fence()),
            cut: None,
            state,
            rule,
            entries: Vec::new(),
            rows_from: out.rows.len(),
            changes_from: out.changes.len(),
            out,
        }
    }

    fn run(mut self, plan: &Plan, group: &Group) -> Result<()> {
        for item in &plan.items[group.start..group.end] {
            match item.step {
                Step::Append { id, .. } => self.append(id, &item.step, plan.restart_emptied)?,
                Step::Obsolete { id } => self.obsolete(id),
                Step::Release => self.release(),
                Step::Truncate { from, offset, below } => {
                    if below.is_some_and(|hint| (hint.seen_last, hint.seen_fence) != self.before) {
                        return Err(Error::Contended { stream: self.stream });
                    }
                    self.truncate(from, offset, below);
                }
                Step::CreateNamespace => self.list(true),
                Step::DeleteNamespace => self.list(false),
            }
        }
        self.finish();
        Ok(())
    }

    fn append(&mut self, id: u64, step: &Step, restart: bool) -> Result<()> {
        match check(self.stream, Some(&self.state), id, self.rule) {
            Err(Error::Obsolete { .. }) if restart => self.release(),
            checked => checked?,
        }
        self.known = true;
        self.state.entries(id, id);
        self.entries.extend(entry_row(self.stream, step));
        Ok(())
    }

    fn obsolete(&mut self, id: u64) {
        // An id above the last means all there is; an unknown stream stays unknown.
        let Some(mark) = self.state.last.map(|last| last.min(id)) else { return };
        if self.state.mark >= Some(mark) {
            return;
        }
        self.state.obsolete(mark);
        self.entries.retain(|row| row.entry_id > mark);
        self.control(Row::obsolete(self.stream, mark), Change::Obsolete { stream: self.stream, id: mark });
    }

    fn release(&mut self) {
        // Of a stream that a release emptied nothing is left to drop.
        if !self.known || (self.state.last.is_none() && self.state.mark.is_none()) {
            return;
        }
        self.state.release(Lsn::ZERO);
        self.entries.clear();
        self.cut = Some(Cut { from: 0, left: None });
        // What the batch did to the stream's entries before has no meaning left.
        let namespace = |kind| matches!(kind, Kind::NamespaceCreate | Kind::NamespaceDelete);
        let mut kept: Vec<Row> = self.out.rows.drain(self.rows_from..).collect();
        kept.retain(|row| namespace(row.kind));
        self.out.rows.append(&mut kept);
        let mut kept: Vec<Change> = self.out.changes.drain(self.changes_from..).collect();
        kept.retain(|c| matches!(c, Change::CreateNamespace { .. } | Change::DeleteNamespace { .. }));
        self.out.changes.append(&mut kept);
        self.control(Row::release(self.stream), Change::Release { stream: self.stream });
        self.out.fenced.push(self.stream);
    }

    fn truncate(&mut self, from: u64, offset: u32, hint: Option<TruncateHint>) {
        // What is obsolete is gone already: a truncation reaches down to the mark alone.
        let from = self.state.mark.map_or(from, |mark| from.max(mark.saturating_add(1)));
        if self.state.first.is_none() || self.state.last.is_none_or(|last| from > last) {
            return;
        }
        self.entries.retain(|row| row.entry_id < from);
        self.cut = self.cut_from(from, hint);
        let last = match (self.entries.last(), self.cut) {
            (Some(row), _) => Some(row.entry_id),
            // What is left may be obsolete by now.
            (None, Some(cut)) => cut.left.max(self.state.mark),
            (None, None) => self.state.last_after_truncate(from),
        };
        self.state.truncate(from, last, Lsn::ZERO);
        let (row, payload) = Row::truncate(self.stream, from, last);
        self.out.fixups.push((offset, payload));
        self.out.rows.push(Row { offset, ..row });
        self.out.changes.push(Change::Truncate { stream: self.stream, from, last });
        self.out.fenced.push(self.stream);
    }

    /// The cut at `from`; `None` where nobody looked up what it leaves.
    fn cut_from(&self, from: u64, hint: Option<TruncateHint>) -> Option<Cut> {
        match self.cut {
            Some(cut) if cut.from <= from => Some(Cut { from, ..cut }),
            _ => hint.map(|hint| Cut { from, left: hint.below }),
        }
    }

    fn list(&mut self, listed: bool) {
        let stream = self.stream;
        match (std::mem::replace(&mut self.listed, listed), listed) {
            (false, true) => self.control(Row::namespace_create(stream), Change::CreateNamespace { stream }),
            (true, false) => self.control(Row::namespace_delete(stream), Change::DeleteNamespace { stream }),
            _ => {}
        }
    }

    fn control(&mut self, row: Row, change: Change) {
        self.out.rows.push(row);
        self.out.changes.push(change);
    }

    fn finish(self) {
        if let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) {
            let change = Change::Entries { stream: self.stream, first: first.entry_id, last: last.entry_id };
            self.out.changes.push(change);
            self.out.rows.extend(self.entries);
        }
    }
}
