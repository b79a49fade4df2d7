//! Whether planted faults are found: each breaks one rule of the engine, and the explorer has to notice.
//! A fault that survives is a hole in what it looks at.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tidelog::sim::{Planted, plant};

use crate::history::{History, Theme};
use crate::run::{Broken, run};
use crate::stats::Stats;

/// The theme in which the fault has something to break, and no second guard stands behind the rule.
fn theme_of(fault: Planted) -> Theme {
    match fault {
        Planted::SwallowWriteError
        | Planted::SwallowFlushError
        | Planted::RetryFlush
        | Planted::SwallowDirectError
        | Planted::AcknowledgeAtPoison
        | Planted::IgnoreDirectoryError => Theme::Faults,
        Planted::VerifyThroughCache | Planted::FirstFrameThroughCache => Theme::CachedFaults,
        Planted::SpareHeaderUnsynced | Planted::SpareNameUnsynced => Theme::Full,
        Planted::SkipAdopting
        | Planted::AdoptWithoutFlush
        | Planted::CleanBeforeAdopting
        | Planted::ReuseLeftOver => Theme::Kill,
        Planted::BadHeaderIsUnused
        | Planted::DamageIsTail
        | Planted::DamagedFirstIsVoid
        | Planted::OwnLsnUnchecked
        | Planted::OmitClosing
        | Planted::NameVoidSuccessor
        | Planted::IgnoreSuccessor
        | Planted::IgnoreMissing
        | Planted::PayloadUnchecked => Theme::Damage,
        _ => Theme::Power,
    }
}

/// What a hunt came to.
#[derive(Debug)]
pub struct Hunted {
    /// The fault that was planted.
    pub fault: Planted,
    /// What the histories were about.
    pub theme: Theme,
    /// Images recovered and checked.
    pub points: u64,
    /// What was found to be broken.
    pub broken: Option<Broken>,
}

impl fmt::Display for Hunted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<66} {:<13} {:>6}  ", self.fault.name(), self.theme.name(), self.points)?;
        match &self.broken {
            Some(broken) => write!(f, "{:.90}", broken.to_string()),
            None => f.write_str("SURVIVES"),
        }
    }
}

/// Hunts a fault for `points` crash points, or until something is found to be broken.
pub fn hunt(fault: Planted, seed: u64, points: u64) -> Hunted {
    let theme = theme_of(fault);
    let mut stats = Stats::default();
    plant(Some(fault));
    let histories = (seed..).map(|seed| History::draw(theme, seed));
    let mut broken = None;
    for history in histories {
        broken = run(&history, &mut stats, points).err().map(|violation| violation.broken);
        if broken.is_some() || stats.points >= points {
            break;
        }
    }
    plant(None);
    Hunted { fault, theme, points: stats.points, broken }
}

/// Hunts every fault, on so many threads.
///
/// # Panics
/// Where the engine does.
pub fn hunt_all(seed: u64, points: u64, threads: usize) -> Vec<Hunted> {
    let next = AtomicUsize::new(0);
    let work = || {
        let faults = std::iter::from_fn(|| Planted::ALL.get(next.fetch_add(1, Ordering::Relaxed)).copied());
        faults.map(|fault| hunt(fault, seed, points)).collect::<Vec<_>>()
    };
    let mut hunted: Vec<Hunted> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a hunt panicked")).collect()
    });
    hunted.sort_by_key(|hunted| hunted.fault);
    hunted
}
