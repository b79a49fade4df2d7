//! Lines of `word key=value ...`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tidelog::Corruption;
use tidelog::readonly::{Payload, Record};

use super::{control, journal, payload};
use crate::args::{DumpArgs, KindName, PayloadForm};

/// Writes a record's line.
pub(crate) fn record(out: &mut dyn Write, record: &Record, args: &DumpArgs) -> io::Result<()> {
    let Record { segment, frame, lsn, index, row, .. } = record;
    let word = if matches!(record.payload, Payload::Damaged(_)) { "damaged" } else { "record" };
    let kind = KindName::from(row.kind).as_str();
    write!(
        out,
        "{word} lsn={lsn} segment={segment} frame={frame} row={index} stream={} kind={kind} id={} len={}",
        row.stream, row.entry_id, row.length
    )?;
    let (seconds, micros) = (record.clock / 1_000_000, record.clock % 1_000_000);
    write!(out, " moved={} time={seconds}.{micros:06}", row.is_moved())?;
    match &record.payload {
        Payload::Damaged(damage) => fault(out, damage)?,
        Payload::Sound(bytes) if !row.is_entry() && args.payload == PayloadForm::Utf8 => {
            for (key, number) in control::numbers(row, bytes) {
                write!(out, " {key}={number}")?;
            }
        }
        Payload::Sound(bytes) if journal::is_entry(row) && args.payload == PayloadForm::Utf8 => {
            match journal::fields(bytes) {
                Ok(fields) => write!(out, "{}", journal::pairs(&fields))?,
                Err(error) => {
                    write!(out, " event=undecodable error={}", quote(error.as_bytes()))?;
                    payload(out, bytes, args)?;
                }
            }
        }
        Payload::Sound(bytes) => payload(out, bytes, args)?,
        Payload::Skipped => {}
    }
    writeln!(out)
}

fn payload(out: &mut dyn Write, bytes: &[u8], args: &DumpArgs) -> io::Result<()> {
    if let Some(shown) = payload::for_text(bytes, args.payload, args.max_payload) {
        write!(out, " payload={}", shown.characters)?;
        if shown.cut > 0 {
            write!(out, " cut={}", shown.cut)?;
        }
    }
    Ok(())
}

/// Writes a line on something that is wrong, or torn.
pub(crate) fn finding(out: &mut dyn Write, word: &str, damage: &Corruption) -> io::Result<()> {
    write!(out, "{word}")?;
    if let Some(stream) = damage.stream {
        write!(out, " stream={stream}")?;
    }
    fault(out, damage)?;
    writeln!(out)
}

fn fault(out: &mut dyn Write, damage: &Corruption) -> io::Result<()> {
    let Corruption { offset, what, expected, actual, .. } = damage;
    let (file, what) = (path(&damage.file), quote(what.as_bytes()));
    write!(out, " file={file} offset={offset} what={what} expected={expected:#x} actual={actual:#x}")
}

/// A path, quoted.
pub(crate) fn path(path: &Path) -> String {
    quote(path.as_os_str().as_bytes())
}

/// Any bytes in quotes. What is no text, and characters that would do something to a terminal, are escaped.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => quoted.extend(['\\', character]),
                _ => push_tame(&mut quoted, character),
            }
        }
        for byte in chunk.invalid() {
            // A string takes all that is written to it.
            let _ = write!(quoted, "\\x{byte:02x}");
        }
    }
    quoted.push('"');
    quoted
}

/// A message without characters that would do something to a terminal.
pub(crate) fn tame(message: &str) -> String {
    let mut tamed = String::with_capacity(message.len());
    for character in message.chars() {
        push_tame(&mut tamed, character);
    }
    tamed
}

fn push_tame(text: &mut String, character: char) {
    match character {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        wild if is_wild(wild) => text.extend(wild.escape_unicode()),
        tame => text.push(tame),
    }
}

/// Control characters, those that turn the direction of writing, and those that end a line.
pub(crate) fn is_wild(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(quote(b"plain \xc3\xa4"), "\"plain \u{e4}\"");
        assert_eq!(quote(b"a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(quote(b"\x1b[31m\n\x7f\xff"), r#""\u{1b}[31m\n\u{7f}\xff""#);
        for wild in ['\0', '\u{1b}', '\u{9b}', '\u{7f}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}'] {
            let quoted = quote(wild.to_string().as_bytes());
            assert!(!quoted.contains(wild) && quoted.is_ascii(), "{quoted}");
        }
        assert_eq!(tame("no \u{1b}]0;such\u{7} file"), r"no \u{1b}]0;such\u{7} file");
    }
}
