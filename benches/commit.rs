//! Commits: a batch over many streams, and many appends that one wait covers.

#[allow(dead_code, reason = "other benches use more of it")]
mod common;

use common::{close, open, place, stream};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidelog::{Batch, Log};

const SIZE: usize = 1024;
/// How many ids are kept, so that the disk does not fill.
const KEPT: u64 = 4096;

/// Obsoletes as it goes.
fn forget(log: &Log, streams: u64, id: u64) {
    if id.is_multiple_of(KEPT) {
        for number in 0..streams {
            log.obsolete(stream(number), id - 1).expect("a healthy log takes it");
        }
    }
}

fn commit(c: &mut Criterion) {
    const STREAMS: u64 = 10;
    const RUN: u64 = 10;
    let dir = place();
    let log = open(dir.path());
    let payload = vec![7_u8; SIZE];
    let (mut id, mut batch) = (0, Batch::<&[u8]>::new());
    let mut group = c.benchmark_group("commit");
    group.throughput(Throughput::Elements(STREAMS * RUN));
    group.bench_function("100 x 1 KiB over 10 streams, durable", |b| {
        b.iter(|| {
            batch.clear();
            for number in 0..STREAMS {
                for next in id + 1..=id + RUN {
                    batch.append(stream(number), next, payload.as_slice());
                }
            }
            id += RUN;
            log.append_durable(&batch).expect("a healthy log takes it");
            forget(&log, STREAMS, id / RUN);
        });
    });
    group.finish();
    close(&log);
}

fn wait_durable(c: &mut Criterion) {
    const OUTSTANDING: u64 = 64;
    let dir = place();
    let log = open(dir.path());
    let payload = vec![7_u8; SIZE];
    let (mut id, mut batch) = (0, Batch::<&[u8]>::new());
    let mut group = c.benchmark_group("wait_durable");
    group.throughput(Throughput::Elements(OUTSTANDING));
    group.bench_function("64 x 1 KiB staged, then one wait", |b| {
        b.iter(|| {
            let mut last = None;
            for _ in 0..OUTSTANDING {
                id += 1;
                batch.clear();
                batch.append(stream(0), id, payload.as_slice());
                last = Some(log.append(&batch).expect("a healthy log takes it"));
            }
            if let Some(lsn) = last {
                log.wait_durable(lsn).expect("a healthy log writes");
            }
            forget(&log, 1, id);
        });
    });
    let lsn = log.durable_lsn().0.checked_sub(1).map_or(tidelog::Lsn::ZERO, tidelog::Lsn);
    group.throughput(Throughput::Elements(1));
    group.bench_function("what is durable already", |b| {
        b.iter(|| log.wait_durable(lsn).expect("it is durable"));
    });
    group.finish();
    close(&log);
}

criterion_group!(benches, commit, wait_durable);
criterion_main!(benches);
