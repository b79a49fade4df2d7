//! Segments of many partitions, and journals full of them.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use tidelog::remote_log::{
    Event, JOURNAL_CLASS, LeaderEpoch, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState, TopicIdPartition, Uuid,
};
use tidelog::{Batch, Log, Options, StreamId};

pub(crate) const JOURNAL: u64 = 1;
/// Offsets of a segment.
const OFFSETS: i64 = 1000;
/// Events that are appended at once.
const BATCH: u64 = 512;

/// Which segments there are: number `n` is the next one of partition `n % partitions`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Corpus {
    pub(crate) partitions: u64,
    /// Leader epochs that each segment has.
    pub(crate) epochs: u32,
}

impl Corpus {
    pub(crate) fn partition(self, number: u64) -> TopicIdPartition {
        let partition = number % self.partitions;
        let name = format!("orders-of-region-{:03}", partition / 10);
        TopicIdPartition::new(Uuid::from_u64_pair(7, partition / 10), name, (partition % 10) as i32)
    }

    pub(crate) fn id(self, number: u64) -> RemoteLogSegmentId {
        // As spread out as random ids are.
        let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        RemoteLogSegmentId::new(self.partition(number), Uuid::from_u64_pair(mixed, number))
    }

    /// The first offset of a segment.
    pub(crate) fn start(self, number: u64) -> i64 {
        (number / self.partitions).cast_signed() * OFFSETS
    }

    pub(crate) fn added(self, number: u64) -> RemoteLogSegmentMetadata {
        let start = self.start(number);
        let step = OFFSETS / i64::from(self.epochs);
        let epochs = (0..self.epochs.cast_signed())
            .map(|epoch| (LeaderEpoch(epoch), start + i64::from(epoch) * step))
            .collect::<BTreeMap<_, _>>();
        let details =
            RemoteLogSegmentDetails::new(1 << 30, RemoteLogSegmentState::CopySegmentStarted, epochs);
        let time = number.cast_signed();
        RemoteLogSegmentMetadata::new(self.id(number), start, start + OFFSETS - 1, time, 1, time, details)
            .expect("a valid segment")
    }

    pub(crate) fn updated(self, number: u64, state: RemoteLogSegmentState) -> RemoteLogSegmentMetadataUpdate {
        RemoteLogSegmentMetadataUpdate::new(self.id(number), number.cast_signed() + 1, None, state, 1)
    }

    /// What happens to `segments` segments one after the other, of which `live` are kept: the oldest
    /// goes for each one that comes.
    fn events(self, segments: u64, live: u64) -> impl Iterator<Item = Event> {
        use RemoteLogSegmentState::{CopySegmentFinished, DeleteSegmentFinished, DeleteSegmentStarted};
        (0..segments).flat_map(move |number| {
            let added = Event::AddSegment(self.added(number));
            let finished = Event::UpdateSegment(self.updated(number, CopySegmentFinished));
            let gone = number.checked_sub(live).map(|gone| {
                [DeleteSegmentStarted, DeleteSegmentFinished]
                    .map(|state| Event::UpdateSegment(self.updated(gone, state)))
            });
            [added, finished].into_iter().chain(gone.into_iter().flatten())
        })
    }

    /// Appends these events to a journal that is not there yet. They are staged in batches: the managers
    /// would wait for each to be durable.
    pub(crate) fn write(self, directory: &Path, segments: u64, live: u64) {
        let log = Log::open(directory, Options::new()).expect("an empty directory becomes a log");
        let stream = StreamId::new(JOURNAL_CLASS, JOURNAL);
        let total = 2 * segments + 2 * segments.saturating_sub(live);
        let bar = progress(total);
        let mut batch: Batch<Bytes> = Batch::new();
        for (id, event) in (1..).zip(self.events(segments, live)) {
            batch.append(stream, id, event.encode().expect("a valid event"));
            if id % BATCH == 0 || id == total {
                log.append(&batch).expect("a healthy log takes it");
                batch.clear();
                bar.set_position(id);
            }
        }
        bar.finish_and_clear();
        log.close().expect("a healthy log closes");
    }
}

fn progress(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
    ProgressBar::new(total).with_message("building a journal").with_style(style.expect("a valid template"))
}
