//! The grammar of the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum, value_parser};

use crate::case::Case;
use crate::subject::Kind;

/// The same workloads on tidelog, on other logs and on a bare file.
///
/// All take turns within a case, each time in a process and a directory of their own, so that a ratio is between
/// neighbours in time. The data goes to the disk that holds `--dir`.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Where the data goes, in a directory that is removed; by default beside the program.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Measured seconds of each peer in each window, over all rounds.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// How often the peers take turns.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Which cases; all by default.
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) cases: Vec<Case>,
    /// Numbers of threads of w1, w2 and w3.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) threads: Vec<u32>,
    /// Payload sizes of w1, in bytes.
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=1 << 20))]
    pub(crate) payload: Vec<u32>,
    /// Appends outstanding in w1p.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [8, 64],
          value_parser = value_parser!(u32).range(1..=4096))]
    pub(crate) outstanding: Vec<u32>,
    /// Mebibytes of payload in w4, w5 and w6.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = value_parser!(u64).range(16..=65536))]
    pub(crate) data: u64,
    /// Who takes part; by default all that were built in.
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) peers: Vec<Kind>,
    /// More threads and payloads in w1 and w2.
    #[arg(long)]
    pub(crate) full: bool,
    /// Instead, count the system calls that flush, for each record of w1, with strace.
    #[arg(long)]
    pub(crate) strace: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One job in this process.
    #[command(hide = true)]
    Job {
        /// The job, as JSON.
        job: String,
        dir: PathBuf,
        /// Where the figures go.
        figures: PathBuf,
        /// Make the data only.
        #[arg(long)]
        fill: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Markdown,
    /// An object for each peer in each case.
    Jsonl,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.05..=3600.0).contains(&value) { Ok(value) } else { Err("from 0.05 to 3600".into()) }
}

impl Args {
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let wanted = |kind: &Kind| self.peers.is_empty() || self.peers.contains(kind);
        Kind::ALL.into_iter().filter(|kind| kind.is_built() && wanted(kind)).collect()
    }
}
