//! Logs made by hand, and all that is seen of them, for tests.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tidelog_format::{
    Checkpoint, FRAME_HEADER_LEN, FrameSpec, LogId, Lsn, Row, SegmentHeader, SegmentIdentity, StreamId,
    frame_len, payload_crc, payload_room, seal_frame, sort_rows,
};

use super::{Item, Payload, ReadOnlyLog, SegmentState};
use crate::error::Corruption;
use crate::segment::name;

pub(super) const BLOCK: u32 = 4096;
pub(super) const SIZE: u64 = 512 << 10;
pub(super) const A: StreamId = StreamId::new(1, 1);
pub(super) const B: StreamId = StreamId::new(1, 2);

pub(super) type Written = (Row, Vec<u8>);

pub(super) fn entry(stream: StreamId, id: u64, payload: &[u8]) -> Written {
    (Row::entry(stream, id, 0, payload.len() as u32, payload_crc(payload)), payload.to_vec())
}

pub(super) fn control(row: Row) -> Written {
    (row, Vec::new())
}

/// A segment's file in memory.
pub(super) struct Image {
    pub(super) header: SegmentHeader,
    pub(super) bytes: Vec<u8>,
    pub(super) at: u64,
    /// The watermark of the next frames.
    pub(super) watermark: Lsn,
}

impl Image {
    pub(super) fn of_log(log: LogId, sequence: u64) -> Self {
        let identity = SegmentIdentity { log_id: log, sequence, base: Lsn(sequence * SIZE) };
        let header = SegmentHeader::new(identity, BLOCK, SIZE).unwrap();
        let mut bytes = vec![0; SIZE as usize];
        bytes[..64].copy_from_slice(&header.encode());
        Self { header, bytes, at: header.first_frame(), watermark: Lsn::ZERO }
    }

    /// A segment without frames.
    pub(super) fn void(sequence: u64) -> Self {
        Self::of_log(LogId([7; 16]), sequence)
    }

    pub(super) fn new(sequence: u64, previous: Option<(u64, Lsn)>, oldest: u64) -> Self {
        let mut image = Self::void(sequence);
        let checkpoint = Checkpoint { previous, oldest, ..Checkpoint::default() };
        let payload = checkpoint.encode(image.header.identity.seed());
        image.push(&[(Row::checkpoint(&payload), payload)]);
        image
    }

    /// The segment after `before`.
    pub(super) fn after(before: &Self) -> Self {
        let sequence = before.header.identity.sequence;
        Self::new(sequence + 1, Some((sequence, before.end())), 1)
    }

    pub(super) fn end(&self) -> Lsn {
        self.header.identity.lsn(self.at)
    }

    /// Adds a frame and returns its offset.
    pub(super) fn push(&mut self, records: &[Written]) -> u64 {
        let mut frame = vec![0; FRAME_HEADER_LEN];
        let mut rows = Vec::new();
        for (row, payload) in records {
            rows.push(Row { offset: frame.len() as u32, ..*row });
            frame.extend_from_slice(payload);
            frame.resize(frame.len() + payload_room(row.length) as usize - payload.len(), 0);
        }
        sort_rows(&mut rows);
        let table_offset = frame.len() as u32;
        let len = frame_len(table_offset.into(), rows.len(), BLOCK).unwrap();
        frame.resize(len as usize, 0);
        let spec = FrameSpec {
            identity: &self.header.identity,
            block_size: BLOCK,
            lsn: self.end(),
            watermark: self.watermark.min(self.end()),
            clock: 1,
            rows: &rows,
            table_offset,
        };
        seal_frame(&mut frame, &spec).unwrap();
        let at = self.at;
        self.bytes[at as usize..at as usize + frame.len()].copy_from_slice(&frame);
        self.at += u64::from(len);
        at
    }

    pub(super) fn flip(&mut self, at: u64) {
        self.bytes[at as usize] ^= 0x20;
    }
}

/// A log's directory.
pub(super) struct Home {
    pub(super) dir: TempDir,
}

impl Home {
    pub(super) fn new(images: &[&Image]) -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        for image in images {
            fs::write(home.file(image.header.identity.sequence), &image.bytes).unwrap();
        }
        home
    }

    pub(super) fn file(&self, sequence: u64) -> PathBuf {
        self.dir.path().join(name::segment(sequence))
    }

    pub(super) fn open(&self) -> ReadOnlyLog {
        ReadOnlyLog::open(self.dir.path()).unwrap()
    }

    pub(super) fn seen(&self) -> Seen {
        Seen::of(&self.open())
    }
}

/// All that a log shows.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) states: Vec<SegmentState>,
    pub(super) ids: Vec<u64>,
    pub(super) frames: Vec<(u64, u64)>,
    pub(super) damage: Vec<Corruption>,
    pub(super) damaged_payloads: Vec<(u64, Corruption)>,
    pub(super) torn: Vec<Corruption>,
}

impl Seen {
    pub(super) fn of(log: &ReadOnlyLog) -> Self {
        let mut seen = Self::default();
        seen.states.extend(log.segments().iter().map(|info| info.state));
        for item in log.items() {
            match item.unwrap() {
                Item::Frame(frame) => seen.frames.push((frame.segment, frame.offset)),
                Item::Record(record) => match record.payload {
                    Payload::Damaged(damage) => seen.damaged_payloads.push((record.row.entry_id, damage)),
                    Payload::Sound(bytes) => {
                        assert_eq!(bytes.len(), record.row.length as usize);
                        seen.ids.extend(record.row.is_entry().then_some(record.row.entry_id));
                    }
                    Payload::Skipped => panic!("payloads were asked for"),
                },
                Item::Torn(place) => seen.torn.push(place),
                Item::Damage(damage) => seen.damage.push(damage),
                Item::Retired { segment } => panic!("{segment} was not retired"),
            }
        }
        seen
    }

    pub(super) fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.damaged_payloads.is_empty() && self.torn.is_empty()
    }
}
