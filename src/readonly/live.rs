//! What of a stream is live, told from the records of all segments.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidelog_format::{Checkpoint, Kind, Record as Content, StreamId};

use super::directory::{LOOKS_MAX, settle};
use super::{Item, Payload, ReadOnlyLog, Record};
use crate::error::{Corruption, Error, Result};

/// The live entries of a stream whose ids have no gaps.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) entries: BTreeMap<u64, Bytes>,
    pub(crate) last: Option<u64>,
    /// Damage that may hide more.
    pub(crate) damage: Vec<Corruption>,
    mark: Option<u64>,
    damaged: BTreeMap<u64, Corruption>,
}

impl ReadOnlyLog {
    /// The live entries of a stream, as they were at some moment since the call began. What is damaged or hidden
    /// of them is an error.
    pub(crate) fn live(&self, stream: StreamId) -> Result<Live> {
        self.whole(|log| {
            let mut live = Live::default();
            for item in log.items().payloads_of(stream) {
                match item? {
                    Item::Record(record) => live.take(log, stream, &record),
                    Item::Damage(damage) => live.damage.push(damage),
                    Item::Retired { .. } => return Ok(None),
                    _ => {}
                }
            }
            live.finish().map(Some)
        })
    }

    /// The ids of the streams of a class that have entries. Where there is none, damage that may hide one is an error.
    pub(crate) fn ids_of_class(&self, class: u16) -> Result<BTreeSet<u64>> {
        self.whole(|log| {
            let (mut found, mut hidden) = (BTreeSet::new(), None);
            for item in log.items().skip_payloads() {
                match item? {
                    Item::Record(Record { row, .. }) if row.stream.class == class => match row.kind {
                        Kind::Entry => drop(found.insert(row.stream.id)),
                        Kind::Release => drop(found.remove(&row.stream.id)),
                        _ => {}
                    },
                    Item::Damage(damage) => hidden = hidden.or(Some(damage)),
                    Item::Retired { .. } => return Ok(None),
                    _ => {}
                }
            }
            match hidden.filter(|_| found.is_empty()) {
                Some(damage) => Err(Error::Corrupt(Box::new(damage))),
                None => Ok(Some(found)),
            }
        })
    }

    /// Looks until no segment was retired meanwhile: of such a one what was live has gone to a newer segment.
    fn whole<T>(&self, look: impl Fn(&Self) -> Result<Option<T>>) -> Result<T> {
        let mut log = self.clone();
        for _ in 0..LOOKS_MAX {
            if let Some(seen) = look(&log)? {
                return Ok(seen);
            }
            log.directory = Arc::new(settle(&*log.disk)?);
        }
        let busy = format!("segments were retired meanwhile, {LOOKS_MAX} times in a row");
        Err(Error::io("read", self.path(), io::Error::other(busy)))
    }

    fn checkpoint(&self, record: &Record, payload: &[u8]) -> Option<Checkpoint> {
        let info = self.segments().iter().find(|info| info.sequence == record.segment)?;
        Checkpoint::decode(payload, info.header?.identity.seed(), record.offset()).ok()
    }
}

impl Live {
    fn take(&mut self, log: &ReadOnlyLog, stream: StreamId, record: &Record) {
        let row = record.row;
        let payload = match &record.payload {
            Payload::Sound(payload) => payload,
            Payload::Damaged(damage) if row.stream == stream && row.is_entry() => {
                self.damaged.insert(row.entry_id, damage.clone());
                self.last = self.last.max(Some(row.entry_id));
                return;
            }
            Payload::Damaged(damage) => return self.damage.push(damage.clone()),
            Payload::Skipped => return,
        };
        if row.kind == Kind::Checkpoint {
            let checkpoint = log.checkpoint(record, payload);
            let summaries = checkpoint.into_iter().flat_map(|checkpoint| checkpoint.streams);
            for summary in summaries.filter(|summary| summary.stream == stream) {
                self.obsolete(summary.mark);
                self.last = self.last.max(summary.last);
            }
        } else if row.stream == stream {
            self.apply(record, payload);
        }
    }

