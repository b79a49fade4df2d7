//! The process that is killed in the middle, and the one that kills it.
//!
//! The lines go in through the child's stdin. For each acknowledged append it writes one short line
//! to its stdout, in one piece: a pipe keeps what a killed process wrote.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use tidelog::Log;

use crate::args::Args;
use crate::corpus::Corpus;
use crate::report::flushes;
use crate::workers::{self, Acknowledged};
use crate::workload::Workload;

/// Acknowledged lines after which the child is killed: half of them, within these bounds.
const KILL_AFTER: (u64, u64) = (2_000, 50_000);
const SIGKILL: i32 = 9;

/// What the killed process had told of.
pub(crate) struct Told {
    /// Acknowledged lines of each worker.
    pub(crate) acknowledged: Vec<u64>,
    /// Flushes and durable writes that it had made.
    pub(crate) flushes: u64,
}

/// Appends without end.
pub(crate) fn run(args: &Args, dir: &Path) -> anyhow::Result<()> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    let workload = args.workload(Corpus::new(text)?);
    let log = Log::open(dir, args.options())?;
    let mut steps = vec![0; workload.workers as usize];
    workers::append(&log, &workload, &mut steps, |Acknowledged { worker, steps }| {
        // Stdout holds a line together, and passes it on at its end.
        writeln!(io::stdout().lock(), "{worker} {steps} {}", flushes(&log.stats()))?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

/// Starts the child and kills it while it appends.
pub(crate) fn start_and_kill(args: &Args, workload: &Workload, dir: &Path) -> anyhow::Result<Told> {
    let mut child = spawn(args, dir).context("cannot start the process to be killed")?;
    let told = watch(&mut child, workload);
    // Whatever came of it, nothing is left behind.
    child.kill()?;
    let status = child.wait()?;
    ensure!(status.signal() == Some(SIGKILL), "the process ended before it was killed: {status}");
    told
}

fn spawn(args: &Args, dir: &Path) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--child").arg("--dir").arg(dir);
    command.args(["--threads", &args.threads.to_string(), "--batch", &args.batch.to_string()]);
    command.args(["--backend", args.backend.name()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn watch(child: &mut Child, workload: &Workload) -> anyhow::Result<Told> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    workload.corpus.write_to(stdin.context("no stdin")?)?;
    let limit = (workload.corpus.len() / 2).clamp(KILL_AFTER.0, KILL_AFTER.1);
    let mut told = Told { acknowledged: vec![0; workload.workers as usize], flushes: 0 };
    let mut killed = false;
    for line in BufReader::new(stdout.context("no stdout")?).lines() {
        told.note(&line?)?;
        if !killed && told.acknowledged.iter().sum::<u64>() >= limit {
            child.kill()?;
            killed = true;
        }
    }
    Ok(told)
}

impl Told {
    fn note(&mut self, line: &str) -> anyhow::Result<()> {
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let told = (|| Some((next()?, next()?, next()?)))();
        let (worker, steps, flushes) = told.with_context(|| format!("the killed process said {line:?}"))?;
        let known = self.acknowledged.get_mut(worker as usize).context("an unknown worker")?;
        *known = steps.max(*known);
        self.flushes = flushes.max(self.flushes);
        Ok(())
    }
}
