//! The table.

use std::fmt::{self, Display};

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{BinaryBytes, HumanCount};
use tidelog::RecoveryReport;

use crate::args::Args;
use crate::local::LocalLog;
use crate::phase::Phase;
use crate::run::Locals;

/// What happened in a phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) killed: u64,
    pub(crate) acknowledged: u64,
    /// Events that were not acknowledged, and were recorded.
    pub(crate) found: u64,
    /// Events that were not acknowledged, and were not recorded.
    pub(crate) missing: u64,
    pub(crate) torn_tails: u64,
    pub(crate) superseded: u64,
    pub(crate) oldest: u64,
    pub(crate) lookups: u64,
    pub(crate) records: u64,
    /// Segments known at the end.
    pub(crate) segments: u64,
    /// Objects at the end.
    pub(crate) objects: u64,
}

impl Tally {
    pub(crate) fn recovered(&mut self, report: &RecoveryReport) {
        self.torn_tails += u64::from(report.torn_tail.is_some());
    }
}

pub(crate) struct Report {
    input: String,
    table: Table,
    total: Tally,
}

impl Report {
    pub(crate) fn new() -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "phase",
            "killed",
            "events",
            "retried: found",
            "missing",
            "segments",
            "objects",
            "look-ups",
            "records read",
        ]);
        Self { input: String::new(), table, total: Tally::default() }
    }

    pub(crate) fn input(&mut self, args: &Args, locals: &[Locals]) {
        let logs =
            || locals.iter().flat_map(|locals| [Some(&locals.first), locals.second.as_ref()]).flatten();
        let segments: usize = logs().map(|log| log.segments.len()).sum();
        let bytes: usize = logs().flat_map(|log| &log.segments).map(|segment| segment.bytes.len()).sum();
        let epochs: usize = logs().map(|log| LocalLog::epochs(log).count()).sum();
        self.input = format!(
            "seed {}: {} partitions, {} of them change their leader; {} local logs with {} segments, {} leader epochs, {}",
            args.seed,
            locals.len(),
            locals.iter().filter(|locals| locals.second.is_some()).count(),
            logs().count(),
            HumanCount(segments as u64),
            HumanCount(epochs as u64),
            BinaryBytes(bytes as u64),
        );
    }

    pub(crate) fn phase(&mut self, phase: Phase, tally: &Tally) {
        self.row(&phase.to_string(), tally);
        let total = &mut self.total;
        total.killed += tally.killed;
        total.acknowledged += tally.acknowledged;
        total.found += tally.found;
        total.missing += tally.missing;
        total.torn_tails += tally.torn_tails;
        total.superseded += tally.superseded;
        total.oldest += tally.oldest;
        total.lookups += tally.lookups;
        total.records += tally.records;
        (total.segments, total.objects) = (tally.segments, tally.objects);
    }

    fn row(&mut self, name: &str, tally: &Tally) {
        let figures = [
            tally.killed,
            tally.acknowledged,
            tally.found,
            tally.missing,
            tally.segments,
            tally.objects,
            tally.lookups,
            tally.records,
        ];
        let figures = figures.into_iter().map(|figure| HumanCount(figure).to_string());
        self.table.add_row(std::iter::once(name.to_owned()).chain(figures));
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.input)?;
        let mut table = self.table.clone();
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        let Tally { killed, torn_tails, superseded, oldest, objects, .. } = self.total;
        write!(
            f,
            "{killed} processes killed, {torn_tails} torn tails cut off; retention deleted {superseded} superseded \
             and {oldest} old segments; {objects} objects are left, each with its metadata, and no other"
        )
    }
}