    fn apply(&mut self, record: &Record, payload: &Bytes) {
        match Content::decode(&record.row, payload, record.frame) {
            // Where it is a copy, it was live when it was made.
            Ok(Content::Entry { id, .. }) if self.mark < Some(id) => {
                self.entries.insert(id, payload.clone());
                self.damaged.remove(&id);
                self.last = self.last.max(Some(id));
            }
            Ok(Content::Obsolete { id, .. }) => self.obsolete(Some(id)),
            Ok(Content::Release { .. }) => {
                *self = Self { damage: std::mem::take(&mut self.damage), ..Self::default() };
            }
            Ok(Content::Truncate { from, last, .. }) => {
                drop(self.entries.split_off(&from));
                drop(self.damaged.split_off(&from));
                self.last = last;
            }
            _ => {}
        }
    }

    fn obsolete(&mut self, mark: Option<u64>) {
        if self.mark >= mark {
            return;
        }
        self.mark = mark;
        let is_live = |id: &u64| Some(*id) > mark;
        self.entries.retain(|id, _| is_live(id));
        self.damaged.retain(|id, _| is_live(id));
    }

    fn finish(mut self) -> Result<Self> {
        let lost = if let Some((_, damage)) = self.damaged.pop_first() {
            Some(damage)
        } else if self.has_gaps() {
            self.damage.first().cloned()
        } else {
            None
        };
        lost.map_or(Ok(self), |damage| Err(Error::Corrupt(Box::new(damage))))
    }

