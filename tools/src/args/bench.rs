//! The grammar of `tidelog bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ValueEnum, value_parser};

use super::Backend;

/// Most bytes of a payload, and of a segment.
const PAYLOAD_MAX: u64 = 1 << 20;
const SEGMENT_MAX: u64 = 1 << 30;
const SEGMENT_UNIT: u64 = 1 << 16;

/// Measure the log on a device, each figure beside what the device gives without a log.
///
/// The log and bare writers take turns, so that a ratio is between neighbours in time. Up to a gigabyte is written
/// under the directory at a time.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Where the data goes: missing or empty, and removed afterwards.
    pub(crate) dir: PathBuf,
    /// Seconds for each case and runner, over all rounds; the one that packs by itself has half of it.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// How often the runners of a case take turns.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Which cases, all by default.
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) cases: Vec<Case>,
    /// Numbers of threads; by default what suits the case.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Vec<u16>,
    /// Payload sizes, such as 128,1k,16k; by default what suits the case.
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = payload)]
    pub(crate) payload: Vec<u64>,
    /// Appends outstanding in the case `wait`.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "8,64",
          value_parser = value_parser!(u16).range(1..=4096))]
    pub(crate) outstanding: Vec<u16>,
    /// Microseconds that each caller rests between two appends in the case `think`.
    #[arg(long, value_name = "US", default_value_t = 200, value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) think: u64,
    /// Payload bytes of the log that `replay`, `scan` and `reopen` read.
    #[arg(long, value_name = "BYTES", default_value = "224m", value_parser = data)]
    pub(crate) data: u64,
    /// Bytes of a segment.
    #[arg(long, value_name = "BYTES", default_value = "64m", value_parser = segment)]
    pub(crate) segment: u64,
    /// Which way the log's writes go.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: Backend,
    /// Keep no files of retired segments: each segment is filled with zeros first, in the background.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Leave the data where it is.
    #[arg(long)]
    pub(crate) keep: bool,
    /// A table, or JSON, an object for each case and runner.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: BenchFormat,
    /// Also write a page with plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Case {
    /// Each thread appends a record and waits until it is durable.
    Durable,
    /// As `durable`, with a rest between two appends.
    Think,
    /// As `durable`, with 100 records over 10 streams in a batch.
    Batch,
    /// Each thread appends without waiting; the final flush counts.
    Staged,
    /// One thread that waits for the oldest of many appends.
    Wait,
    /// One stream of 100 is read, then the next, out of the page cache.
    Replay,
    /// All streams are read in the order of the log, out of the page cache.
    Scan,
    /// As `replay`, of a log just opened whose files have left the page cache.
    ReplayCold,
    /// As `scan`, of a log just opened whose files have left the page cache.
    ScanCold,
    /// The log is opened.
    Reopen,
}

impl Case {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Think => "think",
            Self::Batch => "batch",
            Self::Staged => "staged",
            Self::Wait => "wait",
            Self::Replay => "replay",
            Self::Scan => "scan",
            Self::ReplayCold => "replay-cold",
            Self::ScanCold => "scan-cold",
            Self::Reopen => "reopen",
        }
    }

    /// Whether entries are read.
    pub(crate) const fn is_reading(self) -> bool {
        matches!(self, Self::Replay | Self::Scan) || self.is_cold()
    }

    /// Whether they come from the device.
    pub(crate) const fn is_cold(self) -> bool {
        matches!(self, Self::ReplayCold | Self::ScanCold)
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum BenchFormat {
    #[default]
    Table,
    Jsonl,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=3600.0).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err("from 0.01 to 3600".into())
    }
}

/// A number of bytes, with `k`, `m` or `g` behind it for the powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['k', 'm', 'g']) {
        Some(digits) if text.ends_with('k') => (digits, 10),
        Some(digits) if text.ends_with('m') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    let value: u64 = digits.parse().map_err(|_| "a number of bytes, such as 512, 16k or 64m".to_owned())?;
    value.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

fn within(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let value = bytes(text)?;
    if (low..=high).contains(&value) { Ok(value) } else { Err(format!("from {low} to {high} bytes")) }
}

fn payload(text: &str) -> Result<u64, String> {
    within(text, 1, PAYLOAD_MAX)
}

fn data(text: &str) -> Result<u64, String> {
    within(text, 1 << 20, 1 << 40)
}

fn segment(text: &str) -> Result<u64, String> {
    let value = within(text, 1 << 20, SEGMENT_MAX)?;
    if value.is_multiple_of(SEGMENT_UNIT) { Ok(value) } else { Err("a multiple of 64 KiB".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!((payload("128"), payload("16k"), data("1g")), (Ok(128), Ok(16 << 10), Ok(1 << 30)));
        for text in ["", "k", "-1", "1.5k", "1kb", "0", "2m", "18014398509481984k"] {
            assert!(payload(text).is_err(), "{text}");
        }
        assert!(segment("1000k").is_err() && segment("1m").is_ok());
        assert!(seconds("nan").is_err() && seconds("0").is_err() && seconds("0.05").is_ok());
    }
}
