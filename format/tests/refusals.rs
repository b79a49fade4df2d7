//! Values that nothing on disk may have are refused, however good the checksums.

mod common;

use common::{build_frame, header, identity, stream};
use tidelog_format::*;

#[test]
fn segment_headers_that_no_segment_has_are_refused() {
    let what = |identity, block, size| SegmentHeader::new(identity, block, size).unwrap_err().what;
    let good = identity();
    for block in [0, 256, 513, 4097, 131_072, u32::MAX] {
        assert_eq!(what(good, block, FILE_SIZE_UNIT), What::BlockSize);
    }
    for size in [0, 4096, FILE_SIZE_UNIT + 1, u64::MAX] {
        assert_eq!(what(good, 4096, size), What::FileSize);
    }
    assert_eq!(what(SegmentIdentity { sequence: 0, ..good }, 4096, FILE_SIZE_UNIT), What::Sequence);
    let base = Lsn(u64::MAX - FILE_SIZE_UNIT + 1);
    assert_eq!(what(SegmentIdentity { base, ..good }, 4096, FILE_SIZE_UNIT), What::Base);
}

/// From the place where that frame is to the end of its file.
const TO_THE_END: u32 = FILE_SIZE_UNIT as u32 - 1024;

type Edit = fn(&mut FrameHeader);

#[test]
fn headers_that_no_frame_has_are_refused() {
    let lsn = identity().lsn(1024);
    let good = FrameHeader {
        table_crc: 0,
        row_count: 2,
        frame_len: 512,
        table_offset: 448,
        lsn,
        watermark: lsn,
        clock: 0,
    };
    let decode = |edit: Edit| {
        let mut edited = good;
        edit(&mut edited);
        let bytes = edited.encode(identity().seed());
        FrameHeader::decode(&bytes, 1024, &header()).map_err(|fault| fault.what)
    };
    assert_eq!(decode(|_| {}), Ok(good));
    assert!(decode(|header| header.frame_len = TO_THE_END).is_ok());
    let cases: [(Edit, What); 12] = [
        (|header| header.frame_len = 0, What::FrameLength),
        (|header| header.frame_len = 256, What::FrameLength),
        (|header| header.frame_len = 520, What::FrameLength),
        (|header| header.frame_len = TO_THE_END + 512, What::FrameLength),
        (|header| header.frame_len = u32::MAX - 511, What::FrameLength),
        (|header| header.table_offset = 56, What::TableBounds),
        (|header| header.table_offset = 68, What::TableBounds),
        (|header| header.table_offset = 456, What::TableBounds),
        (|header| header.row_count = 3, What::TableBounds),
        (|header| header.row_count = u32::MAX, What::TableBounds),
        (|header| header.lsn.0 += 512, What::OwnLsn),
        (|header| header.watermark.0 += 1, What::Watermark),
    ];
    for (index, (edit, what)) in cases.into_iter().enumerate() {
        assert_eq!(decode(edit), Err(what), "case {index}");
    }
}

