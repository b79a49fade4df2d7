//! Durable mutations: segments that are added and finished, each call durable when it returns.

use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, Throughput};
use tidelog::remote_log::{RemoteLogMetadataManager, RemoteLogSegmentState, TideRemoteLogMetadataManager};

use crate::corpus::Corpus;
use crate::{THREADS, directory, open, timed};

pub(crate) fn run(criterion: &mut Criterion) {
    let corpus = Corpus { partitions: 1000, epochs: 1 };
    let mut group = criterion.benchmark_group("mutations, add and finish");
    group.throughput(Throughput::Elements(2));
    for threads in THREADS {
        group.bench_function(format!("{threads} threads"), |bencher| {
            let directory = directory();
            let (log, journal) = open(directory.path());
            let manager = TideRemoteLogMetadataManager::new(journal);
            let next = AtomicU64::new(0);
            bencher.iter_custom(|iterations| {
                let end = next.load(Ordering::Relaxed) + iterations;
                let took = timed(threads, |_| add_and_finish(&manager, corpus, &next, end));
                // Each thread took one number more than it could use.
                next.store(end, Ordering::Relaxed);
                took
            });
            log.close().expect("a healthy log closes");
        });
    }
    group.finish();
}

fn add_and_finish(manager: &TideRemoteLogMetadataManager, corpus: Corpus, next: &AtomicU64, end: u64) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return;
        }
        let added = corpus.added(number);
        manager.add_remote_log_segment_metadata(added).expect("a new segment");
        let finished = corpus.updated(number, RemoteLogSegmentState::CopySegmentFinished);
        manager.update_remote_log_segment_metadata(finished).expect("it was being copied");
    }
}
