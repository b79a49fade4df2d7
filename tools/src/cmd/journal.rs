//! `tidelog journal`.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use tidelog::readonly::ReadOnlyLog;
use tidelog::remote_log::{EpochView, JournalView, PartitionView, RemoteLogSegmentState, TopicIdPartition};

use crate::args::{DumpFormat, JournalArgs};
use crate::failure::{Failure, Verdict};
use crate::out::journal::{self as show, Fields, object, signed};
use crate::out::table::{align, table};
use crate::out::{SCHEMA_VERSION, json, text, warn};

/// Spans of an epoch that a table has room for.
const SPANS_MAX: usize = 4;

/// Shows what a journal comes to.
pub(crate) fn journal(args: &JournalArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let log = ReadOnlyLog::open(&args.dir)?;
    let id = args.journal.map_or_else(|| only_journal(&log), Ok)?;
    let journal = JournalView::read(&log, id)?;
    if journal.stats().entries == 0 && journal.damage().is_empty() {
        return Err(Failure::Absent(format!("the log has no journal {id}")));
    }
    let partition = args.partition.as_deref().map(|name| find(&journal, name)).transpose()?;
    for damage in journal.damage() {
        warn(&format!("newer events may be missing: {damage}"));
    }
    let mut out = BufWriter::new(out);
    let printed = match (args.format, partition) {
        (DumpFormat::Text, None) => print_journal(&mut out, &journal),
        (DumpFormat::Text, Some(partition)) => print_partition(&mut out, partition),
        (DumpFormat::Jsonl, None) => list_journal(&mut out, &journal),
        (DumpFormat::Jsonl, Some(partition)) => list_partition(&mut out, partition),
    };
    printed.and_then(|()| out.flush()).map_err(Failure::Output)?;
    Ok(if journal.damage().is_empty() { Verdict::Clean } else { Verdict::Damage })
}

fn only_journal(log: &ReadOnlyLog) -> Result<u64, Failure> {
    match JournalView::ids(log)?.as_slice() {
        [id] => Ok(*id),
        [] => Err(Failure::Absent("the log has no journal".into())),
        several => {
            let ids: Vec<String> = several.iter().map(u64::to_string).collect();
            Err(Failure::Ambiguous(format!("--journal is needed: the log has {}", ids.join(", "))))
        }
    }
}

/// The partition with a name: its topic's name or id, and its number.
fn find<'a>(journal: &'a JournalView, name: &str) -> Result<PartitionView<'a>, Failure> {
    let is_named = |partition: &PartitionView<'_>| {
        let TopicIdPartition { topic_id, topic, partition } = partition.topic_id_partition();
        name == format!("{topic}-{partition}") || name == format!("{topic_id}-{partition}")
    };
    let found: Vec<_> = journal.partitions().into_iter().filter(is_named).collect();
    match found.as_slice() {
        [partition] => Ok(*partition),
        [] => Err(Failure::Absent(format!("nothing is recorded of partition {name}"))),
        several => {
            let names = several.iter().map(|partition| partition.topic_id_partition().to_string());
            let names: Vec<String> = names.collect();
            Err(Failure::Ambiguous(format!("--partition is one of {}", names.join(", "))))
        }
    }
}

/// A partition's segments, added up.
#[derive(Default)]
struct Sums {
    segments: usize,
    started: usize,
    finished: usize,
    deleting: usize,
    /// Bytes of the finished ones.
    bytes: u64,
    /// First and last offset of the finished ones.
    offsets: Option<(i64, i64)>,
}

