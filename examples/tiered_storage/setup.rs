//! The local logs, before anything is copied: records are lines of real text.

use std::fs;
use std::path::Path;

use fastrand::Rng;
use tidelog::remote_log::LeaderEpoch;

use crate::args::Args;
use crate::corpus::Corpus;
use crate::local::{replica_dir, segment_name};
use crate::phase::{FIRST_LEADER, SECOND_LEADER, changes_leader};
use crate::record::Record;

/// When the first record was written; each one follows a second after the one before.
const FIRST_TIMESTAMP_MS: i64 = 1_700_000_000_000;
const RECORDS_PER_SEGMENT: std::ops::RangeInclusive<usize> = 30..=90;
/// One record in so many is the first of a new epoch.
const RECORDS_PER_EPOCH: u32 = 150;

pub(crate) fn write(args: &Args, corpus: &Corpus, dir: &Path) -> anyhow::Result<()> {
    let mut rng = Rng::with_seed(args.seed);
    for partition in 0..args.partitions {
        let lengths: Vec<_> = (0..args.segments).map(|_| rng.usize(RECORDS_PER_SEGMENT)).collect();
        let mut first = Vec::new();
        add(corpus, &mut rng, lengths.iter().sum(), LeaderEpoch::INITIAL, &mut first);
        write_replica(dir, FIRST_LEADER, partition, &first, lengths.iter().copied())?;
        if changes_leader(partition) {
            let second = parted(corpus, &mut rng, &first, &lengths);
            let lengths = std::iter::repeat_with(|| rng.usize(RECORDS_PER_SEGMENT));
            write_replica(dir, SECOND_LEADER, partition, &second, lengths)?;
        }
    }
    Ok(())
}

/// The log of a replica that did not have all of the leader's records when it became the leader.
fn parted<'a>(corpus: &'a Corpus, rng: &mut Rng, first: &[Record<'a>], lengths: &[usize]) -> Vec<Record<'a>> {
    // At least one segment that the first leader copies whole lies behind.
    let segment = rng.usize(lengths.len() / 2..=lengths.len() - 3);
    let shared = lengths[..segment].iter().sum::<usize>() + rng.usize(1..lengths[segment]);
    let mut records = first[..shared].to_vec();
    let epoch = first.last().map_or(LeaderEpoch::INITIAL, |record| LeaderEpoch(record.epoch.get() + 1));
    let more = first.len() - shared + rng.usize(RECORDS_PER_SEGMENT);
    add(corpus, rng, more, epoch, &mut records);
    records
}

fn add<'a>(corpus: &'a Corpus, rng: &mut Rng, count: usize, epoch: LeaderEpoch, to: &mut Vec<Record<'a>>) {
    let mut epoch = epoch;
    for nth in 0..count {
        if nth > 0 && rng.u32(..RECORDS_PER_EPOCH) == 0 {
            epoch = LeaderEpoch(epoch.get() + 1);
        }
        let offset = to.last().map_or(0, |last| last.offset + 1);
        let timestamp_ms = FIRST_TIMESTAMP_MS + offset * 1000;
        to.push(Record { offset, epoch, timestamp_ms, payload: corpus.line(rng.u64(..)) });
    }
}

fn write_replica(
    dir: &Path,
    broker: i32,
    partition: i32,
    mut records: &[Record<'_>],
    lengths: impl Iterator<Item = usize>,
) -> anyhow::Result<()> {
    let dir = replica_dir(dir, broker, partition);
    fs::create_dir_all(&dir)?;
    for length in lengths {
        let (segment, rest) = records.split_at(length.min(records.len()));
        let Some(first) = segment.first() else { break };
        let mut bytes = Vec::new();
        segment.iter().try_for_each(|record| record.write(&mut bytes))?;
        fs::write(dir.join(segment_name(first.offset)), bytes)?;
        records = rest;
    }
    Ok(())
}
