//! What came of it, as tables or lines of JSON.

use std::io::{self, Write};

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use crate::args::Format;
use crate::case::Case;
use crate::rounds::{Cell, Outcome};
use crate::subject::Kind;

#[derive(Debug)]
pub(crate) struct Report {
    format: Format,
    /// Those of the case that is under way.
    cells: Vec<Cell>,
}

impl Report {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, cells: Vec::new() }
    }

    /// Shows a case once all its cells are there.
    pub(crate) fn add(&mut self, cell: Cell) -> Result<()> {
        if self.format == Format::Jsonl {
            return lines(&cell);
        }
        if self.cells.first().is_some_and(|first| first.job.case != cell.job.case) {
            self.finish()?;
        }
        self.cells.push(cell);
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        let cells = std::mem::take(&mut self.cells);
        let Some(first) = cells.first() else { return Ok(()) };
        let case = first.job.case;
        let mut out = io::stdout().lock();
        writeln!(out, "### {}\n\n{}\n", case.title(), table(self.format, case, &cells))?;
        let mut kinds: Vec<Kind> = cells.iter().flat_map(|cell| &cell.outcomes).map(Outcome::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds.into_iter().filter(|kind| !kind.note(case).is_empty()) {
            writeln!(out, "- {}: {}.", kind.name(), kind.note(case))?;
        }
        Ok(writeln!(out)?)
    }
}

/// A ratio's name, and who stands below the line.
type Base = (&'static str, fn(Kind) -> bool);

/// What the first ratio is to.
fn base(case: Case) -> Option<Base> {
    match case {
        Case::W1p => Some(("x loop", |kind| kind == Kind::Loop)),
        Case::W6 | Case::W7 => None,
        _ => Some(("x floor", Kind::is_floor)),
    }
}

fn is_raft(kind: Kind) -> bool {
    kind == Kind::RaftEngine
}

fn table(format: Format, case: Case, cells: &[Cell]) -> Table {
    let (main, _) = case.main();
    let mut header = vec!["", "who", main, "lowest", "highest"];
    header.extend(base(case).map(|(name, _)| name));
    header.extend(base(case).map(|_| "x raft-engine"));
    header.extend(case.others());
    let mut table = plain(format, &header);
    for cell in cells {
        for outcome in &cell.outcomes {
            let mut row = vec![cell.job.label(), outcome.kind().name().into(), number(outcome.median(main))];
            let spread = outcome.spread(main);
            row.extend([number(spread.map(|spread| spread.0)), number(spread.map(|spread| spread.1))]);
            if let Some((_, is_base)) = base(case) {
                row.push(number(cell.ratio(outcome, is_base)));
                row.push(number(cell.ratio(outcome, is_raft)));
            }
            row.extend(case.others().iter().map(|name| number(outcome.median(name))));
            table.add_row(row);
        }
    }
    right(&mut table, 2);
    table
}

/// A table without rows.
pub(crate) fn plain(format: Format, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(if format == Format::Markdown { presets::ASCII_MARKDOWN } else { presets::NOTHING });
    table.set_header(header.to_vec());
    table
}

/// Aligns columns from this one on.
pub(crate) fn right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Three digits, or all before the point; thousands as k, millions as M.
pub(crate) fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    match value.abs() {
        size if size >= 1e6 => format!("{:.2} M", value / 1e6),
        size if size >= 1e5 => format!("{:.0} k", value / 1e3),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        0.0 => "0".into(),
        _ => format!("{value:.4}"),
    }
}

fn lines(cell: &Cell) -> Result<()> {
    let mut out = io::stdout().lock();
    for outcome in &cell.outcomes {
        writeln!(out, "{}", line(cell, outcome))?;
    }
    Ok(out.flush()?)
}

fn line(cell: &Cell, outcome: &Outcome) -> Value {
    let case = cell.job.case;
    let (main, _) = case.main();
    let names = [main].into_iter().chain(case.others().iter().copied());
    let medians: Map<String, Value> =
        names.filter_map(|name| Some((name.to_owned(), json!(outcome.median(name)?)))).collect();
    let floor = base(case).and_then(|(_, is_base)| cell.ratio(outcome, is_base));
    json!({
        "case": case,
        "cell": cell.job.label(),
        "job": outcome.job,
        "who": outcome.kind().name(),
        "medians": medians,
        "floor_ratio": floor,
        "raft_engine_ratio": cell.ratio(outcome, is_raft),
        "rounds": outcome.rounds,
        "note": outcome.kind().note(case),
    })
}
