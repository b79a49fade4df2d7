//! The rounds in which the peers take turns.

use std::time::Duration;

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Args;
use crate::case::{Case, Figures, Job};
use crate::child::Place;
use crate::plan::{Group, groups};
use crate::subject::Kind;

/// What one peer gave in one cell.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) job: Job,
    /// By round.
    pub(crate) rounds: Vec<Figures>,
}

impl Outcome {
    pub(crate) fn kind(&self) -> Kind {
        self.job.kind
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let mut values: Vec<f64> =
            self.rounds.iter().filter_map(|figures| figures.get(name).copied()).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        let values = self.values(name);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            len if len % 2 == 1 => Some(values[middle]),
            _ => Some(f64::midpoint(values[middle - 1], values[middle])),
        }
    }

    /// Lowest and highest.
    pub(crate) fn spread(&self, name: &str) -> Option<(f64, f64)> {
        let values = self.values(name);
        Some((*values.first()?, *values.last()?))
    }
}

/// All peers in one cell.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) job: Job,
    pub(crate) outcomes: Vec<Outcome>,
}

/// Hands out each cell when it is done. A peer that fails is reported and left out; at the end that is an error.
pub(crate) fn run(args: &Args, place: &Place, mut done: impl FnMut(Cell) -> Result<()>) -> Result<()> {
    let (groups, kinds) = (groups(args), args.kinds());
    let takes = |group: &Group| kinds.iter().filter(|kind| takes_part(**kind, group)).count() as u64;
    let steps = groups.iter().map(|group| takes(group) * u64::from(rounds(args, group))).sum();
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("[{elapsed_precise}/{duration_precise}] {pos}/{len} {msg}")?);
    // Too seldom to disturb.
    bar.enable_steady_tick(Duration::from_secs(1));
    let mut failed = 0;
    for group in groups {
        let mut cells: Vec<Cell> = group.iter().map(|&job| Cell { job, outcomes: Vec::new() }).collect();
        for _ in 0..rounds(args, &group) {
            for &kind in kinds.iter().filter(|kind| takes_part(**kind, &group)) {
                bar.set_message(format!("{:?}, {}, {}", group[0].case, group[0].label(), kind.name()));
                if let Err(error) = turn(place, kind, &mut cells) {
                    bar.suspend(|| eprintln!("{error:#}"));
                    failed += 1;
                }
                bar.inc(1);
            }
        }
        for mut cell in cells {
            cell.outcomes.sort_by_key(Outcome::kind);
            bar.suspend(|| done(cell))?;
        }
    }
    bar.finish_and_clear();
    ensure!(failed == 0, "{failed} turns failed");
    Ok(())
}

/// One peer's turn in cells that share a directory.
fn turn(place: &Place, kind: Kind, cells: &mut [Cell]) -> Result<()> {
    let data = place.fresh()?;
    if let Some(first) = cells.first().filter(|cell| cell.job.wants_data()) {
        place.run(&Job { kind, ..first.job }, &data, true, &[])?;
    }
    for cell in cells {
        let job = Job { kind, ..cell.job };
        if kind.takes_part(&job) {
            cell.add(job, place.run(&job, &data, false, &[])?);
        }
    }
    Ok(())
}

fn takes_part(kind: Kind, group: &Group) -> bool {
    group.iter().any(|job| kind.takes_part(job))
}

/// Nothing is measured twice where nothing varies.
fn rounds(args: &Args, group: &Group) -> u32 {
    if group.iter().all(|job| job.case == Case::W7) { 1 } else { args.rounds }
}

impl Cell {
    fn add(&mut self, job: Job, figures: Figures) {
        match self.outcomes.iter_mut().find(|outcome| outcome.kind() == job.kind) {
            Some(outcome) => outcome.rounds.push(figures),
            None => self.outcomes.push(Outcome { job, rounds: vec![figures] }),
        }
    }

    /// How many times as good as the one it is held against; of several, the best.
    pub(crate) fn ratio(&self, outcome: &Outcome, against: impl Fn(Kind) -> bool) -> Option<f64> {
        let (name, more) = self.job.case.main();
        let others = self.outcomes.iter().filter(|other| against(other.kind()));
        let others = others.filter_map(|other| other.median(name));
        let own = outcome.median(name)?;
        if more {
            others.reduce(f64::max).map(|best| own / best)
        } else {
            others.reduce(f64::min).map(|best| best / own)
        }
    }
}
