//! Tables without lines.

use comfy_table::{CellAlignment, Table, presets};

pub(crate) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table
}

/// Numbers to the right, words to the left.
pub(crate) fn align(mut table: Table, words: &[usize]) -> Table {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if !words.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
