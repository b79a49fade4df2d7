//! `tidelog dump`.

use std::io::{self, BufWriter, Write};

use serde_json::json;
use tidelog::Corruption;
use tidelog::readonly::{Item, Payload, ReadOnlyLog, Record};

use crate::args::{DumpArgs, DumpFormat, PayloadForm};
use crate::failure::{Failure, Verdict};
use crate::out::{SCHEMA_VERSION, json, text, warn};

/// Prints the records that are wanted. Whatever is wrong on the way is printed too, wanted or not.
pub(crate) fn dump(args: &DumpArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let log = ReadOnlyLog::open(&args.dir)?;
    let mut items = log.items();
    if let Some(segment) = args.segment {
        items = items.segments(segment..=segment);
    }
    if args.payload == PayloadForm::None {
        items = items.skip_payloads();
    }
    let mut printer = Printer { out: BufWriter::with_capacity(64 << 10, out), args };
    let mut verdict = Verdict::Clean;
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0
        && let Some(item) = items.next()
    {
        match item {
            Ok(Item::Record(record)) if args.filter.wants(&record) => {
                if matches!(record.payload, Payload::Damaged(_)) {
                    verdict = Verdict::Damage;
                }
                printer.record(&record).map_err(Failure::Output)?;
                left -= 1;
            }
            Ok(Item::Damage(damage)) => {
                verdict = Verdict::Damage;
                printer.finding("damage", &damage).map_err(Failure::Output)?;
            }
            Ok(Item::Torn(place)) => printer.finding("torn", &place).map_err(Failure::Output)?,
            Ok(Item::Retired { segment }) => printer.retired(segment).map_err(Failure::Output)?,
            Ok(_) => {}
            Err(error) => {
                warn(&error.to_string());
                if verdict == Verdict::Clean {
                    verdict = Verdict::Unreadable;
                }
            }
        }
    }
    printer.out.flush().map_err(Failure::Output)?;
    Ok(verdict)
}

struct Printer<'a> {
    out: BufWriter<&'a mut dyn Write>,
    args: &'a DumpArgs,
}

impl Printer<'_> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match self.args.format {
            DumpFormat::Text => text::record(&mut self.out, record, self.args),
            DumpFormat::Jsonl => json::record(&mut self.out, record, self.args),
        }
    }

    fn finding(&mut self, word: &str, damage: &Corruption) -> io::Result<()> {
        match self.args.format {
            DumpFormat::Text => text::finding(&mut self.out, word, damage),
            DumpFormat::Jsonl => json::finding(&mut self.out, word, damage),
        }
    }

    fn retired(&mut self, segment: u64) -> io::Result<()> {
        match self.args.format {
            DumpFormat::Text => writeln!(self.out, "retired segment={segment}"),
            DumpFormat::Jsonl => {
                let segment = json::number(segment);
                let value =
                    json!({ "schema_version": SCHEMA_VERSION, "type": "retired", "segment": segment });
                json::line(&mut self.out, &value)
            }
        }
    }
}
