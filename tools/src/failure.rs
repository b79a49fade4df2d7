//! How a command ends.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a command that could finish found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Clean,
    Damage,
    /// Something could not be read or opened.
    Unreadable,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        // 2 is what clap gives for wrong usage.
        Self::from(match verdict {
            Verdict::Clean => 0,
            Verdict::Damage => 1,
            Verdict::Unreadable => 3,
        })
    }
}

/// Why a command could not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    Log(tidelog::Error),
    Input(io::Error),
    Output(io::Error),
    File(PathBuf, io::Error),
}

impl Failure {
    /// For what went wrong with a file or a directory.
    pub(crate) fn of_file(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::File(path.to_owned(), error)
    }

    /// What to tell of it: nothing where the reader of the output has seen enough.
    pub(crate) fn message(&self) -> Option<String> {
        (!self.is_broken_pipe()).then(|| self.to_string())
    }

    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Input(error) => write!(f, "standard input: {error}"),
            Self::Output(error) => write!(f, "standard output: {error}"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl From<&Failure> for Verdict {
    fn from(failure: &Failure) -> Self {
        match failure {
            broken if broken.is_broken_pipe() => Self::Clean,
            Failure::Log(tidelog::Error::Corrupt(_)) => Self::Damage,
            _ => Self::Unreadable,
        }
    }
}

impl From<tidelog::Error> for Failure {
    fn from(error: tidelog::Error) -> Self {
        Self::Log(error)
    }
}
