//! Logs with data that stays: opened, read and dropped.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Records, pool};
use crate::case::{Case, Figures, Job, PAYLOAD, REGIONS, Read};
use crate::machine::{Counters, anonymous, disk_use, set_cache};
use crate::subject::Kind;
use crate::subject::{Purpose, Subject, open};

const MIB: f64 = (1 << 20) as f64;
/// How long after a drop the directory is looked at, and how often.
const SETTLE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// Of a hundred entries, how many are dropped.
const DROPPED: u64 = 99;

pub(super) fn fill(job: &Job, dir: &Path) -> Result<Figures> {
    let subject = open(job, dir, Purpose::Keep)?;
    write(job, &*subject)?;
    subject.close()?;
    Ok(Figures::new())
}

fn write(job: &Job, subject: &dyn Subject) -> Result<()> {
    let mut records = Records::new(pool(), PAYLOAD, 0, REGIONS);
    let mut caller = subject.caller();
    for _ in 0..job.batches() {
        caller.staged(records.next(REGIONS))?;
    }
    drop(caller);
    subject.flush()
}

pub(super) fn reopen(job: &Job, dir: &Path) -> Result<Figures> {
    set_cache(dir, job.cold)?;
    let (memory, before, begun) = (anonymous()?, Counters::now(dir)?, Instant::now());
    let subject = open(job, dir, Purpose::Keep)?;
    let took = begun.elapsed();
    let after = Counters::now(dir)?;
    let grown = anonymous()?.saturating_sub(memory);
    read(&Job { case: Case::W5, read: Read::One, ..*job }, &*subject)?;
    Ok([
        ("ms".into(), took.as_secs_f64() * 1e3),
        ("anon MiB".into(), grown as f64 / MIB),
        ("CPU ms".into(), (after.cpu - before.cpu) * 1e3),
    ]
    .into())
}

pub(super) fn replay(job: &Job, dir: &Path) -> Result<Figures> {
    let memory = anonymous()?;
    let subject = open(job, dir, Purpose::Keep)?;
    // Opening reads too, and not all logs the same.
    set_cache(dir, job.cold)?;
    let (before, begun) = (Counters::now(dir)?, Instant::now());
    let count = read(job, &*subject)?;
    let took = begun.elapsed();
    let after = Counters::now(dir)?;
    Ok([
        ("records/s".into(), count as f64 / took.as_secs_f64()),
        ("anon MiB".into(), anonymous()?.saturating_sub(memory) as f64 / MIB),
        ("CPU s/M".into(), (after.cpu - before.cpu) * 1e6 / count as f64),
    ]
    .into())
}

/// Reads one region or all, and counts. What has no regions is read as a whole.
fn read(job: &Job, subject: &dyn Subject) -> Result<u64> {
    let read = if job.kind.takes_part(job) { job.read } else { Read::Scan };
    let (count, expected) = match read {
        Read::One => (subject.replay(Some(REGIONS / 2))?, job.batches()),
        Read::Each => {
            let counts: Result<Vec<u64>> = (0..REGIONS).map(|region| subject.replay(Some(region))).collect();
            (counts?.iter().sum(), job.batches() * u64::from(REGIONS))
        }
        Read::Scan => (subject.replay(None)?, job.batches() * u64::from(REGIONS)),
    };
    ensure!(count == expected, "{count} entries read of {expected}");
    Ok(count)
}

pub(super) fn obsolete(job: &Job, dir: &Path) -> Result<Figures> {
    let subject = open(job, dir, Purpose::Keep)?;
    write(job, &*subject)?;
    let before = disk_use(dir)?.0;
    let begun = Instant::now();
    subject.obsolete(REGIONS, job.batches() * DROPPED / 100)?;
    let (mut left, mut changed) = (disk_use(dir)?.0, begun.elapsed());
    while begun.elapsed() < SETTLE {
        thread::sleep(LOOK);
        let now = disk_use(dir)?.0;
        if now != left {
            (left, changed) = (now, begun.elapsed());
        }
    }
    let mut figures = Figures::new();
    figures.insert("MiB left".into(), left as f64 / MIB);
    figures.insert("MiB before".into(), before as f64 / MIB);
    figures.insert("done after ms".into(), changed.as_secs_f64() * 1e3);
    if job.kind == Kind::Tidelog {
        figures.insert("MiB reusable".into(), reusable(dir)? as f64 / MIB);
    }
    Ok(figures)
}

/// Bytes of files that tidelog keeps to make segments of. Of other logs the names do not tell.
fn reusable(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "free" || extension == "spare") {
            bytes += path.metadata()?.len();
        }
    }
    Ok(bytes)
}

pub(super) fn empty(job: &Job, dir: &Path) -> Result<Figures> {
    let subject = open(job, dir, Purpose::Empty)?;
    let opened = disk_use(dir)?.0;
    subject.caller().durable(Records::new(pool(), job.payload, 0, 1).next(1))?;
    // What is prepared in the background counts.
    thread::sleep(Duration::from_secs(1));
    let (used, length) = disk_use(dir)?;
    Ok([
        ("KiB, opened".into(), opened as f64 / 1024.0),
        ("KiB, one record".into(), used as f64 / 1024.0),
        ("KiB of length".into(), length as f64 / 1024.0),
    ]
    .into())
}