    /// Whether entries that should be there are not.
    fn has_gaps(&self) -> bool {
        let Some(last) = self.last.filter(|last| self.mark < Some(*last)) else { return false };
        let first = self.mark.or_else(|| Some(self.entries.first_key_value()?.0.saturating_sub(1)));
        first.is_none_or(|before| last.checked_sub(before) != Some(self.entries.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidelog_format::{FRAME_HEADER_LEN, Lsn, Row, RowFlags, StreamSummary};

    use super::super::testing::{A, B, BLOCK, Home, Image, Written, control, entry};
    use super::*;

    fn entries(stream: StreamId, ids: impl IntoIterator<Item = u64>) -> Vec<Written> {
        ids.into_iter().map(|id| entry(stream, id, &id.to_be_bytes())).collect()
    }

    fn ids(live: &Live) -> Vec<u64> {
        assert!(live.entries.iter().all(|(id, payload)| payload == &id.to_be_bytes()[..]));
        live.entries.keys().copied().collect()
    }

    fn live(images: &[&Image]) -> Result<Live> {
        Home::new(images).open().live(A)
    }

    #[test]
    fn what_was_made_obsolete_cut_or_released_is_left_out() {
        let mut image = Image::new(1, None, 1);
        image.push(&entries(A, 1..=4));
        image.push(&entries(B, 1..=2));
        image.push(&[control(Row::obsolete(A, 1))]);
        assert_eq!(ids(&live(&[&image]).unwrap()), [2, 3, 4]);
        let (row, payload) = Row::truncate(A, 4, Some(3));
        image.push(&[(row, payload.to_vec())]);
        let cut = live(&[&image]).unwrap();
        assert_eq!((ids(&cut), cut.last), (vec![2, 3], Some(3)));
        image.push(&entries(A, [4]));
        assert_eq!(ids(&live(&[&image]).unwrap()), [2, 3, 4]);
        image.push(&[control(Row::release(A))]);
        let released = live(&[&image]).unwrap();
        assert_eq!((ids(&released), released.last), (vec![], None));
        image.push(&entries(A, [1]));
        let home = Home::new(&[&image]);
        assert_eq!(ids(&home.open().live(A).unwrap()), [1]);
        assert_eq!(home.open().ids_of_class(A.class).unwrap(), BTreeSet::from([A.id, B.id]));
        assert_eq!(home.open().ids_of_class(A.class + 1).unwrap(), BTreeSet::new());
    }

    /// No log writes such a thing, but a file may hold it.
    #[test]
    fn a_last_id_below_what_is_live_is_no_panic() {
        let mut image = Image::new(1, None, 1);
        image.push(&entries(A, 10..=12));
        let (row, payload) = Row::truncate(A, 100, Some(5));
        image.push(&[(row, payload.to_vec())]);
        assert_eq!(ids(&live(&[&image]).unwrap()), [10, 11, 12]);
    }

    /// The mark's own record has gone with an older segment, but not all that it is about.
    #[test]
    fn a_checkpoint_tells_the_mark() {
        let mut first = Image::new(1, None, 1);
        first.push(&entries(A, 1..=4));
        let mut second = Image::void(2);
        let summary = StreamSummary {
            stream: A,
            first: Some(3),
            last: Some(4),
            mark: Some(2),
            newest_segment: 1,
            fences: Vec::new(),
            extents: Vec::new(),
        };
        let streams = vec![summary];
        let checkpoint =
            Checkpoint { previous: Some((1, first.end())), oldest: 1, streams, ..Checkpoint::default() };
        let payload = checkpoint.encode(second.header.identity.seed());
        second.push(&[(Row::checkpoint(&payload), payload)]);
        assert_eq!(ids(&live(&[&first, &second]).unwrap()), [3, 4]);
    }

    /// What was live in it has been copied forward, to a segment that was not there when the log was opened.
    #[test]
    fn a_segment_that_retires_meanwhile_makes_it_look_again() {
        let mut first = Image::new(1, None, 1);
        first.push(&entries(A, 1..=2));
        let mut second = Image::after(&first);
        second.push(&entries(A, 3..=4));
        let home = Home::new(&[&first, &second]);
        let log = home.open();

        let mut third = Image::new(3, Some((2, second.end())), 2);
        let moved = |(row, payload)| (Row { flags: RowFlags::MOVED, ..row }, payload);
        third.push(&entries(A, 1..=2).into_iter().map(moved).collect::<Vec<_>>());
        fs::write(home.file(3), &third.bytes).unwrap();
        fs::remove_file(home.file(1)).unwrap();
        assert_eq!(ids(&log.live(A).unwrap()), [1, 2, 3, 4]);
        assert_eq!(log.ids_of_class(A.class).unwrap(), BTreeSet::from([A.id]));
    }

    #[test]
    fn damage_of_what_is_live_is_an_error_and_other_damage_is_told() {
        let mut image = Image::new(1, None, 1);
        let first = image.push(&entries(A, [1, 2]));
        let second = image.push(&entries(A, [3]));
        let other = image.push(&entries(B, [1]));
        image.watermark = Lsn(u64::MAX);
        image.push(&entries(A, [4]));
        let after = |flipped: u64, more: &[Written]| {
            let mut image = Image { bytes: image.bytes.clone(), ..image };
            image.flip(flipped);
            if !more.is_empty() {
                image.push(more);
            }
            live(&[&image])
        };
        let payload = FRAME_HEADER_LEN as u64;
        // Payloads: of a live entry, of one that is obsolete, of another stream.
        assert!(
            matches!(after(first + payload, &[]), Err(Error::Corrupt(damage)) if damage.stream == Some(A))
        );
        let obsolete = [control(Row::obsolete(A, 2))];
        assert_eq!(ids(&after(first + payload, &obsolete).unwrap()), [3, 4]);
        let unread = after(other + payload, &[]).unwrap();
        assert_eq!((ids(&unread), unread.damage), (vec![1, 2, 3, 4], vec![]));
        // Frames: one that hid a live entry, one that could have.
        let Err(Error::Corrupt(damage)) = after(second, &[]) else { panic!("entry 3 is missing") };
        assert_eq!(damage.offset, second);
        let told = after(other, &[]).unwrap();
        assert_eq!((ids(&told), told.damage.len()), (vec![1, 2, 3, 4], 1));
        assert_eq!(second - first, u64::from(BLOCK));
    }
}
