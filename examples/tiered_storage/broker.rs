//! The leader of a partition. It knows what the metadata, the object store and its own log tell, and
//! remembers nothing, so whoever is started after a crash goes on where the metadata stand.

use std::time::SystemTime;

use anyhow::Context;
use fastrand::Rng;
use tidelog::remote_log::{
    CustomMetadata, Event, RemoteLogMetadataManager, RemoteLogSegmentDetails, RemoteLogSegmentId,
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    RemotePartitionDeleteMetadata, RemotePartitionDeleteState, RemoteStorageError, TopicIdPartition, Uuid,
};

use crate::crash::Crash;
use crate::journal;
use crate::local::{LocalLog, LocalSegment};
use crate::objects::{Objects, key};
use crate::phase::{DELETED_PARTITION, Phase, changes_leader};
use crate::retention::Due;
use crate::wire::Told;

/// Records of the leader before that a new one copies once more: it did not wait for what its
/// predecessor had under way.
const COPIED_AGAIN: i64 = 150;

pub(crate) struct Leader<'a> {
    pub(crate) broker: i32,
    pub(crate) tp: TopicIdPartition,
    pub(crate) local: LocalLog,
    pub(crate) manager: &'a dyn RemoteLogMetadataManager,
    pub(crate) objects: &'a Objects,
    pub(crate) crash: &'a Crash,
    pub(crate) rng: Rng,
}

impl Leader<'_> {
    /// Does what is left of a phase.
    pub(crate) fn work(&mut self, phase: Phase) -> anyhow::Result<()> {
        self.clean_up()?;
        match phase {
            Phase::Copy => self.copy(changes_leader(self.tp.partition)),
            Phase::LeaderChange => self.copy(false),
            Phase::Retention => self.delete_due(),
            Phase::DeletePartition if self.tp.partition == DELETED_PARTITION => self.delete_partition(),
            Phase::DeletePartition => Ok(()),
        }
    }

    /// Deletes what a killed process was about to copy or to delete, be it of another broker.
    fn clean_up(&self) -> anyhow::Result<()> {
        for segment in self.manager.list_remote_log_segments(&self.tp)? {
            if segment.state() != RemoteLogSegmentState::CopySegmentFinished {
                self.delete(&segment)?;
            }
        }
        Ok(())
    }

    /// Copies the segments that hold anything which was not copied yet; of the other leader's also
    /// what it copied last, in segments of its own. `half`: of the last segment only a half.
    fn copy(&mut self, half: bool) -> anyhow::Result<()> {
        let listed = self.manager.list_remote_log_segments(&self.tp)?;
        let own = listed.iter().filter(|segment| segment.broker_id() == self.broker);
        let own = own.map(RemoteLogSegmentMetadata::end_offset).max().unwrap_or(-1);
        let copied = own.max(self.copied_up_to()? - COPIED_AGAIN);
        let segments = std::mem::take(&mut self.local.segments);
        let end = segments.last().map(|segment| segment.end);
        for segment in segments.iter().filter(|segment| segment.end > copied) {
            self.copy_segment(segment, half && Some(segment.end) == end)?;
        }
        self.local.segments = segments;
        Ok(())
    }

    /// The last copied offset that the leader's log shares, whoever copied it; -1: there is none.
    fn copied_up_to(&self) -> anyhow::Result<i64> {
        for epoch in self.local.epochs().rev() {
            if let Some(highest) = self.manager.highest_offset_for_epoch(&self.tp, epoch)? {
                let offsets = self.local.offsets_of(epoch).context("an epoch without offsets")?;
                return Ok(highest.min(*offsets.end()));
            }
        }
        Ok(-1)
    }

    fn copy_segment(&mut self, segment: &LocalSegment, half: bool) -> anyhow::Result<()> {
        let id = RemoteLogSegmentId::new(self.tp.clone(), Uuid::from_u128(self.rng.u128(..)));
        let (size, epochs) = (i32::try_from(segment.bytes.len())?, segment.epochs.clone());
        let details = RemoteLogSegmentDetails::new(size, RemoteLogSegmentState::CopySegmentStarted, epochs);
        let metadata = RemoteLogSegmentMetadata::new(
            id,
            segment.start,
            segment.end,
            segment.max_timestamp_ms,
            self.broker,
            now_ms()?,
            details,
        )?;
        self.record(Event::AddSegment(metadata.clone()))?;
        if half {
            self.objects.begin(&key(&metadata), &segment.bytes[..segment.bytes.len() / 2])?;
            return Ok(());
        }
        self.objects.put(&key(&metadata), &segment.bytes, self.crash)?;
        self.crash.point();
        let checksum = crc32fast::hash(&segment.bytes).to_be_bytes().to_vec();
        self.update(&metadata, RemoteLogSegmentState::CopySegmentFinished, Some(checksum.into()))
    }

    fn delete_due(&self) -> anyhow::Result<()> {
        let due = Due::of(self.manager, &self.local, &self.tp)?;
        due.all().try_for_each(|segment| self.delete(&segment))
    }

    /// The state of a deletion cannot be asked for: whoever goes on finds it by what is refused.
    fn delete_partition(&self) -> anyhow::Result<()> {
        self.put_deletion(RemotePartitionDeleteState::DeletePartitionMarked)?;
        self.put_deletion(RemotePartitionDeleteState::DeletePartitionStarted)?;
        for segment in self.manager.list_remote_log_segments(&self.tp)? {
            self.delete(&segment)?;
        }
        self.put_deletion(RemotePartitionDeleteState::DeletePartitionFinished)
    }

    fn delete(&self, segment: &RemoteLogSegmentMetadata) -> anyhow::Result<()> {
        self.update(segment, RemoteLogSegmentState::DeleteSegmentStarted, None)?;
        self.objects.delete(&key(segment))?;
        self.crash.point();
        self.update(segment, RemoteLogSegmentState::DeleteSegmentFinished, None)
    }

    fn update(
        &self,
        segment: &RemoteLogSegmentMetadata,
        state: RemoteLogSegmentState,
        custom: Option<CustomMetadata>,
    ) -> anyhow::Result<()> {
        let id = segment.remote_log_segment_id().clone();
        let update = RemoteLogSegmentMetadataUpdate::new(id, now_ms()?, custom, state, self.broker);
        self.record(Event::UpdateSegment(update))
    }

    fn put_deletion(&self, state: RemotePartitionDeleteState) -> anyhow::Result<()> {
        let delete = RemotePartitionDeleteMetadata::new(self.tp.clone(), state, now_ms()?, self.broker);
        match self.record(Event::DeletePartition(delete)) {
            Err(error) if is_past(&error, state) => Ok(Told::Refused(self.tp.partition).tell()?),
            recorded => recorded,
        }
    }

    /// Records an event, and tells of it before and after.
    fn record(&self, event: Event) -> anyhow::Result<()> {
        self.crash.point();
        Told::Begun(event.clone()).tell()?;
        self.crash.point();
        journal::record(self.manager, event)?;
        self.crash.point();
        Told::Acknowledged(self.tp.partition).tell()?;
        self.crash.point();
        Ok(())
    }
}

/// Whether a deletion was refused because it is further than that.
fn is_past(error: &anyhow::Error, state: RemotePartitionDeleteState) -> bool {
    let place = |state| RemotePartitionDeleteState::ALL.iter().position(|other| *other == state);
    match error.downcast_ref() {
        Some(RemoteStorageError::InvalidPartitionDeleteTransition { from: Some(from), .. }) => {
            place(*from) > place(state)
        }
        _ => false,
    }
}

fn now_ms() -> anyhow::Result<i64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis().try_into()?)
}
