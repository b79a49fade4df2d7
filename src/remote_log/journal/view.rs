//! A journal that is only looked at.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tidelog_format::StreamId;

use super::super::metadata::{RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata};
use super::super::partition::Partition;
use super::super::segments::{Span, offset};
use super::super::store::Store;
use super::super::types::{LeaderEpoch, RemoteLogSegmentState, TopicIdPartition};
use super::replay::Replay;
use super::{JOURNAL_CLASS, JournalError, JournalReport, JournalStats};
use crate::error::Corruption;
use crate::readonly::ReadOnlyLog;

/// The state of a [`Journal`](super::Journal) in a log that is only looked at, which another process may be
/// writing: as it was at some moment while it was read, with events that may not be acknowledged yet.
///
/// ```no_run
/// use tidelog::readonly::ReadOnlyLog;
/// use tidelog::remote_log::JournalView;
///
/// # fn main() -> Result<(), tidelog::remote_log::JournalError> {
/// let journal = JournalView::read(&ReadOnlyLog::open("/var/lib/engine/wal")?, 1)?;
/// for partition in journal.partitions() {
///     println!("{}: {} segments", partition.topic_id_partition(), partition.segments().len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct JournalView {
    stream: StreamId,
    store: Store,
    report: JournalReport,
    stats: JournalStats,
    damage: Vec<Corruption>,
}

impl JournalView {
    /// The ids of the journals in a log.
    pub fn ids(log: &ReadOnlyLog) -> Result<Vec<u64>, JournalError> {
        Ok(log.ids_of_class(JOURNAL_CLASS)?.into_iter().collect())
    }

    /// Reads the journal with this id to its end. One that is not there is empty; one of which something is
    /// damaged or missing is an error.
    pub fn read(log: &ReadOnlyLog, id: u64) -> Result<Self, JournalError> {
        let stream = StreamId::new(JOURNAL_CLASS, id);
        let live = log.live(stream)?;
        let next = live.last.map_or(1, |last| last.saturating_add(1));
        let replay = Replay::of(stream, next, live.entries.into_iter().map(Ok), || true)?;
        let stats = JournalStats {
            entries: replay.next.saturating_sub(replay.first),
            live: replay.store.live(),
            last_checkpoint: replay.last_checkpoint,
            failed_checkpoints: 0,
        };
        Ok(Self { stream, store: replay.store, report: replay.report, stats, damage: live.damage })
    }

    /// The journal's stream.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// What reading found.
    pub fn report(&self) -> JournalReport {
        self.report
    }

    /// Counters. Failed checkpoints leave no trace, and are not counted.
    pub fn stats(&self) -> JournalStats {
        self.stats
    }

    /// Damage in the log that hides nothing known to be of the journal. There may be newer events behind it.
    pub fn damage(&self) -> &[Corruption] {
        &self.damage
    }

    /// The partitions of which something is recorded, by id and number.
    pub fn partitions(&self) -> Vec<PartitionView<'_>> {
        let partitions = self.store.select(|_| true);
        partitions.iter().filter_map(|partition| self.partition(partition)).collect()
    }

    /// A partition, if something is recorded of it.
    pub fn partition(&self, topic_id_partition: &TopicIdPartition) -> Option<PartitionView<'_>> {
        self.store.get(topic_id_partition).map(PartitionView)
    }
}

/// What a [`JournalView`] knows of a partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionView<'a>(&'a Partition);

/// What a [`PartitionView`] knows of a leader epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochView {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The highest end offset of the finished segments that carry it.
    pub highest: Option<i64>,
    /// Segments in any state that carry it.
    pub segments: usize,
    /// Those of them that are finished.
    pub finished: usize,
    /// The offsets that a finished segment answers for, as ranges that neither meet nor touch.
    pub spans: Vec<RangeInclusive<i64>>,
}

impl<'a> PartitionView<'a> {
    /// The partition, under the name that the last segment was added with.
    pub fn topic_id_partition(self) -> &'a TopicIdPartition {
        self.0.topic_id_partition()
    }

    /// How far its deletion has come, if it began.
    pub fn deletion(self) -> Option<&'a RemotePartitionDeleteMetadata> {
        self.0.deletion().map(|(deletion, _)| deletion)
    }

    /// All segments in any state, by start offset (then by id).
    pub fn segments(self) -> Vec<RemoteLogSegmentMetadata> {
        self.0.list()
    }

    /// The finished segment that holds an offset in a leader epoch. Where several do, the one that finished
    /// last.
    pub fn segment_at(self, leader_epoch: LeaderEpoch, offset: i64) -> Option<RemoteLogSegmentMetadata> {
        self.0.containing(leader_epoch, offset)
    }

    /// The leader epochs that segments carry, from the lowest.
    pub fn epochs(self) -> Vec<EpochView> {
        let mut epochs: BTreeMap<LeaderEpoch, (EpochView, Vec<Span>)> = BTreeMap::new();
        for (epoch, state, span) in self.0.members() {
            let (view, spans) = epochs.entry(epoch).or_insert_with(|| (self.epoch(epoch), Vec::new()));
            view.segments += 1;
            if state == RemoteLogSegmentState::CopySegmentFinished {
                view.finished += 1;
                spans.extend(span);
            }
        }
        epochs.into_values().map(|(view, spans)| EpochView { spans: union(spans), ..view }).collect()
    }

    fn epoch(self, epoch: LeaderEpoch) -> EpochView {
        EpochView { epoch, highest: self.0.highest(epoch), segments: 0, finished: 0, spans: Vec::new() }
    }
}

/// The offsets that some span holds.
fn union(mut spans: Vec<Span>) -> Vec<RangeInclusive<i64>> {
    spans.sort_unstable_by_key(|span| span.first);
    let mut united: Vec<Span> = Vec::new();
    for span in spans {
        match united.last_mut() {
            Some(before) if span.first <= before.last.saturating_add(1) => {
                before.last = before.last.max(span.last);
            }
            _ => united.push(span),
        }
    }
    united.into_iter().map(|span| offset(span.first)..=offset(span.last)).collect()
}
