//! Fields with extreme values under checksums that fit: bytes that nobody's accident makes.

use std::sync::Arc;

use tidelog_format::{
    CHECKPOINT_HEAD_LEN, Checkpoint, Extent, FRAME_HEADER_LEN, Fence, FrameSpec, INDEX_HEADER_LEN,
    INDEX_ROW_LEN, Lsn, ROW_LEN, Row, SEGMENT_HEADER_LEN, Seed, SegmentHeader, payload_crc, seal_frame,
};

use crate::base::{BLOCK, Base, Files, Frame, has_suffix, sequence};
use crate::rng::Rng;

/// Places and widths of the fields, as SPEC.md lists them.
const SEGMENT: [(usize, usize); 7] = [(8, 4), (12, 4), (16, 8), (24, 8), (40, 8), (48, 8), (56, 4)];
const FRAME: [(usize, usize); 8] = [(8, 4), (12, 4), (16, 4), (20, 4), (24, 8), (32, 8), (40, 8), (48, 4)];
const ROW: [(usize, usize); 8] = [(0, 8), (8, 8), (16, 4), (20, 4), (24, 4), (28, 2), (30, 1), (31, 1)];
const CHECKPOINT: [(usize, usize); 7] = [(0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4)];
const STREAM_LEN: usize = 56;
const STREAM: [(usize, usize); 9] =
    [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 2), (42, 2), (44, 4), (48, 4)];
const INDEX: [(usize, usize); 5] = [(8, 4), (12, 4), (16, 8), (24, 8), (32, 8)];
const INDEX_ROW: [(usize, usize); 9] =
    [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 2), (50, 2)];

pub(crate) fn any(base: &Base, files: &mut Files, rng: &mut Rng) -> (&'static str, String) {
    match rng.below(9) {
        0 => ("segment header", segment_header(files, rng)),
        1 => ("frame header", frame_header(base, files, rng)),
        2 => ("row", row(base, files, rng)),
        3 => ("control row", control_row(base, files, rng)),
        4 => ("checkpoint head", checkpoint(base, files, rng, false)),
        5 => ("checkpoint stream", checkpoint(base, files, rng, true)),
        6 => ("index header", index(base, files, rng, false)),
        7 => ("checkpoint anew", checkpoint_anew(base, files, rng)),
        _ => ("index row", index(base, files, rng, true)),
    }
}

/// Puts an extreme value or a neighbour of the present one into a field.
fn poke(bytes: &mut [u8], fields: &[(usize, usize)], rng: &mut Rng) -> String {
    let (at, width) = *rng.pick(fields);
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(&bytes[at..at + width]);
    let old = u64::from_le_bytes(wide);
    let values = [
        0,
        1,
        old.wrapping_add(1),
        old.wrapping_sub(1),
        old.wrapping_add(512),
        old.wrapping_mul(2),
        1 << 16,
        1 << 30,
        (1 << 31) - 1,
        u64::from(u32::MAX) - 511,
        u64::from(u32::MAX),
        1 << 40,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 65_536,
        u64::MAX - 1,
        u64::MAX,
        rng.next(),
    ];
    let new = *rng.pick(&values);
    bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
    format!("field at {at}: {old:#x} to {new:#x}")
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn segment_header(files: &mut Files, rng: &mut Rng) -> String {
    let names: Vec<String> = files.keys().filter(|name| sequence(name).is_some()).cloned().collect();
    let name = rng.pick(&names).clone();
    let bytes = Arc::make_mut(files.get_mut(&name).unwrap());
    let what = poke(&mut bytes[..SEGMENT_HEADER_LEN], &SEGMENT, rng);
    let crc = payload_crc(&bytes[..60]);
    put(bytes, 60, crc);
    // Under the name that it gives itself it is a file like any other.
    if let Ok(header) = SegmentHeader::decode(bytes)
        && rng.chance(50)
    {
        let file = files.remove(&name).unwrap();
        files.insert(format!("{:020}.log", header.identity.sequence), file);
    }
    format!("{name} {what}")
}

fn frame_of<'a>(
    base: &Base,
    files: &'a mut Files,
    rng: &mut Rng,
    first: bool,
) -> (Frame, Seed, &'a mut [u8], String) {
    let frames: Vec<&Frame> = base.frames.iter().filter(|frame| !first || frame.offset == BLOCK).collect();
    let recent = frames.len().saturating_sub(12);
    let frame = if rng.chance(50) { **rng.pick(&frames[recent..]) } else { **rng.pick(&frames) };
    let name = format!("{:020}.log", frame.sequence);
    let seed = base.headers[&frame.sequence].identity.seed();
    let bytes = Arc::make_mut(files.get_mut(&name).unwrap());
    (frame, seed, &mut bytes[frame.range()], name)
}

