//! What is measured: cases with their settings, and who runs them.

use std::time::Duration;

use super::bare::HEADER;
use crate::args::{BenchArgs, Case};
use crate::bare::BLOCK;

/// A batch of the case `batch`, and of the log that is read.
pub(crate) const BATCH: u64 = 100;
pub(crate) const BATCH_STREAMS: u64 = 10;
/// Payload bytes where nothing else is asked for.
pub(crate) const PAYLOAD: u64 = 1024;

/// What stands beside the log: threads and payload sizes of `durable`.
const DURABLE: [(u64, &[u16]); 3] =
    [(128, &[1, 16, 64]), (PAYLOAD, &[1, 4, 16, 64]), (16 << 10, &[1, 16, 64])];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) case: Case,
    pub(crate) threads: u16,
    /// Bytes of a payload.
    pub(crate) payload: u64,
    /// Appends that a caller has outstanding.
    pub(crate) outstanding: u16,
    pub(crate) think: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Log,
    /// The bare thing with as many threads: a group commit, buffers, or reading alone.
    Floor,
    /// One thread that packs what all callers have outstanding into each write.
    Loop,
}

impl Runner {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "tidelog",
            Self::Floor => "floor",
            Self::Loop => "loop",
        }
    }
}

impl Setting {
    /// Who runs it, the log first.
    pub(crate) fn runners(&self) -> &'static [Runner] {
        match self.case {
            Case::Durable => &[Runner::Log, Runner::Floor, Runner::Loop],
            Case::Wait => &[Runner::Log, Runner::Loop],
            _ => &[Runner::Log, Runner::Floor],
        }
    }

    /// Records that a call appends.
    pub(crate) fn batch(&self) -> u64 {
        if self.case == Case::Batch { BATCH } else { 1 }
    }

    pub(crate) fn writes(&self) -> bool {
        self.case <= Case::Wait
    }

    /// Bytes that the bare writers need for what is outstanding at once.
    pub(crate) fn room(&self) -> usize {
        let record = self.payload as usize + HEADER;
        let calls = usize::from(self.threads) * usize::from(self.outstanding);
        (record * self.batch() as usize * calls).next_multiple_of(BLOCK)
    }

    /// What a record of the result is.
    pub(crate) fn unit(&self) -> &'static str {
        match self.case {
            Case::Reopen => "openings",
            _ => "records",
        }
    }
}

/// All settings, in the order they are run in.
pub(crate) fn settings(args: &BenchArgs) -> Vec<Setting> {
    let mut cases = args.cases.clone();
    if cases.is_empty() {
        cases = <Case as clap::ValueEnum>::value_variants().to_vec();
    }
    cases.sort_unstable();
    cases.dedup();
    cases.iter().flat_map(|case| of_case(args, *case)).collect()
}

fn of_case(args: &BenchArgs, case: Case) -> Vec<Setting> {
    let setting = |threads, payload, outstanding| {
        let think = (case == Case::Think).then(|| Duration::from_micros(args.think));
        Setting { case, threads, payload, outstanding, think }
    };
    let or =
        |given: &[u16], default: &[u16]| if given.is_empty() { default.to_vec() } else { given.to_vec() };
    let payloads = if args.payload.is_empty() { vec![PAYLOAD] } else { args.payload.clone() };
    let product = |threads: &[u16], outstanding: &[u16]| {
        let mut settings = Vec::new();
        for payload in &payloads {
            for threads in threads {
                settings
                    .extend(outstanding.iter().map(|outstanding| setting(*threads, *payload, *outstanding)));
            }
        }
        settings
    };
    match case {
        Case::Durable if args.threads.is_empty() && args.payload.is_empty() => {
            let row = |(payload, threads): (u64, &[u16])| {
                threads.iter().map(|threads| setting(*threads, payload, 1)).collect::<Vec<_>>()
            };
            DURABLE.into_iter().flat_map(row).collect()
        }
        Case::Durable => product(&or(&args.threads, &[1, 4, 16, 64]), &[1]),
        Case::Think => product(&or(&args.threads, &[16]), &[1]),
        Case::Batch => product(&or(&args.threads, &[1, 4, 16]), &[1]),
        Case::Staged => product(&or(&args.threads, &[1, 4]), &[1]),
        Case::Wait => product(&[1], &args.outstanding),
        Case::Replay | Case::Scan | Case::ReplayCold | Case::ScanCold | Case::Reopen => {
            vec![setting(1, PAYLOAD, 1)]
        }
    }
}
