//! The process that is killed, and the one that starts it.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;
use fastrand::Rng;

use crate::args::Args;
use crate::broker::Leader;
use crate::crash::{self, Crash};
use crate::journal;
use crate::local::LocalLog;
use crate::objects::Objects;
use crate::phase::{Phase, topic_id_partition};
use crate::wire::Told;

const SIGKILL: i32 = 9;

/// The work of a phase, or what is left of it: a thread for each partition.
pub(crate) fn work(args: &Args, phase: Phase, dir: &Path) -> anyhow::Result<()> {
    if let Some(micros) = args.crash_after {
        crash::after(Duration::from_micros(micros));
    }
    let (log, manager) = journal::open(dir)?;
    let (objects, crash) = (Objects::new(dir)?, Crash::new(args.crash_at));
    let lead = |partition: i32| {
        let broker = phase.leader(partition);
        // Ids are never used twice, not even by the successor of a killed process.
        let seed = [args.seed, args.process, partition.cast_unsigned().into()];
        let seed = seed.iter().fold(0, |mixed, part| Rng::with_seed(mixed ^ part).u64(..));
        let mut leader = Leader {
            broker,
            tp: topic_id_partition(partition),
            local: LocalLog::open(dir, broker, partition)?,
            manager: &manager,
            objects: &objects,
            crash: &crash,
            rng: Rng::with_seed(seed),
        };
        leader.work(phase).with_context(|| format!("the leader of partition {partition} failed"))
    };
    let lead = &lead;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..args.partitions).map(|partition| scope.spawn(move || lead(partition))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a leader panicked"))?)
    })?;
    log.close()?;
    Told::Finished.tell()
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kill {
    /// At a point of its work.
    At(u64),
    /// After so many microseconds.
    After(u64),
}

/// A process to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) phase: Phase,
    pub(crate) number: u64,
    pub(crate) crash: Option<Kill>,
}

impl Process {
    /// Lets it work until its end, and hears what it tells. Whether it finished, rather than was killed.
    pub(crate) fn run(
        self,
        args: &Args,
        dir: &Path,
        mut hear: impl FnMut(Told) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let mut child = self.spawn(args, dir).context("cannot start the process to be killed")?;
        let mut finished = false;
        let heard = listen(&mut child, |told| match told {
            Told::Finished => {
                finished = true;
                Ok(())
            }
            told => hear(told),
        });
        if heard.is_err() {
            // Nothing is left behind.
            child.kill()?;
        }
        let status = child.wait()?;
        heard?;
        let killed = self.crash.is_some() && status.signal() == Some(SIGKILL);
        ensure!(killed || finished && status.success(), "the process was to work or to be killed: {status}");
        Ok(!killed)
    }

    fn spawn(self, args: &Args, dir: &Path) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        let phase = self.phase.to_possible_value().expect("no phase is skipped");
        command.args(["--child", phase.get_name()]).arg("--dir").arg(dir);
        command.args(["--partitions", &args.partitions.to_string(), "--seed", &args.seed.to_string()]);
        command.args(["--process", &self.number.to_string()]);
        match self.crash {
            Some(Kill::At(point)) => drop(command.args(["--crash-at", &point.to_string()])),
            Some(Kill::After(micros)) => drop(command.args(["--crash-after", &micros.to_string()])),
            None => {}
        }
        command.stdout(Stdio::piped()).spawn()
    }
}

fn listen(child: &mut Child, mut hear: impl FnMut(Told) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let stdout = child.stdout.take().context("no stdout")?;
    BufReader::new(stdout).lines().try_for_each(|line| hear(Told::parse(&line?)?))
}
