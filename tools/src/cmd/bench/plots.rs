//! The plots of a run.

use super::outcome::{Measured, Outcome};
use super::plan::Runner;
use super::plot::{Across, Plot, Series};
use super::table::{label, nanoseconds, rate, size};
use crate::args::Case;

/// Plots that belong together, under a heading.
pub(crate) type Part = (&'static str, Vec<Plot>);

pub(crate) fn all(done: &[Measured]) -> Vec<Part> {
    let durable: Vec<&Measured> =
        done.iter().filter(|measured| measured.setting.case == Case::Durable).collect();
    vec![
        ("Durable appends, by threads", by(&durable, payload_of, threads_of, "threads")),
        ("Durable appends, by payload", by(&durable, threads_of, payload_of, "payload")),
        ("Latency over time: median and maximum of each 50 ms", over_time(done)),
    ]
}

/// A value of a setting, with how it is written.
type Dimension = fn(&Measured) -> (u64, String);

fn threads_of(measured: &Measured) -> (u64, String) {
    let threads = measured.setting.threads;
    (threads.into(), if threads == 1 { "1 thread".into() } else { format!("{threads} threads") })
}

fn payload_of(measured: &Measured) -> (u64, String) {
    (measured.setting.payload, size(measured.setting.payload))
}

fn colour(runner: Runner) -> &'static str {
    match runner {
        Runner::Log => "#0b6bcb",
        Runner::Floor => "#c2410c",
        Runner::Loop => "#4d7c0f",
    }
}

/// Rate and latency over one dimension, a pair of plots for each value of the other with more than one point.
fn by(durable: &[&Measured], fixed: Dimension, across: Dimension, name: &str) -> Vec<Plot> {
    let mut values: Vec<(u64, String)> = durable.iter().map(|measured| fixed(measured)).collect();
    values.sort_unstable();
    values.dedup();
    let mut plots = Vec::new();
    for (value, written) in values {
        let mut group: Vec<&Measured> =
            durable.iter().copied().filter(|measured| fixed(measured).0 == value).collect();
        group.sort_by_key(|measured| across(measured).0);
        if group.len() < 2 {
            continue;
        }
        let strip = |label: String| label.trim_end_matches(" threads").trim_end_matches(" thread").to_owned();
        let steps: Vec<String> = group.iter().map(|measured| strip(across(measured).1)).collect();
        let plot = |title: &str, up_name: &str, series, format| Plot {
            title: format!("{title}, {written}"),
            across_name: name.to_owned(),
            up_name: up_name.to_owned(),
            across: Across::Steps(steps.clone()),
            series,
            format,
        };
        plots.push(plot("Throughput", "records a second", rates(&group), rate));
        plots.push(plot("Latency of an append", "time", latencies(&group), nanoseconds));
    }
    plots
}

fn points(group: &[&Measured], runner: Runner, value: impl Fn(&Outcome) -> f64) -> Vec<(f64, f64)> {
    let point = |(step, measured): (u32, &&Measured)| Some((f64::from(step), value(measured.of(runner)?)));
    (0..).zip(group).filter_map(point).collect()
}

fn rates(group: &[&Measured]) -> Vec<Series> {
    let series = |runner: Runner| Series {
        name: match runner {
            Runner::Log => "tidelog".into(),
            Runner::Floor => "floor: bare group commit".into(),
            Runner::Loop => "loop: one thread, packed".into(),
        },
        colour: colour(runner),
        dashed: runner == Runner::Loop,
        marks: true,
        points: points(group, runner, Outcome::rate),
    };
    [Runner::Log, Runner::Floor, Runner::Loop].map(series).into()
}

#[allow(clippy::cast_precision_loss, reason = "a place in a picture")]
fn latencies(group: &[&Measured]) -> Vec<Series> {
    let series = |(runner, quantile, name): (Runner, f64, &str)| Series {
        name: format!("{} {name}", runner.as_str()),
        colour: colour(runner),
        dashed: quantile > 0.5,
        marks: true,
        points: points(group, runner, |outcome| outcome.quantile(quantile) as f64),
    };
    let of = |runner| [(runner, 0.5, "p50"), (runner, 0.99, "p99")];
    [of(Runner::Log), of(Runner::Floor)].concat().into_iter().map(series).collect()
}

/// A plot for each setting that writes: a stall cannot hide in a mean there.
#[allow(clippy::cast_precision_loss, reason = "a place in a picture")]
fn over_time(done: &[Measured]) -> Vec<Plot> {
    let plot = |measured: &Measured| {
        let setting = &measured.setting;
        let log = measured.of(Runner::Log)?;
        let series = |name: &str, colour, value: fn(&super::timeline::Bucket) -> u64| Series {
            name: name.to_owned(),
            colour,
            dashed: false,
            marks: false,
            points: log
                .timeline
                .iter()
                .map(|bucket| (bucket.at.as_secs_f64(), value(bucket) as f64))
                .collect(),
        };
        Some(Plot {
            title: format!("{}, {}, {}", label(setting), threads_of(measured).1, payload_of(measured).1),
            across_name: "seconds measured, the rounds one behind the other".into(),
            up_name: "time of a call".into(),
            across: Across::Number(log.timeline.last()?.at.as_secs_f64()),
            series: vec![
                series("tidelog, median", "#0b6bcb", |bucket| bucket.median),
                series("tidelog, maximum", "#b91c1c", |bucket| bucket.max),
            ],
            format: nanoseconds,
        })
    };
    done.iter().filter(|measured| measured.setting.writes()).filter_map(plot).collect()
}
