//! The cases that every log store of this trait passes, with the values known from others.

use std::collections::HashMap;

use futures::StreamExt;
use futures::executor::block_on;
use tidelog::log_store::{Entry, LogStore, Provider, RaftEngineProvider, RegionId, TideLogStore};

use crate::{append, backends, entry, ids, latest, namespaces, obsolete, provider, read, read_ids};

fn span(store: &TideLogStore, region: u64) -> (Option<u64>, Option<u64>) {
    store.span(&RaftEngineProvider::new(region))
}

backends! {
    fn a_new_store_lists_no_namespace(env) {
        assert_eq!(namespaces(&env.open()), []);
    }

    fn namespaces_are_created_and_deleted(env) {
        let store = env.open();
        let namespace = Provider::raft_engine_provider(42);
        assert_eq!(namespaces(&store), []);
        for _ in 0..2 {
            block_on(store.create_namespace(&namespace)).unwrap();
            assert_eq!(namespaces(&store), std::slice::from_ref(&namespace));
        }
        for _ in 0..2 {
            block_on(store.delete_namespace(&namespace)).unwrap();
            assert_eq!(namespaces(&store), []);
        }
    }

    fn namespaces_survive_reopening(env) {
        let store = env.open();
        for id in [3, 1, 2] {
            block_on(store.create_namespace(&Provider::raft_engine_provider(id))).unwrap();
        }
        block_on(store.delete_namespace(&Provider::raft_engine_provider(2))).unwrap();
        drop(store);
        let listed = [1, 3].map(Provider::raft_engine_provider);
        assert_eq!(namespaces(&env.open()), listed);
    }

    fn obsolete_all_removes_entries_and_namespace(env) {
        let store = env.open();
        let region = RegionId::new(1, 1);
        block_on(store.create_namespace(&provider(region))).unwrap();
        for id in 1..=3 {
            append(&store, region, id, "x").unwrap();
        }
        for _ in 0..2 {
            block_on(store.obsolete_all(&provider(region), region)).unwrap();
            assert_eq!(latest(&store, region), 0);
            assert_eq!(namespaces(&store), []);
            assert!(read_ids(&store, region, 0).is_empty());
        }
        drop(store);
        let store = env.open();
        assert_eq!((latest(&store, region), namespaces(&store)), (0, vec![]));
        assert_eq!(append(&store, region, 1, "anew").unwrap(), 1);
        assert_eq!(read(&store, region, 0), [(1, b"anew".to_vec())]);
    }

    fn what_is_appended_is_read(env) {
        let store = env.open();
        let region = RegionId::from_u64(1);
        for id in 0..1024 {
            assert_eq!(append(&store, region, id, id.to_string()).unwrap(), id);
        }
        let expected: Vec<_> = (0..1024).map(|id: u64| (id, id.to_string().into_bytes())).collect();
        assert_eq!(read(&store, region, 0), expected);
    }

    fn a_stopped_store_reopens(env) {
        let region = RegionId::from_u64(1);
        let store = env.open();
        append(&store, region, 1, "1").unwrap();
        let batches = block_on(block_on(store.read(&provider(region), 1)).unwrap().collect::<Vec<_>>());
        assert_eq!(batches.len(), 1);
        block_on(store.stop()).unwrap();
        drop(store);
        assert_eq!(read(&env.open(), region, 1), [(1, b"1".to_vec())]);
    }

    fn what_is_obsolete_frees_its_files(env) {
        let store = env.open_with(env.small_segments());
        let region = RegionId::new(1, 1);
        for first in (0..4096).step_by(64) {
            let batch = (first..first + 64).map(|id| entry(&store, region, id, [b'x'; 4096])).collect();
            block_on(store.append_batch(batch)).unwrap();
        }
        let before = env.bytes();
        assert!(before > 16 << 20);
        obsolete(&store, region, 4000);
        crate::eventually("files go", || env.bytes() < before / 2);
        assert_eq!(read_ids(&store, region, 0), ids(4001..=4095));
    }

    fn reading_starts_above_the_mark(env) {
        let store = env.open_with(env.small_segments());
        let region = RegionId::new(1, 1);
        for id in 0..1024 {
            append(&store, region, id, [b'x'; 4096]).unwrap();
        }
        obsolete(&store, region, 100);
        assert_eq!(span(&store, region.as_u64()), (Some(101), Some(1023)));
        assert_eq!(read_ids(&store, region, 100).first(), Some(&101));
    }

    fn a_batch_spans_regions(env) {
        let store = env.open_with(env.small_segments());
        let batch: Vec<Entry> = (0..8)
            .flat_map(|region| (0..16).map(move |id| (RegionId::from_u64(region), id)))
            .map(|(region, id)| entry(&store, region, id, [b'x'; 4096]))
            .collect();
        block_on(store.append_batch(batch)).unwrap();
        for region in 0..8 {
            assert_eq!(span(&store, region), (Some(0), Some(15)));
        }
    }

    fn regions_interleave_in_a_batch(env) {
        let store = env.open();
        let batch = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)];
        let batch = batch.map(|(region, id)| entry(&store, RegionId::from_u64(region), id, "x"));
        block_on(store.append_batch(batch.to_vec())).unwrap();
        assert_eq!(span(&store, 0), (Some(0), Some(2)));
        assert_eq!(span(&store, 1), (Some(0), Some(1)));
    }

    fn the_response_holds_each_region(env) {
        let store = env.open();
        let batch = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)];
        let batch = batch.map(|(region, id)| entry(&store, RegionId::from_u64(region), id, "x"));
        let response = block_on(store.append_batch(batch.to_vec())).unwrap();
        let last = [(0, 1), (1, 1), (2, 2)].map(|(region, id)| (RegionId::from_u64(region), id));
        assert_eq!(response.last_entry_ids, HashMap::from(last));
    }

    fn a_writer_mixes_regions(env) {
        let store = env.open();
        let (one, two) = (RegionId::new(1, 1), RegionId::new(1, 2));
        let batch = [(one, 1), (two, 1), (two, 2)].map(|(region, id)| entry(&store, region, id, "x"));
        let response = block_on(store.append_batch(batch.to_vec())).unwrap();
        assert_eq!(response.last_entry_ids, HashMap::from([(one, 1), (two, 2)]));
    }

    fn a_scan_sees_its_region_alone(env) {
        let store = env.open();
        let (region, other) = (RegionId::new(1, 1), RegionId::new(1, 2));
        let all = [(region, 1), (region, 2), (other, 1), (region, 3), (region, 4)];
        for (of, id) in all {
            append(&store, of, id, format!("{of}/{id}")).unwrap();
        }
        let expected: Vec<_> = (1..=4).map(|id| (id, format!("{region}/{id}").into_bytes())).collect();
        assert_eq!(read(&store, region, 1), expected);
        assert_eq!(read(&store, region, 2), expected[1..]);
        assert_eq!(read(&store, region, 5), []);
    }

    fn a_scan_skips_what_is_obsolete(env) {
        let store = env.open();
        let region = RegionId::new(1, 1);
        for id in 1..=3 {
            append(&store, region, id, "x").unwrap();
        }
        obsolete(&store, region, 2);
        append(&store, region, 4, "x").unwrap();
        assert_eq!(read_ids(&store, region, 1), [3, 4]);
    }
}
