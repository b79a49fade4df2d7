//! The command line of tidelog.

mod args;
mod cmd;
mod failure;
mod out;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::failure::Verdict;

fn main() -> ExitCode {
    let verdict = match Args::parse().command {
        Command::Append(args) => cmd::append(&args),
        Command::Bench(args) => cmd::bench(&args),
        Command::Dump(args) => cmd::dump(&args),
        Command::Stat(args) => cmd::stat(&args),
        Command::Verify(args) => cmd::verify(&args),
    };
    verdict
        .unwrap_or_else(|failure| {
            if let Some(message) = failure.message() {
                out::warn(&message);
            }
            Verdict::from(&failure)
        })
        .into()
}
