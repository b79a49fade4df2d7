//! Each structure comes back as it was written, and nothing else is taken for one.

mod common;

use common::{
    Image, any_checkpoint, any_records, any_stream, borrowed, build_frame, entry, header, identity, stream,
};
use proptest::prelude::*;
use tidelog_format::*;

fn table_bytes<'f>(frame: &'f [u8], header: &FrameHeader) -> &'f [u8] {
    &frame[header.table_offset as usize..][..header.table_len() as usize]
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

#[test]
fn a_flipped_bit_in_a_segment_header_is_damage() {
    let bytes = header().encode();
    for bit in 0..bytes.len() * 8 {
        let error = SegmentHeader::decode(&flipped(&bytes, bit)).unwrap_err();
        assert!(matches!(error, HeaderError::Damaged(_)), "bit {bit}: {error}");
    }
}

#[test]
fn a_sound_header_of_another_version_is_not_damage() {
    let mut bytes = header().encode();
    bytes[8] = 2;
    let crc = payload_crc(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(
        SegmentHeader::decode(&bytes),
        Err(HeaderError::UnsupportedVersion { found: 2, supported: 1 })
    );
}

#[test]
fn zeros_are_never_valid() {
    let zeros = [0; 4096];
    assert!(SegmentHeader::decode(&zeros).is_err());
    assert_eq!(FrameHeader::decode(&zeros, 512, &header()).unwrap_err().what, What::FrameMagic);
    assert!(IndexView::parse(&zeros, &identity()).is_err());
    // A checksum of zeros need not be zero, so a table of zeros is tried with the checksum that it has.
    let table = [0; ROW_LEN];
    let header = FrameHeader {
        table_crc: identity().seed().checksum(&table),
        row_count: 1,
        frame_len: 512,
        table_offset: 64,
        lsn: identity().lsn(512),
        watermark: Lsn::ZERO,
        clock: 0,
    };
    let fault = Table::parse(&table, &header, &identity()).unwrap_err();
    assert_eq!((fault.what, fault.offset, fault.actual), (What::RowKind, 512 + 64 + 30, 0));
    for len in 0..200 {
        assert!(Checkpoint::decode(&zeros[..len], identity().seed(), 0).is_err());
    }
}

#[test]
fn another_segment_has_another_seed() {
    let one = identity();
    let others = [
        SegmentIdentity { log_id: LogId(*b"0123456789abcdeg"), ..one },
        SegmentIdentity { sequence: 8, ..one },
        SegmentIdentity { base: Lsn(one.base.0 + FILE_SIZE_UNIT), ..one },
    ];
    let frame = build_frame(&header(), one.lsn(512), one.base, &[(entry(stream(1), 1, b"x"), b"x")]);
    for other in others {
        for data in [&b""[..], b"x", &[0; 100]] {
            assert_ne!(one.seed().checksum(data), other.seed().checksum(data));
        }
        let segment = SegmentHeader::new(other, 512, FILE_SIZE_UNIT).unwrap();
        // A place where the LSN would fit, so that the checksum alone tells.
        let offset = one.lsn(512).0.saturating_sub(other.base.0);
        let fault = FrameHeader::decode(&frame, offset, &segment).unwrap_err();
        assert_eq!(fault.what, What::HeaderChecksum);
    }
}

#[test]
fn a_flipped_bit_in_header_or_table_is_detected() {
    let payload = b"some payload";
    let rows = [(Row::obsolete(stream(2), 4), &b""[..]), (entry(stream(1), 5, payload), &payload[..])];
    let frame = build_frame(&header(), identity().lsn(512), identity().base, &rows);
    let good = FrameHeader::decode(&frame, 512, &header()).unwrap();
    for bit in 0..FRAME_HEADER_LEN * 8 {
        assert!(FrameHeader::decode(&flipped(&frame, bit), 512, &header()).is_err(), "bit {bit}");
    }
    let table = table_bytes(&frame, &good);
    for bit in 0..table.len() * 8 {
        let fault = Table::parse(&flipped(table, bit), &good, &identity()).unwrap_err();
        assert_eq!(fault.what, What::TableChecksum, "bit {bit}");
    }
    let table = Table::parse(table, &good, &identity()).unwrap();
    assert_eq!(verify_payloads(&frame, &table, 512), Ok(()));
    for bit in 64 * 8..(64 + payload.len()) * 8 {
        let fault = verify_payloads(&flipped(&frame, bit), &table, 512).unwrap_err();
        assert_eq!((fault.what, fault.offset), (What::PayloadChecksum, 512 + 64), "bit {bit}");
    }
}

#[test]
fn a_payload_whose_crc_is_zero_is_like_any_other() {
    // The CRC-32 of these four bytes is 0.
    let payload = [0x9d, 0x0a, 0xd9, 0x6d];
    assert_eq!(payload_crc(&payload), 0);
    let frame =
        build_frame(&header(), identity().lsn(512), Lsn::ZERO, &[(entry(stream(1), 1, &payload), &payload)]);
    let head = FrameHeader::decode(&frame, 512, &header()).unwrap();
    let table = Table::parse(table_bytes(&frame, &head), &head, &identity()).unwrap();
    assert_eq!(verify_payloads(&frame, &table, 512), Ok(()));
    assert!(verify_payloads(&flipped(&frame, 64 * 8), &table, 512).is_err());
    assert!(verify_payloads(&frame[..66], &table, 512).is_err());
}

#[test]
fn a_truncation_says_whether_a_last_id_is_left() {
    for last in [None, Some(0), Some(u64::MAX)] {
        let (row, payload) = Row::truncate(stream(1), 5, last);
        let record = Record::decode(&row, &payload, 0);
        assert_eq!(record, Ok(Record::Truncate { stream: stream(1), from: 5, last }));
    }
    for payload in [[2u64, 0], [0, 1]] {
        let payload: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (row, _) = Row::truncate(stream(1), 5, None);
        let fault = Record::decode(&Row { crc: payload_crc(&payload), ..row }, &payload, 0).unwrap_err();
        assert_eq!(fault.what, What::TruncatePayload);
    }
}

#[test]
fn a_flipped_bit_in_checkpoint_or_index_is_detected() {
    let seed = identity().seed();
    let summary = StreamSummary {
        stream: stream(3),
        first: Some(4),
        last: Some(9),
        fences: vec![Fence { lsn: Lsn(512), from: 10 }],
        extents: vec![Extent { first: 4, last: 5, segment: 6 }],
        ..StreamSummary::default()
    };
    let checkpoint = Checkpoint {
        previous: Some((6, Lsn(99))),
        oldest: 2,
        streams: vec![summary],
        namespaces: vec![stream(8)],
    };
    let bytes = checkpoint.encode(seed);
    for bit in 0..bytes.len() * 8 {
        assert!(Checkpoint::decode(&flipped(&bytes, bit), seed, 0).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(Checkpoint::decode(&bytes[..len], seed, 0).is_err(), "length {len}");
    }
    assert!(Checkpoint::decode(&bytes, Seed::new(1), 0).is_err());

    let run = Run { stream: stream(1), first: 1, last: 2, row: 0, count: 2, moved: false };
    let rows = [IndexRow { run, frame_offset: 512, previous: 6 }];
    let bytes = encode_index(&identity(), identity().lsn(1024), &rows);
    for bit in 0..bytes.len() * 8 {
        assert!(IndexView::parse(&flipped(&bytes, bit), &identity()).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(IndexView::parse(&bytes[..len], &identity()).is_err(), "length {len}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn segment_headers_come_back(
        log_id: [u8; 16], sequence in 1..u64::MAX, base in 0..u64::MAX / 2, block in 9..=16u32, units in 1..1000u64,
    ) {
        let identity = SegmentIdentity { log_id: LogId(log_id), sequence, base: Lsn(base) };
        let header = SegmentHeader::new(identity, 1 << block, units * FILE_SIZE_UNIT).unwrap();
        prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn frames_come_back(records in any_records(), clock: u64) {
        let frame = build_frame(&header(), identity().lsn(512), identity().base, &borrowed(&records));
        let head = FrameHeader::decode(&frame, 512, &header()).unwrap();
        prop_assert_eq!(head.row_count as usize, records.len());
        prop_assert_eq!(head.frame_len as usize, frame.len());
        let rewritten = FrameHeader { clock, ..head };
        let bytes = rewritten.encode(identity().seed());
        prop_assert_eq!(FrameHeader::decode(&bytes, 512, &header()), Ok(rewritten));
        let after = head.table_offset as usize + head.table_len() as usize;
        prop_assert!(frame[after..].iter().all(|byte| *byte == 0));

        let table = Table::parse(table_bytes(&frame, &head), &head, &identity()).unwrap();
        prop_assert_eq!(verify_payloads(&frame, &table, 512), Ok(()));
        let mut expected = records.clone();
        expected.sort_by_key(|(row, _)| (row.stream, row.is_entry(), if row.is_entry() { row.entry_id } else { 0 }));
        prop_assert_eq!(table.rows().count(), expected.len());
        for (row, (wanted, payload)) in table.rows().zip(&expected) {
            prop_assert_eq!(row, Row { offset: row.offset, ..*wanted });
            prop_assert_eq!(row.payload_in(&frame, 512).unwrap(), payload.as_slice());
            prop_assert!(Record::decode(&row, payload, 512).is_ok());
        }
    }

    #[test]
    fn a_table_finds_what_a_scan_finds(records in any_records(), wanted in any_stream(), id: u64) {
        let frame = build_frame(&header(), identity().lsn(512), identity().base, &borrowed(&records));
        let head = FrameHeader::decode(&frame, 512, &header()).unwrap();
        let table = Table::parse(table_bytes(&frame, &head), &head, &identity()).unwrap();
        let rows: Vec<Row> = table.rows().collect();

        let scanned: Vec<Row> = rows.iter().filter(|row| row.stream == wanted).copied().collect();
        prop_assert_eq!(table.range(table.find(wanted)).collect::<Vec<_>>(), scanned.clone());
        let scanned: Vec<Row> = scanned.into_iter().filter(|row| row.is_entry() && row.entry_id >= id).collect();
        prop_assert_eq!(table.range(table.find_entries(wanted, id)).collect::<Vec<_>>(), scanned);

        let mut next = 0;
        for (stream, range) in table.streams() {
            prop_assert_eq!(range.start, next);
            prop_assert_eq!(&range, &table.find(stream));
            next = range.end;
        }
        prop_assert_eq!(next, rows.len());

        let mut covered = Vec::new();
        for run in table.runs() {
            let range = run.row as usize..(run.row + run.count) as usize;
            prop_assert_eq!(rows[range.start].entry_id, run.first);
            prop_assert_eq!(rows[range.end - 1].entry_id, run.last);
            let alike = |row: &Row| row.is_entry() && row.stream == run.stream && row.is_moved() == run.moved;
            prop_assert!(rows[range.clone()].iter().all(alike));
            prop_assert!(rows.get(range.end).is_none_or(|row| !alike(row)), "a run ends where it must");
            covered.extend(range);
        }
        let entries: Vec<usize> = (0..rows.len()).filter(|index| rows[*index].is_entry()).collect();
        prop_assert_eq!(covered, entries);
    }

    #[test]
    fn checkpoints_come_back(checkpoint in any_checkpoint(), seed: u32) {
        let seed = Seed::new(seed);
        let bytes = checkpoint.encode(seed);
        let head = CheckpointHead::decode(&bytes, 0).unwrap();
        prop_assert_eq!(head.encoded_len(), bytes.len() as u64);
        prop_assert_eq!((head.previous, head.oldest), (checkpoint.previous, checkpoint.oldest));
        let mut shuffled = checkpoint.clone();
        shuffled.streams.reverse();
        shuffled.namespaces.reverse();
        prop_assert_eq!(&shuffled.encode(seed), &bytes);
        prop_assert_eq!(Checkpoint::decode(&bytes, seed, 0), Ok(checkpoint));
    }

    #[test]
    fn index_caches_come_back(
        places in prop::collection::btree_map((any_stream(), 1..20u64, 0..9u32), any::<(u64, u32, bool)>(), 0..20),
        wanted in any_stream(),
    ) {
        let rows: Vec<IndexRow> = places
            .into_iter()
            .map(|((stream, block, row), (previous, count, moved))| IndexRow {
                run: Run { stream, first: 1, last: u64::from(count) + 1, row, count: count.max(1), moved },
                frame_offset: block * 512,
                previous,
            })
            .collect();
        let mut reversed = rows.clone();
        reversed.reverse();
        let bytes = encode_index(&identity(), identity().lsn(20 * 512), &reversed);
        let view = IndexView::parse(&bytes, &identity()).unwrap();
        prop_assert_eq!(view.end(), identity().lsn(20 * 512));
        prop_assert_eq!(view.rows().collect::<Vec<_>>(), rows.clone());
        let scanned: Vec<IndexRow> = rows.into_iter().filter(|row| row.run.stream == wanted).collect();
        prop_assert_eq!(view.range(view.find(wanted)).collect::<Vec<_>>(), scanned);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), offset: u64, count: u32, table_offset: u32) {
        let _ = SegmentHeader::decode(&bytes);
        let _ = FrameHeader::decode(&bytes, offset, &header());
        let _ = IndexView::parse(&bytes, &identity());
        let _ = Checkpoint::decode(&bytes, identity().seed(), offset);
        let table = &bytes[..bytes.len() / ROW_LEN * ROW_LEN];
        for (row_count, lsn) in [(count, offset), ((table.len() / ROW_LEN) as u32, u64::MAX)] {
            let header = FrameHeader {
                table_crc: identity().seed().checksum(table),
                row_count,
                frame_len: count,
                table_offset,
                lsn: Lsn(lsn),
                watermark: Lsn(offset),
                clock: 0,
            };
            let _ = header.end();
            if let Ok(table) = Table::parse(table, &header, &identity()) {
                let _ = verify_payloads(&bytes, &table, offset);
            }
        }
    }

    #[test]
    fn no_checkpoint_with_a_good_checksum_panics(
        checkpoint in any_checkpoint(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let seed = identity().seed();
        let mut bytes = checkpoint.encode(seed);
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes[40..44].fill(0);
        let crc = seed.checksum(&bytes);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        if let Ok(decoded) = Checkpoint::decode(&bytes, seed, u64::MAX) {
            prop_assert_eq!(decoded.encode(seed), bytes, "what is accepted has one form");
        }
    }
}

#[test]
fn a_misdirected_frame_is_told_by_its_lsn() {
    let mut image = Image::new();
    let offset = image.push_entry(Lsn::ZERO, 1, b"one");
    let frame = image.bytes[offset..offset + 512].to_vec();
    let fault = FrameHeader::decode(&frame, offset as u64 + 512, &image.header).unwrap_err();
    assert_eq!(fault.what, What::OwnLsn);
    assert_eq!((fault.expected, fault.actual), (image.lsn(offset + 512).0, image.lsn(offset).0));
}
