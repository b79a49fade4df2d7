//! Hostile directories: thousands of mutations of real logs, each opened for writing and for reading only.
//!
//! Nothing panics or hangs, no wrong bytes are returned, and what some surviving frame vouches for is either there or
//! missed with an error. What a mutation may silently cost is the tail that nothing vouches for, no more.

mod base;
mod check;
mod forge;
mod mutate;
mod rng;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base::Base;
use check::{Bench, Outcome};
use rng::Rng;
use tidelog::{Error, IdRule, Log};

/// Threads of the library must not panic either.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// No case takes a hundredth of this, unless something goes round in circles.
const HANG: Duration = Duration::from_secs(60);

type Table = BTreeMap<(&'static str, Outcome), u32>;

/// Runs the cases on a thread of their own, which says before each what comes, and counts the outcomes.
fn run(cases: impl FnOnce(&mut dyn FnMut(String)) -> Table + Send + 'static) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    PANICS.store(0, Ordering::Relaxed);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let (say, heard) = channel();
    let mut say = move |case| {
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread of the library panicked");
        say.send(case).unwrap();
    };
    let worker = thread::spawn(move || {
        let table = cases(&mut say);
        say("the end".into());
        table
    });
    let mut current = String::new();
    loop {
        match heard.recv_timeout(HANG) {
            Ok(case) => current = case,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs: {current}"),
        }
    }
    let table = worker.join().unwrap_or_else(|_| panic!("in case {current}"));
    for ((kind, outcome), count) in &table {
        println!("{kind:<24} {outcome:<10} {count:>5}", outcome = format!("{outcome:?}"));
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// `HOSTILE_SEED` gives other ones.
fn bases() -> Vec<Base> {
    let seed = number("HOSTILE_SEED", 0) << 8;
    vec![
        Base::new("closed", IdRule::Contiguous, seed + 1, true),
        Base::new("crashed", IdRule::Contiguous, seed + 2, false),
        Base::new("closed with gaps", IdRule::Increasing, seed + 3, true),
        Base::new("crashed with gaps", IdRule::Increasing, seed + 4, false),
    ]
}

/// Cases of each base. `HOSTILE_ROUNDS` gives more.
fn rounds() -> u64 {
    number("HOSTILE_ROUNDS", 80)
}

#[test]
fn damage_is_never_silent() {
    run(|say| {
        let mut table = Table::new();
        for base in bases() {
            let bench = Bench::new();
            assert_eq!(bench.check(&base, &base.files, true), Outcome::Intact, "{}: untouched", base.name);
            for round in 0..rounds() {
                let mut rng = Rng::new(base.seed << 32 | round);
                let mut files = base.files.clone();
                let (kind, what) = mutate::any(&base, &mut files, &mut rng);
                say(format!("{} {round}: {kind}: {what}", base.name));
                let outcome = bench.check(&base, &files, round % 4 == 0);
                if base.differs_in_caches_alone(&files) {
                    assert_eq!(outcome, Outcome::Intact, "an index cache is never the truth");
                }
                *table.entry((kind, outcome)).or_default() += 1;
            }
        }
        table
    });
}

#[test]
fn forged_fields_cost_nobody_a_panic() {
    run(|say| {
        let mut table = Table::new();
        for base in bases() {
            let bench = Bench::new();
            for round in 0..rounds() {
                let mut rng = Rng::new(base.seed << 32 | round);
                let mut files = base.files.clone();
                let (kind, what) = forge::any(&base, &mut files, &mut rng);
                say(format!("{} {round}: {kind}: {what}", base.name));
                let outcome = bench.survive(&base, &files);
                *table.entry((kind, outcome)).or_default() += 1;
            }
        }
        table
    });
}

#[test]
fn a_reserve_may_have_any_number_and_length() {
    let base = Base::new("closed", IdRule::Contiguous, 1, true);
    let bench = Bench::new();
    for (number, len) in [(u64::MAX, 1 << 20), (u64::MAX - 1, 1), (u64::MAX, 0), (7, 100_001)] {
        let mut files = base.files.clone();
        files.retain(|name, _| !base::has_suffix(name, ".spare"));
        files.insert(format!("{number:020}.spare"), Arc::new(vec![0xa5; len]));
        assert_eq!(bench.check(&base, &files, true), Outcome::Intact, "{number}, {len} bytes");
    }
}

/// Else every file would be removed as older than that.
#[test]
fn no_segment_above_the_newest_is_the_oldest() {
    let base = Base::new("closed", IdRule::Contiguous, 1, true);
    let highest = base.frames.last().unwrap().sequence;
    for number in [highest + 1, u64::MAX] {
        let mut files = base.files.clone();
        forge::oldest(&base, &mut files, number);
        let home = base::home();
        for (name, bytes) in &files {
            std::fs::write(home.path().join(name), &**bytes).unwrap();
        }
        let opened = Log::open(home.path(), base::options(base.rule));
        assert!(matches!(opened, Err(Error::Corrupt(_))), "{opened:?}");
        assert_eq!(base::load(home.path()), files, "nothing was touched");
    }
}