impl Sums {
    fn of(partition: PartitionView<'_>) -> Self {
        let mut sums = Self::default();
        for segment in partition.segments() {
            sums.segments += 1;
            match segment.state() {
                RemoteLogSegmentState::CopySegmentStarted => sums.started += 1,
                RemoteLogSegmentState::CopySegmentFinished => {
                    sums.finished += 1;
                    sums.bytes += u64::from(segment.segment_size_in_bytes().unsigned_abs());
                    let (start, end) = (segment.start_offset(), segment.end_offset());
                    let (first, last) = sums.offsets.unwrap_or((start, end));
                    sums.offsets = Some((first.min(start), last.max(end)));
                }
                _ => sums.deleting += 1,
            }
        }
        sums
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn name(partition: &TopicIdPartition) -> String {
    format!("{}-{}", text::tame(&partition.topic), partition.partition)
}

fn delete_state(partition: PartitionView<'_>) -> Option<&'static str> {
    partition.deletion().map(|deletion| show::delete_state_name(deletion.state))
}

fn print_journal(out: &mut dyn Write, journal: &JournalView) -> io::Result<()> {
    let mut rows = table(&[
        "partition",
        "topic id",
        "deletion",
        "segments",
        "started",
        "finished",
        "deleting",
        "bytes",
        "first",
        "last",
        "epochs",
    ]);
    let (mut partitions, mut segments) = (0, 0);
    for partition in journal.partitions() {
        let sums = Sums::of(partition);
        partitions += 1;
        segments += sums.segments;
        let tp = partition.topic_id_partition();
        rows.add_row([
            name(tp),
            tp.topic_id.to_string(),
            or_dash(delete_state(partition)),
            sums.segments.to_string(),
            sums.started.to_string(),
            sums.finished.to_string(),
            sums.deleting.to_string(),
            sums.bytes.to_string(),
            or_dash(sums.offsets.map(|offsets| offsets.0)),
            or_dash(sums.offsets.map(|offsets| offsets.1)),
            partition.epochs().len().to_string(),
        ]);
    }
    writeln!(out, "{}\n", align(rows, &[0, 1, 2]).trim_fmt())?;
    let (stats, report) = (journal.stats(), journal.report());
    writeln!(
        out,
        "journal={} partitions={partitions} segments={segments} entries={} live={} last_checkpoint={} refused={}",
        journal.stream(),
        stats.entries,
        stats.live,
        stats.last_checkpoint,
        report.refused,
    )
}

fn print_partition(out: &mut dyn Write, partition: PartitionView<'_>) -> io::Result<()> {
    let tp = partition.topic_id_partition();
    write!(out, "partition={} topic_id={}", text::quote(name(tp).as_bytes()), tp.topic_id)?;
    match partition.deletion() {
        Some(deletion) => writeln!(out, " deletion:{}", show::pairs(&show::deletion(deletion)))?,
        None => writeln!(out, " deletion=-")?,
    }
    let mut segments = table(&[
        "segment", "state", "epochs", "start", "end", "size", "broker", "event ms", "max ms", "custom", "txn",
    ]);
    for segment in partition.segments() {
        let epochs = segment.segment_leader_epochs().iter();
        let epochs: Vec<String> = epochs.map(|(epoch, offset)| format!("{epoch}:{offset}")).collect();
        segments.add_row([
            segment.remote_log_segment_id().id.to_string(),
            show::state_name(segment.state()).into(),
            epochs.join(","),
            segment.start_offset().to_string(),
            segment.end_offset().to_string(),
            segment.segment_size_in_bytes().to_string(),
            segment.broker_id().to_string(),
            segment.event_timestamp_ms().to_string(),
            segment.max_timestamp_ms().to_string(),
            or_dash(segment.custom_metadata().map(show::custom_len)),
            if segment.txn_index_empty() { "empty" } else { "-" }.into(),
        ]);
    }
    writeln!(out, "\n{}\n", align(segments, &[0, 1, 2]).trim_fmt())?;
    let mut epochs = table(&["epoch", "highest", "segments", "finished", "spans"]);
    for epoch in partition.epochs() {
        epochs.add_row([
            epoch.epoch.to_string(),
            or_dash(epoch.highest),
            epoch.segments.to_string(),
            epoch.finished.to_string(),
            spans(&epoch),
        ]);
    }
    writeln!(out, "{}", align(epochs, &[4]).trim_fmt())
}

fn spans(epoch: &EpochView) -> String {
    let shown = epoch.spans.iter().take(SPANS_MAX);
    let mut words: Vec<String> = shown.map(|span| format!("{}..{}", span.start(), span.end())).collect();
    let rest = epoch.spans.len() - words.len();
    if rest > 0 {
        words.push(format!("and {rest} more"));
    }
    if words.is_empty() { "-".into() } else { words.join(" ") }
}

fn line(out: &mut dyn Write, word: &str, fields: Fields) -> io::Result<()> {
    let mut value = object(fields);
    value["schema_version"] = SCHEMA_VERSION.into();
    value["type"] = word.into();
    json::line(out, &value)
}

fn list_journal(out: &mut dyn Write, journal: &JournalView) -> io::Result<()> {
    let partitions = journal.partitions();
    let (stats, report) = (journal.stats(), journal.report());
    line(
        out,
        "journal",
        vec![
            ("stream", json::stream(journal.stream())),
            ("partitions", partitions.len().into()),
            ("entries", json::number(stats.entries)),
            ("live", json::number(stats.live)),
            ("last_checkpoint", json::number(stats.last_checkpoint)),
            ("refused", json::number(report.refused)),
        ],
    )?;
    partitions.into_iter().try_for_each(|partition| list_sums(out, partition))
}

fn list_sums(out: &mut dyn Write, partition: PartitionView<'_>) -> io::Result<()> {
    let sums = Sums::of(partition);
    let mut fields = show::partition(partition.topic_id_partition());
    fields.extend([
        ("deletion", partition.deletion().map(|deletion| object(show::deletion(deletion))).into()),
        ("segments", sums.segments.into()),
        ("started", sums.started.into()),
        ("finished", sums.finished.into()),
        ("deleting", sums.deleting.into()),
        ("bytes", json::number(sums.bytes)),
        ("first", sums.offsets.map(|offsets| signed(offsets.0)).into()),
        ("last", sums.offsets.map(|offsets| signed(offsets.1)).into()),
        ("epochs", partition.epochs().len().into()),
    ]);
    line(out, "partition", fields)
}

fn list_partition(out: &mut dyn Write, partition: PartitionView<'_>) -> io::Result<()> {
    list_sums(out, partition)?;
    for segment in partition.segments() {
        line(out, "segment", show::segment(&segment))?;
    }
    for epoch in partition.epochs() {
        let spans = epoch.spans.iter().map(|span| json!([signed(*span.start()), signed(*span.end())]));
        let fields = vec![
            ("epoch", epoch.epoch.get().into()),
            ("highest", epoch.highest.map(signed).into()),
            ("segments", epoch.segments.into()),
            ("finished", epoch.finished.into()),
            ("spans", spans.collect::<Value>()),
        ];
        line(out, "epoch", fields)?;
    }
    Ok(())
}
