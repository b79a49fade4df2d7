//! From a directory to the state of the log (SPEC.md, "Recovery").
//!
//! The headers and checkpoints are the truth, and they are in the log; there is no manifest. The
//! newest segment is the one with the highest number that has a valid first frame. Its
//! checkpoint proves all that lies before it, so only its own frames are gone over.

mod directory;
mod replay;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tidelog_format::{FILE_SIZE_UNIT, LogId, Lsn, SegmentHeader};

use crate::commit::Spare;
use crate::error::{Error, Result};
use crate::io::{Access, AlignedBuf, Disk};
use crate::options::{Create, Options};
use crate::planted::{Planted, planted};
use crate::segment::{Free, Runs, Segment, name};
use crate::state::State;

use directory::Directory;
use replay::{Beginning, Replay, Replayed};
pub use report::{RecoveryReport, TornTail};

/// Where the first segment of a log begins. Not at 0, so that something lies below every frame.
const FIRST_LSN: Lsn = Lsn(FILE_SIZE_UNIT);

/// Everything that an opening starts from.
pub(crate) struct Recovered {
    pub(crate) log_id: LogId,
    pub(crate) state: State,
    /// From the oldest live segment on, void ones included.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The newest segment with frames, and where they end.
    pub(crate) newest: Option<(u64, Lsn)>,
    pub(crate) end: Lsn,
    pub(crate) next_sequence: u64,
    pub(crate) next_base: Lsn,
    pub(crate) bases: BTreeMap<u64, Lsn>,
    pub(crate) spare: Option<Spare>,
    pub(crate) next_spare: u64,
    pub(crate) free: Vec<Free>,
    pub(crate) report: RecoveryReport,
}

struct Recovery<'a> {
    disk: &'a Arc<dyn Disk>,
    options: &'a Options,
    directory: Directory,
    report: RecoveryReport,
    /// Headers that could be read. One of an old segment may be damaged: that is the error of
    /// whoever reads it.
    headers: BTreeMap<u64, SegmentHeader>,
    log_id: Option<LogId>,
    /// The highest watermark in the void segments.
    proven: Lsn,
}

/// Recovers the log in the directory, for writing. Does it again, the same comes out, also after
/// a crash in the middle.
pub(crate) fn recover(disk: &Arc<dyn Disk>, options: &Options) -> Result<Recovered> {
    let begun = Instant::now();
    // A name that is seen now may not be durable.
    disk.sync().map_err(|error| Error::io("fsync", disk.path(), error))?;
    let directory = Directory::list(&**disk)?;
    if directory.is_empty() && options.create == Create::Never {
        return Err(Error::NotALog { path: disk.path().into(), reason: "there is no segment file".into() });
    }
    if !directory.has_own()
        && !directory.is_empty()
        && let Some(stranger) = directory.strangers.first()
    {
        let reason = format!("it holds other files, such as {}", stranger.display());
        return Err(Error::NotALog { path: disk.path().into(), reason });
    }
    // A log never lacks segments where it has index caches: they are of segments that have ended.
    if let (true, Some(index)) = (directory.segments.is_empty(), directory.indexes.iter().max()) {
        return Err(Error::missing(disk.path().join(name::segment(*index)), "segment of an index cache"));
    }
    let report = RecoveryReport { strangers: directory.strangers.clone(), ..RecoveryReport::default() };
    let mut recovery = Recovery {
        disk,
        options,
        directory,
        report,
        headers: BTreeMap::new(),
        log_id: None,
        proven: Lsn::ZERO,
    };
    let mut recovered = recovery.run()?;
    recovered.report.took = begun.elapsed();
    Ok(recovered)
}

/// The newest segment that holds frames, and what was found in it.
struct Newest {
    sequence: u64,
    end: Lsn,
    runs: Runs,
}

