//! The figures as a table.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::machine::Machine;
use super::outcome::{Measured, Outcome};
use super::plan::{Runner, Setting};
use crate::args::{BenchArgs, Case};

pub(crate) const HEAD: [&str; 19] = [
    "case",
    "threads",
    "payload",
    "runner",
    "rate/s",
    "spread",
    "x floor",
    "x loop",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "p99 x fl.",
    "CPU us",
    "CPU x fl.",
    "frame B/B",
    "device B/B",
    "rotation",
];

/// What the columns are, for whoever reads the table.
pub(crate) const LEGEND: [&str; 6] = [
    "rate/s: records (reopen: openings) a second, the median of the rounds; spread: slowest to fastest round.",
    "floor: the bare thing with as many threads (a group commit; buffers; reading and summing the files). \
     loop: one thread that packs what all have outstanding into a write.",
    "x floor, x loop: the rate in parts of theirs, the median over rounds. Latencies are of a call, over all rounds.",
    "CPU us: processor time of the whole process a record.",
    "frame B/B: bytes of frames a payload byte; device B/B: all bytes that the process had written, preparation too.",
    "rotation: appends that rode in the first commit of a segment, commits: median / worst.",
];

/// Prints the table, and what it is of.
pub(crate) fn print(
    out: &mut dyn Write,
    args: &BenchArgs,
    machine: &Machine,
    done: &[Measured],
    took: Duration,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEAD);
    for measured in done {
        for cells in rows(measured) {
            table.add_row(cells);
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if ![0, 3].contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in about(args, machine, took) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\n{}\n", table.trim_fmt())?;
    for line in LEGEND {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// What the figures are of.
pub(crate) fn about(args: &BenchArgs, machine: &Machine, took: Duration) -> Vec<String> {
    let Machine { kernel, arch, processor, cores, memory_bytes, file_system, mount_options, device } =
        machine;
    let files = if args.fresh { "fresh files" } else { "files of retired segments" };
    vec![
        format!("Linux {kernel} {arch}, {cores} x {processor}, {} MiB of memory", memory_bytes >> 20),
        format!("{file_system} on {device} ({mount_options})"),
        format!(
            "{} s a case and runner in {} rounds, segments of {} in {files}; {:.0} s in all",
            args.seconds.as_secs_f64(),
            args.rounds,
            size(args.segment),
            took.as_secs_f64()
        ),
    ]
}

/// A row for each runner.
pub(crate) fn rows(measured: &Measured) -> Vec<Vec<String>> {
    measured.outcomes.iter().map(|outcome| row(measured, outcome)).collect()
}

fn row(measured: &Measured, outcome: &Outcome) -> Vec<String> {
    let setting = &measured.setting;
    let is_log = outcome.runner == Runner::Log;
    let times =
        |value: Option<f64>| value.filter(|_| is_log).map_or_else(String::new, |value| format!("{value:.2}"));
    let share = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let quantile = |at: f64| time(outcome.quantile(at));
    // A call of a reader gives a batch, one of the bare reader a piece of a file.
    let comparable = !setting.case.is_reading();
    vec![
        label(setting),
        setting.threads.to_string(),
        size(setting.payload),
        runner(outcome),
        rate(outcome.rate()),
        format!("{:.0}%", outcome.spread() * 100.0),
        times(measured.rate_to(outcome, Runner::Floor)),
        times(measured.rate_to(outcome, Runner::Loop)),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(0.999),
        time(outcome.latency.max()),
        times(measured.p99_to_floor(outcome).filter(|_| comparable)),
        micros(outcome.cpu_micros()),
        times(measured.cpu_to_floor(outcome)),
        share(outcome.frame_share()),
        share(outcome.device_share(setting)),
        rotations(outcome),
    ]
}

/// The case, with what else it is set to.
pub(crate) fn label(setting: &Setting) -> String {
    let case = setting.case.as_str();
    match (setting.case, setting.think) {
        (Case::Wait, _) => format!("{case} for {}", setting.outstanding),
        (_, Some(think)) => format!("{case} {} us", think.as_micros()),
        _ => case.to_owned(),
    }
}

fn runner(outcome: &Outcome) -> String {
    match &outcome.counted {
        Some(counted) => {
            let direct = if counted.direct { "" } else { ", cached" };
            format!("{} ({}{direct})", outcome.runner.as_str(), counted.backend)
        }
        None => outcome.runner.as_str().to_owned(),
    }
}

fn rotations(outcome: &Outcome) -> String {
    outcome.rotations.latency().map_or_else(String::new, |(median, worst)| {
        format!("{}: {} / {}", outcome.rotations.commits, time(median), time(worst))
    })
}

/// Three digits and a unit.
pub(crate) fn rate(value: f64) -> String {
    match value {
        value if value >= 999_500.0 => format!("{:.2} M", value / 1e6),
        value if value >= 99_950.0 => format!("{:.0} k", value / 1e3),
        value if value >= 9995.0 => format!("{:.1} k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

/// Of nanoseconds.
#[allow(clippy::cast_precision_loss, reason = "three digits")]
pub(crate) fn time(nanos: u64) -> String {
    nanoseconds(nanos as f64)
}

/// Three digits and a unit.
pub(crate) fn nanoseconds(nanos: f64) -> String {
    match nanos {
        nanos if nanos >= 1e9 => format!("{:.2} s", nanos / 1e9),
        nanos if nanos >= 1e7 => format!("{:.1} ms", nanos / 1e6),
        nanos if nanos >= 1e6 => format!("{:.2} ms", nanos / 1e6),
        nanos if nanos >= 1e5 => format!("{:.0} us", nanos / 1e3),
        nanos if nanos >= 1e3 => format!("{:.1} us", nanos / 1e3),
        nanos => format!("{nanos:.0} ns"),
    }
}

fn micros(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Of bytes, in a unit that leaves none over.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let rates: Vec<_> = [0.0, 99.994, 999.4, 12_345.0, 999_400.0, 1e6].map(rate).into();
        assert_eq!(rates, ["0.00", "99.99", "999", "12.3 k", "999 k", "1.00 M"]);
        let times: Vec<_> = [0, 999, 1500, 123_456, 1_234_567, 12_345_678, 2_000_000_000].map(time).into();
        assert_eq!(times, ["0 ns", "999 ns", "1.5 us", "123 us", "1.23 ms", "12.3 ms", "2.00 s"]);
        assert_eq!([128, 1024, 1 << 20, 1025].map(size), ["128 B", "1 KiB", "1 MiB", "1025 B"]);
    }
}
