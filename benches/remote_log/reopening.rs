//! Opening a large journal again: how long it takes, and what its state takes in memory. In a
//! process of its own each time, so that no figure has another one's memory in it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use indicatif::{BinaryBytes, HumanCount};

use crate::corpus::Corpus;
use crate::{directory, open};

pub(crate) const NAME: &str = "reopening";
const CHILD: &str = "reopening-child";
/// The first one reads the disk, the others are warm; the best of them counts.
const OPENINGS: usize = 4;

/// What a process finds that opens a journal.
#[derive(Clone, Copy, Debug)]
struct Opened {
    took: Duration,
    /// Anonymous memory: what it takes then, and at most while it opens.
    memory: u64,
    peak: u64,
    entries: u64,
    live: u64,
}

pub(crate) fn is_child() -> bool {
    std::env::args().nth(1).is_some_and(|arg| arg == CHILD)
}

/// Opens the journal in the directory that the second argument names, and prints what it found.
pub(crate) fn child() {
    let directory = std::env::args_os().nth(2).expect("a directory");
    let before = anonymous();
    let start = Instant::now();
    let (log, journal) = open(Path::new(&directory));
    let took = start.elapsed().as_nanos();
    let memory = anonymous().saturating_sub(before);
    let peak = status("VmHWM:").saturating_sub(status("RssFile:")).saturating_sub(before);
    let stats = journal.stats();
    println!("{took} {memory} {peak} {} {}", stats.entries, stats.live);
    log.close().expect("a healthy log closes");
}

fn anonymous() -> u64 {
    status("RssAnon:")
}

/// A figure of this process in bytes, as the kernel tells it.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells");
    let kib = line.split_whitespace().next().and_then(|number| number.parse().ok());
    1024 * kib.unwrap_or(0_u64)
}

fn reopen(directory: &Path) -> Opened {
    let program = std::env::current_exe().expect("the bench is a file");
    let output = Command::new(program).arg(CHILD).arg(directory).output().expect("it can be started");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("figures");
    let figures: Vec<u64> = text.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect();
    let [took, memory, peak, entries, live] = figures[..] else { panic!("{text}") };
    Opened { took: Duration::from_nanos(took), memory, peak, entries, live }
}

/// Journals of `live` segments, and one in which as many are what is left of ten times as many events.
pub(crate) fn run(is_test: bool) {
    let live = if is_test { 5_000 } else { 1_000_000 };
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "journal",
        "entries",
        "live",
        "took, cold",
        "warm",
        "entries/s",
        "memory",
        "a segment",
        "at most",
    ]);
    for (partitions, epochs) in [(1000, 1), (1, 1), (1000, 2), (1, 2)] {
        let corpus = Corpus { partitions, epochs };
        let directory = directory();
        corpus.write(directory.path(), live, live);
        let name = format!("{partitions} partitions, {epochs} epochs");
        table.add_row(row(&format!("{name}, events"), directory.path()));
        let (log, journal) = open(directory.path());
        journal.checkpoint().expect("a healthy journal takes it");
        log.close().expect("a healthy log closes");
        drop(journal);
        table.add_row(row(&format!("{name}, a checkpoint"), directory.path()));
    }
    // Four events a segment, two for one that lives: so 95 of 100 events say nothing about what is left.
    let (corpus, directory) = (Corpus { partitions: 1000, epochs: 1 }, directory());
    corpus.write(directory.path(), live / 2 * 11 / 2, live / 2);
    table.add_row(row("1000 partitions, 95 % dead", directory.path()));
    println!("{table}");
}

fn row(name: &str, directory: &Path) -> Vec<String> {
    let cold = reopen(directory);
    let warm = (1..OPENINGS).map(|_| reopen(directory)).min_by_key(|opened| opened.took).unwrap_or(cold);
    vec![
        name.to_owned(),
        HumanCount(warm.entries).to_string(),
        HumanCount(warm.live).to_string(),
        format!("{:.2?}", cold.took),
        format!("{:.2?}", warm.took),
        HumanCount(warm.entries * 1_000_000 / (warm.took.as_micros() as u64).max(1)).to_string(),
        BinaryBytes(warm.memory).to_string(),
        format!("{} B", warm.memory / warm.live.max(1)),
        BinaryBytes(warm.peak).to_string(),
    ]
}