impl Recovery<'_> {
    fn run(&mut self) -> Result<Recovered> {
        let newest = self.find_newest()?;
        self.read_headers(newest)?;
        let highest = self.directory.segments.last_key_value().map_or(0, |(sequence, _)| *sequence);
        let next_sequence = highest.checked_add(1).ok_or_else(|| {
            let path = self.disk.path().join(name::segment(highest));
            Error::mismatch(path, 40, "sequence, the last there is,", u64::MAX - 1, highest)
        })?;
        let (state, found) = if let Some(sequence) = newest {
            let (state, found) = self.replay(sequence)?;
            (state, Some(found))
        } else {
            self.check_files(0, None)?;
            (State::default(), None)
        };
        let newest_end = found.as_ref().map(|found| (found.sequence, found.end));
        let next_sequence = match newest {
            Some(newest) if planted(Planted::ContinueUnused) => {
                self.directory.segments.retain(|sequence, _| *sequence <= newest);
                self.headers.retain(|sequence, _| *sequence <= newest);
                newest + 1
            }
            _ => next_sequence,
        };
        let oldest = state.oldest();
        self.clean(oldest)?;
        let (spare, next_spare) = self.spare()?;
        let free = self.free()?;
        let log_id = match self.log_id {
            Some(log_id) => log_id,
            None => random_id(&**self.disk)?,
        };
        let bases = self.bases(oldest);
        let next_base = self.headers.values().map(SegmentHeader::end).max().unwrap_or(FIRST_LSN);
        // Without frames nothing was durable, and no watermark may lie above the base of a void segment.
        let end = newest_end.map_or(FIRST_LSN, |(_, end)| end);
        let segments = self.segments(oldest, log_id, found);
        self.report.segments = segments.len();
        self.report.newest = newest;
        self.report.end = end;
        self.report.streams = state.stream_count();
        Ok(Recovered {
            log_id,
            state,
            segments,
            newest: newest_end,
            end,
            next_sequence,
            next_base,
            bases,
            spare,
            next_spare,
            free,
            report: std::mem::take(&mut self.report),
        })
    }

    /// The highest number with a valid first frame. Those above it are void.
    fn find_newest(&mut self) -> Result<Option<u64>> {
        let sequences: Vec<u64> = self.directory.segments.keys().rev().copied().collect();
        for sequence in sequences {
            let file = directory::open(&**self.disk, sequence)?;
            let path = self.disk.path().join(name::segment(sequence));
            // A killed process can have writes land after its death; its locks last as long.
            file.lock(self.options.lock_wait).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => Error::Locked { path: path.clone() },
                _ => Error::io("lock", &path, error),
            })?;
            let header = match directory::header(&**self.disk, &*file, sequence, self.log_id) {
                Err(Error::Corrupt(_)) if planted(Planted::BadHeaderIsUnused) => continue,
                header => header?,
            };
            self.log_id = Some(header.identity.log_id);
            self.headers.insert(sequence, header);
            let replay = Replay { path: &path, file: &file, header, proven: self.proven };
            match replay.beginning()? {
                Beginning::Holds => return Ok(Some(sequence)),
                Beginning::Void { proven } => {
                    self.proven = self.proven.max(proven);
                    self.report.void_segments += 1;
                }
            }
        }
        Ok(None)
    }

    /// The headers of the older segments: which log they belong to, and their bases.
    fn read_headers(&mut self, newest: Option<u64>) -> Result<()> {
        let Some(newest) = newest else { return Ok(()) };
        let older: Vec<u64> =
            self.directory.segments.range(..newest).map(|(sequence, _)| *sequence).collect();
        for sequence in older {
            let header = directory::open(&**self.disk, sequence)
                .and_then(|file| directory::header(&**self.disk, &*file, sequence, self.log_id));
            match header {
                Ok(header) => {
                    self.headers.insert(sequence, header);
                }
                // Left over, or found damaged by whoever reads it: a bad sector may lie under the header too.
                Err(Error::Corrupt(_) | Error::Io { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn replay(&mut self, sequence: u64) -> Result<(State, Newest)> {
        let header = self.headers[&sequence];
        let file = directory::open(&**self.disk, sequence)?;
        let path = self.disk.path().join(name::segment(sequence));
        let replay = Replay { path: &path, file: &file, header, proven: self.proven };
        let replayed = replay.run(&mut self.report)?;
        if let Some((previous, end)) = replayed.previous {
            let known = self.headers.get(&previous).map(|header| header.identity.base);
            let sound = previous < sequence && known.is_none_or(|base| end > base);
            if !sound {
                return Err(Error::mismatch(
                    path,
                    header.first_frame(),
                    "previous segment",
                    sequence - 1,
                    previous,
                ));
            }
        }
        let oldest = replayed.state.oldest();
        if oldest > sequence {
            // All that lies below would be removed as left over.
            return Err(Error::mismatch(path, header.first_frame(), "oldest segment", sequence, oldest));
        }
        if let Some(next) = replayed.closed
            && !planted(Planted::IgnoreSuccessor)
            && !self.directory.segments.contains_key(&next)
        {
            return Err(Error::missing(
                self.disk.path().join(name::segment(next)),
                "successor of a closed segment",
            ));
        }
        self.check_files(oldest, Some(sequence))?;
        if planted(Planted::CleanBeforeAdopting) {
            self.clean(oldest)?;
            self.directory.temporaries.clear();
            self.directory.indexes.clear();
        }
        self.adopt(sequence, &header, &replayed)?;
        let end = header.identity.lsn(replayed.end);
        Ok((replayed.state, Newest { sequence, end, runs: replayed.runs }))
    }

    /// Writes what nothing vouches for again, byte for byte and in place, before anything else
    /// is written and before it counts: it may sit in a cache only. A torn write of the same
    /// bytes leaves each sector as it is or as it was (SPEC.md, "The medium").
    fn adopt(&self, sequence: u64, header: &SegmentHeader, replayed: &Replayed) -> Result<()> {
        if replayed.end <= replayed.proven || planted(Planted::SkipAdopting) {
            return Ok(());
        }
        let name = name::segment(sequence);
        let path = self.disk.path().join(&name);
        let wrap = |op: &'static str| {
            let path = path.clone();
            move |error| Error::io(op, path, error)
        };
        let file = self.disk.open(&name, Access::Write).map_err(wrap("open"))?;
        file.lock(self.options.lock_wait).map_err(wrap("lock"))?;
        let piece = (1 << 20_u64).max(u64::from(header.block_size)).min(replayed.end - replayed.proven);
        let mut buf = AlignedBuf::new(piece as usize).map_err(wrap("allocate"))?;
        let mut at = replayed.proven;
        while at < replayed.end {
            let len = (replayed.end - at).min(piece) as usize;
            let read = file.read_uncached(at, &mut buf[..len]).map_err(wrap("read"))?;
            if read < len {
                return Err(Error::mismatch(&path, at, "length of what is adopted", len as u64, read as u64));
            }
            file.write_at(at, &buf[..len], false).map_err(wrap("write"))?;
            at += len as u64;
        }
        if planted(Planted::AdoptWithoutFlush) {
            return Ok(());
        }
        file.sync().map_err(wrap("flush"))
    }

    /// Every file from the oldest to the highest must be there. Without any frame nothing can
    /// have retired, so then from the very first one.
    fn check_files(&self, oldest: u64, newest: Option<u64>) -> Result<()> {
        let last = self.directory.segments.last_key_value().map(|(sequence, _)| *sequence);
        let Some(highest) = last.max(newest) else { return Ok(()) };
        for sequence in oldest.max(1)..=highest {
            if !self.directory.segments.contains_key(&sequence) && !planted(Planted::IgnoreMissing) {
                return Err(Error::missing(self.disk.path().join(name::segment(sequence)), "segment file"));
            }
        }
        Ok(())
    }

    /// Removes what is left over: files half prepared, and whatever lies below the oldest live
    /// segment, by name and without a look at it.
    fn clean(&mut self, oldest: u64) -> Result<()> {
        let mut left: Vec<String> = self.directory.temporaries.clone();
        if planted(Planted::ReuseLeftOver) {
            left.clear();
        }
        let below: Vec<u64> =
            self.directory.segments.range(..oldest).map(|(sequence, _)| *sequence).collect();
        for sequence in &below {
            left.push(name::segment(*sequence));
            self.directory.segments.remove(sequence);
            self.headers.remove(sequence);
        }
        let orphans =
            self.directory.indexes.iter().filter(|index| !self.directory.segments.contains_key(index));
        left.extend(orphans.map(|sequence| name::index(*sequence)));
        for name in left {
            self.remove(&name)?;
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.disk.path().join(name);
        self.disk.unlink(name).map_err(|error| Error::io("unlink", &path, error))?;
        self.report.removed.push(path);
        Ok(())
    }

    /// The largest reserve is kept, as far as a segment can be made of it.
    fn spare(&mut self) -> Result<(Option<Spare>, u64)> {
        let spares = std::mem::take(&mut self.directory.spares);
        let best = spares.iter().max_by_key(|(_, size)| **size);
        let best = best.map(|(&number, size)| Spare { number, size: size - size % FILE_SIZE_UNIT });
        for number in spares.keys().filter(|number| best.is_some_and(|best| best.number != **number)) {
            self.remove(&name::spare(*number))?;
        }
        Ok((best, best.map_or(1, |best| Spare::number_after(best.number))))
    }

    /// What retired segments left, as many as are wanted, as far as a segment can be made of them.
    fn free(&mut self) -> Result<Vec<Free>> {
        let found = std::mem::take(&mut self.directory.free);
        let found = found.into_iter().map(|(number, size)| Free { number, size });
        let (mut kept, useless): (Vec<_>, Vec<_>) =
            found.partition(|free| free.size == self.options.segment_size);
        let surplus = kept.split_off(kept.len().min(self.options.recycled_files));
        for free in useless.into_iter().chain(surplus) {
            self.remove(&free.name())?;
        }
        Ok(kept)
    }

    /// Where a header cannot be read, the end of the segment before is a lower bound of the base:
    /// fences are then kept for longer than they are needed.
    fn bases(&self, oldest: u64) -> BTreeMap<u64, Lsn> {
        let mut floor = Lsn::ZERO;
        let sequences = self.directory.segments.range(oldest..);
        let base = |(&sequence, _): (&u64, &u64)| {
            if let Some(header) = self.headers.get(&sequence) {
                floor = header.end();
                return (sequence, header.identity.base);
            }
            (sequence, floor)
        };
        sequences.map(base).collect()
    }

    fn segments(&self, oldest: u64, log_id: LogId, mut newest: Option<Newest>) -> Vec<Arc<Segment>> {
        let place = newest.as_ref().map(|newest| newest.sequence);
        let segment = |(&sequence, _): (&u64, &u64)| {
            let header = self.headers.get(&sequence).copied();
            let ended = |end| Segment::ended(Arc::clone(self.disk), log_id, sequence, header, end);
            Arc::new(match newest.take_if(|newest| newest.sequence == sequence) {
                Some(Newest { end, runs, .. }) => ended(Some(end)).with_runs(runs),
                None if place.is_some_and(|newest| newest > sequence) => ended(None),
                // Void.
                None => ended(header.map(|header| header.identity.base)),
            })
        };
        self.directory.segments.range(oldest..).map(segment).collect()
    }
}

fn random_id(disk: &dyn Disk) -> Result<LogId> {
    let mut id = [0; 16];
    disk.random(&mut id).map_err(|error| Error::io("draw a log id for", disk.path(), error))?;
    Ok(LogId(id))
}
