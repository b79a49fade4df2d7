//! What the entries of journals say.

use serde_json::{Value, json};
use tidelog::readonly::Row;
use tidelog::remote_log::{
    CustomMetadata, Event, JOURNAL_CLASS, JournalRecord, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentState, RemotePartitionDeleteMetadata, RemotePartitionDeleteState, TopicIdPartition,
};

use super::{json, text};

/// Whether a record is an entry of a journal.
pub(crate) fn is_entry(row: &Row) -> bool {
    row.is_entry() && row.stream.class == JOURNAL_CLASS
}

/// Names and values, in the order in which they are shown.
pub(crate) type Fields = Vec<(&'static str, Value)>;

/// The fields of an entry of a journal; of what is no entry of one, why not.
pub(crate) fn fields(payload: &[u8]) -> Result<Fields, String> {
    let checkpoint = |event: &'static str, number: u64| {
        vec![("event", event.into()), ("checkpoint", json::number(number))]
    };
    Ok(match JournalRecord::decode(payload).map_err(|error| error.to_string())? {
        JournalRecord::Event(event) => return Ok(event_fields(&event)),
        JournalRecord::Begin { checkpoint: number } => checkpoint("begin", number),
        JournalRecord::End { checkpoint: number, count } => {
            let mut fields = checkpoint("end", number);
            fields.push(("count", json::number(count)));
            fields
        }
        JournalRecord::State { checkpoint: number, position, state } => {
            let mut fields = checkpoint("state", number);
            fields.push(("position", json::number(position)));
            fields.extend(event_fields(&state).into_iter().filter(|(name, _)| *name != "event"));
            fields
        }
    })
}

/// Fields as `key=value` pairs; what is not there is left out.
pub(crate) fn pairs(fields: &Fields) -> String {
    let pair = |(key, value): &(&str, Value)| match value {
        Value::Null => String::new(),
        Value::String(text) if is_plain(text) => format!(" {key}={text}"),
        Value::String(text) => format!(" {key}={}", text::quote(text.as_bytes())),
        Value::Array(epochs) => {
            let words: Vec<String> = epochs.iter().map(epoch_word).collect();
            format!(" {key}={}", words.join(","))
        }
        other => format!(" {key}={other}"),
    };
    fields.iter().map(pair).collect()
}

/// Fields as an object.
pub(crate) fn object(fields: Fields) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A leader epoch and its first offset.
fn epoch_word(epoch: &Value) -> String {
    format!("{}:{}", epoch["epoch"], epoch["offset"].as_str().unwrap_or_default())
}

fn event_fields(event: &Event) -> Fields {
    let named = |event: &'static str| vec![("event", event.into())];
    match event {
        Event::AddSegment(metadata) => {
            let mut fields = named("add");
            fields.extend(segment(metadata));
            fields
        }
        Event::UpdateSegment(update) => {
            let mut fields = named("update");
            fields.extend(segment_id(&update.remote_log_segment_id));
            fields.extend([
                ("state", state_name(update.state).into()),
                ("broker", update.broker_id.into()),
                ("event_time_ms", signed(update.event_timestamp_ms)),
                ("custom_len", update.custom_metadata.as_ref().map(custom_len).into()),
            ]);
            fields
        }
        Event::DeletePartition(delete) => {
            let mut fields = named("delete-partition");
            fields.extend(partition(&delete.topic_id_partition));
            fields.extend(deletion(delete));
            fields
        }
    }
}

/// All of a segment but the contents of its custom metadata.
pub(crate) fn segment(metadata: &RemoteLogSegmentMetadata) -> Fields {
    let mut fields = segment_id(metadata.remote_log_segment_id());
    let epochs = metadata.segment_leader_epochs().iter();
    let epochs = epochs.map(|(epoch, offset)| json!({ "epoch": epoch.get(), "offset": signed(*offset) }));
    fields.extend([
        ("start", signed(metadata.start_offset())),
        ("end", signed(metadata.end_offset())),
        ("epochs", epochs.collect()),
        ("state", state_name(metadata.state()).into()),
        ("size", metadata.segment_size_in_bytes().into()),
        ("broker", metadata.broker_id().into()),
        ("event_time_ms", signed(metadata.event_timestamp_ms())),
        ("max_time_ms", signed(metadata.max_timestamp_ms())),
        ("custom_len", metadata.custom_metadata().map(custom_len).into()),
        ("txn_index_empty", metadata.txn_index_empty().into()),
    ]);
    fields
}

fn segment_id(id: &RemoteLogSegmentId) -> Fields {
    let mut fields = partition(&id.topic_id_partition);
    fields.push(("segment_id", id.id.to_string().into()));
    fields
}

pub(crate) fn partition(partition: &TopicIdPartition) -> Fields {
    vec![
        ("topic", partition.topic.clone().into()),
        ("topic_id", partition.topic_id.to_string().into()),
        ("partition", partition.partition.into()),
    ]
}

/// How far a deletion has come.
pub(crate) fn deletion(delete: &RemotePartitionDeleteMetadata) -> Fields {
    vec![
        ("state", delete_state_name(delete.state).into()),
        ("broker", delete.broker_id.into()),
        ("event_time_ms", signed(delete.event_timestamp_ms)),
    ]
}

/// A number of 64 bits with a sign, as [`json::number`] has those without.
pub(crate) fn signed(value: i64) -> Value {
    Value::String(value.to_string())
}

pub(crate) fn custom_len(custom: &CustomMetadata) -> usize {
    custom.0.len()
}

pub(crate) fn state_name(state: RemoteLogSegmentState) -> &'static str {
    match state {
        RemoteLogSegmentState::CopySegmentStarted => "copy-started",
        RemoteLogSegmentState::CopySegmentFinished => "copy-finished",
        RemoteLogSegmentState::DeleteSegmentStarted => "delete-started",
        RemoteLogSegmentState::DeleteSegmentFinished => "delete-finished",
    }
}

pub(crate) fn delete_state_name(state: RemotePartitionDeleteState) -> &'static str {
    match state {
        RemotePartitionDeleteState::DeletePartitionMarked => "marked",
        RemotePartitionDeleteState::DeletePartitionStarted => "started",
        RemotePartitionDeleteState::DeletePartitionFinished => "finished",
    }
}
