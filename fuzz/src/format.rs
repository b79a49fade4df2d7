//! The structures of the format, each by itself.

use tidelog_format::{
    Checkpoint, CheckpointHead, FILE_SIZE_UNIT, Frame, HeaderError, IndexView, LogId, Lsn, Record,
    SEGMENT_HEADER_LEN, SegmentHeader, SegmentIdentity, Step, StreamId, VERSION, Walk, encode_index,
    verify_payloads,
};

use super::checksums::{fit_checkpoint, fit_frames, fit_index, fit_segment_header};
use super::{is_set, split};

/// Of the segment that the structures belong to.
pub const IDENTITY: SegmentIdentity =
    SegmentIdentity { log_id: LogId(*b"0123456789abcdef"), sequence: 7, base: Lsn(0x0010_0000) };

/// A segment header, and what is behind it.
pub fn segment_header(input: &[u8]) {
    let (choice, bytes) = split(input);
    let mut bytes = bytes.to_vec();
    if is_set(choice, 0) {
        fit_segment_header(&mut bytes);
    }
    match SegmentHeader::decode(&bytes) {
        Ok(header) => {
            assert_eq!(header.encode(), bytes[..SEGMENT_HEADER_LEN]);
            let again = SegmentHeader::new(header.identity, header.block_size, header.file_size);
            assert_eq!(again.map(|again| again.with_recycled(header.recycled)), Ok(header));
            assert!(header.end() > header.identity.base);
            assert!(header.first_frame() <= header.file_size);
        }
        Err(HeaderError::UnsupportedVersion { found, supported }) => {
            assert!(found != VERSION && supported == VERSION);
        }
        Err(HeaderError::Damaged(fault)) => assert!(fault.offset < SEGMENT_HEADER_LEN as u64),
    }
}

/// The frames of a segment: the walk over them, their tables and their records.
pub fn frames(input: &[u8]) {
    let (choice, bytes) = split(input);
    let block = 512 << (choice >> 4 & 3);
    let Ok(header) = SegmentHeader::new(IDENTITY, block, FILE_SIZE_UNIT) else { return };
    let mut file = header.encode().to_vec();
    file.resize(block as usize, 0);
    file.extend_from_slice(bytes);
    if is_set(choice, 1) {
        file.resize(FILE_SIZE_UNIT as usize, 0);
    }
    file.truncate(FILE_SIZE_UNIT as usize);
    if is_set(choice, 0) {
        fit_frames(&mut file, &header);
    }
    let proven = if is_set(choice, 2) { IDENTITY.lsn(u64::from(block) * 3) } else { Lsn::ZERO };
    walk(&file, &header, proven);
}

fn walk(file: &[u8], header: &SegmentHeader, proven: Lsn) {
    let mut walk = Walk::new(header, file.len() as u64, proven);
    let mut behind = header.first_frame();
    // No two steps are at the same place.
    for _ in 0..=2 * file.len() / header.block_size as usize {
        match walk.next(&mut &*file).unwrap() {
            Step::Frame(frame) => {
                assert!(frame.offset >= behind && frame.end() <= file.len() as u64);
                assert_eq!(frame.header.lsn, header.identity.lsn(frame.offset));
                behind = frame.end();
                look_into(file, &frame, header);
            }
            Step::Torn(fault) => {
                assert!(fault.offset >= behind && fault.offset <= file.len() as u64, "{fault}");
                return;
            }
            Step::End { offset } => {
                assert!(offset >= behind, "{offset}");
                return;
            }
            Step::Corrupt(fault) => {
                assert!(fault.offset <= file.len() as u64, "{fault}");
                assert!(walk.highest_watermark() > header.identity.lsn(walk.offset()));
                match walk.resume_after_damage(&mut &*file).unwrap() {
                    Some(at) => assert!(at > behind || at > fault.offset, "{at}"),
                    None => return,
                }
            }
        }
    }
    panic!("the walk does not end");
}

fn look_into(file: &[u8], frame: &Frame<'_>, segment: &SegmentHeader) {
    let bytes = &file[frame.offset as usize..frame.end() as usize];
    assert_eq!(frame.header.encode(segment.identity.seed()), bytes[..64]);
    let table = &frame.table;
    assert_eq!(table.len(), frame.header.row_count as usize);
    let mut counted = 0;
    for (stream, range) in table.streams() {
        assert_eq!(table.find(stream), range);
        counted += range.len();
        assert!(table.range(range).all(|row| row.stream == stream));
    }
    assert_eq!(counted, table.len());
    for run in table.runs() {
        assert!(run.first <= run.last && run.count > 0, "{run:?}");
    }
    let mut sound = true;
    for row in table.rows() {
        let payload = &bytes[row.offset as usize..(row.offset + row.length) as usize];
        if row.is_entry() {
            let found = table.find_entries(row.stream, row.entry_id);
            assert_eq!(table.row(found.start).map(|row| row.entry_id), Some(row.entry_id));
        }
        sound &= row.payload_in(bytes, frame.offset).is_ok();
        match Record::decode(&row, payload, frame.offset) {
            Ok(Record::Checkpoint(payload)) => {
                let _ = Checkpoint::decode(payload, segment.identity.seed(), frame.offset);
            }
            Ok(_) => {}
            Err(_) => sound = false,
        }
    }
    if sound {
        assert_eq!(verify_payloads(bytes, table, frame.offset), Ok(()));
    }
    let _ = (table.segment_end(), table.checkpoint(), table.find(StreamId::new(1, 1)));
}

/// An index cache. What is one encodes to itself.
pub fn index_cache(input: &[u8]) {
    let (choice, bytes) = split(input);
    let mut bytes = bytes.to_vec();
    if is_set(choice, 0) {
        fit_index(&mut bytes, IDENTITY.seed());
    }
    let Ok(view) = IndexView::parse(&bytes, &IDENTITY) else { return };
    let rows: Vec<_> = view.rows().collect();
    assert_eq!(rows.len(), view.len());
    for row in &rows {
        let found = view.find(row.run.stream);
        assert!(view.range(found).any(|other| other == *row));
        assert!(row.run.first <= row.run.last && row.run.count > 0);
    }
    assert_eq!(encode_index(&IDENTITY, view.end(), &rows), bytes);
}

/// A checkpoint. What is one encodes to itself.
pub fn checkpoint(input: &[u8]) {
    let (choice, bytes) = split(input);
    let mut bytes = bytes.to_vec();
    if is_set(choice, 0) {
        fit_checkpoint(&mut bytes, IDENTITY.seed());
    }
    let head = CheckpointHead::decode(&bytes, 64);
    let Ok(checkpoint) = Checkpoint::decode(&bytes, IDENTITY.seed(), 64) else { return };
    let head = head.unwrap();
    assert_eq!((head.previous, head.oldest), (checkpoint.previous, checkpoint.oldest));
    assert_eq!(head.encoded_len(), bytes.len() as u64);
    assert_eq!(checkpoint.encode(IDENTITY.seed()), bytes);
}
