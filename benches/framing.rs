//! The format alone: checksums, frames, tables and index caches, in memory.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidelog_format::{
    BLOCK_SIZE_DEFAULT, FRAME_HEADER_LEN, FrameHeader, FrameSpec, IndexRow, IndexView, LogId, Lsn, Row, Run,
    SegmentHeader, SegmentIdentity, StreamId, Table, encode_index, frame_len, payload_crc, payload_room,
    seal_frame, sort_rows,
};

const IDENTITY: SegmentIdentity = SegmentIdentity { log_id: LogId([7; 16]), sequence: 3, base: Lsn(1 << 30) };
const FILE_SIZE: u64 = 64 << 20;
const ROWS: u64 = 100;
const STREAMS: u64 = 10;
const SIZE: u32 = 1024;

fn checksums(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc");
    for size in [128, 1 << 10, 16 << 10] {
        let payload = vec![7_u8; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::new("payload", size), &payload, |b, payload| {
            b.iter(|| payload_crc(black_box(payload)));
        });
    }
    group.finish();
}

/// The rows of a frame as a batch brings them, and where their payloads end.
fn rows() -> (Vec<Row>, u32) {
    let mut at = FRAME_HEADER_LEN as u64;
    let row = |index: u64| {
        let row = Row::entry(StreamId::new(1, index % STREAMS), index / STREAMS + 1, at as u32, SIZE, 7);
        at += payload_room(SIZE);
        row
    };
    let rows = (0..ROWS).map(row).collect();
    (rows, at as u32)
}

fn spec(rows: &[Row], table_offset: u32) -> FrameSpec<'_> {
    let lsn = IDENTITY.lsn(BLOCK_SIZE_DEFAULT.into());
    FrameSpec {
        identity: &IDENTITY,
        block_size: BLOCK_SIZE_DEFAULT,
        lsn,
        watermark: lsn,
        clock: 0,
        rows,
        table_offset,
    }
}

fn frames(c: &mut Criterion) {
    let (unsorted, table_offset) = rows();
    let len = frame_len(table_offset.into(), unsorted.len(), BLOCK_SIZE_DEFAULT).expect("it is small");
    let mut buf = vec![0; len as usize];
    let mut rows = unsorted.clone();
    let mut group = c.benchmark_group("frame of 100 rows");
    group.throughput(Throughput::Elements(ROWS));
    group.bench_function("sort and seal", |b| {
        b.iter(|| {
            rows.clone_from(&unsorted);
            sort_rows(&mut rows);
            seal_frame(&mut buf, &spec(&rows, table_offset)).expect("it fits")
        });
    });
    sort_rows(&mut rows);
    seal_frame(&mut buf, &spec(&rows, table_offset)).expect("it fits");
    let segment = SegmentHeader::new(IDENTITY, BLOCK_SIZE_DEFAULT, FILE_SIZE).expect("the sizes are good");
    let header = || {
        let at = segment.first_frame();
        FrameHeader::decode(black_box(&buf), at, &segment).expect("it is sound")
    };
    group.bench_function("verify header and table", |b| {
        b.iter(|| {
            let header = header();
            let start = header.table_offset as usize;
            let bytes = &buf[start..start + header.table_len() as usize];
            Table::parse(bytes, &header, &IDENTITY).expect("it is sound").len()
        });
    });
    let start = table_offset as usize;
    let table = Table::verified(&buf[start..start + header().table_len() as usize]);
    group.bench_function("find a stream", |b| {
        b.iter(|| table.find(black_box(StreamId::new(1, 7))));
    });
    group.finish();
}

fn index(c: &mut Criterion) {
    const FRAMES: u64 = 600;
    const INDEXED: u64 = 100;
    let row = |frame: u64, stream: u64| IndexRow {
        run: Run {
            stream: StreamId::new(1, stream),
            first: frame * 10 + 1,
            last: frame * 10 + 10,
            row: 0,
            count: 10,
            moved: false,
        },
        frame_offset: u64::from(BLOCK_SIZE_DEFAULT) * (frame + 1),
        previous: 2,
    };
    let rows: Vec<IndexRow> =
        (0..FRAMES).flat_map(|frame| (0..INDEXED).map(move |stream| row(frame, stream))).collect();
    let end = IDENTITY.lsn(FILE_SIZE);
    let bytes = encode_index(&IDENTITY, end, &rows);
    let mut group = c.benchmark_group("index of 60,000 runs");
    group.bench_function("encode", |b| b.iter(|| encode_index(&IDENTITY, end, black_box(&rows))));
    group.bench_function("verify", |b| {
        b.iter(|| IndexView::parse(black_box(&bytes), &IDENTITY).expect("it is sound").len());
    });
    let view = IndexView::verified(&bytes);
    group.bench_function("find a stream", |b| b.iter(|| view.find(black_box(StreamId::new(1, 77)))));
    group.finish();
}

criterion_group!(benches, checksums, frames, index);
criterion_main!(benches);
