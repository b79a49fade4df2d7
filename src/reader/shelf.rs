//! The segments that a reader keeps readable.

use std::sync::Arc;

use tidelog_format::{Lsn, StreamId};

use crate::error::{Error, Result};
use crate::segment::{Segment, SegmentSet};

/// Segments in their order. Those of the snapshot stay readable as long as the shelf lives, also
/// when they have retired.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    segments: Arc<Vec<Arc<Segment>>>,
    /// The newest when the snapshot was taken. Newer ones may come and go before they are read.
    newest: u64,
}

impl Shelf {
    pub(super) fn new(segments: Arc<Vec<Arc<Segment>>>) -> Self {
        let newest = segments.last().map_or(0, |segment| segment.sequence());
        Self { segments, newest }
    }

    /// Adds segments that came after those on the shelf.
    pub(super) fn add_newer(&mut self, segments: &[Arc<Segment>]) {
        let last = self.segments.last().map_or(0, |segment| segment.sequence());
        let from = segments.partition_point(|segment| segment.sequence() <= last);
        if from < segments.len() {
            Arc::make_mut(&mut self.segments).extend_from_slice(&segments[from..]);
        }
    }

    /// Keeps none of them readable any more.
    pub(super) fn clear(&mut self) {
        self.segments = Arc::default();
    }

    /// The sequence of the newest segment of the snapshot.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The sequence of the oldest one.
    pub(super) fn oldest(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.sequence())
    }

    /// All, oldest first.
    pub(super) fn all(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The segment with this sequence, ready to be looked into. `None`: it had retired before the snapshot.
    pub(super) fn get(&self, sequence: u64, stream: StreamId, next: u64) -> Result<Option<&Arc<Segment>>> {
        match self.segments.binary_search_by_key(&sequence, |segment| segment.sequence()) {
            Ok(place) => {
                let segment = &self.segments[place];
                self.learn_end(segment)?;
                Ok(Some(segment))
            }
            Err(0) => Ok(None),
            Err(_) if sequence > self.newest => Err(Error::Truncated { stream, next }),
            Err(place) => {
                let beside = self.segments[place - 1].path();
                Err(Error::missing(beside, format!("segment {sequence} in its directory")))
            }
        }
    }

    /// The newest segment that starts at or below `lsn`, by its place; 0 also where all start above.
    pub(super) fn find(&self, lsn: Lsn) -> Result<usize> {
        let (mut low, mut high) = (0, self.segments.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.segments[middle].base()? <= lsn {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// A segment that a crash or the closing of a log left behind does not know its end by itself.
    pub(super) fn learn_end(&self, segment: &Segment) -> Result<()> {
        if segment.end().is_none() && !segment.is_writing() && !segment.holds_runs() {
            SegmentSet::new(self.segments.to_vec()).end_of(segment)?;
        }
        Ok(())
    }
}