/// Makes the checksums of a frame fit, as far as its own fields let them.
fn seal(frame: &mut [u8], seed: Seed, table: bool) {
    if table {
        let (start, rows) = (get(frame, 20), get(frame, 12));
        if let Some(rows) = frame.get(start..start.saturating_add(rows.saturating_mul(ROW_LEN))) {
            let crc = seed.checksum(rows);
            put(frame, 8, crc);
        }
    }
    let crc = seed.checksum(&frame[8..64]);
    put(frame, 4, crc);
}

fn frame_header(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, seed, bytes, name) = frame_of(base, files, rng, false);
    let what = poke(bytes, &FRAME, rng);
    let table = rng.chance(50);
    seal(bytes, seed, table);
    format!("{name} {frame:?} {what}")
}

fn row(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, seed, bytes, name) = frame_of(base, files, rng, false);
    let rows = frame.header.row_count as usize;
    if rows == 0 {
        return "an empty frame".into();
    }
    let at = frame.header.table_offset as usize + ROW_LEN * rng.below(rows);
    let what = poke(&mut bytes[at..at + ROW_LEN], &ROW, rng);
    seal(bytes, seed, true);
    format!("{name} {frame:?} row at {at} {what}")
}

/// A frame whose only row is turned into another one, with an extreme number.
fn control_row(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, seed, bytes, name) = frame_of(base, files, rng, false);
    if frame.header.row_count != 1 {
        return "more rows than one".into();
    }
    let at = frame.header.table_offset as usize;
    let kind = *rng.pick(&[2_u8, 3, 5, 6, 7, 7, 9]);
    let number =
        *rng.pick(&[1, 2, frame.sequence, frame.sequence + 1, frame.sequence + 9, u64::MAX - 1, u64::MAX]);
    let row = &mut bytes[at..at + ROW_LEN];
    if kind == 7 || kind == 9 {
        row.fill(0);
    }
    row[8..16].copy_from_slice(&(if [3, 5, 6].contains(&kind) { 0 } else { number }).to_le_bytes());
    put(row, 16, 64);
    put(row, 20, 0);
    put(row, 24, 0);
    (row[30], row[31]) = (kind, 0);
    seal(bytes, seed, true);
    format!("{name} {frame:?} kind {kind}, {number}")
}

/// Lets the checkpoint of the newest segment name another oldest one.
pub(crate) fn oldest(base: &Base, files: &mut Files, number: u64) {
    let newest = base.frames.last().unwrap().sequence;
    let frame = base.frames.iter().find(|frame| frame.sequence == newest && frame.offset == BLOCK).unwrap();
    let bytes = Arc::make_mut(files.get_mut(&format!("{newest:020}.log")).unwrap());
    let bytes = &mut bytes[frame.range()];
    let seed = base.headers[&newest].identity.seed();
    let table = frame.header.table_offset as usize;
    let (start, len) = (get(bytes, table + 16), get(bytes, table + 20));
    let payload = &mut bytes[start..start + len];
    payload[16..24].copy_from_slice(&number.to_le_bytes());
    put(payload, 40, 0);
    let crc = seed.checksum(payload);
    put(payload, 40, crc);
    let crc = payload_crc(payload);
    put(bytes, table + 24, crc);
    seal(bytes, seed, true);
}

