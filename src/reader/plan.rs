//! Which segments hold a range of a stream, in the order in which they are read.

use std::sync::Arc;

use super::legs::Leg;
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::segment::{Segment, Select, StreamRuns};

/// The legs over the snapshot's range; the one to be read first comes last.
pub(super) fn plan(snapshot: &Snapshot) -> Result<Vec<Leg>> {
    let Some((first, last)) = snapshot.range else { return Ok(Vec::new()) };
    // Moved entries are the lowest ones that are live. What they were copied from may still be there.
    let moved = moved(snapshot, first, last)?;
    let extents = &snapshot.state.extents;
    let natural = extents.last().map_or(Some(first), |extent| Some(extent.last.checked_add(1)?.max(first)));
    let mut legs = match natural.filter(|&first| first <= last) {
        Some(first) => natural_legs(snapshot, first, last)?,
        None => Vec::new(),
    };
    legs.extend(moved.into_iter().rev());
    Ok(legs)
}

fn moved(snapshot: &Snapshot, first: u64, last: u64) -> Result<Vec<Leg>> {
    let mut legs = Vec::new();
    for extent in &snapshot.state.extents {
        if extent.last < first || extent.first > last {
            continue;
        }
        let segment = get(snapshot, extent.segment, first)?.ok_or_else(|| {
            let what = format!("moved entry {} of stream {}", extent.first.max(first), snapshot.stream);
            Error::missing(&snapshot.directory, format!("{what}, in segment {}", extent.segment))
        })?;
        let (first, last) = (extent.first.max(first), extent.last.min(last));
        legs.push(Leg { segment: Arc::clone(segment), first, last, moved: true });
    }
    Ok(legs)
}

/// Follows the chain of segments from the newest down, until one starts at or below the first id.
fn natural_legs(snapshot: &Snapshot, first: u64, last: u64) -> Result<Vec<Leg>> {
    let mut legs: Vec<Leg> = Vec::new();
    let mut sequence = newest(snapshot)?;
    while sequence != 0 {
        let Some(segment) = get(snapshot, sequence, first)? else { break };
        let Some(found) = natural_runs(snapshot, segment)? else {
            let what = format!("entries of stream {}, which a later segment says are here", snapshot.stream);
            return Err(Error::missing(segment.path(), what));
        };
        legs.push(Leg { segment: Arc::clone(segment), first, last, moved: false });
        // What lies below a row was void, from its id on, when it was written.
        if found.runs.first().is_some_and(|run| run.first <= first) {
            return Ok(legs);
        }
        if found.previous >= sequence {
            let what = "the segment before, in the index";
            return Err(Error::mismatch(segment.path(), 0, what, sequence - 1, found.previous));
        }
        sequence = found.previous;
    }
    // A release begins the chain anew. A reader from before it may have found it cut short.
    if snapshot.origin.released_since(snapshot.stream, &snapshot.state) {
        return Err(Error::Truncated { stream: snapshot.stream, next: first });
    }
    Ok(legs)
}

/// Where the chain starts. After a failure the state names frames that were never written, and
/// the newest one that was has to be looked for.
fn newest(snapshot: &Snapshot) -> Result<u64> {
    if !snapshot.is_cut() {
        return Ok(snapshot.state.newest_segment);
    }
    let cut = snapshot.origin.limit();
    for segment in snapshot.shelf.all().iter().rev() {
        if segment.base()? < cut {
            snapshot.shelf.learn_end(segment)?;
            if natural_runs(snapshot, segment)?.is_some_and(|found| !found.runs.is_empty()) {
                return Ok(segment.sequence());
            }
        }
    }
    Ok(0)
}

/// The first natural run alone, and the link.
fn natural_runs(snapshot: &Snapshot, segment: &Segment) -> Result<Option<StreamRuns>> {
    let select = Select { frames: 0..u64::MAX, limit: 1, keep: &mut |run| !run.moved };
    segment.runs(snapshot.stream, select)
}

fn get(snapshot: &Snapshot, sequence: u64, next: u64) -> Result<Option<&Arc<Segment>>> {
    snapshot.shelf.get(sequence, snapshot.stream, next)
}
