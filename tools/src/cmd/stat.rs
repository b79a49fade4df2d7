//! `tidelog stat`.

use std::io::{self, Write};

use serde_json::{Value, json};
use tidelog::readonly::{ReadOnlyLog, SegmentInfo};

use super::summary::{StreamSums, Summary, Sums};
use crate::args::{StatArgs, StatFormat};
use crate::failure::{Failure, Verdict};
use crate::out::table::{align, table};
use crate::out::{SCHEMA_VERSION, json, state_name, warn};

/// Adds up what the log holds.
pub(crate) fn stat(args: &StatArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let log = ReadOnlyLog::open(&args.dir)?;
    let summary = Summary::of(&log);
    for error in &summary.unreadable {
        warn(&error.to_string());
    }
    match args.format {
        StatFormat::Text => print_text(out, &log, &summary),
        StatFormat::Json => json::line(out, &as_json(&log, &summary)),
    }
    .map_err(Failure::Output)?;
    Ok(match (summary.damage, summary.unreadable.len()) {
        (0, 0) => Verdict::Clean,
        (0, _) => Verdict::Unreadable,
        _ => Verdict::Damage,
    })
}

fn print_text(out: &mut dyn Write, log: &ReadOnlyLog, summary: &Summary) -> io::Result<()> {
    let mut segments = table(&[
        "segment", "state", "base", "size", "used", "fill", "frames", "records", "entries", "payload",
    ]);
    for (info, sums) in &summary.segments {
        segments.add_row([
            info.sequence.to_string(),
            state_name(info.state).into(),
            info.header.map_or_else(|| "-".into(), |header| header.identity.base.to_string()),
            info.file_len.to_string(),
            info.used().to_string(),
            percent(info.used(), info.file_len),
            sums.frames.to_string(),
            sums.records.to_string(),
            sums.entries.to_string(),
            sums.payload_bytes.to_string(),
        ]);
    }
    writeln!(out, "{}\n", align(segments, &[1]).trim_fmt())?;
    let mut streams =
        table(&["stream", "records", "entries", "moved", "payload", "first", "last", "segments"]);
    for (stream, StreamSums { sums, moved, ids, segments }) in &summary.streams {
        let id = |id: Option<u64>| id.map_or_else(|| "-".into(), |id| id.to_string());
        streams.add_row([
            stream.to_string(),
            sums.records.to_string(),
            sums.entries.to_string(),
            moved.to_string(),
            sums.payload_bytes.to_string(),
            id(ids.map(|ids| ids.0)),
            id(ids.map(|ids| ids.1)),
            segments.map_or_else(|| "-".into(), |(first, last)| format!("{first}-{last}")),
        ]);
    }
    writeln!(out, "{}\n", align(streams, &[0]).trim_fmt())?;
    print_totals(out, log, summary)
}

fn print_totals(out: &mut dyn Write, log: &ReadOnlyLog, summary: &Summary) -> io::Result<()> {
    let Summary { total, file_bytes, used_bytes, damage, torn, .. } = summary;
    let Sums { frames, records, entries, payload_bytes, .. } = total;
    let overhead = summary.overhead_bytes();
    if let Some(id) = log.log_id() {
        write!(out, "log={id} ")?;
    }
    writeln!(
        out,
        "oldest={} segments={} streams={}",
        log.oldest(),
        summary.segments.len(),
        summary.streams.len()
    )?;
    writeln!(
        out,
        "file_bytes={file_bytes} used_bytes={used_bytes} payload_bytes={payload_bytes} \
         overhead_bytes={overhead} overhead={}",
        percent(overhead, *used_bytes)
    )?;
    writeln!(out, "frames={frames} records={records} entries={entries} damage={damage} torn={torn}")
}

/// One digit behind the point; `-` of nothing.
fn percent(part: u64, whole: u64) -> String {
    let Some(tenths) = (u128::from(part) * 1000).checked_div(u128::from(whole)) else { return "-".into() };
    format!("{}.{}%", tenths / 10, tenths % 10)
}

fn as_json(log: &ReadOnlyLog, summary: &Summary) -> Value {
    let mut totals = sums_json(&summary.total);
    put_frames(&mut totals, &summary.total);
    totals["file_bytes"] = json::number(summary.file_bytes);
    totals["used_bytes"] = json::number(summary.used_bytes);
    totals["overhead_bytes"] = json::number(summary.overhead_bytes());
    json!({
        "schema_version": SCHEMA_VERSION,
        "type": "stat",
        "log": log.log_id().map(|id| id.to_string()),
        "oldest": json::number(log.oldest()),
        "segments": summary.segments.iter().map(|(info, sums)| segment_json(info, sums)).collect::<Value>(),
        "streams": summary.streams.iter().map(|(&stream, sums)| {
            let mut value = sums_json(&sums.sums);
            value["stream"] = json::stream(stream);
            value["moved"] = json::number(sums.moved);
            value["first"] = optional(sums.ids.map(|ids| ids.0));
            value["last"] = optional(sums.ids.map(|ids| ids.1));
            value["first_segment"] = optional(sums.segments.map(|segments| segments.0));
            value["last_segment"] = optional(sums.segments.map(|segments| segments.1));
            value
        }).collect::<Value>(),
        "totals": totals,
        "damage": summary.damage,
        "torn": summary.torn,
        "unreadable": summary.unreadable.len(),
    })
}

fn segment_json(info: &SegmentInfo, sums: &Sums) -> Value {
    let mut value = sums_json(sums);
    put_frames(&mut value, sums);
    value["segment"] = json::number(info.sequence);
    value["file"] = json::path(&info.file);
    value["state"] = state_name(info.state).into();
    value["base"] = optional(info.header.map(|header| header.identity.base.0));
    value["block_size"] = info.header.map(|header| header.block_size).into();
    value["size"] = json::number(info.file_len);
    value["used"] = json::number(info.used());
    value
}

fn sums_json(sums: &Sums) -> Value {
    json!({
        "records": json::number(sums.records),
        "entries": json::number(sums.entries),
        "payload_bytes": json::number(sums.payload_bytes),
    })
}

fn put_frames(value: &mut Value, sums: &Sums) {
    value["frames"] = json::number(sums.frames);
    value["frame_bytes"] = json::number(sums.frame_bytes);
}

fn optional(value: Option<u64>) -> Value {
    value.map_or(Value::Null, json::number)
}
