//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tidelog::{BackendChoice, Options};

use crate::corpus::Corpus;
use crate::workload::Workload;

/// Bytes of a normal segment: small, so that a short run crosses several.
const SEGMENT_SIZE: u64 = 16 << 20;

/// A small storage engine on top of a log: appends lines from many threads, is killed in the
/// middle, recovers, checks every acknowledged line, flushes and drops regions, restarts.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Args {
    /// Threads that append, each for regions of its own
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) threads: u16,
    /// Which way the writes go
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub(crate) backend: Backend,
    /// Lines that one append carries
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) batch: u32,
    /// How long the measured part takes at least; it also takes until each line was appended
    #[arg(long, default_value_t = 2)]
    pub(crate) seconds: u64,
    /// Keep the log in this directory, which must be missing or empty
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Files whose lines are appended (default: the text files of the checkout)
    pub(crate) files: Vec<PathBuf>,
    /// Be the process that gets killed: lines come in through stdin, acknowledgements go out
    #[arg(long, hide = true, requires = "dir")]
    pub(crate) child: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// `io_uring` where it can be had, else `std`
    Auto,
    /// `io_uring`
    Ring,
    /// `pwrite` and `fdatasync`
    Std,
}

impl Backend {
    /// As it is given on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ring => "ring",
            Self::Std => "std",
        }
    }
}

impl Args {
    pub(crate) fn workload(&self, corpus: Corpus) -> Workload {
        Workload { corpus, workers: self.threads.into(), batch: self.batch.into() }
    }

    pub(crate) fn options(&self) -> Options {
        let backend = match self.backend {
            Backend::Auto => BackendChoice::Auto,
            Backend::Ring => BackendChoice::Ring,
            Backend::Std => BackendChoice::Std,
        };
        Options::new().backend(backend).segment_size(SEGMENT_SIZE)
    }
}
