//! The planted fault that belongs to the format: nobody compares a frame's own LSN with its place.

use tidelog_format::{FRAME_HEADER_LEN, FrameHeader, Lsn, SegmentHeader};

/// Where the own LSN lies in a frame's header.
const FIELD: std::ops::Range<usize> = 24..32;

/// Gives good frame headers in `bytes`, read at `offset`, the LSN of the place where they are.
pub(super) fn forge(segment: &SegmentHeader, offset: u64, bytes: &mut [u8]) {
    let block = u64::from(segment.block_size);
    let mut place = offset.next_multiple_of(block).max(segment.first_frame());
    while let Some(bytes) =
        bytes.get_mut((place - offset) as usize..).and_then(|rest| rest.get_mut(..FRAME_HEADER_LEN))
    {
        if let Some(forged) = forged(segment, place, bytes) {
            bytes.copy_from_slice(&forged);
        }
        place += block;
    }
}

fn forged(segment: &SegmentHeader, place: u64, bytes: &[u8]) -> Option<[u8; FRAME_HEADER_LEN]> {
    let own = Lsn(u64::from_le_bytes(bytes[FIELD].try_into().ok()?));
    let written_at = segment.identity.offset(own)?;
    let header = FrameHeader::decode(bytes, written_at, segment).ok()?;
    let lsn = segment.identity.lsn(place);
    let watermark = header.watermark.min(lsn);
    (lsn != own).then(|| FrameHeader { lsn, watermark, ..header }.encode(segment.identity.seed()))
}
