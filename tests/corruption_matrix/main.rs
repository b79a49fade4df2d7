//! What becomes of a log when any one bit or sector of it is wrong: a table of outcomes by structure.
//!
//! Two small logs hold every kind of record and file, one of them closed, one left as by a crash. Every bit of what is
//! written in them is flipped, every sector zeroed and swapped with others; each time the log is looked at read-only,
//! or opened for writing, and all is read back, the journal's manager included. All that is read is right, or an
//! error names the damaged place, or a tail is cut off that nothing vouched for; nothing else may happen.
//!
//! By default each bit of the crashed log is tried with the read-only view, which is cheap, and one bit of each byte by
//! opening for writing; of the closed log one bit of each byte, and of each eighth. Of long payloads and of zeros that
//! nobody reads, a sample must do. `CORRUPTION_MATRIX=full` tries each bit both ways (of padding one of each
//! byte, of long payloads, the reserve and unused room one of each 16th), and swaps each sector with each other.

#[path = "../hostile/base.rs"]
#[allow(dead_code, reason = "its own logs are larger than needed here")]
mod base;
mod bench;
#[path = "../hostile/check.rs"]
#[allow(dead_code, reason = "forged logs are checked elsewhere")]
mod check;
mod damage;
mod log;
mod places;
#[path = "../hostile/rng.rs"]
mod rng;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench::Bench;
use damage::{Case, Way};
use log::Specimen;
use table::{Outcome, Table};

/// Where the last panic of the current thread was, and those of the library's own threads.
#[derive(Debug)]
struct Panicked {
    file: String,
    message: String,
}

thread_local! {
    static LAST: std::cell::RefCell<Option<Panicked>> = const { std::cell::RefCell::new(None) };
}
static ELSEWHERE: Mutex<Vec<Panicked>> = Mutex::new(Vec::new());
/// Names of the threads that work on the cases.
const WORKER: &str = "matrix";

fn note_panics() {
    std::panic::set_hook(Box::new(|info| {
        let file = info.location().map_or_else(String::new, |place| place.file().to_owned());
        let panicked = Panicked { file, message: info.to_string() };
        if std::thread::current().name() == Some(WORKER) {
            LAST.set(Some(panicked));
        } else {
            eprintln!("{info}");
            ELSEWHERE.lock().unwrap().push(panicked);
        }
    }));
}

/// What a case comes to, and where it is not allowed, why.
fn judge(bench: &Bench, specimen: &Specimen, case: &Case) -> (Outcome, Option<String>) {
    let tried = catch_unwind(AssertUnwindSafe(|| match case.way {
        Way::View => bench.view(specimen, case),
        Way::Write => bench.write(specimen, case),
    }));
    tried.unwrap_or_else(|_| {
        let panicked = LAST.take().unwrap();
        // The oracle's own assertions say that something is silently wrong.
        let outcome = if panicked.file.starts_with("tests/") { Outcome::Silent } else { Outcome::Panic };
        (outcome, Some(panicked.message))
    })
}

fn run(specimens: &[Specimen], full: bool) -> (Table, Vec<String>) {
    let cases: Vec<(usize, Case)> = specimens
        .iter()
        .enumerate()
        .flat_map(|(index, specimen)| {
            damage::cases(specimen, full).into_iter().map(move |case| (index, case))
        })
        .collect();
    let (next, table, forbidden) =
        (AtomicUsize::new(0), Mutex::new(Table::default()), Mutex::new(Vec::new()));
    let work = || {
        let bench: Vec<Bench> = specimens.iter().map(Bench::new).collect();
        while let Some((index, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let specimen = &specimens[*index];
            let (outcome, why) = judge(&bench[*index], specimen, case);
            table.lock().unwrap().count(case, outcome);
            if let Some(why) = why {
                let mut forbidden = forbidden.lock().unwrap();
                forbidden.push(format!("{}: {case:?}: {outcome:?}: {why}", specimen.base.name));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            std::thread::Builder::new().name(WORKER.into()).spawn_scoped(scope, work).unwrap();
        }
    });
    (table.into_inner().unwrap(), forbidden.into_inner().unwrap())
}

#[test]
fn one_wrong_bit_or_sector_is_harmless_or_named() {
    let full = std::env::var("CORRUPTION_MATRIX").is_ok_and(|value| value == "full");
    let specimens = [Specimen::new(true), Specimen::new(false)];
    places::assert_complete(&specimens);
    note_panics();
    let (table, forbidden) = run(&specimens, full);
    let _ = std::panic::take_hook();
    println!("{table}");
    let shown = forbidden.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(forbidden.is_empty(), "{} cases:\n{shown}", forbidden.len());
    let elsewhere = ELSEWHERE.lock().unwrap();
    assert!(elsewhere.is_empty(), "threads of the library panicked: {elsewhere:?}");
    table.assert_telling();
}
