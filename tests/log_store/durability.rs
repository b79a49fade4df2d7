//! When an append is acknowledged, what `wait_durable` waits for, and what cancelling leaves.

use std::time::Duration;

use futures::executor::block_on;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tidelog::log_store::{LogStore, LogStoreError, RegionId, TideLogStore};

use crate::{
    append, append_ids, backends, entry, ids, is_pending, latest, poll_once, provider, read, read_ids,
};

const REGION: RegionId = RegionId::new(1, 1);
const OTHER: RegionId = RegionId::new(1, 2);

/// The outcome of waiting, if it is known without waiting.
fn wait_now(store: &TideLogStore, region: RegionId, id: u64) -> Option<Result<(), LogStoreError>> {
    store.wait_durable(&provider(region), id).now_or_never()
}

#[track_caller]
fn assert_durable_now(store: &TideLogStore, region: RegionId, id: u64) {
    let outcome = wait_now(store, region, id);
    assert!(matches!(outcome, Some(Ok(()))), "{outcome:?}");
}

fn wait(store: &TideLogStore, region: RegionId, id: u64) {
    block_on(store.wait_durable(&provider(region), id)).unwrap();
}

backends! {
    fn a_durable_append_is_one_trip_to_the_device(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=50);
        let stats = store.log().stats();
        assert_eq!(stats.flushes, 0, "written plainly first, and flushed then: {stats:?}");
    }

    fn an_acknowledged_append_is_durable(env) {
        let store = env.open();
        for id in 1..=20 {
            append(&store, REGION, id, "x").unwrap();
            assert!(!is_pending(&store, REGION, id));
            assert_durable_now(&store, REGION, id);
        }
    }

    fn a_staged_append_is_readable_before_it_is_durable(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=3);
        assert!(is_pending(&store, REGION, 3));
        assert_eq!((latest(&store, REGION), read_ids(&store, REGION, 0)), (3, ids(1..=3)));
        assert!(is_pending(&store, REGION, 3), "reading needs no flush");
        wait(&store, REGION, 3);
        assert!(!is_pending(&store, REGION, 3));
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0), ids(1..=3));
    }

    fn later_entries_are_not_waited_for(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=1);
        wait(&store, REGION, 1);
        append_ids(&store, REGION, 2..=2);
        assert_durable_now(&store, REGION, 1);
        assert_durable_now(&store, REGION, 0);
        assert!(is_pending(&store, REGION, 2));
    }

    fn other_regions_are_not_waited_for(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, OTHER, 1..=1);
        wait(&store, OTHER, 1);
        append_ids(&store, REGION, 1..=1);
        for region in [OTHER, RegionId::new(7, 7)] {
            for id in [0, 1, u64::MAX] {
                assert_durable_now(&store, region, id);
            }
        }
        assert!(is_pending(&store, REGION, 1));
    }

    fn an_id_never_handed_out_waits_for_those_below(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=2);
        assert!(is_pending(&store, REGION, 99));
        wait(&store, REGION, 99);
        assert!(!is_pending(&store, REGION, 2));
        assert_durable_now(&store, REGION, u64::MAX);
    }

    fn the_lowest_id_is_waited_for_too(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 0..=0);
        assert!(is_pending(&store, REGION, 0));
        wait(&store, REGION, 0);
        assert!(!is_pending(&store, REGION, 0));
    }

    fn a_staged_append_becomes_durable_by_itself(env) {
        let log = env.options().flush_interval(Duration::from_millis(20));
        let options = env.staged().log(log);
        let store = env.open_with(options);
        append_ids(&store, REGION, 1..=2);
        crate::eventually("the flush interval passes", || !is_pending(&store, REGION, 2));
    }

    fn acknowledgements_come_in_order(env) {
        let store = env.open();
        append(&store, REGION, 0, "x").unwrap();
        let mut appends: FuturesUnordered<_> = FuturesUnordered::new();
        let mut done = 0;
        for id in 1..=200 {
            let mut append = store.append_batch(vec![entry(&store, REGION, id, vec![0; 3000])]);
            match poll_once(&mut append).0 {
                std::task::Poll::Ready(outcome) => {
                    assert_eq!(outcome.unwrap().last_entry_ids[&REGION], id);
                    assert_durable_now(&store, REGION, id);
                    done += 1;
                }
                // Without room its id is taken later, and those behind it would be refused.
                std::task::Poll::Pending if latest(&store, REGION) < id => {
                    block_on(append).unwrap();
                    done += 1;
                }
                std::task::Poll::Pending => appends.push(append),
            }
        }
        while let Some(outcome) = block_on(appends.next()) {
            let id = outcome.unwrap().last_entry_ids[&REGION];
            assert_durable_now(&store, REGION, id);
            done += 1;
        }
        assert_eq!(done, 200);
        drop(appends);
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 1), ids(1..=200));
    }

    fn dropping_without_stop_loses_nothing_acknowledged(env) {
        for round in 0..5 {
            let store = env.open();
            assert_eq!(latest(&store, REGION), round * 10);
            for id in round * 10 + 1..=round * 10 + 10 {
                append(&store, REGION, id, "x").unwrap();
            }
            assert_eq!(read_ids(&store, REGION, 1), ids(1..=round * 10 + 10));
        }
    }

    fn of_what_was_only_staged_a_prefix_is_left(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=10);
        wait(&store, REGION, 10);
        for id in 11..=50 {
            append(&store, REGION, id, vec![0; 10_000]).unwrap();
        }
        drop(store);
        let store = env.open();
        let last = latest(&store, REGION);
        assert!((10..=50).contains(&last));
        assert_eq!(read_ids(&store, REGION, 1), ids(1..=last));
    }

    fn an_append_dropped_before_it_was_staged_leaves_no_trace(env) {
        let store = env.open();
        append(&store, REGION, 1, "x").unwrap();
        // Of batches this large one at a time is on its way: as long as the first is written, the second
        // is not staged.
        let (other, huge) = (RegionId::new(9, 9), || vec![1; 80 << 20]);
        let mut first = store.append_batch(vec![entry(&store, other, 1, huge())]);
        let mut large = store.append_batch(vec![entry(&store, REGION, 2, huge())]);
        while latest(&store, other) != 1 {
            let _ = poll_once(&mut first);
        }
        assert!(poll_once(&mut large).0.is_pending());
        assert_eq!(latest(&store, REGION), 1);
        drop((first, large));
        append(&store, REGION, 2, "small").unwrap();
        assert_eq!(read(&store, REGION, 2), [(2, b"small".to_vec())]);
        drop(store);
        assert_eq!(read(&env.open(), REGION, 2), [(2, b"small".to_vec())]);
    }

    fn an_append_dropped_after_it_was_staged_is_in_the_log(env) {
        let store = env.open();
        append(&store, REGION, 1, "x").unwrap();
        let mut dropped = store.append_batch(vec![entry(&store, REGION, 2, "once")]);
        let _ = poll_once(&mut dropped);
        drop(dropped);
        assert_eq!(latest(&store, REGION), 2);
        match append(&store, REGION, 2, "twice") {
            Err(LogStoreError::DiscontinuousEntry { region, last: 2, attempted: 2 }) => {
                assert_eq!(region, REGION);
            }
            outcome => panic!("{outcome:?}"),
        }
        append(&store, REGION, 3, "next").unwrap();
        drop(store);
        let expected = [(2, b"once".to_vec()), (3, b"next".to_vec())];
        assert_eq!(read(&env.open(), REGION, 2), expected);
    }

    fn a_large_append_waits_for_room_and_is_served(env) {
        let store = env.open();
        append(&store, REGION, 1, "x").unwrap();
        let data = vec![7; 80 << 20];
        append(&store, REGION, 2, data.clone()).unwrap();
        append(&store, REGION, 3, "behind").unwrap();
        drop(store);
        assert!(read(&env.open(), REGION, 2) == [(2, data), (3, b"behind".to_vec())]);
    }
}
