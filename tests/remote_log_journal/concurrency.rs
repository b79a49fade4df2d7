//! What readers see while others record: states that were true at some moment, and no older than they may be.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidelog::remote_log::{
    InmemoryRemoteLogMetadataManager, Journal, JournalOptions, RemoteLogMetadataManager,
    RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    TideRemoteLogMetadataManager,
};

use crate::segments::*;
use crate::support::{Env, STREAM};

#[derive(Clone, Debug)]
enum Step {
    Add(RemoteLogSegmentMetadata),
    Update(RemoteLogSegmentMetadataUpdate),
}

fn any_step() -> impl Strategy<Value = Step> {
    let add = (0..8u128, 0..20i64, 0..20i64).prop_map(|(number, one, other)| {
        let range = [one.min(other), one.max(other)];
        Step::Add(segment(number, range, &[(0, range[0]), (1, 10)]))
    });
    let states = proptest::sample::select(&RemoteLogSegmentState::ALL[1..]);
    let update = (0..8u128, states).prop_map(|(number, state)| Step::Update(update(number, state)));
    prop_oneof![1 => add, 3 => update]
}

fn take(manager: &dyn RemoteLogMetadataManager, step: &Step) -> bool {
    match step.clone() {
        Step::Add(metadata) => manager.add_remote_log_segment_metadata(metadata).is_ok(),
        Step::Update(update) => manager.update_remote_log_segment_metadata(update).is_ok(),
    }
}

/// What one call of each query says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    List(Vec<RemoteLogSegmentMetadata>),
    ByEpoch(Vec<RemoteLogSegmentMetadata>),
    Highest(Option<i64>),
    At(Option<RemoteLogSegmentMetadata>),
}

const QUERIES: usize = 4;

fn ask(manager: &dyn RemoteLogMetadataManager, query: usize) -> Answer {
    let tp = &orders();
    match query {
        0 => Answer::List(manager.list_remote_log_segments(tp).unwrap()),
        1 => Answer::ByEpoch(manager.list_remote_log_segments_by_epoch(tp, 1.into()).unwrap()),
        2 => Answer::Highest(manager.highest_offset_for_epoch(tp, 0.into()).unwrap()),
        _ => Answer::At(manager.remote_log_segment_metadata(tp, 0.into(), 7).unwrap()),
    }
}

/// Set also where an assertion fails, so that nobody waits for what does not come.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Every answer is that of the state after some number of steps: at least as many as had been acknowledged to another
/// manager when the question was put, at most as many as had begun when it was answered.
#[test]
fn every_answer_was_true_at_some_moment() {
    let mut runner = TestRunner::deterministic();
    let steps = proptest::collection::vec(any_step(), 600).new_tree(&mut runner).unwrap().current();
    let memory = InmemoryRemoteLogMetadataManager::new();
    let all = |manager: &dyn RemoteLogMetadataManager| [0, 1, 2, 3].map(|query| ask(manager, query));
    let mut states = vec![all(&memory)];
    let steps: Vec<Step> = steps.into_iter().filter(|step| take(&memory, step)).collect();
    let memory = InmemoryRemoteLogMetadataManager::new();
    for step in &steps {
        assert!(take(&memory, step));
        states.push(all(&memory));
    }

    let env = Env::new();
    let log = env.log();
    // Checkpoints are written all the time.
    let journal = Journal::open(&log, STREAM.id, JournalOptions::new().checkpoint_after(Some(5))).unwrap();
    let writer = TideRemoteLogMetadataManager::new(journal.clone());
    let (begun, acknowledged) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let peer = TideRemoteLogMetadataManager::with_partitions(journal.clone(), [orders()]);
                let (begun, acknowledged, over) = (&begun, &acknowledged, &over);
                let (states, steps) = (&states, &steps);
                scope.spawn(move || {
                    let mut asked = reader;
                    loop {
                        let query = asked % QUERIES;
                        let before = acknowledged.load(Ordering::SeqCst);
                        if asked % 3 == 0 {
                            assert!(peer.caught_up(&orders()).unwrap());
                        }
                        let answer = ask(&peer, query);
                        let after = begun.load(Ordering::SeqCst);
                        let was_true = states[before..=after].iter().any(|state| state[query] == answer);
                        assert!(was_true, "query {query}, steps {before} to {after}: {answer:?}");
                        asked += 1;
                        if before == steps.len() || over.load(Ordering::SeqCst) {
                            break asked;
                        }
                    }
                })
            })
            .collect();
        let stop = SetOnDrop(&over);
        for step in &steps {
            begun.fetch_add(1, Ordering::SeqCst);
            assert!(take(&writer, step));
            acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        drop(stop);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert!(journal.stats().last_checkpoint > 0);
}

/// Many record at once; whoever is told of an event and then finds a peer caught up sees it there.
#[test]
fn a_peer_that_is_caught_up_sees_all_that_was_acknowledged() {
    let env = Env::new();
    let log = env.log();
    let journal = Journal::open(&log, STREAM.id, JournalOptions::new().checkpoint_after(Some(20))).unwrap();
    let (threads, each) = (4u128, 40u128);
    // Of each writer, how many segments were acknowledged as finished.
    let told: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    let offset = |thread: u128, number: u128| (thread * 1000 + number) as i64;
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for thread in 0..threads {
            let manager = TideRemoteLogMetadataManager::new(journal.clone());
            let told = &told[thread as usize];
            writers.push(scope.spawn(move || {
                for number in 0..each {
                    let at = offset(thread, number);
                    let metadata = segment(thread * each + number, [at, at], &[(0, at)]);
                    manager.add_remote_log_segment_metadata(metadata).unwrap();
                    let finish = update(thread * each + number, FINISHED);
                    manager.update_remote_log_segment_metadata(finish).unwrap();
                    told.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        let peer = TideRemoteLogMetadataManager::new(journal.clone());
        let mut left = true;
        while left {
            left = writers.iter().any(|writer| !writer.is_finished());
            let known: Vec<usize> = told.iter().map(|told| told.load(Ordering::SeqCst)).collect();
            assert!(peer.caught_up(&orders()).unwrap());
            for (thread, known) in known.into_iter().enumerate() {
                let Some(last) = known.checked_sub(1) else { continue };
                let at = offset(thread as u128, last as u128);
                let found = peer.remote_log_segment_metadata(&orders(), 0.into(), at).unwrap();
                let expected = thread as u128 * each + last as u128;
                assert_eq!(found.as_ref().map(number), Some(expected), "of thread {thread}");
            }
        }
    });
}
