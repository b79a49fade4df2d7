//! The log keeps its promises through tens of thousands of crashes.

use tidelog_sim::{History, Kind, Stats, Theme, run};

/// Crash points of one theme.
fn explore(theme: Theme, points: u64) {
    let mut stats = Stats::default();
    for seed in 0.. {
        let history = History::draw(theme, seed);
        if let Err(violation) = run(&history, &mut stats, points) {
            panic!(
                "step {}: {}\nagain: cargo run --release --bin tidelog-sim -- --theme {} --seed {seed} --once",
                violation.step,
                violation.broken,
                theme.name()
            );
        }
        if stats.points >= points {
            break;
        }
    }
    println!("{}: {stats:?}", theme.name());
    assert!(stats.points >= points && stats.recoveries > points);
}

#[test]
fn power_cuts() {
    explore(Theme::Power, 12_000);
}

#[test]
fn deaths_of_the_process() {
    explore(Theme::Kill, 9_000);
}

#[test]
fn failing_writes_and_flushes() {
    explore(Theme::Faults, 8_000);
}

#[test]
fn failing_writes_and_flushes_through_the_page_cache() {
    explore(Theme::CachedFaults, 8_000);
}

#[test]
fn a_full_disk() {
    explore(Theme::Full, 6_000);
}

#[test]
fn damage() {
    explore(Theme::Damage, 5_000);
}

#[test]
fn a_disk_that_lies() {
    explore(Theme::Lies, 4_000);
}

#[test]
fn the_same_history_does_the_same() {
    for theme in Theme::ALL {
        let trace = || {
            let mut stats = Stats::default();
            run(&History::draw(theme, 77), &mut stats, u64::MAX).unwrap();
            stats
        };
        let first = trace();
        assert!(first.points > 20 && first.batches > 50, "{first:?}");
        assert_eq!(first, trace(), "{}", theme.name());
    }
}

/// None may be missing, else nothing of it is tested.
#[test]
fn histories_do_all_there_is() {
    let mut seen = Vec::new();
    for theme in Theme::ALL {
        for seed in 0..40 {
            seen.extend(History::draw(theme, seed).steps.iter().map(|step| step.kind));
        }
    }
    for kind in Kind::ALL {
        assert!(seen.contains(&kind), "{kind:?}");
    }
}
