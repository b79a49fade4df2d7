//! The command line's grammar.

mod bench;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use tidelog::BackendChoice;
use tidelog::readonly::{Kind, Record};

pub(crate) use self::bench::{BenchArgs, BenchFormat, Case};

const EXIT: &str = "Exit status: 0 nothing wrong (a torn tail may have been cut), 1 damage, 2 wrong usage, \
                    3 something cannot be opened, read or written.";

/// Appends to a tidelog, looks into it, and measures it. `dump`, `stat` and `verify` change nothing and need no lock.
#[derive(Debug, Parser)]
#[command(name = "tidelog", version, after_help = EXIT)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Append(AppendArgs),
    Bench(BenchArgs),
    Dump(DumpArgs),
    Journal(JournalArgs),
    Stat(StatArgs),
    Verify(VerifyArgs),
}

/// Append the lines of standard input as entries, without their newlines.
///
/// Ids go on after the stream's last one. Before it ends, everything is durable.
#[derive(Debug, clap::Args)]
pub(crate) struct AppendArgs {
    /// The log's directory; a missing or empty one becomes a log.
    pub(crate) dir: PathBuf,
    /// The stream.
    #[arg(long, value_name = "N")]
    pub(crate) stream: u64,
    /// The stream's class.
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) class: u16,
    /// Most bytes of a batch, with 32 for each entry; a longer line is a batch of its own.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// Which way writes go.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: Backend,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Backend {
    /// `io_uring` where it works, else std.
    #[default]
    Auto,
    /// `io_uring` or nothing.
    Ring,
    /// pwrite and fdatasync.
    Std,
}

impl From<Backend> for BackendChoice {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::Ring => Self::Ring,
            Backend::Std => Self::Std,
        }
    }
}

/// Print the records, a line each, in the order of the log.
///
/// Records show as they were written, those too that are obsolete or truncated since.
#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    /// The log's directory.
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Only this segment.
    #[arg(long, value_name = "N")]
    pub(crate) segment: Option<u64>,
    /// Stop after so many records.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// How payloads are shown.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) payload: PayloadForm,
    /// Most bytes of a payload that are shown.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) max_payload: usize,
    /// Lines of key=value, or of JSON.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DumpFormat,
}

/// Which records are wanted.
#[derive(Debug, clap::Args)]
pub(crate) struct Filter {
    /// Only records of streams with this id.
    #[arg(long, value_name = "N")]
    pub(crate) stream: Option<u64>,
    /// Only records of streams of this class.
    #[arg(long, value_name = "C")]
    pub(crate) class: Option<u16>,
    /// Only entries with at least this id.
    #[arg(long, value_name = "ID")]
    pub(crate) from: Option<u64>,
    /// Only entries with at most this id.
    #[arg(long, value_name = "ID")]
    pub(crate) to: Option<u64>,
    /// Only records of this kind.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<KindName>,
}

impl Filter {
    pub(crate) fn wants(&self, record: &Record) -> bool {
        let row = &record.row;
        let has_id = |id: u64| self.from.unwrap_or(0) <= id && id <= self.to.unwrap_or(u64::MAX);
        let any_id = self.from.is_none() && self.to.is_none();
        self.stream.is_none_or(|stream| stream == row.stream.id && row.stream.class != 0)
            && self.class.is_none_or(|class| class == row.stream.class)
            && (any_id || (row.is_entry() && has_id(row.entry_id)))
            && self.kind.is_none_or(|kind| kind == KindName::from(row.kind))
    }
}

/// The names of the kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    Entry,
    Obsolete,
    Release,
    Truncate,
    NamespaceCreate,
    NamespaceDelete,
    Oldest,
    Checkpoint,
    SegmentEnd,
}

impl From<Kind> for KindName {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Entry => Self::Entry,
            Kind::Obsolete => Self::Obsolete,
            Kind::Release => Self::Release,
            Kind::Truncate => Self::Truncate,
            Kind::NamespaceCreate => Self::NamespaceCreate,
            Kind::NamespaceDelete => Self::NamespaceDelete,
            Kind::Oldest => Self::Oldest,
            Kind::Checkpoint => Self::Checkpoint,
            Kind::SegmentEnd => Self::SegmentEnd,
        }
    }
}

impl KindName {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Obsolete => "obsolete",
            Self::Release => "release",
            Self::Truncate => "truncate",
            Self::NamespaceCreate => "namespace-create",
            Self::NamespaceDelete => "namespace-delete",
            Self::Oldest => "oldest",
            Self::Checkpoint => "checkpoint",
            Self::SegmentEnd => "segment-end",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadForm {
    /// Neither shown nor read, so not verified either.
    None,
    /// Verified, not shown; the length shows anyway.
    Len,
    /// Hexadecimal.
    Hex,
    /// As text. What is no text or would drive the terminal is escaped; of control records the numbers show, of
    /// journals the events.
    #[default]
    Utf8,
    /// Base64.
    Base64,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum DumpFormat {
    #[default]
    Text,
    Jsonl,
}

/// Show the remote log metadata that a journal holds.
///
/// All partitions, or one with its segments and leader epochs. What another process writes meanwhile may show.
#[derive(Debug, clap::Args)]
pub(crate) struct JournalArgs {
    /// The log's directory.
    pub(crate) dir: PathBuf,
    /// The journal's id; needed where the log holds several.
    #[arg(long, value_name = "N")]
    pub(crate) journal: Option<u64>,
    /// Only this partition, all of it: TOPIC-NUMBER or TOPIC_ID-NUMBER.
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) partition: Option<String>,
    /// Tables, or lines of JSON.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DumpFormat,
}

/// Sum up the log, by segment and by stream.
///
/// Payloads are not read.
#[derive(Debug, clap::Args)]
pub(crate) struct StatArgs {
    /// The log's directory.
    pub(crate) dir: PathBuf,
    /// Tables, or JSON.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: StatFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum StatFormat {
    #[default]
    Text,
    Json,
}

/// Read and check everything, and name what is damaged.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The log's directory.
    pub(crate) dir: PathBuf,
}
