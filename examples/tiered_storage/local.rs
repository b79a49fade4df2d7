//! A replica's own log of a partition: segment files, and what they tell.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tidelog::remote_log::LeaderEpoch;

use crate::record::{Record, records};

#[derive(Debug)]
pub(crate) struct LocalSegment {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) max_timestamp_ms: i64,
    /// The first offset of each epoch in it.
    pub(crate) epochs: BTreeMap<LeaderEpoch, i64>,
    pub(crate) bytes: Vec<u8>,
}

/// All segments of a replica, without a gap from offset 0.
#[derive(Debug)]
pub(crate) struct LocalLog {
    pub(crate) segments: Vec<LocalSegment>,
    /// The first offset of each leader epoch that the replica knows.
    lineage: BTreeMap<LeaderEpoch, i64>,
}

pub(crate) fn replica_dir(dir: &Path, broker: i32, partition: i32) -> PathBuf {
    dir.join("local").join(format!("broker-{broker}")).join(format!("partition-{partition}"))
}

pub(crate) fn segment_name(start: i64) -> String {
    format!("{start:020}.log")
}

impl LocalLog {
    /// Reads the files of a replica.
    pub(crate) fn open(dir: &Path, broker: i32, partition: i32) -> anyhow::Result<Self> {
        let dir = replica_dir(dir, broker, partition);
        let listed = fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
        let mut paths = listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
        paths.sort();
        let mut log = Self { segments: Vec::new(), lineage: BTreeMap::new() };
        for path in paths {
            let segment = LocalSegment::new(fs::read(&path)?).with_context(|| path.display().to_string())?;
            ensure!(segment.start == log.end() + 1, "a gap before {}", path.display());
            for (epoch, start) in &segment.epochs {
                log.lineage.entry(*epoch).or_insert(*start);
            }
            log.segments.push(segment);
        }
        Ok(log)
    }

    /// The last offset; -1: there is none.
    pub(crate) fn end(&self) -> i64 {
        self.segments.last().map_or(-1, |segment| segment.end)
    }

    pub(crate) fn epochs(&self) -> impl DoubleEndedIterator<Item = LeaderEpoch> {
        self.lineage.keys().copied()
    }

    /// The offsets of an epoch that the log has or had.
    pub(crate) fn offsets_of(&self, epoch: LeaderEpoch) -> Option<RangeInclusive<i64>> {
        let start = *self.lineage.get(&epoch)?;
        let next = self.lineage.range(epoch..).nth(1);
        Some(start..=next.map_or(self.end(), |(_, next)| next - 1))
    }

    /// The epoch that an offset was written in.
    pub(crate) fn epoch_of(&self, offset: i64) -> Option<LeaderEpoch> {
        self.epochs().find(|epoch| self.offsets_of(*epoch).is_some_and(|offsets| offsets.contains(&offset)))
    }

    pub(crate) fn segment_of(&self, offset: i64) -> Option<&LocalSegment> {
        let at = self.segments.partition_point(|segment| segment.end < offset);
        self.segments.get(at).filter(|segment| segment.start <= offset)
    }

    pub(crate) fn record(&self, offset: i64) -> anyhow::Result<Record<'_>> {
        let segment = self.segment_of(offset).with_context(|| format!("no segment has offset {offset}"))?;
        segment.record(offset)
    }
}

impl LocalSegment {
    pub(crate) fn new(bytes: Vec<u8>) -> anyhow::Result<Self> {
        let mut epochs = BTreeMap::new();
        let (mut start, mut end, mut max_timestamp_ms) = (None, -1, -1);
        for record in records(&bytes) {
            let record = record?;
            let first = *start.get_or_insert(record.offset);
            ensure!(record.offset == first || record.offset == end + 1, "a gap after offset {end}");
            epochs.entry(record.epoch).or_insert(record.offset);
            end = record.offset;
            max_timestamp_ms = record.timestamp_ms.max(max_timestamp_ms);
        }
        let start = start.context("a segment without records")?;
        Ok(Self { start, end, max_timestamp_ms, epochs, bytes })
    }

    pub(crate) fn record(&self, offset: i64) -> anyhow::Result<Record<'_>> {
        let mut found =
            records(&self.bytes).filter(|record| !record.as_ref().is_ok_and(|r| r.offset != offset));
        found.next().with_context(|| format!("offset {offset} is not in the segment from {}", self.start))?
    }
}
