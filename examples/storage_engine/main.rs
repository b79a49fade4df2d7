//! A small storage engine that embeds the log: worker threads append the lines of files to
//! regions, with durable acknowledgements. It is killed in the middle, recovers, checks each
//! acknowledged line byte for byte, runs on, flushes some regions, drops one, restarts, checks
//! again, flushes the rest, and prints one table. It fails when anything is not as promised.
//!
//! ```sh
//! cargo run --release --example storage_engine -- --threads 16
//! ```
//!
//! With `--backend std` the flushes and durable writes of the table are the calls of `fdatasync`
//! that `strace -f -c` counts, but for the last few of the killed process, what recovery flushes, and
//! reads past the cache.

mod args;
mod child;
mod corpus;
mod engine;
mod place;
mod report;
mod verify;
mod workers;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use self::args::Args;
use self::corpus::Corpus;
use self::engine::Engine;
use self::place::Place;
use self::report::Report;
use self::workload::Workload;

fn main() -> ExitCode {
    match start(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> anyhow::Result<()> {
    if let (true, Some(dir)) = (args.child, &args.dir) {
        return child::run(args, dir);
    }
    let workload = args.workload(Corpus::read(&args.files)?);
    let place = Place::new(args.dir.as_deref())?;
    match run(args, &workload, place.path()) {
        Ok(report) => {
            println!("{report}");
            place.close()
        }
        Err(error) => Err(error.context(format!("the log is in {}", place.keep().display()))),
    }
}

fn run(args: &Args, workload: &Workload, dir: &Path) -> anyhow::Result<Report> {
    let mut report = Report::new();
    report.input(args, workload);
    let told = child::start_and_kill(args, workload, dir)?;
    let mut engine = Engine::recover(args, workload, dir, &told, &mut report)?;
    engine.run_on(args, &mut report)?;
    engine.flush_and_drop()?;
    let engine = engine.restart(args, dir, &mut report)?;
    report.disk("", dir)?;
    engine.shut_down(&mut report)?;
    report.disk(", all flushed", dir)?;
    Ok(report)
}
