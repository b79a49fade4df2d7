//! Look-ups by epoch and offset, of 1,000 partitions with 1,000 segments each and of one with all of them.

use criterion::{Criterion, Throughput};
use tidelog::remote_log::{
    LeaderEpoch, RemoteLogMetadataManager, TideRemoteLogMetadataManager, TopicIdPartition,
};

use crate::corpus::Corpus;
use crate::{THREADS, directory, open, timed};

pub(crate) fn run(criterion: &mut Criterion, is_test: bool) {
    let segments = if is_test { 10_000 } else { 1_000_000 };
    for partitions in [1000, 1] {
        of_partitions(criterion, Corpus { partitions, epochs: 1 }, segments);
    }
}

fn of_partitions(criterion: &mut Criterion, corpus: Corpus, segments: u64) {
    let mut group = criterion.benchmark_group(format!("look-ups, {} partitions", corpus.partitions));
    group.throughput(Throughput::Elements(1));
    // Built where the first of them is wanted, if any is.
    let mut built = None;
    for threads in THREADS {
        group.bench_function(format!("{threads} threads"), |bencher| {
            let (_, partitions, manager) = built.get_or_insert_with(|| build(corpus, segments));
            bencher.iter_custom(|iterations| {
                timed(threads, |thread| {
                    let own = iterations / threads + u64::from(thread < iterations % threads);
                    look_up(manager, partitions, corpus, segments, own, thread);
                })
            });
        });
    }
    group.finish();
}

fn build(
    corpus: Corpus,
    segments: u64,
) -> (tempfile::TempDir, Vec<TopicIdPartition>, TideRemoteLogMetadataManager) {
    let directory = directory();
    corpus.write(directory.path(), segments, segments);
    let (_, journal) = open(directory.path());
    let partitions = (0..corpus.partitions).map(|number| corpus.partition(number)).collect();
    (directory, partitions, TideRemoteLogMetadataManager::new(journal))
}

/// Segments in no order, each found by an offset that it holds.
fn look_up(
    manager: &TideRemoteLogMetadataManager,
    partitions: &[TopicIdPartition],
    corpus: Corpus,
    segments: u64,
    count: u64,
    seed: u64,
) {
    // A multiplicative generator with a period of 2^62.
    let mut random = 2 * seed + 1;
    for _ in 0..count {
        random = random.wrapping_mul(0xd134_2543_de82_ef95);
        let number = (random >> 32) % segments;
        let partition = &partitions[(number % corpus.partitions) as usize];
        let (start, offset) =
            (corpus.start(number), corpus.start(number) + (random >> 54).cast_signed() % 1000);
        let found = manager.remote_log_segment_metadata(partition, LeaderEpoch(0), offset);
        let found = found.expect("a healthy journal answers").expect("every offset is held");
        assert_eq!(found.start_offset(), start);
    }
}
