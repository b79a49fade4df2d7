//! A broker with tiered storage: its metadata in a journal, its segment files copied to a directory
//! that plays the object store.
//!
//! Leaders copy their segments, one loses the leadership to a replica whose log has parted from its
//! own, segments are deleted by size, by age and because they are superseded, and a partition is
//! deleted. All of that happens in processes that are killed, wherever they happen to be in a
//! segment's life. After each, this process reopens the log, retries what was not acknowledged, and
//! compares the journal with the events that were acknowledged and with what is in the object store;
//! it reads records by offset and epoch through both, and compares them with the local logs. It
//! prints one table, and fails when anything is not as promised.
//!
//! ```sh
//! cargo run --release --example tiered_storage -- --crashes 200 --seed 7
//! ```

mod args;
mod broker;
mod child;
mod crash;
mod journal;
mod local;
mod model;
mod objects;
mod phase;
mod read;
mod record;
mod report;
mod retention;
mod retry;
mod run;
mod setup;
mod verify;
mod wire;

// Each example uses its part of what they share.
#[allow(dead_code)]
#[path = "../storage_engine/corpus.rs"]
mod corpus;
#[path = "../storage_engine/place.rs"]
mod place;

use std::process::ExitCode;

use clap::Parser;

use self::args::Args;
use self::corpus::Corpus;
use self::place::Place;

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
    if let (Some(phase), Some(dir)) = (args.child, &args.dir) {
        return child::work(args, phase, dir);
    }
    let corpus = Corpus::read(&[])?;
    let place = Place::new(args.dir.as_deref())?;
    match run::run(args, &corpus, place.path()) {
        Ok(report) => {
            println!("{report}");
            place.close()
        }
        Err(error) => {
            let dir = place.keep();
            Err(error.context(format!("seed {}; all files are in {}", args.seed, dir.display())))
        }
    }
}
