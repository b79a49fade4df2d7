//! Lines of JSON. README.md, next to this crate, is their schema.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use tidelog::readonly::{Payload, Record};
use tidelog::{Corruption, StreamId};

use super::{SCHEMA_VERSION, control, journal, payload, text};
use crate::args::{DumpArgs, KindName, PayloadForm};

/// Writes a value as one line.
pub(crate) fn line(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{}", tame(&value.to_string()))
}

/// Writes a record's line.
pub(crate) fn record(out: &mut dyn Write, record: &Record, args: &DumpArgs) -> io::Result<()> {
    let row = &record.row;
    let mut value = json!({
        "schema_version": SCHEMA_VERSION,
        "type": "record",
        "lsn": number(record.lsn.0),
        "segment": number(record.segment),
        "frame": number(record.frame),
        "row": record.index,
        "stream": stream(row.stream),
        "kind": KindName::from(row.kind).as_str(),
        "id": number(row.entry_id),
        "len": row.length,
        "moved": row.is_moved(),
        "time_us": number(record.clock),
    });
    match &record.payload {
        Payload::Damaged(damage) => {
            value["type"] = "damaged".into();
            put_fault(&mut value, damage);
        }
        Payload::Sound(bytes) if !row.is_entry() && args.payload == PayloadForm::Utf8 => {
            for (key, found) in control::numbers(row, bytes) {
                value[key] = number(found);
            }
        }
        Payload::Sound(bytes) if journal::is_entry(row) && args.payload == PayloadForm::Utf8 => {
            match journal::fields(bytes) {
                Ok(fields) => value["journal"] = journal::object(fields),
                Err(error) => {
                    value["journal"] = json!({ "event": "undecodable", "error": error });
                    put_payload(&mut value, bytes, args);
                }
            }
        }
        Payload::Sound(bytes) => put_payload(&mut value, bytes, args),
        Payload::Skipped => {}
    }
    line(out, &value)
}

fn put_payload(value: &mut Value, bytes: &[u8], args: &DumpArgs) {
    if let Some(shown) = payload::for_json(bytes, args.payload, args.max_payload) {
        value["payload"] = shown.characters.into();
        value["payload_encoding"] = shown.encoding.into();
        value["payload_cut"] = shown.cut.into();
    }
}

/// Writes a line on something that is wrong, or torn.
pub(crate) fn finding(out: &mut dyn Write, word: &str, damage: &Corruption) -> io::Result<()> {
    let mut value = json!({ "schema_version": SCHEMA_VERSION, "type": word });
    if let Some(id) = damage.stream {
        value["stream"] = stream(id);
    }
    put_fault(&mut value, damage);
    line(out, &value)
}

fn put_fault(value: &mut Value, damage: &Corruption) {
    value["file"] = path(&damage.file);
    value["offset"] = number(damage.offset);
    value["what"] = damage.what.as_str().into();
    value["expected"] = number(damage.expected);
    value["actual"] = number(damage.actual);
}

/// A number of 64 bits: a string, since many readers of JSON keep 53 only.
pub(crate) fn number(value: u64) -> Value {
    Value::String(value.to_string())
}

pub(crate) fn stream(stream: StreamId) -> Value {
    json!({ "class": stream.class, "id": number(stream.id) })
}

pub(crate) fn path(path: &Path) -> Value {
    path.to_string_lossy().into()
}

/// JSON may hold characters as they are that would do something to a terminal. They are in strings only, where an
/// escape means the same.
fn tame(json: &str) -> String {
    let mut tamed = String::with_capacity(json.len());
    for character in json.chars() {
        if text::is_wild(character) {
            // All of them are in the basic plane; and a string takes all that is written to it.
            let _ = write!(tamed, "\\u{:04x}", u32::from(character));
        } else {
            tamed.push(character);
        }
    }
    tamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tamed_reads_the_same() {
        let value = json!({ "key": "\u{9b}\u{202e}\u{7f}\u{1b}[m \u{e4}\n" });
        let tamed = tame(&value.to_string());
        assert!(!tamed.chars().any(text::is_wild), "{tamed}");
        assert_eq!(serde_json::from_str::<Value>(&tamed).unwrap(), value);
    }
}
