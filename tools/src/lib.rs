//! The command line of tidelog: what the program does, for itself and for those who test it.

mod args;
pub mod bare;
mod cmd;
mod failure;
mod out;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;

use crate::args::{Args, Command};
use crate::failure::Verdict;

/// Runs the command that these arguments, the first of them the program's name, ask for. What it finds is written to
/// `out`; the exit status is returned.
pub fn run<I>(args: I, out: &mut dyn Write) -> u8
where
    I: IntoIterator<Item: Into<OsString> + Clone>,
{
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(usage) => {
            // Where even that fails, the exit status is left.
            let _ = usage.print();
            return u8::try_from(usage.exit_code()).unwrap_or(2);
        }
    };
    let verdict = match args.command {
        Command::Append(args) => cmd::append(&args, out),
        Command::Bench(args) => cmd::bench(&args, out),
        Command::Dump(args) => cmd::dump(&args, out),
        Command::Journal(args) => cmd::journal(&args, out),
        Command::Stat(args) => cmd::stat(&args, out),
        Command::Verify(args) => cmd::verify(&args, out),
    };
    let verdict = verdict.unwrap_or_else(|failure| {
        if let Some(message) = failure.message() {
            out::warn(&message);
        }
        Verdict::from(&failure)
    });
    verdict.status()
}
