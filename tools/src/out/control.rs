//! What the payloads of control records say.

use tidelog::readonly::{CheckpointHead, Kind, Row};
use tidelog_format::Record;

/// The numbers in a control record's payload, which was verified, with their names.
pub(crate) fn numbers(row: &Row, payload: &[u8]) -> Vec<(&'static str, u64)> {
    match row.kind {
        Kind::Checkpoint => CheckpointHead::decode(payload, 0).map_or_else(|_| Vec::new(), checkpoint),
        Kind::Truncate => match Record::decode(row, payload, 0) {
            Ok(Record::Truncate { last: Some(last), .. }) => vec![("last", last)],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn checkpoint(head: CheckpointHead) -> Vec<(&'static str, u64)> {
    let mut numbers = Vec::new();
    if let Some((previous, end)) = head.previous {
        numbers.extend([("previous", previous), ("previous_end", end.0)]);
    }
    numbers.extend([
        ("oldest", head.oldest),
        ("streams", head.stream_count.into()),
        ("namespaces", head.namespace_count.into()),
        ("fences", head.fence_count.into()),
        ("extents", head.extent_count.into()),
    ]);
    numbers
}
