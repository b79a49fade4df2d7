//! Records as they lie in a segment file: length, offset, leader epoch, time stamp, payload.

use anyhow::{Context, ensure};
use tidelog::remote_log::LeaderEpoch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) offset: i64,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) timestamp_ms: i64,
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    pub(crate) fn write(&self, to: &mut Vec<u8>) -> anyhow::Result<()> {
        to.extend_from_slice(&u32::try_from(self.payload.len())?.to_le_bytes());
        to.extend_from_slice(&self.offset.to_le_bytes());
        to.extend_from_slice(&self.epoch.get().to_le_bytes());
        to.extend_from_slice(&self.timestamp_ms.to_le_bytes());
        to.extend_from_slice(self.payload);
        Ok(())
    }
}

/// The records of a segment file.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = anyhow::Result<Record<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let record = split_record(bytes);
        bytes = record.as_ref().map_or(&[], |(_, rest)| rest);
        Some(record.map(|(record, _)| record))
    })
}

fn split_record(bytes: &[u8]) -> anyhow::Result<(Record<'_>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk().context("a cut header")?;
    let (offset, rest) = rest.split_first_chunk().context("a cut header")?;
    let (epoch, rest) = rest.split_first_chunk().context("a cut header")?;
    let (timestamp, rest) = rest.split_first_chunk().context("a cut header")?;
    let length = u32::from_le_bytes(*length) as usize;
    ensure!(length <= rest.len(), "{length} bytes of payload, {} are there", rest.len());
    let (payload, rest) = rest.split_at(length);
    let record = Record {
        offset: i64::from_le_bytes(*offset),
        epoch: LeaderEpoch(i32::from_le_bytes(*epoch)),
        timestamp_ms: i64::from_le_bytes(*timestamp),
        payload,
    };
    Ok((record, rest))
}
