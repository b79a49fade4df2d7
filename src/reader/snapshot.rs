//! What a reader of one stream sees: the stream as it was when the reader was made.

use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tidelog_format::{Lsn, StreamId};

use super::ReadOptions;
use super::origin::{Origin, Wait};
use super::shelf::Shelf;
use crate::commit::{Engine, Goal};
use crate::options::{IdRule, ReadMode};
use crate::segment::Segment;
use crate::state::StreamState;

/// The stream, and the range of it that is read.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) stream: StreamId,
    pub(super) state: StreamState,
    pub(super) rule: IdRule,
    pub(super) mode: ReadMode,
    /// Ids, both included; `None` where there is nothing to read.
    pub(super) range: Option<(u64, u64)>,
    /// Frames from here on came later.
    pub(super) bound: Lsn,
    pub(super) shelf: Shelf,
    /// Where a segment that is not on the shelf yet comes in time.
    pub(super) coming: Coming,
    /// The log's.
    pub(super) directory: PathBuf,
    pub(super) origin: Origin,
}

impl Snapshot {
    pub(super) fn take(
        engine: &Arc<Engine>,
        stream: StreamId,
        ids: &impl RangeBounds<u64>,
        options: &ReadOptions,
    ) -> Self {
        let origin = Origin::new(engine, options.up_to);
        // One hold of the lock: what retires later holds nothing that is live in this state.
        let (state, bound, segments) = {
            let core = engine.core.lock();
            let state = core.state.get(stream).cloned().unwrap_or_default();
            (state, core.end(), engine.segments.snapshot())
        };
        let range = clip(ids, &state);
        let shelf = Shelf::new(segments);
        let coming = match range {
            Some(_) if state.newest_segment > shelf.newest() => come(engine, state.last_frame),
            _ => Coming::default(),
        };
        Self {
            stream,
            range,
            state,
            rule: engine.options.id_rule,
            mode: options.mode.unwrap_or(engine.options.read_mode),
            bound,
            shelf,
            coming,
            directory: engine.disk.path().to_path_buf(),
            origin,
        }
    }

    /// Takes in the segments that came since, once all frames of the range are written.
    pub(super) fn complete_shelf(&mut self) {
        for segments in self.coming.get().into_iter().chain(&self.origin.segments()) {
            self.shelf.add_newer(segments);
        }
    }

    /// What must be waited for before the range can be read: the newest frame of the stream, since
    /// the way to all others starts there.
    pub(super) fn wait(&self) -> Option<Wait> {
        self.range?;
        self.origin.wait_for(self.state.last_frame)
    }

    /// The log failed or ended before all that the state tells of was written.
    pub(super) fn is_cut(&self) -> bool {
        self.origin.limit() <= self.state.last_frame
    }
}

/// A later snapshot of the segments.
pub(super) type Coming = Arc<OnceLock<Arc<Vec<Arc<Segment>>>>>;

/// Has the segments put by as soon as the frame at `frame` is written. The tail may be ahead of the
/// list of segments by a rotation, and a reader that is left alone must not lose the newest one
/// when it retires.
fn come(engine: &Arc<Engine>, frame: Lsn) -> Coming {
    let coming = Coming::default();
    let (put, log) = (Arc::clone(&coming), Arc::downgrade(engine));
    let callback = move |_| {
        if let Some(engine) = log.upgrade() {
            put.get_or_init(|| engine.segments.snapshot());
        }
    };
    if let Some((callback, outcome)) = engine.progress.call(Goal::written(frame), Box::new(callback)) {
        callback(outcome);
    }
    coming
}

/// The live ids of the range.
fn clip(ids: &impl RangeBounds<u64>, state: &StreamState) -> Option<(u64, u64)> {
    let from = match ids.start_bound() {
        Bound::Included(&from) => from,
        Bound::Excluded(&below) => below.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match ids.end_bound() {
        Bound::Included(&to) => to,
        Bound::Excluded(&above) => above.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    let (from, to) = (from.max(state.first?), to.min(state.last?));
    (from <= to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_clipped_to_what_is_live() {
        let mut state = StreamState::default();
        assert_eq!(clip(&.., &state), None);
        state.entries(3, 9);
        state.obsolete(4);
        assert_eq!(clip(&.., &state), Some((5, 9)));
        assert_eq!(clip(&(6..8), &state), Some((6, 7)));
        assert_eq!(clip(&(7..=99), &state), Some((7, 9)));
        assert_eq!(clip(&(..=4), &state), None);
        assert_eq!(clip(&(10..), &state), None);
        assert_eq!(clip(&(..0), &state), None);
        assert_eq!(clip(&(Bound::Excluded(u64::MAX), Bound::Unbounded), &state), None);
        assert_eq!(clip(&(Bound::Excluded(7), Bound::Excluded(9)), &state), Some((8, 8)));
    }
}
