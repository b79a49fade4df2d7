//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::phase::Phase;

/// A broker with tiered storage on top of a metadata journal: copies segments, changes leaders,
/// deletes segments and a partition, is killed all the while, and checks that nothing got lost.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Args {
    /// Keep all files in this directory, which must be missing or empty
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Partitions of the topic; every other one changes its leader
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(i32).range(2..=256))]
    pub(crate) partitions: i32,
    /// Segments of each partition's first leader
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(6..=4096))]
    pub(crate) segments: u32,
    /// How many times a process is killed at most, over all phases
    #[arg(long, default_value_t = 40)]
    pub(crate) crashes: u32,
    /// What the logs hold, and where the processes are killed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Be a process that gets killed: do the work of this phase
    #[arg(long, hide = true, requires = "dir", value_enum)]
    pub(crate) child: Option<Phase>,
    /// Number of the process
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) process: u64,
    /// The point at which it is killed
    #[arg(long, hide = true)]
    pub(crate) crash_at: Option<u64>,
    /// Microseconds after which it is killed, wherever it is
    #[arg(long, hide = true)]
    pub(crate) crash_after: Option<u64>,
}
