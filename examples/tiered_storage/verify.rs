//! Whether the journal, the object store and the local logs tell the same.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use fastrand::Rng;
use tidelog::remote_log::{
    LeaderEpoch, RemoteLogMetadataManager, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition,
};

use crate::local::{LocalLog, LocalSegment};
use crate::model::Model;
use crate::objects::{Objects, key, upload_of};
use crate::read::Reader;

/// Look-ups of each epoch after each restart, at random offsets.
const RANDOM_LOOKUPS: usize = 16;

/// The journal answers as the model does: the lists exactly, the look-ups at and beside each boundary
/// and at random.
pub(crate) fn metadata(
    manager: &dyn RemoteLogMetadataManager,
    tp: &TopicIdPartition,
    model: &Model,
    rng: &mut Rng,
) -> anyhow::Result<u64> {
    ensure!(manager.caught_up(tp)?, "{tp} is not caught up after its journal was opened");
    let (listed, due) = (manager.list_remote_log_segments(tp)?, model.list());
    ensure!(listed == due, "{tp} has {listed:#?}, due are {due:#?}");
    let mut epochs: BTreeSet<LeaderEpoch> = BTreeSet::from([LeaderEpoch::UNKNOWN, LeaderEpoch::INITIAL]);
    let mut offsets = BTreeSet::new();
    for segment in &due {
        let starts = segment.segment_leader_epochs();
        epochs.extend(starts.keys());
        let boundaries = starts.values().copied().chain([segment.start_offset(), segment.end_offset()]);
        offsets.extend(boundaries.flat_map(|boundary| boundary - 1..=boundary + 1));
    }
    let end = offsets.last().copied().unwrap_or(0);
    offsets.extend((0..RANDOM_LOOKUPS).map(|_| rng.i64(0..=end)));
    for epoch in &epochs {
        let by_epoch = manager.list_remote_log_segments_by_epoch(tp, *epoch)?;
        let carries =
            |segment: &&RemoteLogSegmentMetadata| segment.segment_leader_epochs().contains_key(epoch);
        ensure!(by_epoch.iter().eq(due.iter().filter(carries)), "{tp}, epoch {epoch}: {by_epoch:#?}");
        let (highest, due) = (manager.highest_offset_for_epoch(tp, *epoch)?, model.highest(*epoch));
        ensure!(highest == due, "{tp}, epoch {epoch}: highest offset {highest:?}, due is {due:?}");
        for offset in &offsets {
            let found = manager.remote_log_segment_metadata(tp, *epoch, *offset)?;
            let due = model.find(*epoch, *offset);
            ensure!(found.as_ref() == due, "{tp}, epoch {epoch}, offset {offset}: {found:?}, due is {due:?}");
        }
    }
    Ok((epochs.len() * offsets.len()) as u64)
}

/// Each object has metadata, and each finished segment its object, byte for byte the local segment.
pub(crate) fn objects<'a>(
    objects: &Objects,
    listed: &[RemoteLogSegmentMetadata],
    local: impl Fn(i32, i32) -> anyhow::Result<&'a LocalLog>,
) -> anyhow::Result<u64> {
    use RemoteLogSegmentState as S;
    let names = objects.list()?;
    for name in &names {
        let whole = upload_of(name).unwrap_or(name);
        let segment = listed.iter().find(|segment| key(segment) == whole);
        let segment = segment.with_context(|| format!("object {name} is an orphan"))?;
        let finished = segment.state() == S::CopySegmentFinished;
        ensure!(!finished || name == whole, "{name} is left of a copy that finished: {segment:?}");
    }
    for segment in listed.iter().filter(|segment| segment.state() == S::CopySegmentFinished) {
        let name = key(segment);
        ensure!(names.contains(&name), "the object of a finished segment is missing: {segment:?}");
        let partition = segment.remote_log_segment_id().topic_id_partition.partition;
        let due = local(segment.broker_id(), partition)?.segment_of(segment.start_offset());
        same_bytes(segment, &objects.get(&name)?, due.context("no such local segment")?)?;
    }
    Ok(names.len() as u64)
}

fn same_bytes(segment: &RemoteLogSegmentMetadata, object: &[u8], due: &LocalSegment) -> anyhow::Result<()> {
    ensure!(object == due.bytes, "the object is not the local segment: {segment:?}");
    ensure!(usize::try_from(segment.segment_size_in_bytes())? == object.len(), "wrong size: {segment:?}");
    let span = (segment.start_offset(), segment.end_offset(), segment.max_timestamp_ms());
    ensure!(span == (due.start, due.end, due.max_timestamp_ms), "wrong span: {segment:?}");
    ensure!(*segment.segment_leader_epochs() == due.epochs, "wrong epochs: {segment:?}");
    let checksum = segment.custom_metadata().map(|custom| custom.0.as_slice());
    let due = crc32fast::hash(object).to_be_bytes();
    ensure!(checksum == Some(due.as_slice()), "wrong checksum: {segment:?}");
    Ok(())
}

/// Each offset of a local log in `readable` is read through the metadata and the object store, each
/// other one is not there. Gives the number of records compared.
pub(crate) fn records(
    manager: &dyn RemoteLogMetadataManager,
    objects: &Objects,
    tp: &TopicIdPartition,
    local: &LocalLog,
    readable: &std::ops::Range<i64>,
) -> anyhow::Result<u64> {
    let mut reader = Reader::new(manager, objects, tp);
    for offset in 0..=local.end() {
        let epoch = local.epoch_of(offset).with_context(|| format!("offset {offset} has no epoch"))?;
        let found = reader.compare(epoch, offset, local)?;
        ensure!(
            found.is_some() == readable.contains(&offset),
            "{tp}, epoch {epoch}: {readable:?} are to be readable, offset {offset} is in {found:?}"
        );
    }
    Ok(readable.clone().count() as u64)
}
