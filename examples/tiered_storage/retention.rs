//! Which segments a leader deletes. What it deletes first makes no other segment due, so whoever
//! goes on after a crash comes to the same end.

use tidelog::remote_log::{
    RemoteLogMetadataManager, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition,
};

use crate::local::LocalLog;

#[derive(Debug, Default)]
pub(crate) struct Due {
    /// They answer for no offset of the leader's own log. These go first.
    pub(crate) superseded: Vec<RemoteLogSegmentMetadata>,
    /// The oldest ones, by size in half of the partitions and by age in the others.
    pub(crate) oldest: Vec<RemoteLogSegmentMetadata>,
}

impl Due {
    pub(crate) fn of(
        manager: &dyn RemoteLogMetadataManager,
        local: &LocalLog,
        tp: &TopicIdPartition,
    ) -> anyhow::Result<Self> {
        let mut due = Self::default();
        let mut kept = Vec::new();
        for segment in manager.list_remote_log_segments(tp)? {
            if segment.state() != RemoteLogSegmentState::CopySegmentFinished {
                continue;
            }
            if answers(manager, local, &segment)? {
                kept.push(segment);
            } else {
                due.superseded.push(segment);
            }
        }
        due.oldest = if by_age(tp) { too_old(local, kept)? } else { too_much(local, kept) };
        Ok(due)
    }

    /// In the order in which they are deleted.
    pub(crate) fn all(self) -> impl Iterator<Item = RemoteLogSegmentMetadata> {
        self.superseded.into_iter().chain(self.oldest)
    }
}

pub(crate) fn by_age(tp: &TopicIdPartition) -> bool {
    tp.partition / 2 % 2 == 1
}

/// Whether a reader of the leader's log is sent to the segment for any offset.
fn answers(
    manager: &dyn RemoteLogMetadataManager,
    local: &LocalLog,
    segment: &RemoteLogSegmentMetadata,
) -> anyhow::Result<bool> {
    let id = segment.remote_log_segment_id();
    for offset in segment.start_offset()..=segment.end_offset() {
        let Some(epoch) = local.epoch_of(offset) else { break };
        let found = manager.remote_log_segment_metadata(&id.topic_id_partition, epoch, offset)?;
        if found.is_some_and(|found| found.remote_log_segment_id() == id) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Half of the time that the log spans is kept.
fn too_old(
    local: &LocalLog,
    segments: Vec<RemoteLogSegmentMetadata>,
) -> anyhow::Result<Vec<RemoteLogSegmentMetadata>> {
    let (first, last) = (local.record(0)?.timestamp_ms, local.record(local.end())?.timestamp_ms);
    let oldest = first + (last - first) / 2;
    Ok(segments.into_iter().take_while(|segment| segment.max_timestamp_ms() < oldest).collect())
}

/// Half of the log's size is kept.
fn too_much(local: &LocalLog, segments: Vec<RemoteLogSegmentMetadata>) -> Vec<RemoteLogSegmentMetadata> {
    let size = |segment: &RemoteLogSegmentMetadata| u64::from(segment.segment_size_in_bytes().unsigned_abs());
    let limit = local.segments.iter().map(|segment| segment.bytes.len() as u64).sum::<u64>() / 2;
    let mut total: u64 = segments.iter().map(size).sum();
    let due = move |segment: &RemoteLogSegmentMetadata| {
        let due = total > limit;
        total -= size(segment);
        due
    };
    segments.into_iter().take_while(due).collect()
}
