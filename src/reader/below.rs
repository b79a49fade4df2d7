//! The last live entry below an id, where ids may have gaps.

use std::sync::Arc;

use tidelog_format::StreamId;

use super::ReadOptions;
use super::legs::Leg;
use super::plan::plan;
use super::snapshot::Snapshot;
use crate::commit::Engine;
use crate::error::Result;
use crate::segment::{Run, Select};

/// The highest id of the stream below `from` that is live now.
pub(crate) fn highest_below(engine: &Arc<Engine>, stream: StreamId, from: u64) -> Result<Option<u64>> {
    let mut snapshot = Snapshot::take(engine, stream, &..from, &ReadOptions::default());
    if snapshot.range.is_none() {
        return Ok(None);
    }
    if let Some(wait) = snapshot.wait() {
        wait.block(None)?;
    }
    snapshot.complete_shelf();
    // The leg that is read last is the first one.
    for leg in plan(&snapshot)? {
        if let Some(found) = in_leg(&snapshot, &leg)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn in_leg(snapshot: &Snapshot, leg: &Leg) -> Result<Option<u64>> {
    let (base, limit) = (leg.segment.base()?, snapshot.origin.limit());
    let frames = 0..limit.min(snapshot.bound).checked_sub(base).unwrap_or(0);
    let live = |run: &Run| {
        let last = run.last.min(leg.last);
        snapshot.state.highest_live(run.first, last, base.saturating_add(run.frame))
    };
    let mut runs: Vec<Run> = Vec::new();
    let mut keep = |run: &Run| {
        if run.moved == leg.moved && live(run).is_some_and(|live| live >= leg.first) {
            runs.push(*run);
        }
        false
    };
    leg.segment.runs(snapshot.stream, Select { frames, limit: usize::MAX, keep: &mut keep })?;
    for run in runs.iter().rev() {
        let Some(top) = live(run) else { continue };
        if top == run.last {
            return Ok(Some(top));
        }
        // The cut lies inside the run: its rows tell which ids there are.
        let frame = leg.segment.frame(run.frame, limit, snapshot.mode, Some(snapshot.stream))?;
        let start = run.row as usize;
        let rows = frame.table().range(start..start + run.count as usize);
        let found = rows.map(|row| row.entry_id).filter(|id| (leg.first..=top).contains(id)).max();
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
