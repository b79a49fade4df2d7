//! Reading by offset and epoch: the metadata name the segment, the object store has the record.

use anyhow::{Context, ensure};
use tidelog::remote_log::{
    LeaderEpoch, RemoteLogMetadataManager, RemoteLogSegmentMetadata, TopicIdPartition, Uuid,
};

use crate::local::{LocalLog, LocalSegment};
use crate::objects::{Objects, key};

/// A reader of one partition; it keeps the segment that it read last.
pub(crate) struct Reader<'a> {
    manager: &'a dyn RemoteLogMetadataManager,
    objects: &'a Objects,
    tp: &'a TopicIdPartition,
    last: Option<(Uuid, LocalSegment)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        manager: &'a dyn RemoteLogMetadataManager,
        objects: &'a Objects,
        tp: &'a TopicIdPartition,
    ) -> Self {
        Self { manager, objects, tp, last: None }
    }

    /// Reads the record at an offset of an epoch, and compares it with the one in a local log. The
    /// segment that it is in; `None`: there is none in the remote storage.
    pub(crate) fn compare(
        &mut self,
        epoch: LeaderEpoch,
        offset: i64,
        local: &LocalLog,
    ) -> anyhow::Result<Option<RemoteLogSegmentMetadata>> {
        let found = self.manager.remote_log_segment_metadata(self.tp, epoch, offset)?;
        let tp = self.tp;
        if let Some(segment) = &found {
            let (read, due) = (self.segment(segment)?.record(offset)?, local.record(offset)?);
            ensure!(read == due, "offset {offset} of {tp} is {read:?}, the local log has {due:?}");
            ensure!(read.epoch == epoch, "offset {offset} of {tp} is not of epoch {epoch}: {read:?}");
        }
        Ok(found)
    }

    fn segment(&mut self, segment: &RemoteLogSegmentMetadata) -> anyhow::Result<&LocalSegment> {
        let id = segment.remote_log_segment_id().id;
        if self.last.as_ref().is_none_or(|(last, _)| *last != id) {
            self.last = Some((id, LocalSegment::new(self.objects.get(&key(segment))?)?));
        }
        self.last.as_ref().map(|(_, segment)| segment).context("no segment was read")
    }
}
