//! The stream of a region: where it begins and ends, its batches, and what may happen meanwhile.

use futures::StreamExt;
use futures::executor::block_on;
use tidelog::ReadOptions;
use tidelog::log_store::{
    Entry, LogStore, LogStoreError, RegionId, SendableEntryStream, StoreOptions, TideLogStore,
};

use crate::{Env, append, append_ids, backends, entry, eventually, ids, obsolete, provider, read_ids};

const REGION: RegionId = RegionId::new(1, 1);
const OTHER: RegionId = RegionId::new(1, 2);

type Stream = SendableEntryStream<'static, Entry, LogStoreError>;

fn stream(store: &TideLogStore, id: u64) -> Stream {
    block_on(store.read(&provider(REGION), id)).unwrap()
}

async fn batches(stream: Stream) -> Vec<Vec<u64>> {
    stream.map(|batch| batch.unwrap().iter().map(Entry::entry_id).collect()).collect().await
}

/// Ids 1 to `last` with 8 KiB each, over several segments.
fn fill(store: &TideLogStore, last: u64) {
    for first in (1..=last).step_by(16) {
        let ids = first..=last.min(first + 15);
        let batch = ids.map(|id| entry(store, REGION, id, vec![id as u8; 8192])).collect();
        block_on(store.append_batch(batch)).unwrap();
    }
}

fn bounded(env: &Env, bytes: usize, entries: usize) -> StoreOptions {
    env.small_segments().read(ReadOptions::new().max_batch_bytes(bytes).max_batch_entries(entries))
}

