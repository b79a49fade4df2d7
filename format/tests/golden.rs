//! The bytes of each structure as they were laid down. A change here is a change of the format: set `TIDELOG_BLESS=1` to
//! write the files anew, and the version along with them.

mod common;

use std::fmt::Write as _;
use std::path::PathBuf;

use common::{build_frame, entry, header, identity, stream};
use tidelog_format::*;

fn check(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).with_extension("hex");
    if std::env::var_os("TIDELOG_BLESS").is_some() {
        std::fs::write(&path, to_hex(bytes)).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, to_hex(bytes), "{} differs", path.display());
    from_hex(&text)
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let words: Vec<String> = line
            .chunks(4)
            .map(|word| {
                word.iter().fold(String::new(), |mut word, byte| {
                    write!(word, "{byte:02x}").unwrap();
                    word
                })
            })
            .collect();
        writeln!(text, "{}", words.join(" ")).unwrap();
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.as_chunks::<2>().0.iter();
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn segment_header() {
    let golden = check("segment_header", &header().encode());
    assert_eq!(SegmentHeader::decode(&golden), Ok(header()));
}

#[test]
fn frame() {
    let (truncate, last) = Row::truncate(stream(2), 6, Some(5));
    let moved = Row { flags: RowFlags::MOVED, ..entry(stream(1), 2, b"moved") };
    let records: [(Row, &[u8]); 9] = [
        (entry(stream(1), 10, b"natural"), b"natural"),
        (moved, b"moved"),
        (entry(stream(1), 11, b""), b""),
        (Row::obsolete(stream(1), 1), b""),
        (truncate, &last),
        (Row::release(stream(3)), b""),
        (Row::namespace_create(stream(4)), b""),
        (Row::namespace_delete(stream(5)), b""),
        (Row::oldest(3), b""),
    ];
    let golden = check("frame", &build_frame(&header(), identity().lsn(1024), identity().lsn(512), &records));

    let head = FrameHeader::decode(&golden, 1024, &header()).unwrap();
    assert_eq!(
        (head.lsn, head.watermark, head.clock),
        (identity().lsn(1024), identity().lsn(512), 1_700_000_000_000_000)
    );
    let table = &golden[head.table_offset as usize..][..head.table_len() as usize];
    let table = Table::parse(table, &head, &identity()).unwrap();
    let read: Vec<Record<'_>> = table
        .rows()
        .map(|row| Record::decode(&row, row.payload_in(&golden, 1024).unwrap(), 1024).unwrap())
        .collect();
    let entry = |id, payload, moved| Record::Entry { stream: stream(1), id, payload, moved };
    assert_eq!(
        read,
        [
            Record::Oldest { sequence: 3 },
            Record::Obsolete { stream: stream(1), id: 1 },
            entry(2, &b"moved"[..], true),
            entry(10, b"natural", false),
            entry(11, b"", false),
            Record::Truncate { stream: stream(2), from: 6, last: Some(5) },
            Record::Release { stream: stream(3) },
            Record::NamespaceCreate { stream: stream(4) },
            Record::NamespaceDelete { stream: stream(5) },
        ]
    );
}

#[test]
fn closing_frame() {
    let frame =
        build_frame(&header(), identity().lsn(65_024), identity().lsn(64_512), &[(Row::segment_end(8), b"")]);
    let golden = check("closing_frame", &frame);
    let head = FrameHeader::decode(&golden, 65_024, &header()).unwrap();
    let table = Table::parse(&golden[64..96], &head, &identity()).unwrap();
    assert_eq!(table.segment_end(), Some(8));
}

#[test]
fn checkpoint() {
    let value = Checkpoint {
        previous: Some((6, Lsn(0x000f_f000))),
        oldest: 3,
        streams: vec![
            StreamSummary {
                stream: stream(1),
                first: Some(2),
                last: Some(11),
                mark: Some(1),
                newest_segment: 6,
                fences: vec![
                    Fence { lsn: Lsn(0x000a_0000), from: 9 },
                    Fence { lsn: Lsn(0x000b_0000), from: 7 },
                ],
                extents: vec![Extent { first: 2, last: 4, segment: 5 }],
            },
            StreamSummary { stream: stream(2), last: Some(0), ..StreamSummary::default() },
            StreamSummary {
                stream: StreamId::new(2, 0),
                fences: vec![Fence { lsn: Lsn(0x000c_0000), from: 0 }],
                ..StreamSummary::default()
            },
        ],
        namespaces: vec![stream(4), StreamId::new(3, 9)],
    };
    let golden = check("checkpoint", &value.encode(identity().seed()));
    assert_eq!(Checkpoint::decode(&golden, identity().seed(), 0), Ok(value));
}

#[test]
fn index_cache() {
    let run = Run { stream: stream(1), first: 2, last: 2, row: 2, count: 1, moved: true };
    let rows = [
        IndexRow { run, frame_offset: 1024, previous: 6 },
        IndexRow {
            run: Run { first: 10, last: 11, row: 3, count: 2, moved: false, ..run },
            frame_offset: 1024,
            previous: 6,
        },
        IndexRow {
            run: Run { stream: stream(9), first: 1, last: 5, row: 0, count: 5, moved: false },
            frame_offset: 2048,
            previous: 0,
        },
    ];
    let golden = check("index_cache", &encode_index(&identity(), identity().lsn(4096), &rows));
    let view = IndexView::parse(&golden, &identity()).unwrap();
    assert_eq!(view.end(), identity().lsn(4096));
    assert_eq!(view.rows().collect::<Vec<_>>(), rows);
}
