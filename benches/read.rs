//! Reading what is in the page cache: an entry by its id, a stream, the whole log. And opening the log.

#[allow(dead_code, reason = "other benches use more of it")]
mod common;

use std::hint::black_box;

use common::{close, fill, open, place, stream};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tidelog::{Log, Lsn, ReadOptions};

const STREAMS: u64 = 20;
const ENTRIES: u64 = 2000;
const SIZE: usize = 256;

/// A log whose segments have all ended.
fn written() -> TempDir {
    let dir = place();
    let log = open(dir.path());
    fill(&log, ENTRIES, STREAMS, &[7; SIZE]);
    close(&log);
    dir
}

fn look_up(c: &mut Criterion, log: &Log) {
    let mut group = c.benchmark_group("read");
    let mut id = 0;
    group.bench_function("one entry by its id", |b| {
        b.iter(|| {
            // A prime step goes everywhere.
            id = (id + 769) % ENTRIES;
            let mut reader = log.read(stream(id % STREAMS), id + 1..=id + 1, ReadOptions::new());
            let entry = reader.as_mut().expect("the stream is known").next().expect("it is there");
            black_box(entry.expect("it is sound"));
        });
    });
    group.finish();
}

fn replay(c: &mut Criterion, log: &Log) {
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Elements(ENTRIES));
    group.bench_function("one stream of 20", |b| {
        b.iter(|| {
            let reader = log.read(stream(3), .., ReadOptions::new()).expect("the stream is known");
            let entries = reader.inspect(|entry| assert!(black_box(entry).is_ok())).count() as u64;
            assert_eq!(entries, ENTRIES);
        });
    });
    group.throughput(Throughput::Elements(ENTRIES * STREAMS));
    group.bench_function("all, in the order of the log", |b| {
        b.iter(|| {
            let scan = log.scan(Lsn::ZERO, ReadOptions::new()).expect("a healthy log is read");
            let records = scan.inspect(|record| assert!(black_box(record).is_ok())).count() as u64;
            assert!(records >= ENTRIES * STREAMS);
        });
    });
    group.finish();
}

fn read(c: &mut Criterion) {
    let dir = written();
    let log = open(dir.path());
    look_up(c, &log);
    replay(c, &log);
    close(&log);
}

fn recovery(c: &mut Criterion) {
    let dir = written();
    let mut group = c.benchmark_group("recovery");
    group.sample_size(20);
    group.bench_function("open and close, 10 MiB in 20 streams", |b| {
        b.iter(|| close(&open(dir.path())));
    });
    group.finish();
}

criterion_group!(benches, read, recovery);
criterion_main!(benches);
