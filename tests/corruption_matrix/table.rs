//! Outcomes, counted.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, presets};

use crate::damage::{Case, Kind, Way};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// All that was written is read, or shown.
    Harmless,
    /// It does not open for writing.
    Refused,
    /// A read, or the read-only view, tells of the damage.
    Told,
    /// What nothing vouched for was cut off.
    Cut,
    /// An error names a place that is sound.
    Astray,
    /// Something is wrong or missing, and nothing says so.
    Silent,
    Panic,
}

const OUTCOMES: [(Outcome, &str); 7] = [
    (Outcome::Harmless, "harmless"),
    (Outcome::Refused, "refused at open"),
    (Outcome::Told, "error at read"),
    (Outcome::Cut, "cut as torn tail"),
    (Outcome::Astray, "wrong place"),
    (Outcome::Silent, "silent"),
    (Outcome::Panic, "panic"),
];

#[derive(Default)]
pub(crate) struct Table {
    counts: BTreeMap<(Way, Kind, &'static str, &'static str), BTreeMap<Outcome, u64>>,
}

impl Table {
    pub(crate) fn count(&mut self, case: &Case, outcome: Outcome) {
        let row = self.counts.entry((case.way, case.kind, case.structure, case.role)).or_default();
        *row.entry(outcome).or_default() += 1;
    }

    fn sum(&self, way: Way, outcome: Outcome) -> u64 {
        let rows = self.counts.iter().filter(|((of, ..), _)| *of == way);
        rows.filter_map(|(_, counts)| counts.get(&outcome)).sum()
    }

    /// A matrix in which one of these is missing has tried less than it says.
    pub(crate) fn assert_telling(&self) {
        for outcome in [Outcome::Harmless, Outcome::Refused, Outcome::Told, Outcome::Cut] {
            assert!(self.sum(Way::Write, outcome) > 0, "no case of {outcome:?}");
        }
        for outcome in [Outcome::Harmless, Outcome::Told, Outcome::Cut] {
            assert!(self.sum(Way::View, outcome) > 0, "no case of {outcome:?} in the read-only view");
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let head = ["opened", "damage", "structure", "segment", "cases"].into_iter();
        table.set_header(head.chain(OUTCOMES.map(|(_, name)| name)));
        for ((way, kind, structure, role), counts) in &self.counts {
            let cells = [way.name(), kind.name(), structure, role].map(str::to_owned);
            let numbers = OUTCOMES.map(|(outcome, _)| counts.get(&outcome).copied().unwrap_or(0));
            let numbers = std::iter::once(numbers.iter().sum()).chain(numbers);
            let shown = |number: u64| if number == 0 { String::new() } else { number.to_string() };
            table.add_row(cells.into_iter().chain(numbers.map(shown)));
        }
        for column in table.column_iter_mut().skip(4) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        for way in [Way::View, Way::Write] {
            let sums = OUTCOMES.map(|(outcome, name)| format!("{} {name}", self.sum(way, outcome)));
            writeln!(f, "{}: {}", way.name(), sums.join(", "))?;
        }
        Ok(())
    }
}
