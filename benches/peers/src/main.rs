//! The same workloads on tidelog, on other logs and on a bare file. See the read-me beside.

mod args;
mod case;
mod child;
mod machine;
mod plan;
mod report;
mod rounds;
mod run;
mod strace;
mod subject;

use anyhow::{Result, ensure};
use clap::Parser;

use self::args::{Args, Command};
use self::child::Place;
use self::report::Report;

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(Command::Job { job, dir, figures, fill }) = &args.command {
        return child::main(job, dir, figures, *fill);
    }
    let kinds = args.kinds();
    for kind in &args.peers {
        ensure!(kinds.contains(kind), "{} was not built in: --features", kind.name());
    }
    let place = Place::new(args.dir.as_deref())?;
    if args.strace {
        return strace::run(&args, &place);
    }
    let mut report = Report::new(args.format);
    rounds::run(&args, &place, |cell| report.add(cell))?;
    report.finish()
}
