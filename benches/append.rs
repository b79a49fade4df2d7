//! Appending: staged, and durable by a blocking caller. On a directory under `target/`, so that
//! the figures are those of a disk and not of memory.

use std::fs::OpenOptions;
use std::io::IoSlice;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};
use tidelog::{Batch, Log, Options, StreamId};

const STREAM: StreamId = StreamId::new(1, 1);
/// Entries an iteration, and their size in bytes.
const ENTRIES: u64 = 64;
const SIZE: usize = 1024;

fn open() -> (tempfile::TempDir, Log) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tempfile::tempdir_in(target).expect("the build directory is writable");
    let log = Log::open(dir.path(), Options::new()).expect("an empty directory becomes a log");
    (dir, log)
}

/// Obsoletes as it goes, so that the disk does not fill.
fn forget(log: &Log, id: u64) {
    if id.is_multiple_of(65_536) {
        log.obsolete(STREAM, id - 1).expect("a healthy log takes it");
    }
}

fn staged(c: &mut Criterion) {
    let (_dir, log) = open();
    let payload = vec![7_u8; SIZE];
    let mut id = 0;
    let mut group = c.benchmark_group("append");
    group.throughput(Throughput::Bytes(ENTRIES * SIZE as u64));
    group.bench_function("staged, 64 x 1 KiB", |b| {
        let mut batch: Batch<&[u8]> = Batch::new();
        b.iter(|| {
            for _ in 0..ENTRIES {
                id += 1;
                batch.clear();
                log.append(batch.append(STREAM, id, payload.as_slice())).expect("a healthy log takes it");
                forget(&log, id);
            }
        });
    });
    group.finish();
    log.close().expect("a healthy log closes");
}

fn durable(c: &mut Criterion) {
    let (_dir, log) = open();
    let payload = vec![7_u8; SIZE];
    let mut id = 0;
    let mut group = c.benchmark_group("append");
    group.throughput(Throughput::Bytes(SIZE as u64));
    group.bench_function("durable, 1 KiB, one caller", |b| {
        let next = || {
            id += 1;
            forget(&log, id);
            let mut batch: Batch<&[u8]> = Batch::new();
            batch.append(STREAM, id, payload.as_slice());
            batch
        };
        let append = |batch| log.append_durable(&batch).expect("a healthy log takes it");
        b.iter_batched(next, append, BatchSize::PerIteration);
    });
    group.finish();
    log.close().expect("a healthy log closes");
}

/// What the device gives a caller without a log: one block a write, in place, past the cache and
/// durable, on a file whose blocks were written before. The log's figure is to be held against it.
fn floor(c: &mut Criterion) {
    const BLOCK: usize = 4096;
    const FILE: u64 = 16 << 20;
    let dir = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
        .expect("the build directory is writable");
    let path = dir.path().join("floor");
    std::fs::write(&path, vec![0; FILE as usize]).expect("there is room for 16 MiB");
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(&path)
        .expect("the file system allows direct writes");
    file.sync_all().expect("a healthy disk flushes");
    let memory = vec![7_u8; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let block = &memory[start..start + BLOCK];
    let mut at = 0;
    let mut group = c.benchmark_group("append");
    group.throughput(Throughput::Bytes(SIZE as u64));
    group.bench_function("the bare write, 4 KiB", |b| {
        b.iter(|| {
            let written = pwritev2(&file, &[IoSlice::new(block)], at, ReadWriteFlags::DSYNC);
            assert_eq!(written, Ok(BLOCK));
            at = (at + BLOCK as u64) % FILE;
        });
    });
    group.finish();
}

criterion_group!(benches, staged, floor, durable);
criterion_main!(benches);