#[test]
fn unused_bytes_of_a_frame_header_are_zero() {
    let lsn = identity().lsn(1024);
    let frame = build_frame(&header(), lsn, lsn, &[]);
    for place in 48..64 {
        let mut bytes = frame.clone();
        bytes[place] = 1;
        let crc = identity().seed().checksum(&bytes[8..64]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        let fault = FrameHeader::decode(&bytes, 1024, &header()).unwrap_err();
        let what = if place < 52 { What::Flags } else { What::Reserved };
        assert_eq!(fault.what, what, "byte {place}");
    }
}

/// Parses a table of rows as they are, with checksums that fit.
fn parse_rows(rows: &[Row]) -> Result<(), What> {
    let bytes: Vec<u8> = rows.iter().flat_map(Row::encode).collect();
    let header = FrameHeader {
        table_crc: identity().seed().checksum(&bytes),
        row_count: rows.len() as u32,
        frame_len: 512,
        table_offset: 128,
        lsn: identity().lsn(512),
        watermark: Lsn::ZERO,
        clock: 0,
    };
    Table::parse(&bytes, &header, &identity()).map(drop).map_err(|fault| fault.what)
}

#[test]
fn rows_that_no_frame_has_are_refused() {
    let good = Row::entry(stream(1), 5, 64, 8, 1);
    let release = Row::release(stream(1));
    let (truncate, _) = Row::truncate(stream(1), 5, Some(4));
    assert_eq!(parse_rows(&[good]), Ok(()));
    let cases = [
        (Row { offset: 63, ..good }, What::RowBounds),
        (Row { offset: 56, ..good }, What::RowBounds),
        (Row { offset: 68, ..good }, What::RowBounds),
        (Row { offset: 128, ..good }, What::RowBounds),
        (Row { offset: u32::MAX - 7, ..good }, What::RowBounds),
        (Row { length: 65, ..good }, What::RowBounds),
        (Row { length: u32::MAX, ..good }, What::RowBounds),
        (Row { length: 0, ..good }, What::PayloadChecksum),
        (Row { stream: StreamId::SYSTEM, ..good }, What::RowStream),
        (Row { stream: StreamId::SYSTEM, ..release }, What::RowStream),
        (Row { length: 8, ..release }, What::RowBounds),
        (Row { entry_id: 1, ..release }, What::RowId),
        (Row { flags: RowFlags::MOVED, ..release }, What::Flags),
        (Row { length: 8, ..truncate }, What::RowBounds),
        (Row { stream: stream(1), ..Row::oldest(3) }, What::RowStream),
        (Row { stream: StreamId::new(0, 1), ..Row::oldest(3) }, What::RowStream),
        (Row::oldest(0), What::RowId),
        (Row::segment_end(identity().sequence), What::RowId),
        (Row::checkpoint(&[0; 40]), What::RowBounds),
    ];
    for (row, what) in cases {
        assert_eq!(parse_rows(&[row]), Err(what), "{row:?}");
    }
}

#[test]
fn rows_out_of_order_are_refused() {
    let entry = |id, of| Row::entry(stream(of), id, 64, 0, 0);
    let mark = Row::obsolete(stream(1), 9);
    assert_eq!(parse_rows(&[mark, mark, entry(1, 1), entry(2, 1), entry(1, 2)]), Ok(()));
    for rows in [
        [entry(2, 1), entry(1, 1)],
        [entry(1, 1), entry(1, 1)],
        [entry(1, 1), mark],
        [entry(1, 2), entry(1, 1)],
        [mark, Row::oldest(2)],
    ] {
        assert_eq!(parse_rows(&rows), Err(What::RowOrder), "{rows:?}");
    }
}

#[test]
fn rows_that_no_index_cache_has_are_refused() {
    let run = Run { stream: stream(1), first: 1, last: 2, row: 0, count: 2, moved: false };
    let good = IndexRow { run, frame_offset: 512, previous: 6 };
    let parse = |rows: &[IndexRow]| {
        let bytes = encode_index(&identity(), identity().lsn(1024), rows);
        IndexView::parse(&bytes, &identity()).map(|view| view.len()).map_err(|fault| fault.what)
    };
    assert_eq!(parse(&[good]), Ok(1));
    assert_eq!(parse(&[good, good]), Err(What::IndexOrder));
    for run in [Run { stream: StreamId::SYSTEM, ..run }, Run { first: 3, ..run }, Run { count: 0, ..run }] {
        assert_eq!(parse(&[IndexRow { run, ..good }]), Err(What::IndexRow), "{run:?}");
    }
    assert_eq!(parse(&[IndexRow { frame_offset: 1024, ..good }]), Err(What::IndexRow));
}

#[test]
fn a_frame_that_does_not_fit_is_refused() {
    let rows = [Row::entry(stream(1), 1, 64, 0, 0)];
    let spec = FrameSpec {
        identity: &identity(),
        block_size: 512,
        lsn: identity().lsn(512),
        watermark: Lsn::ZERO,
        clock: 0,
        rows: &rows,
        table_offset: 64,
    };
    assert!(seal_frame(&mut [0; 511], &spec).is_err());
    assert_eq!(seal_frame(&mut [0; 512], &spec), Ok(512));
    assert!(seal_frame(&mut [0; 512], &FrameSpec { table_offset: 488, ..spec }).is_err());
    assert_eq!(frame_len(480, 1, 512), Some(512));
    assert_eq!(frame_len(488, 1, 512), Some(1024));
    assert_eq!(frame_len(u64::from(FRAME_LEN_MAX) - 32, 1, 512), Some(FRAME_LEN_MAX));
    assert_eq!(frame_len(u64::from(FRAME_LEN_MAX), 1, 512), None);
    assert_eq!(frame_len(u64::MAX, usize::MAX, 512), None);
}

#[test]
fn counts_of_a_checkpoint_are_bounded_by_its_bytes() {
    let seed = identity().seed();
    let good = Checkpoint::default().encode(seed);
    for field in [24, 28, 32, 36] {
        let mut bytes = good.clone();
        bytes[field..field + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes[40..44].fill(0);
        let crc = seed.checksum(&bytes);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        let fault = Checkpoint::decode(&bytes, seed, 0).unwrap_err();
        assert_eq!(fault.what, What::CheckpointLength);
    }
}
