//! The figures as lines of JSON, an object for each setting and runner. README.md, next to this crate, is their schema.

use serde_json::{Value, json};

use super::machine::Machine;
use super::outcome::{Measured, Outcome};
use super::plan::Runner;
use super::subject::Counted;
use crate::args::BenchArgs;
use crate::out::SCHEMA_VERSION;

pub(crate) fn lines(args: &BenchArgs, machine: &Machine, measured: &Measured) -> Vec<Value> {
    measured.outcomes.iter().map(|outcome| line(args, machine, measured, outcome)).collect()
}

fn line(args: &BenchArgs, machine: &Machine, measured: &Measured, outcome: &Outcome) -> Value {
    let setting = &measured.setting;
    let rotation = outcome.rotations.latency().map(|(median, worst)| {
        json!({ "commits": outcome.rotations.commits, "median_ns": median, "max_ns": worst })
    });
    let timeline = outcome.timeline.iter().map(|bucket| {
        json!([u64::try_from(bucket.at.as_millis()).unwrap_or(u64::MAX), bucket.median, bucket.max])
    });
    json!({
        "schema_version": SCHEMA_VERSION,
        "type": "bench",
        "case": setting.case.as_str(),
        "runner": outcome.runner.as_str(),
        "way": outcome.backend,
        "threads": setting.threads,
        "payload": setting.payload,
        "batch": setting.batch(),
        "outstanding": setting.outstanding,
        "think_us": setting.think.map(|think| u64::try_from(think.as_micros()).unwrap_or(u64::MAX)),
        "unit": setting.unit(),
        "rate": outcome.rate(),
        "rates": outcome.rates,
        "spread": outcome.spread(),
        "rate_to_floor": measured.rate_to(outcome, Runner::Floor),
        "rate_to_loop": measured.rate_to(outcome, Runner::Loop),
        "p99_to_floor": measured.p99_to_floor(outcome),
        "cpu_to_floor": measured.cpu_to_floor(outcome),
        "records": outcome.records,
        "calls": outcome.latency.len(),
        "seconds": outcome.took.as_secs_f64(),
        "latency_ns": {
            "p50": outcome.quantile(0.5),
            "p90": outcome.quantile(0.9),
            "p99": outcome.quantile(0.99),
            "p99_9": outcome.quantile(0.999),
            "max": outcome.latency.max(),
        },
        "cpu_us": outcome.cpu_micros(),
        "frame_bytes_per_byte": outcome.frame_share(),
        "device_bytes_per_byte": outcome.device_share(setting),
        "device_bytes": outcome.device_bytes,
        "rotation": rotation,
        "log": outcome.counted.as_ref().map(counted),
        "timeline": timeline.collect::<Value>(),
        "settings": {
            "seconds": args.seconds.as_secs_f64(),
            "rounds": args.rounds,
            "segment": args.segment,
            "data": args.data,
            "fresh": args.fresh,
        },
        "machine": {
            "kernel": machine.kernel,
            "arch": machine.arch,
            "processor": machine.processor,
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "file_system": machine.file_system,
            "mount_options": machine.mount_options,
            "device": machine.device,
        },
    })
}

fn counted(counted: &Counted) -> Value {
    json!({
        "backend": counted.backend,
        "direct": counted.direct,
        "payload_bytes": counted.payload_bytes,
        "batches": counted.batches,
        "frames": counted.frames,
        "frame_bytes": counted.frame_bytes,
        "direct_commits": counted.direct_commits,
        "durable_writes": counted.durable_writes,
        "flushes": counted.flushes,
        "rotations": counted.rotations,
        "prepared_bytes": counted.prepared_bytes,
        "recycled": counted.recycled,
        "retired": counted.retired,
    })
}
