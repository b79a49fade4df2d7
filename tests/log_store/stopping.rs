//! Stopping: what is finished, what is refused, and who else is left alone.

use futures::StreamExt;
use futures::executor::block_on;
use tidelog::log_store::{Ack, LogStore, LogStoreError, RegionId, StoreOptions, TideLogStore};
use tidelog::{Batch, Log, StreamId};

use crate::{
    append, append_ids, backends, entry, finish, ids, is_pending, latest, namespaces, obsolete, poll_once,
    provider, read_ids,
};

const REGION: RegionId = RegionId::new(1, 1);
const OTHER: RegionId = RegionId::new(1, 2);

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "outcomes are made where they are checked")]
fn assert_stopped<T: std::fmt::Debug>(outcome: Result<T, LogStoreError>) {
    assert!(matches!(outcome, Err(LogStoreError::Stopped)), "{outcome:?}");
}

/// A fresh log has no segment yet, so a first append of this size waits for one of its own.
fn large() -> Vec<u8> {
    vec![1; 80 << 20]
}

backends! {
    fn stopping_can_be_repeated_and_raced(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=100);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| block_on(store.stop()).unwrap());
            }
        });
        block_on(store.stop()).unwrap();
        assert_stopped(block_on(store.append_batch(vec![])));
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0), ids(1..=100));
    }

    fn a_stopped_store_answers_with_its_last_ids_alone(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=3);
        let late = entry(&store, REGION, 4, "x");
        block_on(store.stop()).unwrap();
        let by = provider(REGION);
        assert_stopped(block_on(store.append_batch(vec![])));
        assert_stopped(block_on(store.append_batch(vec![late])));
        assert_stopped(block_on(store.read(&by, 1)).map(drop));
        assert_stopped(block_on(store.create_namespace(&by)));
        assert_stopped(block_on(store.delete_namespace(&by)));
        assert_stopped(block_on(store.list_namespaces()));
        assert_stopped(block_on(store.obsolete(&by, REGION, 1)));
        assert_stopped(block_on(store.obsolete_all(&by, REGION)));
        assert_stopped(block_on(store.release_region(&by, REGION)));
        assert_stopped(block_on(store.wait_durable(&by, 1)));
        assert_stopped(store.entry(vec![], 4, REGION, &by));
        assert_eq!((latest(&store, REGION), latest(&store, OTHER)), (3, 0));
    }

    fn what_was_staged_becomes_durable(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=9);
        block_on(store.create_namespace(&provider(OTHER))).unwrap();
        append_ids(&store, OTHER, 1..=9);
        obsolete(&store, OTHER, 4);
        block_on(store.stop()).unwrap();
        assert!(!is_pending(&store, REGION, 9) && !is_pending(&store, OTHER, 9));
        drop(store);
        let store = env.open();
        assert_eq!((read_ids(&store, REGION, 0), read_ids(&store, OTHER, 0)), (ids(1..=9), ids(5..=9)));
        assert_eq!(namespaces(&store), [provider(OTHER)]);
    }

    fn an_append_that_waits_for_room_is_told(env) {
        let store = env.open();
        let mut waiting = store.append_batch(vec![entry(&store, REGION, 1, large())]);
        let (polled, woken) = poll_once(&mut waiting);
        assert!(polled.is_pending());
        block_on(store.stop()).unwrap();
        assert!(woken.is_set());
        assert_stopped(block_on(waiting));
        drop(store);
        let store = env.open();
        assert_eq!((latest(&store, REGION), read_ids(&store, REGION, 0)), (0, vec![]));
    }

    fn a_future_that_nobody_polls_holds_nobody_up(env) {
        let store = env.open();
        append_ids(&store, OTHER, 1..=1);
        let mut waiting = store.append_batch(vec![entry(&store, REGION, 1, large())]);
        assert!(poll_once(&mut waiting).0.is_pending());
        let mut staged = store.append_batch(vec![entry(&store, OTHER, 2, "x")]);
        let _ = poll_once(&mut staged);
        block_on(store.stop()).unwrap();
        drop((waiting, staged));
        drop(store);
        assert_eq!(read_ids(&env.open(), OTHER, 0), [1, 2]);
    }

    fn an_append_that_was_staged_is_acknowledged(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=1);
        let mut staged = store.append_batch(vec![entry(&store, REGION, 2, "x")]);
        let (polled, _) = poll_once(&mut staged);
        block_on(store.stop()).unwrap();
        assert_eq!(finish(staged, polled).unwrap().last_entry_ids[&REGION], 2);
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0), [1, 2]);
    }

    fn whoever_waits_for_durability_is_told_the_truth(env) {
        let store = env.open_with(env.staged());
        append_ids(&store, REGION, 1..=2);
        let by = provider(REGION);
        let mut waiting = store.wait_durable(&by, 2);
        let (polled, _) = poll_once(&mut waiting);
        block_on(store.stop()).unwrap();
        finish(waiting, polled).unwrap();
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0), [1, 2]);
    }

    fn appends_that_race_with_stopping_are_in_the_log_or_stopped(env) {
        let store = env.open_with(env.small_segments());
        let last: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=4)
                .map(|number| {
                    let store = &store;
                    scope.spawn(move || {
                        let region = RegionId::new(5, number);
                        let batch = |id| match store.entry(vec![0; 3000], id, region, &provider(region)) {
                            Ok(entry) => block_on(store.append_batch(vec![entry])).map(drop),
                            Err(error) => Err(error),
                        };
                        let refused = (1..).find_map(|id| batch(id).err().map(|error| (id, error)));
                        let (id, error) = refused.unwrap();
                        assert!(matches!(error, LogStoreError::Stopped), "{error:?}");
                        id - 1
                    })
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(50));
            block_on(store.stop()).unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        drop(store);
        let store = env.open_with(env.small_segments());
        for (number, last) in (1..).zip(last) {
            assert_eq!(read_ids(&store, RegionId::new(5, number), 0), (1..=last).collect::<Vec<_>>());
        }
    }

    fn an_open_stream_reads_on(env) {
        let single = tidelog::ReadOptions::new().max_batch_entries(1);
        let store = env.open_with(env.small_segments().read(single));
        for id in 1..=60 {
            append(&store, REGION, id, vec![0; 8192]).unwrap();
        }
        let mut stream = block_on(store.read(&provider(REGION), 1)).unwrap();
        block_on(stream.next()).unwrap().unwrap();
        block_on(store.stop()).unwrap();
        let rest = block_on(stream.map(|batch| batch.unwrap()[0].entry_id()).collect::<Vec<_>>());
        assert_eq!(rest, ids(2..=60));
    }

    fn others_on_the_log_go_on(env) {
        let log = Log::open(env.dir.path(), env.options()).unwrap();
        let first = TideLogStore::on_log(log.clone(), &StoreOptions::new()).unwrap();
        let second = TideLogStore::on_log(log.clone(), &StoreOptions::new().ack(Ack::Staged)).unwrap();
        append_ids(&first, REGION, 1..=3);
        append_ids(&second, OTHER, 1..=3);
        block_on(first.stop()).unwrap();
        assert_stopped(block_on(first.append_batch(vec![])));
        append_ids(&second, REGION, 4..=5);
        let journal = StreamId::new(2, 1);
        let mut batch: Batch = Batch::new();
        batch.append(journal, 1, b"event".to_vec()).create_namespace(journal);
        log.append_durable(&batch).unwrap();
        assert_eq!(namespaces(&second), [], "a journal is no region");
        block_on(second.stop()).unwrap();
        drop((first, second));
        batch.clear();
        batch.append(journal, 2, b"event".to_vec());
        log.append_durable(&batch).unwrap();
        drop(log);
        assert_eq!(read_ids(&env.open(), REGION, 0), ids(1..=5));
    }

    fn a_log_that_others_close_stops_the_store(env) {
        let log = Log::open(env.dir.path(), env.options()).unwrap();
        let store = TideLogStore::on_log(log.clone(), &StoreOptions::new().ack(Ack::Staged)).unwrap();
        append_ids(&store, REGION, 1..=3);
        log.close().unwrap();
        assert_stopped(append(&store, REGION, 4, "x"));
        assert_eq!(latest(&store, REGION), 3);
        block_on(store.stop()).unwrap();
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0), ids(1..=3));
    }
}
