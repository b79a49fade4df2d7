//! Where the entries of each stream are in one segment.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use tidelog_format::{self as format, IndexRow, IndexView, Row, StreamId};

use crate::state::Link;

/// Neighbouring entry rows of one stream in one frame, all moved or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first entry's id.
    pub(crate) first: u64,
    /// The last entry's id.
    pub(crate) last: u64,
    /// Where in the file the frame starts.
    pub(crate) frame: u64,
    /// Where in the frame's table the run starts.
    pub(crate) row: u32,
    /// Entries in the run.
    pub(crate) count: u32,
    /// Whether they were copied forward from an older segment.
    pub(crate) moved: bool,
}

/// The runs of one stream, in the order of their frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamRuns {
    /// The segment before this one that holds natural entries of the stream; 0: none.
    pub(crate) previous: u64,
    pub(crate) runs: Vec<Run>,
}

/// Which runs of a stream are wanted.
pub(crate) struct Select<'a> {
    /// Offsets in the file where their frames start.
    pub(crate) frames: Range<u64>,
    /// At most so many.
    pub(crate) limit: usize,
    /// Only those that this accepts.
    pub(crate) keep: &'a mut dyn FnMut(&Run) -> bool,
}

impl Select<'_> {
    fn take(&mut self, runs: impl Iterator<Item = Run>) -> Vec<Run> {
        let end = self.frames.end;
        runs.take_while(|run| run.frame < end).filter(|run| (self.keep)(run)).take(self.limit).collect()
    }
}

/// The runs of one segment in memory: of the one that is written, and of ended ones without a cache.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    streams: BTreeMap<StreamId, StreamRuns>,
}

impl Runs {
    /// Takes in the frame at `frame` in the file, with its rows in the order of its table, and the
    /// links that applying them gave. Frames come in order.
    pub(crate) fn add_frame(&mut self, frame: u64, rows: &[Row], links: &[Link]) {
        let mut start = 0;
        for group in rows.chunk_by(|one, next| kin(one) == kin(next)) {
            let row = start;
            start += group.len() as u32;
            let [first, ..] = group else { continue };
            if !first.is_entry() {
                continue;
            }
            let last = group.last().unwrap_or(first).entry_id;
            let (count, moved) = (group.len() as u32, first.is_moved());
            let run = Run { first: first.entry_id, last, frame, row, count, moved };
            self.streams.entry(first.stream).or_default().runs.push(run);
        }
        for link in links {
            // After a release the first link stays: a reader from before it still follows the chain.
            if let Some(stream) = self.streams.get_mut(&link.stream)
                && stream.runs.iter().find(|run| !run.moved).is_none_or(|run| run.frame == frame)
            {
                stream.previous = link.previous;
            }
        }
    }

    pub(super) fn select(&self, stream: StreamId, select: &mut Select<'_>) -> Option<StreamRuns> {
        let found = self.streams.get(&stream)?;
        let start = found.runs.partition_point(|run| run.frame < select.frames.start);
        let runs = select.take(found.runs[start..].iter().copied());
        Some(StreamRuns { previous: found.previous, runs })
    }

    pub(super) fn streams(&self, after: Option<StreamId>, limit: usize) -> Vec<(StreamId, StreamRuns)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let streams = self.streams.range((from, Bound::Unbounded)).take(limit);
        streams.map(|(stream, runs)| (*stream, runs.clone())).collect()
    }

    /// The rows of the segment's index cache.
    pub(crate) fn to_index_rows(&self) -> Vec<IndexRow> {
        let rows = self.streams.iter().flat_map(|(&stream, StreamRuns { previous, runs })| {
            runs.iter().map(move |run| IndexRow {
                run: format::Run {
                    stream,
                    first: run.first,
                    last: run.last,
                    row: run.row,
                    count: run.count,
                    moved: run.moved,
                },
                frame_offset: run.frame,
                previous: *previous,
            })
        });
        rows.collect()
    }
}

/// Rows that are alike in this and follow each other make a run.
fn kin(row: &Row) -> (StreamId, bool, bool) {
    (row.stream, row.is_entry(), row.is_moved())
}

impl From<IndexRow> for Run {
    fn from(IndexRow { run, frame_offset, .. }: IndexRow) -> Self {
        let format::Run { first, last, row, count, moved, .. } = run;
        Self { first, last, frame: frame_offset, row, count, moved }
    }
}

/// What an answer from an index cache rests on: where these rows are what they were, and do not
/// contradict it, the answer is right, whatever other rows the search for it met.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    pub(super) rows: Vec<Range<usize>>,
    pub(super) contradict: bool,
}

impl Grounds {
    /// Rows are sorted: one on each side of an edge shows that it is one.
    fn edge(&mut self, index: &IndexView<'_>, edge: usize, is_before: impl Fn(&IndexRow) -> bool) {
        let sides = edge.saturating_sub(1)..edge + 1;
        let before = edge.checked_sub(1).and_then(|row| index.row(row));
        let after = index.row(edge);
        self.contradict |=
            before.is_some_and(|row| !is_before(&row)) || after.is_some_and(|row| is_before(&row));
        self.rows.push(sides);
    }
}

