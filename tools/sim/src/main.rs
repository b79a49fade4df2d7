//! `tidelog-sim`: crashes the log for as long as it is given.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use comfy_table::{CellAlignment, Table};
use parking_lot::Mutex;
use tidelog_sim::{History, Stats, Theme, hunt_all, run, shrink};

/// Runs random histories of the log on a simulated disk, crashes them and checks what is left.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Stop after so many seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Stop after so many crash points.
    #[arg(long)]
    points: Option<u64>,
    /// The seed of the first history; the next ones follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// What the histories are about: power, kill, faults, cached-faults, full, damage, lies. All, one
    /// after the other, if nothing is said.
    #[arg(long, value_parser = theme)]
    theme: Option<Theme>,
    /// Plant faults in the engine, one after the other, and tell how soon each is found.
    #[arg(long)]
    planted: bool,
    /// Only the history of this seed and theme.
    #[arg(long, requires = "theme")]
    once: bool,
}

fn theme(name: &str) -> Result<Theme, String> {
    let named = Theme::ALL.into_iter().find(|theme| theme.name() == name);
    named.ok_or_else(|| format!("one of {}", Theme::ALL.map(Theme::name).join(", ")))
}

/// What the threads share.
struct Shared {
    args: Args,
    next: AtomicU64,
    points: AtomicU64,
    stop: AtomicBool,
    stats: Mutex<Stats>,
    failed: Mutex<Option<History>>,
}

impl Shared {
    fn work(&self, until: Instant) {
        let mut stats = Stats::default();
        while !self.stop.load(Ordering::Relaxed) && Instant::now() < until {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let history = self.history(number);
            let before = stats.points;
            if run(&history, &mut stats, u64::MAX).is_err() {
                self.stop.store(true, Ordering::Relaxed);
                self.failed.lock().get_or_insert(history);
            }
            let points = stats.points - before;
            let all = self.points.fetch_add(points, Ordering::Relaxed) + points;
            if self.args.once || self.args.points.is_some_and(|most| all >= most) {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        *self.stats.lock() += stats;
    }

    fn history(&self, number: u64) -> History {
        let seed = self.args.seed.wrapping_add(number);
        let theme = self.args.theme.unwrap_or(Theme::ALL[(seed % Theme::ALL.len() as u64) as usize]);
        History::draw(theme, seed)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.planted {
        return hunt_planted(&args);
    }
    let threads = if args.once { 1 } else { args.threads.max(1) };
    let begun = Instant::now();
    let until = begun + Duration::from_secs(args.seconds);
    let shared = Shared {
        next: AtomicU64::new(0),
        points: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        stats: Mutex::default(),
        failed: Mutex::default(),
        args,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.work(until));
        }
    });
    let failed = shared.failed.into_inner();
    report(&shared.stats.into_inner(), begun.elapsed(), usize::from(failed.is_some()));
    match failed {
        None => ExitCode::SUCCESS,
        Some(history) => {
            explain(&history);
            ExitCode::FAILURE
        }
    }
}

fn hunt_planted(args: &Args) -> ExitCode {
    let hunted = hunt_all(args.seed, args.points.unwrap_or(20_000), args.threads.max(1));
    for hunted in &hunted {
        println!("{hunted}");
    }
    let surviving = hunted.iter().filter(|hunted| hunted.broken.is_none()).count();
    println!("{} planted, {surviving} not found", hunted.len());
    if surviving == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(stats: &Stats, took: Duration, violations: usize) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let rate = u128::from(stats.points) * 60_000 / took.as_millis().max(1);
    let mut rows = vec![
        ("histories", stats.histories.to_string()),
        ("batches", stats.batches.to_string()),
        ("crash points", stats.points.to_string()),
        ("of these inside a recovery", stats.inner.to_string()),
        ("recoveries", stats.recoveries.to_string()),
    ];
    rows.extend(stats.faults.iter().map(|(what, count)| (*what, count.to_string())));
    rows.extend([("crash points a minute", rate.to_string()), ("violations", violations.to_string())]);
    for (what, count) in rows {
        table.add_row([what.to_owned(), count]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

/// How to see it again, and the least that it takes.
fn explain(history: &History) {
    let (theme, seed) = (history.theme.name(), history.seed);
    println!("\nagain: cargo run --release --bin tidelog-sim -- --theme {theme} --seed {seed} --once");
    let (short, violation) = shrink(history, 400);
    println!("in step {} of {}:", violation.step, short.steps.len());
    for (place, step) in short.steps.iter().enumerate() {
        println!("{place:>4} {:?} {:#x}", step.kind, step.seed);
    }
    println!("broken: {}", violation.broken);
}
