//! `tidelog verify`.

use std::io::{self, Write};

use tidelog::Corruption;
use tidelog::readonly::{Item, Payload, ReadOnlyLog};

use crate::args::VerifyArgs;
use crate::failure::{Failure, Verdict};
use crate::out::{text, warn};

/// Reads and checks everything. A line for each damage, and one at the end.
pub(crate) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let log = ReadOnlyLog::open(&args.dir)?;
    let mut seen = Seen::default();
    for item in log.items() {
        match item {
            Ok(item) => seen.take(out, &item).map_err(Failure::Output)?,
            Err(error) => {
                warn(&error.to_string());
                seen.unreadable += 1;
            }
        }
    }
    let Seen { frames, records, bytes, damage, torn, unreadable } = seen;
    let segments = log.segments().len();
    writeln!(
        out,
        "verified segments={segments} frames={frames} records={records} payload_bytes={bytes} \
         damage={damage} torn={torn} unreadable={unreadable}"
    )
    .map_err(Failure::Output)?;
    Ok(match (damage, unreadable) {
        (0, 0) => Verdict::Clean,
        (0, _) => Verdict::Unreadable,
        _ => Verdict::Damage,
    })
}

#[derive(Default)]
struct Seen {
    frames: u64,
    records: u64,
    bytes: u64,
    damage: u64,
    torn: u64,
    unreadable: u64,
}

impl Seen {
    fn take(&mut self, out: &mut dyn Write, item: &Item) -> io::Result<()> {
        match item {
            Item::Frame(_) => self.frames += 1,
            Item::Record(record) => {
                self.records += 1;
                self.bytes += u64::from(record.row.length);
                if let Payload::Damaged(damage) = &record.payload {
                    self.damaged(out, damage, &format!("damaged id={}", record.row.entry_id))?;
                }
            }
            Item::Damage(damage) => self.damaged(out, damage, "damage")?,
            Item::Torn(place) => {
                self.torn += 1;
                text::finding(out, "torn", place)?;
            }
            Item::Retired { segment } => writeln!(out, "retired segment={segment}")?,
            _ => {}
        }
        Ok(())
    }

    fn damaged(&mut self, out: &mut dyn Write, damage: &Corruption, words: &str) -> io::Result<()> {
        self.damage += 1;
        text::finding(out, words, damage)
    }
}
