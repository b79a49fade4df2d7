//! What `stat` adds up.

use std::collections::BTreeMap;

use tidelog::StreamId;
use tidelog::readonly::{Item, ReadOnlyLog, Record, SegmentInfo};

/// Sums over some records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) frames: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) records: u64,
    pub(crate) entries: u64,
    /// Payload bytes of entries.
    pub(crate) payload_bytes: u64,
}

impl Sums {
    fn add_record(&mut self, record: &Record) {
        self.records += 1;
        if record.row.is_entry() {
            self.entries += 1;
            self.payload_bytes += u64::from(record.row.length);
        }
    }
}

/// The records of one stream. A frame belongs to no stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamSums {
    pub(crate) sums: Sums,
    /// Of the entries, those copied forward.
    pub(crate) moved: u64,
    /// Lowest and highest id of an entry.
    pub(crate) ids: Option<(u64, u64)>,
    /// First and last segment with a record.
    pub(crate) segments: Option<(u64, u64)>,
}

impl StreamSums {
    fn add(&mut self, record: &Record) {
        self.sums.add_record(record);
        let row = &record.row;
        self.moved += u64::from(row.is_moved());
        if row.is_entry() {
            widen(&mut self.ids, row.entry_id);
        }
        widen(&mut self.segments, record.segment);
    }
}

fn widen(range: &mut Option<(u64, u64)>, value: u64) {
    let (low, high) = range.unwrap_or((value, value));
    *range = Some((low.min(value), high.max(value)));
}

/// A whole log, added up.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) segments: Vec<(SegmentInfo, Sums)>,
    pub(crate) streams: BTreeMap<StreamId, StreamSums>,
    pub(crate) total: Sums,
    pub(crate) file_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) damage: u64,
    pub(crate) torn: u64,
    pub(crate) unreadable: Vec<tidelog::Error>,
}

impl Summary {
    pub(crate) fn of(log: &ReadOnlyLog) -> Self {
        let mut summary = Self::default();
        let mut by_segment: BTreeMap<u64, Sums> = BTreeMap::new();
        for item in log.items().skip_payloads() {
            match item {
                Ok(Item::Frame(frame)) => {
                    for sums in [&mut summary.total, by_segment.entry(frame.segment).or_default()] {
                        sums.frames += 1;
                        sums.frame_bytes += u64::from(frame.header.frame_len);
                    }
                }
                Ok(Item::Record(record)) => {
                    summary.total.add_record(&record);
                    by_segment.entry(record.segment).or_default().add_record(&record);
                    if record.row.stream != StreamId::default() {
                        summary.streams.entry(record.row.stream).or_default().add(&record);
                    }
                }
                Ok(Item::Damage(_)) => summary.damage += 1,
                Ok(Item::Torn(_)) => summary.torn += 1,
                Ok(_) => {}
                Err(error) => summary.unreadable.push(error),
            }
        }
        for info in log.segments() {
            summary.file_bytes += info.file_len;
            summary.used_bytes += info.used();
            let sums = by_segment.remove(&info.sequence).unwrap_or_default();
            summary.segments.push((info.clone(), sums));
        }
        summary
    }

    /// Of the bytes in use, those that are no payload of an entry.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.used_bytes.saturating_sub(self.total.payload_bytes)
    }
}
