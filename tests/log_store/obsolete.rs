//! Marks and releases: what is gone, what is kept, and what comes back after a restart.

use futures::executor::block_on;
use tidelog::log_store::{LogStore, RegionId};
use tidelog::{Lsn, ReadOptions, ScanItem};

use crate::{append, append_ids, backends, ids, latest, namespaces, obsolete, provider, read, read_ids};

const REGION: RegionId = RegionId::new(1, 1);
const OTHER: RegionId = RegionId::new(1, 2);

backends! {
    fn a_mark_hides_entries_and_never_goes_back(env) {
        let store = env.open();
        append_ids(&store, REGION, 10..=20);
        append_ids(&store, OTHER, 10..=12);
        obsolete(&store, REGION, 9);
        assert_eq!(read_ids(&store, REGION, 0), ids(10..=20));
        obsolete(&store, REGION, 11);
        assert_eq!(read_ids(&store, REGION, 0), ids(12..=20));
        obsolete(&store, REGION, 10);
        obsolete(&store, REGION, 0);
        assert_eq!(read_ids(&store, REGION, 0), ids(12..=20));
        assert_eq!(read_ids(&store, REGION, 20), [20]);
        assert_eq!(latest(&store, REGION), 20);
        assert_eq!(read_ids(&store, OTHER, 0), ids(10..=12));
    }

    fn a_mark_is_kept_when_the_store_is_stopped(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=9);
        obsolete(&store, REGION, 4);
        block_on(store.stop()).unwrap();
        drop(store);
        let store = env.open();
        assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (ids(5..=9), 9));
    }

    fn the_last_id_outlives_the_entries(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=5);
        obsolete(&store, REGION, 5);
        assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![], 5));
        block_on(store.stop()).unwrap();
        drop(store);
        let store = env.open();
        assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![], 5));
        assert_eq!(append(&store, REGION, 6, "x").unwrap(), 6);
        assert_eq!(read_ids(&store, REGION, 0), [6]);
    }

    fn an_id_above_the_last_means_all_there_is(env) {
        let store = env.open();
        for (number, above) in [(1, 100), (2, u64::MAX)] {
            let region = RegionId::new(3, number);
            append_ids(&store, region, 1..=5);
            obsolete(&store, region, above);
            assert_eq!((read_ids(&store, region, 0), latest(&store, region)), (vec![], 5));
            assert_eq!(append(&store, region, 6, "x").unwrap(), 6);
            assert_eq!(read_ids(&store, region, 0), [6], "the mark is 5, not {above}");
        }
        for (number, next) in [(3, 3), (4, 50), (5, 0)] {
            let region = RegionId::new(3, number);
            append_ids(&store, region, 1..=5);
            obsolete(&store, region, u64::MAX);
            assert_eq!(append(&store, region, next, "x").unwrap(), next);
            assert_eq!(read_ids(&store, region, 0), [next]);
        }
    }

    fn an_unknown_region_stays_unknown(env) {
        let store = env.open();
        for id in [0, 7, u64::MAX] {
            obsolete(&store, REGION, id);
        }
        assert_eq!((latest(&store, REGION), store.log().streams().len()), (0, 0));
        assert_eq!(append(&store, REGION, 3, "x").unwrap(), 3);
        assert_eq!(read_ids(&store, REGION, 0), [3]);
    }

    fn a_mark_that_changes_nothing_writes_nothing(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=9);
        obsolete(&store, REGION, 4);
        for id in [0, 3, 4] {
            obsolete(&store, REGION, id);
        }
        obsolete(&store, OTHER, 9);
        let scan = store.log().scan(Lsn(0), ReadOptions::new()).unwrap();
        let marks = scan.filter(|record| matches!(record.as_ref().unwrap().record, ScanItem::Obsolete { .. }));
        assert_eq!(marks.count(), 1);
    }

    fn a_released_region_stays_released(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=9);
        append_ids(&store, OTHER, 1..=9);
        obsolete(&store, REGION, 9);
        for _ in 0..2 {
            block_on(store.release_region(&provider(REGION), REGION)).unwrap();
            assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![], 0));
        }
        drop(store);
        for _ in 0..3 {
            let store = env.open();
            assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![], 0));
            assert_eq!(read_ids(&store, OTHER, 0), ids(1..=9));
        }
        let store = env.open();
        append_ids(&store, REGION, 4..=5);
        drop(store);
        assert_eq!(read_ids(&env.open(), REGION, 0), [4, 5]);
    }

    fn a_release_drops_live_entries_too(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=9);
        block_on(store.release_region(&provider(REGION), REGION)).unwrap();
        block_on(store.release_region(&provider(OTHER), OTHER)).unwrap();
        drop(store);
        let store = env.open();
        assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![], 0));
    }

    fn a_release_leaves_the_namespace(env) {
        let store = env.open();
        block_on(store.create_namespace(&provider(REGION))).unwrap();
        append_ids(&store, REGION, 1..=2);
        block_on(store.release_region(&provider(REGION), REGION)).unwrap();
        assert_eq!(namespaces(&store), [provider(REGION)]);
    }

    fn deleting_a_namespace_leaves_the_entries(env) {
        let store = env.open();
        block_on(store.create_namespace(&provider(REGION))).unwrap();
        append_ids(&store, REGION, 1..=2);
        block_on(store.delete_namespace(&provider(REGION))).unwrap();
        assert_eq!(read_ids(&store, REGION, 0), [1, 2]);
    }

    fn obsolete_all_leaves_other_regions(env) {
        let store = env.open();
        append_ids(&store, REGION, 10..=12);
        append_ids(&store, OTHER, 10..=12);
        block_on(store.obsolete_all(&provider(REGION), REGION)).unwrap();
        obsolete(&store, REGION, 0);
        assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![], 0));
        assert_eq!((read_ids(&store, OTHER, 0), latest(&store, OTHER)), (ids(10..=12), 12));
    }

    // What was appended before a release must not shine through where the region lives on.
    fn older_bytes_do_not_undo_a_release(env) {
        let store = env.open_with(env.small_segments());
        for id in 1..=400 {
            append(&store, REGION, id, [b'o'; 2048]).unwrap();
        }
        block_on(store.release_region(&provider(REGION), REGION)).unwrap();
        append(&store, REGION, 200, "new").unwrap();
        let expected = [(200, b"new".to_vec())];
        assert_eq!(read(&store, REGION, 0), expected);
        drop(store);
        let store = env.open_with(env.small_segments());
        assert_eq!(read(&store, REGION, 0), expected);
        append(&store, REGION, 201, "newer").unwrap();
        assert_eq!(read_ids(&store, REGION, 0), [200, 201]);
    }
}
