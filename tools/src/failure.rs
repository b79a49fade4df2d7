//! How a command ends.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tidelog::remote_log::JournalError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Clean,
    Damage,
    Usage,
    /// Something could not be read or opened.
    Unreadable,
}

impl Verdict {
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Damage => 1,
            // As clap has it.
            Self::Usage => 2,
            Self::Unreadable => 3,
        }
    }
}

/// Why a command could not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    Log(tidelog::Error),
    Journal(JournalError),
    /// What was asked for is not there.
    Absent(String),
    /// What was asked for may be one of several.
    Ambiguous(String),
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
            Self::Journal(error) => error.fmt(f),
            Self::Absent(message) | Self::Ambiguous(message) => f.write_str(message),
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
            Failure::Log(tidelog::Error::Corrupt(_))
            | Failure::Journal(
                JournalError::Log(tidelog::Error::Corrupt(_))
                | JournalError::Record { .. }
                | JournalError::Checkpoint { .. },
            ) => Self::Damage,
            Failure::Ambiguous(_) => Self::Usage,
            _ => Self::Unreadable,
        }
    }
}

impl From<tidelog::Error> for Failure {
    fn from(error: tidelog::Error) -> Self {
        Self::Log(error)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
