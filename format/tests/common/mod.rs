//! A segment in memory, and things to put in it.
#![allow(dead_code, reason = "each test file uses its part")]

use proptest::prelude::*;
use tidelog_format::*;

pub(crate) const BLOCK: u32 = 512;

pub(crate) fn identity() -> SegmentIdentity {
    SegmentIdentity { log_id: LogId(*b"0123456789abcdef"), sequence: 7, base: Lsn(0x0010_0000) }
}

pub(crate) fn header() -> SegmentHeader {
    SegmentHeader::new(identity(), BLOCK, FILE_SIZE_UNIT).unwrap()
}

pub(crate) fn stream(id: u64) -> StreamId {
    StreamId::new(1, id)
}

/// A segment's file as a writer makes it.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) header: SegmentHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: usize,
}

impl Image {
    pub(crate) fn new() -> Self {
        let header = header();
        let mut bytes = vec![0; header.file_size as usize];
        bytes[..SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
        let end = header.first_frame() as usize;
        Self { header, bytes, end }
    }

    pub(crate) fn lsn(&self, offset: usize) -> Lsn {
        self.header.identity.lsn(offset as u64)
    }

    /// Appends a frame and returns its offset.
    pub(crate) fn push(&mut self, watermark: Lsn, records: &[(Row, &[u8])]) -> usize {
        let offset = self.end;
        let frame = build_frame(&self.header, self.lsn(offset), watermark, records);
        self.bytes[offset..offset + frame.len()].copy_from_slice(&frame);
        self.end += frame.len();
        offset
    }

    /// Appends a frame with one entry, whose watermark is `watermark`.
    pub(crate) fn push_entry(&mut self, watermark: Lsn, id: u64, payload: &[u8]) -> usize {
        self.push(watermark, &[(entry(stream(1), id, payload), payload)])
    }

    /// Makes the checksums of the frame at `offset` fit its header and table, as far as these have a place.
    pub(crate) fn fix_up(&mut self, offset: usize) {
        let seed = self.header.identity.seed();
        let field = |bytes: &[u8], at: usize| {
            u32::from_le_bytes(bytes[offset + at..offset + at + 4].try_into().unwrap()) as usize
        };
        let (rows, table) = (field(&self.bytes, 12), offset + field(&self.bytes, 20));
        if let Some(table) = self.bytes.get(table..table + rows * ROW_LEN) {
            let crc = seed.checksum(table);
            self.bytes[offset + 8..offset + 12].copy_from_slice(&crc.to_le_bytes());
        }
        let crc = seed.checksum(&self.bytes[offset + 8..offset + 64]);
        self.bytes[offset + 4..offset + 8].copy_from_slice(&crc.to_le_bytes());
    }

    pub(crate) fn walk(&self, proven: Lsn) -> Walk {
        Walk::new(&self.header, self.bytes.len() as u64, proven)
    }

    /// Walks to the end; the frames' offsets, and how it ended.
    pub(crate) fn outcome(&self, proven: Lsn) -> (Vec<u64>, Outcome) {
        let mut walk = self.walk(proven);
        finish(&mut walk, &self.bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Torn(Fault),
    Corrupt(Fault),
    End(u64),
}

pub(crate) fn finish(walk: &mut Walk, mut bytes: &[u8]) -> (Vec<u64>, Outcome) {
    let mut frames = Vec::new();
    loop {
        let outcome = match walk.next(&mut bytes).unwrap() {
            Step::Frame(frame) => {
                frames.push(frame.offset);
                continue;
            }
            Step::Torn(fault) => Outcome::Torn(fault),
            Step::Corrupt(fault) => Outcome::Corrupt(fault),
            Step::End { offset } => Outcome::End(offset),
        };
        return (frames, outcome);
    }
}

pub(crate) fn entry(stream: StreamId, id: u64, payload: &[u8]) -> Row {
    Row::entry(stream, id, 64, payload.len() as u32, payload_crc(payload))
}

/// A frame of these records, whose rows get their payload's place here.
pub(crate) fn build_frame(
    segment: &SegmentHeader,
    lsn: Lsn,
    watermark: Lsn,
    records: &[(Row, &[u8])],
) -> Vec<u8> {
    let mut buf = vec![0; FRAME_HEADER_LEN];
    let mut rows = Vec::new();
    for (row, payload) in records {
        let offset = buf.len() as u32;
        rows.push(Row { offset, ..*row });
        buf.extend_from_slice(payload);
        buf.resize(offset as usize + payload_room(row.length) as usize, 0);
    }
    sort_rows(&mut rows);
    let table_offset = buf.len() as u32;
    let len = frame_len(u64::from(table_offset), rows.len(), segment.block_size).unwrap();
    // What a reused buffer may hold behind the payloads.
    buf.resize(len as usize, 0xee);
    let spec = FrameSpec {
        identity: &segment.identity,
        block_size: segment.block_size,
        lsn,
        watermark,
        clock: 1_700_000_000_000_000,
        rows: &rows,
        table_offset,
    };
    assert_eq!(seal_frame(&mut buf, &spec), Ok(len));
    buf
}

pub(crate) fn any_stream() -> impl Strategy<Value = StreamId> {
    (1..4u16, 0..4u64).prop_map(|(class, id)| StreamId { class, id })
}

/// Any record that a frame may carry, and its payload.
pub(crate) fn any_record() -> impl Strategy<Value = (Row, Vec<u8>)> {
    prop_oneof![
        8 => (any_stream(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..100), any::<bool>()).prop_map(
            |(stream, id, payload, moved)| {
                let flags = if moved { RowFlags::MOVED } else { RowFlags::NONE };
                (Row { flags, ..entry(stream, id, &payload) }, payload)
            }
        ),
        1 => (any_stream(), any::<u64>()).prop_map(|(stream, id)| (Row::obsolete(stream, id), vec![])),
        1 => any_stream().prop_map(|stream| (Row::release(stream), vec![])),
        1 => (any_stream(), any::<u64>(), any::<Option<u64>>()).prop_map(|(stream, from, last)| {
            let (row, payload) = Row::truncate(stream, from, last);
            (row, payload.to_vec())
        }),
        1 => any_stream().prop_map(|stream| (Row::namespace_create(stream), vec![])),
        1 => any_stream().prop_map(|stream| (Row::namespace_delete(stream), vec![])),
        1 => (1..9u64).prop_map(|sequence| (Row::oldest(sequence), vec![])),
    ]
}

/// Records of one frame: no entry twice.
pub(crate) fn any_records() -> impl Strategy<Value = Vec<(Row, Vec<u8>)>> {
    prop::collection::vec(any_record(), 0..12).prop_map(|mut records| {
        let mut seen = std::collections::HashSet::new();
        records.retain(|(row, _)| !row.is_entry() || seen.insert((row.stream, row.entry_id)));
        records
    })
}

pub(crate) fn borrowed(records: &[(Row, Vec<u8>)]) -> Vec<(Row, &[u8])> {
    records.iter().map(|(row, payload)| (*row, payload.as_slice())).collect()
}

pub(crate) fn any_checkpoint() -> impl Strategy<Value = Checkpoint> {
    let fences = prop::collection::vec((any::<u64>(), any::<u64>()), 0..3);
    let extents = prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..3);
    let summary = (any::<[Option<u64>; 3]>(), any::<u64>(), fences, extents).prop_map(
        |([first, last, mark], newest_segment, fences, extents)| StreamSummary {
            stream: StreamId::SYSTEM,
            first,
            last,
            mark,
            newest_segment,
            fences: fences.into_iter().map(|(lsn, from)| Fence { lsn: Lsn(lsn), from }).collect(),
            extents: extents
                .into_iter()
                .map(|(first, last, segment)| Extent { first, last, segment })
                .collect(),
        },
    );
    let streams = prop::collection::btree_map(any_stream(), summary, 0..6).prop_map(|streams| {
        streams.into_iter().map(|(stream, summary)| StreamSummary { stream, ..summary }).collect::<Vec<_>>()
    });
    let namespaces = prop::collection::btree_set(any_stream(), 0..6);
    let previous = proptest::option::of((1..u64::MAX, any::<u64>().prop_map(Lsn)));
    (previous, any::<u64>(), streams, namespaces).prop_map(|(previous, oldest, streams, namespaces)| {
        Checkpoint { previous, oldest, streams, namespaces: namespaces.into_iter().collect() }
    })
}
