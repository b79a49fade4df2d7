//! What an append refuses, that a refusal leaves no trace, and which providers are served.

use futures::executor::block_on;
use tidelog::log_store::{
    Entry, LogStore, LogStoreError, MultiplePartEntry, MultiplePartHeader, Provider, RegionId, StoreOptions,
    TideLogStore,
};
use tidelog::{Error, IdRule, Log};

use crate::{append, append_ids, backends, entry, ids, latest, obsolete, provider, read, read_ids};

const REGION: RegionId = RegionId::new(1, 1);
const OTHER: RegionId = RegionId::new(1, 2);

fn batch(store: &TideLogStore, entries: &[(RegionId, u64)]) -> Result<(), LogStoreError> {
    let entries = entries.iter().map(|&(region, id)| entry(store, region, id, "x")).collect();
    block_on(store.append_batch(entries)).map(drop)
}

#[track_caller]
fn assert_discontinuous(outcome: Result<(), LogStoreError>, of: RegionId, after: u64, with: u64) {
    match outcome {
        Err(LogStoreError::DiscontinuousEntry { region, last, attempted }) => {
            assert_eq!((region, last, attempted), (of, after, with));
        }
        outcome => panic!("{outcome:?}"),
    }
}

#[track_caller]
fn assert_obsolete(outcome: Result<(), LogStoreError>, of: RegionId, below: u64, with: u64) {
    match outcome {
        Err(LogStoreError::ObsoleteEntry { region, first, attempted }) => {
            assert_eq!((region, first, attempted), (of, below, with));
        }
        outcome => panic!("{outcome:?}"),
    }
}

