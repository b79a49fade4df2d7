//! The command line of tidelog.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidelog_tools::run(std::env::args_os(), &mut std::io::stdout()).into()
}
