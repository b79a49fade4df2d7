//! Appenders and the committer over many schedules of their threads: whoever holds the submit
//! token writes alone, what is staged is submitted in order and once, and nobody sleeps while there is
//! work for him. A committer that is not woken runs out of steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner, thread};
use tidelog_format::{Lsn, StreamId};

use super::super::batch::Batch;
use super::super::committer;
use super::super::engine::{Engine, Patience};
use super::super::progress::{Goal, Mark};
use super::super::stage::Blocked;
use super::super::stepped::Stepped;
use super::super::threads::tests::new_log;
use crate::io::Backend;
use crate::io::sim::{SimDisk, SimQueue, WakingQueue};
use crate::options::{Options, ReadMode};
use crate::segment::Segment;

const SCHEDULES: usize = 500;
const STEPS: usize = 50_000;
/// One of the large fills a frame, so that room runs short; the small ones share one.
const LENS: [usize; 2] = [1200, 3000];

/// One that appends so many batches, each with one entry.
type Appender = fn(&Engine, u64, u64);

fn stream(who: u64) -> StreamId {
    StreamId::new(1, who)
}

fn batch(who: u64, id: u64) -> Batch<Vec<u8>> {
    let mut batch = Batch::new();
    batch.append(stream(who), id, vec![who as u8; LENS[id as usize % 2]]);
    batch
}

/// A pipeline on a simulated disk, with a segment to write to, at rest. Its committer is yet to come.
fn start(disk: &SimDisk, buffers: usize) -> Arc<Engine> {
    let options = Options::new()
        .block_size(512)
        .first_segment_size(256 << 10)
        .frame_size(4096)
        .staging_buffers(buffers)
        .queue_depth(2);
    let first = new_log(options, Arc::new(disk.clone()), Backend::Ring);
    let (engine, mut stepped) = Stepped::start(first, |_, _| Ok(Box::new(SimQueue::new(disk)))).unwrap();
    let lsn = loop {
        match engine.try_append(&batch(0, 1), &[], true, false) {
            Ok(lsn) => break lsn,
            Err(Blocked::NoRoom) => while stepped.commit() | stepped.prepare() {},
            Err(Blocked::Refused(error)) => panic!("{error}"),
        }
    };
    while engine.progress.outcome(Goal::durable(lsn)).is_none() {
        stepped.commit();
        stepped.complete();
    }
    while stepped.commit() {}
    engine
}

fn check(segment: &Segment, end: Lsn, who: u64, appends: u64) {
    let runs = segment.lookup(stream(who)).unwrap().unwrap().runs;
    let ids: Vec<u64> = runs.iter().flat_map(|run| run.first..=run.last).collect();
    assert_eq!(ids, (1..=appends).collect::<Vec<_>>(), "each once, in their order");
    for run in runs {
        segment.frame(run.frame, end, ReadMode::Copy, None).unwrap();
    }
}

#[derive(Clone, Copy)]
struct Model {
    appenders: &'static [Appender],
    appends: u64,
    buffers: usize,
}

/// Frames of all schedules, by who wrote them.
#[derive(Default)]
struct Seen {
    direct: AtomicU64,
    others: AtomicU64,
}

/// Runs the appenders beside the committer, closes the log and looks at what was written.
fn run(model: &Model, seen: &Seen) {
    let disk = SimDisk::new(7);
    let Model { appenders, appends, buffers } = *model;
    let engine = start(&disk, buffers);
    let shared = Arc::clone(&engine);
    let committer = thread::spawn(move || {
        let queue = WakingQueue::new(&disk, shared.bell.clone());
        committer::run(&shared, Box::new(queue));
    });
    let spawn = |(at, append): (usize, &Appender)| {
        let (engine, append) = (Arc::clone(&engine), *append);
        thread::spawn(move || append(&engine, at as u64 + 1, appends))
    };
    let threads: Vec<_> = appenders.iter().enumerate().map(spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    engine.close();
    committer.join().unwrap();
    let (segment, end) = (engine.segments.get(1).unwrap(), engine.progress.get(Mark::Durable));
    for who in 1..=appenders.len() as u64 {
        check(&segment, end, who, appends);
    }
    let [frames, direct] = [&engine.counters.frames, &engine.counters.direct_commits]
        .map(|counter| counter.load(Ordering::Relaxed));
    seen.direct.fetch_add(direct, Ordering::Relaxed);
    seen.others.fetch_add(frames - direct, Ordering::Relaxed);
}

/// Each append is durable on return.
fn durably(engine: &Engine, who: u64, appends: u64) {
    for id in 1..=appends {
        let lsn = engine.append(&batch(who, id), &[], true, Patience::Endless).unwrap();
        assert!(engine.progress.get(Mark::Durable) > lsn);
    }
}

/// What was appended before is waited for at the end.
fn in_one_go(engine: &Engine, who: u64, appends: u64) {
    let lsns = (1..=appends).map(|id| engine.append(&batch(who, id), &[], false, Patience::Endless).unwrap());
    let last = lsns.last().unwrap();
    engine.want_here(last).unwrap();
    engine.progress.wait(Goal::durable(last), None).unwrap();
}

/// Nobody waits: closing the log makes it durable.
fn carelessly(engine: &Engine, who: u64, appends: u64) {
    for id in 1..=appends {
        engine.append(&batch(who, id), &[], false, Patience::Endless).unwrap();
    }
}

/// Tries many schedules. Gives how many frames appenders wrote, and how many the committer.
fn explore(model: Model) -> [u64; 2] {
    let config = || {
        let mut config = Config::new();
        config.max_steps = MaxSteps::FailAfter(STEPS);
        config.stack_size = 256 << 10;
        config
    };
    let seen = Arc::new(Seen::default());
    let (random, pct) = (Arc::clone(&seen), Arc::clone(&seen));
    Runner::new(RandomScheduler::new(SCHEDULES), config()).run(move || run(&model, &random));
    Runner::new(PctScheduler::new(3, SCHEDULES), config()).run(move || run(&model, &pct));
    let [direct, others] = [&seen.direct, &seen.others].map(|frames| frames.load(Ordering::Relaxed));
    [direct, others]
}

#[test]
fn model_one_appender_and_the_committer() {
    explore(Model { appenders: &[durably], appends: 4, buffers: 2 });
}

#[test]
fn model_appenders_share_the_pipeline() {
    let [direct, others] =
        explore(Model { appenders: &[durably, durably, in_one_go], appends: 3, buffers: 2 });
    assert!(direct > 0 && others > 0, "{direct} frames of appenders, {others} of the committer");
}

#[test]
fn model_what_nobody_waits_for_becomes_durable_too() {
    explore(Model { appenders: &[carelessly, durably, carelessly], appends: 3, buffers: 2 });
}

/// So short that room is often freed between the look for it and the wait.
#[test]
fn model_room_that_is_freed_is_not_missed() {
    explore(Model { appenders: &[carelessly, durably], appends: 1, buffers: 1 });
}

/// The committer may be asleep when somebody comes to wait.
#[test]
fn model_who_waits_later_is_served() {
    explore(Model { appenders: &[in_one_go], appends: 1, buffers: 2 });
}
