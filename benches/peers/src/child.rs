//! A job in a process of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::case::{Figures, Job};
use crate::run;

/// A process that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);

/// Where the processes of one run put their data.
#[derive(Debug)]
pub(crate) struct Place {
    /// Removed at the end.
    home: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new(dir: Option<&Path>) -> Result<Self> {
        let dir = match dir {
            Some(dir) => dir.to_path_buf(),
            None => std::env::current_exe()?.parent().context("the program is nowhere")?.into(),
        };
        let home = tempfile::Builder::new().prefix("peers-").tempdir_in(&dir);
        Ok(Self { home: home.with_context(|| format!("no directory can be made in {}", dir.display()))? })
    }

    /// A new directory, the last one's data gone.
    pub(crate) fn fresh(&self) -> Result<PathBuf> {
        let data = self.home.path().join("data");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        fs::create_dir(&data)?;
        Ok(data)
    }

    /// Runs a job, or makes its data. `before` goes in front of the command.
    pub(crate) fn run(&self, job: &Job, data: &Path, fill: bool, before: &[&str]) -> Result<Figures> {
        let program = std::env::current_exe()?;
        let (figures, errors) = (self.home.path().join("figures"), self.home.path().join("errors"));
        let mut command = match before {
            [] => Command::new(&program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program);
                command
            }
        };
        command.arg("job").arg(serde_json::to_string(job)?).arg(data).arg(&figures);
        command.args(fill.then_some("--fill"));
        command.env("WALRUS_DATA_DIR", data).env("WALRUS_QUIET", "1");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?).spawn()?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if begun.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                bail!("{} hung in {:?}, {}", job.kind.name(), job.case, job.label());
            }
            thread::sleep(POLL);
        };
        if !status.success() {
            let errors = fs::read_to_string(&errors).unwrap_or_default();
            bail!("{} failed in {:?}, {}: {status}\n{errors}", job.kind.name(), job.case, job.label());
        }
        Ok(serde_json::from_slice(&fs::read(&figures)?)?)
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }
}

/// The other side.
pub(crate) fn main(job: &str, data: &Path, figures: &Path, fill: bool) -> Result<()> {
    let job: Job = serde_json::from_str(job)?;
    let outcome = if fill { run::fill(&job, data)? } else { run::run(&job, data)? };
    fs::write(figures, serde_json::to_vec(&outcome)?)?;
    Ok(())
}