fn parts(headers: &[MultiplePartHeader], parts: &[&'static [u8]]) -> Entry {
    Entry::MultiplePart(MultiplePartEntry {
        provider: provider(REGION),
        region_id: REGION,
        entry_id: 1,
        headers: headers.to_vec(),
        parts: parts.iter().map(|part| part.to_vec().into()).collect(),
    })
}

/// The outcome of each method that takes a provider.
fn ask_all(
    store: &TideLogStore,
    by: &Provider,
    region_id: RegionId,
) -> Vec<(&'static str, Result<(), LogStoreError>)> {
    let mut appended = entry(store, REGION, 1, "x").into_naive_entry().unwrap();
    (appended.provider, appended.region_id) = (by.clone(), region_id);
    vec![
        ("append", block_on(store.append_batch(vec![Entry::Naive(appended)])).map(drop)),
        ("entry", store.entry(vec![], 1, region_id, by).map(drop)),
        ("obsolete", block_on(store.obsolete(by, region_id, 1))),
        ("obsolete_all", block_on(store.obsolete_all(by, region_id))),
        ("release", block_on(store.release_region(by, region_id))),
        ("read", block_on(store.read(by, 1)).map(drop)),
        ("latest", store.latest_entry_id(by).map(drop)),
        ("create", block_on(store.create_namespace(by))),
        ("delete", block_on(store.delete_namespace(by))),
        ("wait", block_on(store.wait_durable(by, 1))),
    ]
}

backends! {
    fn an_empty_batch_is_no_work(env) {
        let store = env.open();
        let response = block_on(store.append_batch(vec![])).unwrap();
        assert!(response.last_entry_ids.is_empty());
    }

    fn ids_follow_each_other(env) {
        let store = env.open();
        append_ids(&store, REGION, 5..=8);
        assert_discontinuous(batch(&store, &[(REGION, 10)]), REGION, 8, 10);
        assert_discontinuous(batch(&store, &[(REGION, 8)]), REGION, 8, 8);
        assert_discontinuous(batch(&store, &[(REGION, 5)]), REGION, 8, 5);
        assert_obsolete(batch(&store, &[(REGION, 4)]), REGION, 5, 4);
        obsolete(&store, REGION, 6);
        assert_obsolete(batch(&store, &[(REGION, 6)]), REGION, 7, 6);
        assert_discontinuous(batch(&store, &[(REGION, 7)]), REGION, 8, 7);
        assert_eq!(append(&store, REGION, 9, "x").unwrap(), 9);
    }

    fn later_entries_of_a_batch_follow_the_one_before(env) {
        let store = env.open();
        assert_discontinuous(batch(&store, &[(REGION, 5), (REGION, 7)]), REGION, 5, 7);
        assert_discontinuous(batch(&store, &[(REGION, 5), (REGION, 5)]), REGION, 5, 5);
        // Nothing of the region lies above it but what the batch itself brings.
        assert_discontinuous(batch(&store, &[(REGION, 5), (OTHER, 1), (REGION, 3)]), REGION, 5, 3);
        append_ids(&store, REGION, 5..=6);
        assert_discontinuous(batch(&store, &[(REGION, 7), (REGION, 4)]), REGION, 7, 4);
    }

    fn the_first_region_that_is_wrong_is_named(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=2);
        append_ids(&store, OTHER, 1..=2);
        let wrong = [(REGION, 3), (OTHER, 9), (REGION, 7)];
        assert_discontinuous(batch(&store, &wrong), REGION, 3, 7);
        let wrong = [(OTHER, 9), (REGION, 4)];
        assert_discontinuous(batch(&store, &wrong), OTHER, 2, 9);
    }

    fn a_refused_batch_leaves_no_trace(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=2);
        let fresh = RegionId::new(9, 9);
        batch(&store, &[(fresh, 1), (REGION, 3), (REGION, 5)]).unwrap_err();
        assert_eq!((latest(&store, fresh), latest(&store, REGION)), (0, 2));
        assert!(read_ids(&store, fresh, 0).is_empty());
        batch(&store, &[(fresh, 7), (REGION, 3)]).unwrap();
        drop(store);
        let store = env.open();
        assert_eq!((read_ids(&store, fresh, 0), read_ids(&store, REGION, 0)), (vec![7], ids(1..=3)));
    }

    fn a_region_without_entries_takes_any_id(env) {
        let store = env.open();
        for (number, id) in [(1, 0), (2, 77), (3, u64::MAX - 1)] {
            let region = RegionId::new(2, number);
            assert_eq!(append(&store, region, id, "x").unwrap(), id);
            assert_eq!(append(&store, region, id + 1, "x").unwrap(), id + 1);
        }
        let full = RegionId::new(2, 3);
        // The id space is used up.
        assert_obsolete(batch(&store, &[(full, 0)]), full, u64::MAX - 1, 0);
        assert_discontinuous(batch(&store, &[(full, u64::MAX)]), full, u64::MAX, u64::MAX);
        assert_eq!(read_ids(&store, full, 0), [u64::MAX - 1, u64::MAX]);
    }

    fn an_id_below_the_mark_of_an_emptied_region_restarts_it(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=10);
        append_ids(&store, OTHER, 1..=1);
        obsolete(&store, REGION, 10);
        batch(&store, &[(REGION, 4), (OTHER, 2), (REGION, 5)]).unwrap();
        for _ in 0..2 {
            assert_eq!((read_ids(&store, REGION, 0), latest(&store, REGION)), (vec![4, 5], 5));
        }
        drop(store);
        let store = env.open();
        assert_eq!((read_ids(&store, REGION, 0), read_ids(&store, OTHER, 0)), (vec![4, 5], vec![1, 2]));
        obsolete(&store, REGION, 4);
        assert_eq!(read_ids(&store, REGION, 0), [5]);
        assert_eq!(append(&store, REGION, 6, "x").unwrap(), 6);
    }

    fn two_callers_cannot_both_append_an_id(env) {
        let store = env.open();
        let appended: usize = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..4u8)
                .map(|caller| {
                    let store = &store;
                    let one = move |id| usize::from(append(store, REGION, id, [caller]).is_ok());
                    scope.spawn(move || (1..=50).map(one).sum::<usize>())
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        let last = latest(&store, REGION);
        assert_eq!(appended as u64, last);
        assert_eq!(read_ids(&store, REGION, 0), ids(1..=last));
    }

    fn complete_parts_are_stored_joined(env) {
        use MultiplePartHeader::{First, Last, Middle};
        let store = env.open();
        let whole = parts(&[First, Middle(1), Last], &[b"ab", b"", b"cde"]);
        block_on(store.append_batch(vec![whole])).unwrap();
        drop(store);
        assert_eq!(read(&env.open(), REGION, 0), [(1, b"abcde".to_vec())]);
    }

    fn incomplete_parts_are_refused(env) {
        use MultiplePartHeader::{First, Last, Middle};
        let store = env.open();
        for headers in [&[First, Middle(1)][..], &[Middle(0), Last], &[Last], &[]] {
            let first = entry(&store, OTHER, 1, "x");
            match block_on(store.append_batch(vec![first, parts(headers, &[b"ab", b"c"])])) {
                Err(LogStoreError::IncompleteEntry { region, entry_id }) => {
                    assert_eq!((region, entry_id), (REGION, 1));
                }
                outcome => panic!("{headers:?}: {outcome:?}"),
            }
        }
        assert_eq!((latest(&store, REGION), latest(&store, OTHER)), (0, 0));
    }

    fn other_providers_are_refused(env) {
        let store = env.open();
        for foreign in [Provider::kafka_provider("topic".into()), Provider::noop_provider()] {
            for (method, outcome) in ask_all(&store, &foreign, REGION) {
                match outcome {
                    Err(LogStoreError::InvalidProvider { expected, actual }) => {
                        assert_eq!((expected, actual), ("RaftEngineProvider", foreign.type_name()));
                    }
                    outcome => panic!("{method}: {outcome:?}"),
                }
            }
        }
        assert_eq!(latest(&store, REGION), 0);
    }

    fn a_provider_of_another_region_is_refused(env) {
        let store = env.open();
        append_ids(&store, OTHER, 1..=1);
        let outcomes = ask_all(&store, &provider(OTHER), REGION);
        for (method, outcome) in &outcomes[..5] {
            match outcome {
                Err(LogStoreError::RegionMismatch { provider_id, region }) => {
                    assert_eq!((*provider_id, *region), (OTHER.as_u64(), REGION));
                }
                outcome => panic!("{method}: {outcome:?}"),
            }
        }
        assert!(outcomes[5..].iter().all(|(_, outcome)| outcome.is_ok()), "they take the provider alone");
        assert_eq!((read_ids(&store, OTHER, 0), latest(&store, REGION)), (vec![1], 0));
    }

    fn no_namespace_has_the_id_0(env) {
        let store = env.open();
        let zero = Provider::raft_engine_provider(0);
        for outcome in [block_on(store.create_namespace(&zero)), block_on(store.delete_namespace(&zero))] {
            assert!(matches!(outcome, Err(LogStoreError::IllegalNamespace { id: 0 })), "{outcome:?}");
        }
        // As a region it is one like all others.
        let region = RegionId::from_u64(0);
        append_ids(&store, region, 0..=2);
        assert_eq!(read_ids(&store, region, 0), ids(0..=2));
        block_on(store.obsolete_all(&zero, region)).unwrap();
        assert_eq!((read_ids(&store, region, 0), latest(&store, region)), (vec![], 0));
    }

    fn ids_with_gaps_are_no_option(env) {
        let log = env.options().id_rule(IdRule::Increasing);
        let options = StoreOptions::new().log(log.clone());
        let refused = |outcome| match outcome {
            Err(LogStoreError::Log(Error::InvalidOption { name, .. })) => assert_eq!(name, "id_rule"),
            outcome => panic!("{outcome:?}"),
        };
        refused(TideLogStore::open(env.dir.path(), options.clone()));
        assert_eq!(env.bytes(), 0, "nothing was made");
        refused(TideLogStore::on_log(Log::open(env.dir.path(), log).unwrap(), &options));
    }

    fn a_batch_beyond_all_limits_is_refused(env) {
        let store = env.open();
        append_ids(&store, REGION, 1..=1);
        // Shared bytes: more than a gigabyte by name, one megabyte in memory.
        let mut shared = entry(&store, REGION, 2, vec![0; 1 << 20]).into_naive_entry().unwrap();
        let batch: Vec<_> = (2..1027)
            .map(|id| {
                shared.entry_id = id;
                Entry::Naive(shared.clone())
            })
            .collect();
        let error = block_on(store.append_batch(batch)).unwrap_err();
        assert!(matches!(error, LogStoreError::Log(Error::BatchTooLarge { .. })), "{error:?}");
        assert!(!error.is_retryable());
        assert_eq!(append(&store, REGION, 2, "x").unwrap(), 2);
    }
}
