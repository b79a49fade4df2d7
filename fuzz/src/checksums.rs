//! Makes checksums fit whatever bytes they cover, so that what lies behind them is reached.

use tidelog_format::{
    CHECKPOINT_HEAD_LEN, FRAME_HEADER_LEN, INDEX_HEADER_LEN, ROW_LEN, SEGMENT_HEADER_LEN, Seed,
    SegmentHeader, payload_crc,
};

const FRAME_MAGIC: &[u8] = b"TLFR";
/// The kind of a row that carries a checkpoint, and where a row has its kind.
const CHECKPOINT: u8 = 8;
const KIND: usize = 30;

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

fn get(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(field)).ok()
}

/// Of a segment header at the start of these bytes.
pub(crate) fn fit_segment_header(bytes: &mut [u8]) {
    if bytes.len() >= SEGMENT_HEADER_LEN {
        let crc = payload_crc(&bytes[..60]);
        put(bytes, 60, crc);
    }
}

/// Of all frames that begin at a block of a segment's file.
pub(crate) fn fit_frames(file: &mut [u8], header: &SegmentHeader) {
    let block = header.block_size as usize;
    let mut at = block;
    while at < file.len() {
        let mut next = at + block;
        if file[at..].starts_with(FRAME_MAGIC)
            && let Some(len) = fit_frame(&mut file[at..], header.identity.seed())
        {
            next = at + len.next_multiple_of(block).max(block);
        }
        at = next;
    }
}

/// Of the frame at the start of these bytes; gives its length, if it has all its parts.
fn fit_frame(frame: &mut [u8], seed: Seed) -> Option<usize> {
    let (rows, table, len) = (get(frame, 12)?, get(frame, 20)?, get(frame, 16)?);
    let end = rows.checked_mul(ROW_LEN).and_then(|len| table.checked_add(len));
    let whole = end.is_some_and(|end| table >= FRAME_HEADER_LEN && end <= len && len <= frame.len());
    if whole {
        for row in 0..rows {
            fit_row(frame, table + row * ROW_LEN, seed);
        }
        let crc = seed.checksum(frame.get(table..table + rows * ROW_LEN)?);
        put(frame, 8, crc);
    }
    let crc = seed.checksum(frame.get(8..FRAME_HEADER_LEN)?);
    put(frame, 4, crc);
    whole.then_some(len)
}

/// Of the payload that a row points at.
fn fit_row(frame: &mut [u8], row: usize, seed: Seed) {
    let (Some(start), Some(len)) = (get(frame, row + 16), get(frame, row + 20)) else { return };
    let is_checkpoint = frame.get(row + KIND) == Some(&CHECKPOINT);
    let Some(payload) = frame.get_mut(start..start.saturating_add(len)) else { return };
    if is_checkpoint {
        fit_checkpoint(payload, seed);
    }
    let crc = payload_crc(payload);
    put(frame, row + 24, crc);
}

/// Of a checkpoint.
pub(crate) fn fit_checkpoint(payload: &mut [u8], seed: Seed) {
    if payload.len() >= CHECKPOINT_HEAD_LEN {
        put(payload, 40, 0);
        let crc = seed.checksum(payload);
        put(payload, 40, crc);
    }
}

/// Of an index cache.
pub(crate) fn fit_index(bytes: &mut [u8], seed: Seed) {
    if bytes.len() >= INDEX_HEADER_LEN {
        let crc = seed.checksum(&bytes[INDEX_HEADER_LEN..]);
        put(bytes, 40, crc);
        let crc = seed.checksum(&bytes[..60]);
        put(bytes, 60, crc);
    }
}