fn checkpoint(base: &Base, files: &mut Files, rng: &mut Rng, stream: bool) -> String {
    let (frame, seed, bytes, name) = frame_of(base, files, rng, true);
    let table = frame.header.table_offset as usize;
    let (start, len) = (get(bytes, table + 16), get(bytes, table + 20));
    let payload = &mut bytes[start..start + len];
    let streams = get(payload, 24);
    let what = if stream && streams > 0 {
        let at = CHECKPOINT_HEAD_LEN + STREAM_LEN * rng.below(streams);
        let mut what = poke(&mut payload[at..at + STREAM_LEN], &STREAM, rng);
        // The flags make fields count that were absent.
        if rng.chance(50) {
            payload[at + 42] |= 7;
            what += ", with all flags";
        }
        what
    } else {
        poke(&mut payload[..CHECKPOINT_HEAD_LEN], &CHECKPOINT, rng)
    };
    put(payload, 40, 0);
    let crc = seed.checksum(payload);
    put(payload, 40, crc);
    let crc = payload_crc(payload);
    put(bytes, table + 24, crc);
    seal(bytes, seed, true);
    format!("{name} checkpoint {what}")
}

/// A checkpoint that says something else, extents and fences with it.
fn checkpoint_anew(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, seed, bytes, name) = frame_of(base, files, rng, true);
    let table = frame.header.table_offset as usize;
    let (start, len) = (get(bytes, table + 16), get(bytes, table + 20));
    let mut checkpoint = Checkpoint::decode(&bytes[start..start + len], seed, 0).unwrap();
    if checkpoint.streams.is_empty() {
        return "no stream".into();
    }
    let mut number = || {
        let near = [0, 1, 2, 10, 100, frame.sequence, frame.sequence.saturating_sub(1), frame.header.lsn.0];
        let values = [*rng.pick(&near), *rng.pick(&near), 1 << 32, i64::MAX as u64, u64::MAX - 1, u64::MAX];
        *rng.pick(&values)
    };
    let place = number() as usize % checkpoint.streams.len();
    let stream = &mut checkpoint.streams[place];
    for field in [&mut stream.first, &mut stream.last, &mut stream.mark] {
        match number() % 4 {
            0 => *field = None,
            1 => *field = Some(number()),
            _ => {}
        }
    }
    if number() % 2 == 0 {
        stream.newest_segment = number();
    }
    for _ in 0..number() % 3 {
        stream.extents.push(Extent { first: number(), last: number(), segment: number() });
        stream.fences.push(Fence { lsn: Lsn(number()), from: number() });
    }
    let what = format!("{stream:?}");
    let payload = checkpoint.encode(seed);
    let table_offset = (FRAME_HEADER_LEN + payload.len()).next_multiple_of(8);
    let mut anew = bytes.to_vec();
    let Some(place) = anew.get_mut(FRAME_HEADER_LEN..FRAME_HEADER_LEN + payload.len()) else {
        return "no room".into();
    };
    place.copy_from_slice(&payload);
    let spec = FrameSpec {
        identity: &base.headers[&frame.sequence].identity,
        block_size: BLOCK as u32,
        lsn: frame.header.lsn,
        watermark: frame.header.watermark,
        clock: 0,
        rows: &[Row::checkpoint(&payload)],
        table_offset: table_offset as u32,
    };
    match seal_frame(&mut anew, &spec) {
        Ok(len) if len == frame.header.frame_len => bytes.copy_from_slice(&anew),
        _ => return "no room".into(),
    }
    format!("{name} {what}")
}

fn index(base: &Base, files: &mut Files, rng: &mut Rng, row: bool) -> String {
    let names: Vec<String> = files.keys().filter(|name| has_suffix(name, ".idx")).cloned().collect();
    let name = rng.pick(&names).clone();
    let number = name.strip_suffix(".idx").unwrap().parse().unwrap();
    let Some(header) = base.headers.get(&number) else { return "an orphan".into() };
    let seed = header.identity.seed();
    let bytes = Arc::make_mut(files.get_mut(&name).unwrap());
    let rows = get(bytes, 12);
    let what = if row && rows > 0 {
        let at = INDEX_HEADER_LEN + INDEX_ROW_LEN * rng.below(rows);
        let what = poke(&mut bytes[at..at + INDEX_ROW_LEN], &INDEX_ROW, rng);
        let crc = seed.checksum(&bytes[INDEX_HEADER_LEN..INDEX_HEADER_LEN + rows * INDEX_ROW_LEN]);
        put(bytes, 40, crc);
        format!("row at {at} {what}")
    } else {
        poke(&mut bytes[..INDEX_HEADER_LEN], &INDEX, rng)
    };
    let crc = seed.checksum(&bytes[..60]);
    put(bytes, 60, crc);
    format!("{name} {what}")
}