/// As [`Runs::select`], from an index cache.
pub(super) fn select_indexed(
    index: &IndexView<'_>,
    stream: StreamId,
    select: &mut Select<'_>,
    grounds: &mut Grounds,
) -> Option<StreamRuns> {
    let Range { mut start, end } = index.find(stream);
    grounds.edge(index, start, |row| row.run.stream < stream);
    grounds.edge(index, end, |row| row.run.stream <= stream);
    let previous = index.row(start).filter(|_| start < end)?.previous;
    let mut high = end;
    while start < high {
        let middle = start.midpoint(high);
        if index.row(middle).is_some_and(|row| row.frame_offset < select.frames.start) {
            start = middle + 1;
        } else {
            high = middle;
        }
    }
    let place = (stream, select.frames.start);
    grounds.edge(index, start, |row| (row.run.stream, row.frame_offset) < place);
    let mut seen = start;
    let rows = index.range(start..end).inspect(|_| seen += 1).map(Run::from);
    let runs = select.take(rows);
    grounds.rows.push(start..seen);
    Some(StreamRuns { previous, runs })
}

/// As [`Runs::streams`], from an index cache.
pub(super) fn streams_indexed(
    index: &IndexView<'_>,
    after: Option<StreamId>,
    limit: usize,
    grounds: &mut Grounds,
) -> Vec<(StreamId, StreamRuns)> {
    let start = after.map_or(0, |stream| index.find(stream).end);
    if let Some(after) = after {
        grounds.edge(index, start, |row| row.run.stream <= after);
    }
    let mut seen = start;
    let mut streams: Vec<(StreamId, StreamRuns)> = Vec::new();
    for row in index.range(start..index.len()) {
        seen += 1;
        let stream = row.run.stream;
        if streams.last().is_none_or(|(last, _)| *last != stream) {
            if streams.len() == limit {
                break;
            }
            streams.push((stream, StreamRuns { previous: row.previous, runs: Vec::new() }));
        }
        if let Some((_, last)) = streams.last_mut() {
            last.runs.push(row.into());
        }
    }
    grounds.rows.push(start..seen);
    streams
}

#[cfg(test)]
mod tests {
    use tidelog_format::{RowFlags, sort_rows};

    use super::*;

    const A: StreamId = StreamId::new(1, 7);
    const B: StreamId = StreamId::new(2, 3);

    fn entry(stream: StreamId, id: u64) -> Row {
        Row::entry(stream, id, 64, 0, 0)
    }

    fn moved(stream: StreamId, id: u64) -> Row {
        Row { flags: RowFlags::MOVED, ..entry(stream, id) }
    }

    fn all(runs: &Runs, stream: StreamId) -> Option<StreamRuns> {
        let mut select = Select { frames: 0..u64::MAX, limit: usize::MAX, keep: &mut |_| true };
        runs.select(stream, &mut select)
    }

    #[test]
    fn a_run_is_one_stream_in_one_frame_and_moved_or_not() {
        let mut rows = vec![
            entry(B, 9),
            entry(A, 5),
            Row::obsolete(A, 4),
            Row::obsolete(B, 1),
            entry(A, 6),
            moved(A, 2),
            moved(A, 3),
        ];
        sort_rows(&mut rows);
        let mut runs = Runs::default();
        runs.add_frame(4096, &rows, &[Link { stream: A, previous: 3 }]);
        runs.add_frame(8192, &[entry(A, 7)], &[]);
        let run = |first, last, frame, row, count, moved| Run { first, last, frame, row, count, moved };
        assert_eq!(
            all(&runs, A).unwrap(),
            StreamRuns {
                previous: 3,
                runs: vec![
                    run(2, 3, 4096, 1, 2, true),
                    run(5, 6, 4096, 3, 2, false),
                    run(7, 7, 8192, 0, 1, false)
                ]
            }
        );
        let only_b = StreamRuns { previous: 0, runs: vec![run(9, 9, 4096, 6, 1, false)] };
        assert_eq!(all(&runs, B).unwrap(), only_b);
        assert_eq!(all(&runs, StreamId::new(1, 8)), None);
    }

    #[test]
    fn a_selection_is_bounded_by_frames_by_count_and_by_the_asker() {
        let mut runs = Runs::default();
        (1..=9).for_each(|n| runs.add_frame(n * 4096, &[entry(A, n)], &[]));
        let firsts = |frames: Range<u64>, limit, keep: &mut dyn FnMut(&Run) -> bool| {
            let found = runs.select(A, &mut Select { frames, limit, keep }).unwrap();
            found.runs.iter().map(|run| run.first).collect::<Vec<_>>()
        };
        assert_eq!(firsts(8192..20480, usize::MAX, &mut |_| true), [2, 3, 4]);
        assert_eq!(firsts(8193..u64::MAX, 2, &mut |_| true), [3, 4]);
        assert_eq!(firsts(0..u64::MAX, 2, &mut |run| run.first % 4 == 0), [4, 8]);
        assert!(firsts(90_000..u64::MAX, 2, &mut |_| true).is_empty());
    }

    #[test]
    fn streams_come_in_pages() {
        let mut runs = Runs::default();
        runs.add_frame(4096, &[entry(A, 1), entry(B, 1)], &[]);
        let ids = |after, limit| runs.streams(after, limit).iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(None, 1), [A]);
        assert_eq!(ids(Some(A), 9), [B]);
        assert!(ids(Some(B), 9).is_empty());
    }
}
