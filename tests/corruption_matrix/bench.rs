//! Trying a case: the damaged log is opened and read, and held against what is known of it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidelog::readonly::{Item, Payload, ReadOnlyLog, Record};
use tidelog::{Corruption, Error, Lsn};

use crate::base::{has_suffix, home};
use crate::check::{self, is_refusal};
use crate::damage::{Case, Patch};
use crate::log::Specimen;
use crate::table::Outcome;

pub(crate) struct Bench {
    /// The log as it was, but for the damage of the current case.
    view: TempDir,
    write: check::Bench,
}

impl Bench {
    pub(crate) fn new(specimen: &Specimen) -> Self {
        let view = home();
        for (name, bytes) in &specimen.base.files {
            fs::write(view.path().join(name), &**bytes).unwrap();
        }
        Self { view, write: check::Bench::new() }
    }

    /// Looks at it read-only. Where the outcome is not allowed, it comes with what is wrong.
    pub(crate) fn view(&self, specimen: &Specimen, case: &Case) -> (Outcome, Option<String>) {
        let damaged = Damaged::new(self.view.path(), specimen, case);
        let (told, records) = look(self.view.path());
        drop(damaged);
        let known: BTreeSet<Place> = specimen.records.iter().map(place).collect();
        let strangers = records.iter().find(|record| !specimen.records.contains(record));
        assert_eq!(strangers, None, "a record that was never written");
        if let Some(strayed) = astray(specimen, case, &told) {
            return (Outcome::Astray, Some(strayed));
        }
        if !told.is_empty() {
            return (Outcome::Told, None);
        }
        let seen: BTreeSet<Place> = records.iter().map(place).collect();
        let proven = specimen.base.proven(&case.apply(&specimen.base.files));
        let missing = known.difference(&seen).next().copied();
        assert!(missing.is_none_or(|(lsn, _)| lsn >= proven), "silently missing: {missing:?}");
        let torn = known.difference(&seen).all(|(lsn, _)| missing.is_some_and(|(first, _)| *lsn >= first));
        let behind = seen.iter().next_back().zip(missing).is_some_and(|(last, missing)| *last > missing);
        assert!(torn && !behind, "something is missing in between");
        (if missing.is_none() { Outcome::Harmless } else { Outcome::Cut }, None)
    }

    /// Opens it for writing and reads all, with the journal's manager too.
    pub(crate) fn write(&self, specimen: &Specimen, case: &Case) -> (Outcome, Option<String>) {
        let files = case.apply(&specimen.base.files);
        let checked = self.write.check_with(&specimen.base, &files, case.go_on, |log, complete| {
            specimen.check_journal(log, complete);
        });
        if specimen.base.differs_in_caches_alone(&files) {
            assert_eq!(checked.outcome, check::Outcome::Intact, "an index cache is never the truth");
        }
        if let Some(strayed) = astray(specimen, case, &checked.told) {
            return (Outcome::Astray, Some(strayed));
        }
        let outcome = match checked.outcome {
            check::Outcome::Intact => Outcome::Harmless,
            check::Outcome::Cut => Outcome::Cut,
            check::Outcome::Read => Outcome::Told,
            check::Outcome::Refused => Outcome::Refused,
        };
        (outcome, None)
    }
}

/// The LSN of a record's frame, and its place in there.
type Place = (Lsn, u32);

fn place(record: &Record) -> Place {
    (record.lsn, record.index)
}

/// What the read-only view tells of, and the sound records that it shows.
fn look(dir: &Path) -> (Vec<Error>, Vec<Record>) {
    let log = match ReadOnlyLog::open(dir) {
        Ok(log) => log,
        Err(error) => {
            assert!(is_refusal(&error), "{error:?}");
            return (vec![error], Vec::new());
        }
    };
    let (mut told, mut records) = (Vec::new(), Vec::new());
    for item in log.items() {
        match item.unwrap() {
            Item::Record(record) => match record.payload {
                Payload::Damaged(damage) => told.push(Error::Corrupt(Box::new(damage))),
                _ => records.push(record),
            },
            Item::Damage(damage) => told.push(Error::Corrupt(Box::new(damage))),
            _ => {}
        }
    }
    (told, records)
}

/// An error that names a place which is not damaged.
fn astray(specimen: &Specimen, case: &Case, told: &[Error]) -> Option<String> {
    let is_near = |file: &PathBuf, offset: Option<u64>| {
        let name = file.file_name().unwrap().to_str().unwrap();
        case.patches.iter().filter(|patch| patch.file == name).any(|patch| {
            let place = specimen.place(name, patch.at).unwrap();
            let behind = specimen.place(name, patch.at + patch.bytes.len() - 1).unwrap();
            let whole = place.whole.start..behind.whole.end;
            offset.is_none_or(|offset| whole.contains(&(offset as usize)))
        })
    };
    told.iter().find_map(|error| {
        let near = match error {
            Error::Corrupt(corruption) => {
                let Corruption { file, offset, .. } = &**corruption;
                is_near(file, Some(*offset))
            }
            Error::ForeignLog { file, .. } | Error::UnsupportedVersion { file, .. } => is_near(file, None),
            _ => false,
        };
        (!near).then(|| error.to_string())
    })
}

/// Damage in place, gone with the value.
struct Damaged<'a> {
    dir: &'a Path,
    specimen: &'a Specimen,
    case: &'a Case,
}

impl<'a> Damaged<'a> {
    fn new(dir: &'a Path, specimen: &'a Specimen, case: &'a Case) -> Self {
        let damaged = Self { dir, specimen, case };
        for Patch { file, at, bytes } in &case.patches {
            damaged.put(file, *at, bytes);
        }
        damaged
    }

    fn put(&self, file: &str, at: usize, bytes: &[u8]) {
        assert!(has_suffix(file, ".log") || has_suffix(file, ".idx") || has_suffix(file, ".spare"));
        let file = File::options().write(true).open(self.dir.join(file)).unwrap();
        file.write_all_at(bytes, at as u64).unwrap();
    }
}

impl Drop for Damaged<'_> {
    fn drop(&mut self) {
        for Patch { file, at, bytes } in &self.case.patches {
            let original = &self.specimen.base.files[file][*at..*at + bytes.len()];
            self.put(file, *at, original);
        }
    }
}