backends! {
    fn reading_begins_at_the_first_live_entry_and_ends_at_the_last(env) {
        let store = env.open();
        append_ids(&store, REGION, 5..=9);
        obsolete(&store, REGION, 6);
        for (from, expected) in [(0, 7..=9), (7, 7..=9), (8, 8..=9), (9, 9..=9)] {
            assert_eq!(read_ids(&store, REGION, from), ids(expected));
        }
        for from in [10, 11, u64::MAX] {
            assert!(read_ids(&store, REGION, from).is_empty());
        }
        assert!(read_ids(&store, OTHER, 0).is_empty());
    }

    fn an_empty_read_is_ready_at_once(env) {
        let store = env.open();
        append_ids(&store, REGION, 10..=12);
        for (region, from) in [(REGION, 13), (REGION, u64::MAX), (OTHER, 0)] {
            let mut stream = block_on(store.read(&provider(region), from)).unwrap();
            let polled = futures::FutureExt::now_or_never(stream.next());
            assert!(matches!(polled, Some(None)), "{region} from {from} needed more than one poll");
        }
    }

    fn batches_are_bounded_by_count(env) {
        let store = env.open_with(bounded(&env, 1 << 20, 10));
        append_ids(&store, REGION, 1..=25);
        let batches = block_on(batches(stream(&store, 1)));
        assert_eq!(batches, [ids(1..=10), ids(11..=20), ids(21..=25)]);
    }

    fn batches_are_bounded_by_bytes(env) {
        let store = env.open_with(bounded(&env, 20_000, 1000));
        fill(&store, 10);
        let batches = block_on(batches(stream(&store, 1)));
        assert!(batches.iter().all(|batch| (1..=2).contains(&batch.len())), "{batches:?}");
        assert_eq!(batches.concat(), ids(1..=10));
    }

    fn an_entry_above_the_bound_is_a_batch_of_its_own(env) {
        let store = env.open_with(bounded(&env, 1, 1000));
        fill(&store, 5);
        let batches = block_on(batches(stream(&store, 1)));
        assert_eq!(batches, [[1], [2], [3], [4], [5]]);
    }

    fn a_large_entry_comes_back_whole(env) {
        let store = env.open();
        let large: Vec<u8> = (0..20_000_000_u32).map(|at| (at % 251) as u8).collect();
        append(&store, REGION, 1, large.clone()).unwrap();
        append(&store, REGION, 2, "").unwrap();
        assert!(crate::read(&store, REGION, 1) == [(1, large.clone()), (2, vec![])]);
        drop(store);
        assert!(crate::read(&env.open(), REGION, 1) == [(1, large), (2, vec![])]);
    }

    fn what_is_appended_later_is_not_seen(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=3);
        let open = stream(&store, 1);
        append_ids(&store, REGION, 4..=6);
        assert_eq!(block_on(batches(open)).concat(), ids(1..=3));
    }

    fn an_open_stream_outlasts_marks_and_files(env) {
        let store = env.open_with(bounded(&env, 1, 1));
        fill(&store, 400);
        let mut open = stream(&store, 1);
        let first = block_on(open.next()).unwrap().unwrap();
        assert_eq!(first[0].entry_id(), 1);
        let before = env.bytes();
        obsolete(&store, REGION, 400);
        eventually("the log moves on", || {
            append(&store, OTHER, 1 + crate::latest(&store, OTHER), vec![0; 65536]).unwrap();
            obsolete(&store, OTHER, u64::MAX);
            env.bytes() < before
        });
        assert!(read_ids(&store, REGION, 0).is_empty());
        for id in 2..=400 {
            let batch = block_on(open.next()).unwrap().unwrap();
            assert_eq!(batch[0].entry_id(), id);
            assert_eq!(batch[0].clone().into_bytes(), vec![id as u8; 8192]);
        }
        assert!(block_on(open.next()).is_none());
    }

    fn an_open_stream_outlasts_a_release(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=9);
        let open = stream(&store, 1);
        block_on(store.release_region(&provider(REGION), REGION)).unwrap();
        append_ids(&store, REGION, 3..=4);
        assert_eq!(block_on(batches(open)).concat(), ids(1..=9));
    }

    fn an_open_stream_outlasts_the_store(env) {
        let store = env.open_with(bounded(&env, 1, 1));
        fill(&store, 100);
        let mut open = stream(&store, 1);
        block_on(open.next()).unwrap().unwrap();
        drop(store);
        let reopened = env.open();
        assert_eq!(read_ids(&reopened, REGION, 0), ids(1..=100));
        drop(reopened);
        assert_eq!(block_on(batches(open)).concat(), ids(2..=100));
    }

    fn dropping_a_stream_ends_it(env) {
        let store = env.open_with(bounded(&env, 1, 1));
        fill(&store, 50);
        for polls in 0..3 {
            let mut open = stream(&store, 1);
            for _ in 0..polls {
                block_on(open.next()).unwrap().unwrap();
            }
            let _ = crate::poll_once(&mut open.next());
            drop(open);
        }
        assert_eq!(read_ids(&store, REGION, 0), ids(1..=50));
    }

    fn many_streams_read_while_others_append(env) {
        let store = env.open_with(env.small_segments());
        append_ids(&store, REGION, 1..=1);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| loop {
                    let seen = read_ids(&store, REGION, 1);
                    let last = seen.len() as u64;
                    assert_eq!(seen, ids(1..=last));
                    if last == 300 {
                        break;
                    }
                });
            }
            for id in 2..=300 {
                append(&store, REGION, id, vec![0; 4096]).unwrap();
            }
        });
    }

    fn no_runtime_is_needed_and_any_will_do(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=9);
        let work = async |store: &TideLogStore, id| {
            let batch = vec![entry(store, REGION, id, "x")];
            store.append_batch(batch).await.unwrap();
            store.wait_durable(&provider(REGION), id).await.unwrap();
            batches(store.read(&provider(REGION), 1).await.unwrap()).await.concat()
        };
        let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(work(&store, 10)), ids(1..=10));
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let store = std::sync::Arc::new(store);
        let shared = std::sync::Arc::clone(&store);
        let spawned = threads.spawn(async move { work(&shared, 11).await });
        assert_eq!(threads.block_on(spawned).unwrap(), ids(1..=11));
        assert_eq!(smol::block_on(work(&store, 12)), ids(1..=12));
        assert_eq!(block_on(work(&store, 13)), ids(1..=13));
        single.block_on(store.stop()).unwrap();
        // The last handle may go inside a runtime: it signals, and joins nothing.
        threads.block_on(async move { drop(store) });
    }
}
