//! The table.

use std::fmt::{self, Display};
use std::iter;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{BinaryBytes, HumanCount};
use tidelog::RecoveryReport;
use tidelog::remote_log::JournalReport;

use crate::args::Args;
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
    /// Reopenings, each of which replays the journal.
    pub(crate) restarts: u64,
    /// Those of them at which it began with a checkpoint.
    pub(crate) from_checkpoint: u64,
    /// The last such checkpoint.
    pub(crate) checkpoint: u64,
    /// Entries replayed.
    pub(crate) replayed: u64,
    pub(crate) superseded: u64,
    pub(crate) by_size: u64,
    pub(crate) by_age: u64,
    pub(crate) lookups: u64,
    pub(crate) records: u64,
    /// Segments known at the end.
    pub(crate) segments: u64,
    /// Objects at the end.
    pub(crate) objects: u64,
}

impl Tally {
    pub(crate) fn restarted(&mut self, log: &RecoveryReport, journal: &JournalReport) {
        self.restarts += 1;
        self.torn_tails += u64::from(log.torn_tail.is_some());
        self.from_checkpoint += u64::from(journal.checkpoint.is_some());
        self.checkpoint = journal.checkpoint.unwrap_or(0);
        self.replayed += journal.entries;
    }
}

#[derive(Default)]
pub(crate) struct Report {
    input: String,
    phases: Vec<(Phase, Tally)>,
}

impl Report {
    pub(crate) fn input(&mut self, args: &Args, locals: &[Locals]) {
        let logs: Vec<_> = locals
            .iter()
            .flat_map(|locals| [Some(&locals.first), locals.second.as_ref()])
            .flatten()
            .collect();
        let segments = || logs.iter().flat_map(|log| &log.segments);
        let bytes: usize = segments().map(|segment| segment.bytes.len()).sum();
        let epochs: usize = logs.iter().map(|log| log.epochs().count()).sum();
        self.input = format!(
            "{} partitions, {} with a change of leader; {} local logs: {} segments, {} leader epochs, {}; seed {}",
            locals.len(),
            locals.iter().filter(|locals| locals.second.is_some()).count(),
            logs.len(),
            segments().count(),
            epochs,
            BinaryBytes(bytes as u64),
            args.seed,
        );
    }

    pub(crate) fn phase(&mut self, phase: Phase, tally: Tally) {
        self.phases.push((phase, tally));
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "phase",
            "killed",
            "acknowledged",
            "unknown, found",
            "unknown, missing",
            "segments",
            "objects",
            "look-ups",
            "records read",
        ]);
        for (phase, tally) in &self.phases {
            let Tally { killed, acknowledged, found, missing, segments, objects, lookups, records, .. } =
                *tally;
            let figures = [killed, acknowledged, found, missing, segments, objects, lookups, records];
            let figures = figures.into_iter().map(|figure| HumanCount(figure).to_string());
            table.add_row(iter::once(phase.to_string()).chain(figures));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Tally) -> u64| self.phases.iter().map(|(_, tally)| of(tally)).sum::<u64>();
        let last = |of: fn(&Tally) -> u64| self.phases.last().map_or(0, |(_, tally)| of(tally));
        writeln!(f, "{}\n\n{}\n", self.input, self.table())?;
        writeln!(
            f,
            "journal: {} replays of {} entries, {} from a checkpoint, the last number {}; {} torn tails cut off",
            sum(|tally| tally.restarts),
            HumanCount(sum(|tally| tally.replayed)),
            sum(|tally| tally.from_checkpoint),
            last(|tally| tally.checkpoint),
            sum(|tally| tally.torn_tails),
        )?;
        writeln!(
            f,
            "retention: {} superseded segments deleted, {} by size, {} by age",
            sum(|tally| tally.superseded),
            sum(|tally| tally.by_size),
            sum(|tally| tally.by_age),
        )?;
        write!(f, "left: {} objects, each with its metadata, and no other", last(|tally| tally.objects))
    }
}
