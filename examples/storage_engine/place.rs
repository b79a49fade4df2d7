//! Where the log lives.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::TempDir;

/// A directory that was asked for, or one beside the executable, which is on a disk (a temporary
/// directory of the system may be in memory).
pub(crate) enum Place {
    Asked(PathBuf),
    Own(TempDir),
}

impl Place {
    pub(crate) fn new(asked: Option<&Path>) -> anyhow::Result<Self> {
        let Some(dir) = asked else {
            let executable = std::env::current_exe()?;
            let beside = executable.parent().context("the executable is nowhere")?;
            let own =
                tempfile::Builder::new().prefix(concat!(env!("CARGO_BIN_NAME"), "-")).tempdir_in(beside);
            return Ok(Self::Own(own.with_context(|| format!("no directory in {}", beside.display()))?));
        };
        // The figures are those of a new log.
        let empty = !dir.exists() || dir.read_dir().is_ok_and(|mut names| names.next().is_none());
        ensure!(empty, "{} is not an empty directory", dir.display());
        Ok(Self::Asked(dir.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Asked(dir) => dir,
            Self::Own(dir) => dir.path(),
        }
    }

    /// Leaves the log to be looked at.
    pub(crate) fn keep(self) -> PathBuf {
        match self {
            Self::Asked(dir) => dir,
            Self::Own(dir) => dir.keep(),
        }
    }

    /// Removes what nobody asked for.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Asked(_) => Ok(()),
            Self::Own(dir) => dir.close().context("the log's directory cannot be removed"),
        }
    }
}
