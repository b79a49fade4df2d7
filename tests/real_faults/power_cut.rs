//! The power fails, as far as the file system knows: it is shut down in the middle, without what it holds in memory.
//! The same log goes on over all cuts.
//!
//! Where a flush needs more than the file's own blocks (in unwritten extents), both ext4 and XFS let the one that the
//! shutdown meets succeed and lose it. No machine without power acknowledges anything: what was acknowledged before the
//! shutdown began counts.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidelog::{BackendChoice, Error, Log, Options};

use crate::alone;
use crate::common::disk::{Cut, FileSystem, LoopDisk};
use crate::common::{backends, files, tiny};
use crate::workload::{Actor, Random, check_order, shown};

/// Cuts on each file system, or those that the environment variable asks for.
const CUTS: u64 = 50;
const CUTS_WANTED: &str = "TIDELOG_POWER_CUTS";

const ACTORS: u16 = 4;

#[derive(Default)]
struct Tally {
    /// Batches and entries that were acknowledged before a cut.
    batches: u64,
    entries: u64,
    torn: u64,
    adopted: u64,
    openings: u64,
    rotations: AtomicU64,
}

struct Cuts {
    disk: LoopDisk,
    backends: Vec<BackendChoice>,
    random: Random,
    actors: Vec<Actor>,
    tally: Tally,
}

impl Cuts {
    fn options(&mut self) -> Options {
        let backend = self.backends[self.random.below(self.backends.len() as u64) as usize];
        let flush = [2, 1000][self.random.below(2) as usize];
        tiny(backend).flush_interval(Duration::from_millis(flush)).idle_after(Duration::from_millis(5))
    }

    /// The log is opened and written to, and the power fails in the midst.
    fn round(&mut self) {
        let options = self.options();
        let cut = if self.random.below(4) == 0 { Cut::LogFlushed } else { Cut::Hard };
        let micros = if self.random.below(4) == 0 { 6000 } else { 60_000 };
        let delay = Duration::from_micros(self.random.below(micros));
        let off = AtomicBool::new(false);
        let Self { disk, actors, tally, .. } = self;
        let (dir, rotations) = (disk.log(), &tally.rotations);
        let opened = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let log = Log::open(&dir, options).inspect_err(|error| assert!(is_due(&off), "{error}"));
                let Ok(log) = log else { return false };
                thread::scope(|scope| {
                    for actor in actors.iter_mut() {
                        let (log, off) = (&log, &off);
                        scope.spawn(move || {
                            let error = actor.run(log, off);
                            assert!(is_due(off), "{error}");
                            assert!(
                                !matches!(error, Error::OutOfOrder { .. } | Error::Corrupt(_)),
                                "{error}"
                            );
                        });
                    }
                });
                rotations.fetch_add(log.stats().rotations, Ordering::Relaxed);
                let _ = log.close();
                true
            });
            thread::sleep(delay);
            off.store(true, Ordering::SeqCst);
            disk.cut(cut).unwrap();
            writer.join().unwrap()
        });
        tally.openings += u64::from(!opened);
        disk.unmount().unwrap();
        disk.mount().unwrap();
    }

    /// The power fails while the log is opened after the cut before.
    fn cut_an_opening(&mut self) {
        let (options, dir) = (self.options(), self.disk.log());
        let delay = Duration::from_micros(self.random.below(5000));
        let opened = thread::scope(|scope| {
            let opening = scope.spawn(|| Log::open(&dir, options).and_then(|log| log.close()).is_ok());
            thread::sleep(delay);
            self.disk.cut(Cut::Hard).unwrap();
            opening.join().unwrap()
        });
        self.tally.openings += u64::from(!opened);
        self.disk.unmount().unwrap();
        self.disk.mount().unwrap();
    }

    /// Every acknowledged batch is there, whole, with those before it.
    fn check(&mut self) {
        let dir = self.disk.log();
        if fs::read_dir(&dir).is_err() {
            assert!(!self.actors.iter().any(Actor::has_durable), "the whole log is gone");
            fs::create_dir(&dir).unwrap();
        }
        let log = Log::open(&dir, self.options()).unwrap();
        self.tally.torn += u64::from(log.recovery().torn_tail.is_some());
        self.tally.adopted += u64::from(log.recovery().adopted_frames > 0);
        let found = files::read(&dir).unwrap();
        let by_log = shown(&log).unwrap();
        assert!(by_log == found, "the log shows {by_log:#?}\nthe files hold {found:#?}");
        let held: Vec<_> = self.actors.iter_mut().map(|actor| actor.settle(&found)).collect();
        let held: Vec<_> =
            held.into_iter().map(|held| held.unwrap_or_else(|lost| panic!("{lost}"))).collect();
        check_order(&held);
        self.tally.batches += held.iter().map(|held| held.acknowledged).sum::<u64>();
        self.tally.entries += held.iter().map(|held| held.entries).sum::<u64>();
        log.close().unwrap();
    }
}

fn is_due(off: &AtomicBool) -> bool {
    off.load(Ordering::SeqCst)
}

fn check(kind: FileSystem, mib: u64) {
    let _alone = alone();
    let Some(disk) = LoopDisk::new(kind, mib) else { return };
    if let Err(error) = disk.cut(Cut::Hard) {
        return eprintln!("skipped: no way to shut a file system down: {error}");
    }
    disk.unmount().unwrap();
    disk.mount().unwrap();
    let wanted = std::env::var(CUTS_WANTED).ok().map(|wanted| wanted.parse().expect(CUTS_WANTED));
    let rounds = wanted.unwrap_or(CUTS);
    let actors = (1..=ACTORS).map(Actor::new).collect();
    let (backends, tally) = (backends(), Tally::default());
    let mut cuts = Cuts { disk, backends, random: Random::new(mib), actors, tally };
    for _ in 0..rounds {
        cuts.round();
        if cuts.random.below(3) == 0 {
            cuts.cut_an_opening();
        }
        cuts.check();
    }
    let Tally { batches, entries, torn, adopted, openings, rotations } = cuts.tally;
    let rotations = rotations.into_inner();
    println!(
        "{kind:?}: {rounds} power cuts, {openings} of them during the opening, {rotations} rotations; {batches} \
         acknowledged batches with {entries} entries, none lost; {torn} torn tails, {adopted} adoptions"
    );
    assert!(entries > 100 * rounds / 10 && rotations > rounds / 5, "little was done");
}

#[test]
fn nothing_acknowledged_is_lost_on_ext4() {
    check(FileSystem::Ext4, 96);
}

#[test]
fn nothing_acknowledged_is_lost_on_xfs() {
    check(FileSystem::Xfs, 320);
}
