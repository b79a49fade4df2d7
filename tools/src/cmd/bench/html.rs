//! The figures as a page: self-contained, and well-formed XML.

use std::fmt::Write;
use std::time::Duration;

use super::machine::Machine;
use super::outcome::Measured;
use super::plot::escape;
use super::plots;
use super::table::{HEAD, LEGEND, about, rows};
use crate::args::BenchArgs;

const STYLE: &str = "body{font:14px/1.45 sans-serif;color:#222;background:#fff;margin:2em auto;max-width:1500px;\
padding:0 1em}h2{margin-top:2em}.plots{display:flex;flex-wrap:wrap;gap:16px}.wide{overflow-x:auto}\
table{border-collapse:collapse;font-size:12px}td,th{padding:2px 8px;text-align:right;white-space:nowrap}\
th{border-bottom:1px solid #333}td:first-child,td:nth-child(4),th:first-child,th:nth-child(4){text-align:left}\
tr.log td{border-top:1px solid #ddd;font-weight:bold}svg{border:1px solid #ddd;max-width:100%}";

pub(crate) fn page(args: &BenchArgs, machine: &Machine, done: &[Measured], took: Duration) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
    let _ =
        write!(page, "<title>tidelog bench</title><style>{STYLE}</style></head><body><h1>tidelog bench</h1>");
    for line in about(args, machine, took) {
        let _ = write!(page, "<p>{}</p>", escape(&line));
    }
    for (heading, plots) in plots::all(done) {
        let drawn: String = plots.iter().filter_map(super::plot::Plot::svg).collect();
        if !drawn.is_empty() {
            let _ = write!(page, "\n<h2>{}</h2><div class=\"plots\">{drawn}</div>", escape(heading));
        }
    }
    page.push_str("\n<h2>All figures</h2>");
    table(&mut page, done);
    for line in LEGEND {
        let _ = write!(page, "<p>{}</p>", escape(line));
    }
    page.push_str("</body></html>\n");
    page
}

fn table(page: &mut String, done: &[Measured]) {
    page.push_str("<div class=\"wide\"><table><thead><tr>");
    for name in HEAD {
        let _ = write!(page, "<th>{}</th>", escape(name));
    }
    page.push_str("</tr></thead><tbody>");
    for measured in done {
        for (index, cells) in rows(measured).into_iter().enumerate() {
            page.push_str(if index == 0 { "<tr class=\"log\">" } else { "<tr>" });
            for cell in cells {
                let _ = write!(page, "<td>{}</td>", escape(&cell));
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody></table></div>");
}
