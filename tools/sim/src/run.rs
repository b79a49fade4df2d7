//! Running a history beside the model.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tidelog::sim::{FaultKind, SimDisk, SimLog, Snapshot};
use tidelog::{Batch, Error, IdRule, Lsn, Options, ReadMode, ReadOptions, ReadUpTo, StreamId};

use crate::content::{Content, Ids};
use crate::damage::{damage, vouched};
use crate::history::{History, Kind, Step, Theme};
use crate::stats::Stats;
use crate::story::Story;

const UNIT: u64 = 64 << 10;
/// Damaged copies of one disk.
const COPIES: usize = 24;

/// What the log did not keep.
#[derive(Debug)]
pub enum Broken {
    /// It does not open after a crash.
    Open(Error),
    /// It opens after a crash and cannot be read.
    Read(Error),
    /// It refuses a sound batch.
    Refused(Error),
    /// It takes an id twice.
    Repeated {
        /// The id.
        id: u64,
    },
    /// Its first live id is another than it says.
    First {
        /// What it says.
        told: Option<u64>,
        /// What is read.
        read: Option<u64>,
    },
    /// A scan does not give an entry that is live, or gives it otherwise.
    Scan {
        /// The entry's stream.
        stream: StreamId,
        /// Its id.
        id: u64,
    },
    /// A read of the live log gives what was never appended there.
    Entry {
        /// The entry's stream.
        stream: StreamId,
        /// Its id.
        id: u64,
    },
    /// It holds what no number of whole batches, in order and with all that are durable, comes to.
    Content {
        /// What it holds.
        found: String,
        /// After the batches that were durable.
        durable: String,
        /// After all that were staged.
        staged: String,
    },
    /// The same, in a damaged log that says nothing.
    Silent(Box<Broken>),
    /// It has more to do, for ever.
    Restless,
    /// Space was freed, and appends do not work again.
    StillFull(Option<Error>),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "it opens after a crash: {error}"),
            Self::Read(error) => write!(f, "it can be read after a crash: {error}"),
            Self::Refused(error) => write!(f, "it takes a sound batch: {error}"),
            Self::Repeated { id } => write!(f, "an id is taken once: {id}"),
            Self::First { told, read } => write!(f, "the first id is right: {told:?}, but {read:?} is read"),
            Self::Scan { stream, id } => {
                write!(f, "a scan gives what is live: entry {id} of stream {stream}")
            }
            Self::Entry { stream, id } => {
                write!(f, "what is read was appended: entry {id} of stream {stream}")
            }
            Self::Content { found, durable, staged } => write!(
                f,
                "what is durable is there, in order, batches whole: found {found}; durable were {durable}; staged {staged}"
            ),
            Self::Silent(broken) => write!(f, "damage is not silent: {broken}"),
            Self::Restless => f.write_str("the pipeline comes to rest"),
            Self::StillFull(error) => write!(f, "appends work again once there is room: {error:?}"),
        }
    }
}

/// What broke, and in which step of the history.
#[derive(Debug)]
pub struct Violation {
    /// The step's place.
    pub step: usize,
    /// What broke.
    pub broken: Broken,
}

type Found<T = ()> = Result<T, Broken>;

/// Runs a history, as far as `points` allow.
pub fn run(history: &History, stats: &mut Stats, points: u64) -> Result<(), Violation> {
    let at = |step| move |broken| Violation { step, broken };
    let mut run = Run::begin(history, stats).map_err(at(0))?;
    for (place, step) in history.steps.iter().enumerate() {
        run.step(*step).map_err(at(place))?;
        if run.stats.points >= points {
            break;
        }
    }
    run.stats.faults_of(&run.story.disk);
    run.stats.histories += 1;
    Ok(())
}

struct Run<'a> {
    theme: Theme,
    options: Options,
    ids: Ids,
    direct: bool,
    rng: Rng,
    story: Story,
    log: Option<SimLog>,
    waiting: Vec<(Lsn, usize)>,
    stats: &'a mut Stats,
}

impl<'a> Run<'a> {
    fn begin(history: &History, stats: &'a mut Stats) -> Found<Self> {
        let theme = history.theme;
        let mut rng = Rng::with_seed(history.setup);
        let direct = theme.is_direct(&mut rng);
        let disk = SimDisk::new(rng.u64(..)).with_direct(direct);
        let rule = if rng.u8(..4) == 0 { IdRule::Increasing } else { IdRule::Contiguous };
        let frame = 1 << rng.u32(12..14);
        let segment = UNIT * rng.u64(1..3);
        let options = Options::new()
            .block_size(if rng.u8(..4) == 0 { 4096 } else { 512 })
            .first_segment_size(UNIT)
            .segment_size(segment)
            .frame_size(frame)
            .staging_buffers(rng.usize(2..5))
            .queue_depth(rng.u32(1..6))
            .prepare_rate(u64::MAX)
            .lock_wait(Duration::ZERO)
            .id_rule(rule)
            .read_mode(if rng.bool() { ReadMode::Map } else { ReadMode::Copy })
            .recycled_files(rng.usize(..3))
            .linger(if rng.bool() { Duration::ZERO } else { Duration::from_millis(rng.u64(1..20)) })
            .max_unflushed_bytes(1 << rng.u32(10..20))
            .flush_interval(Duration::from_millis(if rng.bool() { 100 } else { 1000 }));
        let ids = Ids { rule, large: [4 * frame, 3 * UNIT as usize] };
        let (story, log, waiting) = (Story::new(disk), None, Vec::new());
        let mut run = Self { theme, options, ids, direct, rng, story, log, waiting, stats };
        run.open()?;
        Ok(run)
    }

    fn step(&mut self, step: Step) -> Found {
        self.rng = Rng::with_seed(step.seed);
        self.story.disk.reseed(self.rng.u64(..));
        match step.kind {
            Kind::Append => self.append()?,
            Kind::Turn => {
                let dice = self.rng.u8(..);
                self.log().step(dice);
            }
            Kind::Repeat => self.repeat()?,
            Kind::Wait => self.wait(),
            Kind::DropAll => self.drop_all()?,
            Kind::Settle => self.settle()?,
            Kind::Read => self.read_live()?,
            Kind::Fault => self.plan_fault(),
            Kind::Reopen => return self.reopen(),
            Kind::PowerCut => return self.power_cut(),
            Kind::Kill => return self.kill(),
            Kind::Damage => return self.damage(),
        }
        self.acknowledge()
    }

    fn log(&mut self) -> &mut SimLog {
        self.log.as_mut().expect("between its crashes the log is open")
    }

    /// Whether what the disk holds may be other than what was written: errors are in order then, and
    /// silence where nothing sound vouches.
    fn lies(&self) -> bool {
        self.theme == Theme::Lies
    }

    fn recover(&mut self, disk: &SimDisk) -> Found<SimLog> {
        self.stats.recoveries += 1;
        SimLog::open(disk, self.options.clone()).map_err(Broken::Open)
    }

    fn read(&mut self, log: &SimLog) -> Found<Content> {
        let mode = if self.rng.bool() { ReadMode::Map } else { ReadMode::Copy };
        Content::read(log, self.ids.rule, mode)
    }

    /// Opens the log on what is left, at a disk that does what it is told. What that shows counts as
    /// durable from now on.
    fn open(&mut self) -> Found {
        let (durable, staged) = (self.story.acked, self.story.staged());
        let disk = self.story.disk.clone();
        disk.clear_faults();
        disk.sample(2, 10);
        let opened = self.recover(&disk);
        disk.sample(0, 0);
        let opened = opened.and_then(|log| Ok((self.read(&log)?, log)));
        let (found, log) = match opened {
            // A disk that lied has lost the log; the history goes on with a new one.
            Err(Broken::Open(_) | Broken::Read(_)) if self.lies() => return self.start_over(),
            opened => opened?,
        };
        let floor = if self.lies() { self.story.below(vouched(&disk), durable) } else { durable };
        let reached = self.story.place(&found, floor, staged)?;
        for inside in disk.take_snapshots() {
            let image = inside.power_cut(self.rng.u64(..));
            self.stats.inner += 1;
            self.check(&image, durable, staged, false)?;
        }
        let image = disk.snapshot().power_cut(self.rng.u64(..));
        self.check(&image, reached, reached, false)?;
        self.story.cut(reached);
        self.log = Some(log);
        self.waiting.clear();
        self.story.begin();
        let (every, most) = if self.theme == Theme::Damage { (0, 0) } else { (12, 24) };
        disk.sample(every, most);
        if self.theme == Theme::Full {
            disk.set_capacity(UNIT * self.rng.u64(5..14));
        }
        Ok(())
    }

    fn start_over(&mut self) -> Found {
        self.stats.faults_of(&self.story.disk);
        self.story = Story::new(SimDisk::new(self.rng.u64(..)).with_direct(self.direct));
        self.open()
    }

    fn append(&mut self) -> Found {
        if self.log().log().failure().is_some() {
            return Ok(());
        }
        let mut next = self.story.newest().clone();
        let batch = next.batch(self.ids, &mut self.rng);
        if self.ids.rule == IdRule::Increasing {
            // A truncation looks up what it leaves, and waits for what is not written: nobody would end that.
            self.settle()?;
        }
        let wanted = self.rng.u8(..3) == 0;
        let direct = wanted && self.rng.bool();
        self.stage(next, &batch, wanted, direct).map(drop)
    }

    /// Stages a batch. Whether it was taken.
    fn stage(&mut self, next: Content, batch: &Batch<Bytes>, wanted: bool, direct: bool) -> Found<bool> {
        match self.offer(next, batch, wanted, direct) {
            Ok(taken) => Ok(taken),
            Err(error) => {
                let expected =
                    matches!(error, Error::NoSpace { .. }) || self.theme.has_faults() || self.lies();
                if expected { Ok(false) } else { Err(Broken::Refused(error)) }
            }
        }
    }

    /// Offers the log a batch: what came of it, but for a log that fails, where nobody knows.
    fn offer(
        &mut self,
        next: Content,
        batch: &Batch<Bytes>,
        wanted: bool,
        direct: bool,
    ) -> Result<bool, Error> {
        self.story.push(next);
        match self.log().append(batch, wanted, direct) {
            Ok(Some(lsn)) => {
                self.stats.batches += 1;
                self.story.taken(lsn);
                self.waiting.push((lsn, self.story.staged()));
                Ok(true)
            }
            // It may have taken it, so it stays.
            Err(_) if self.log().log().failure().is_some() => Ok(false),
            refused => {
                self.story.pop();
                refused.map(|_| false)
            }
        }
    }

    /// Learns what is durable now.
    fn acknowledge(&mut self) -> Found {
        let failed = self.log().log().failure().is_some();
        let Some(log) = &self.log else { return Ok(()) };
        let mut acked = self.story.acked;
        self.waiting.retain(|(lsn, place)| match log.durable(*lsn) {
            Some(Ok(())) => {
                acked = acked.max(*place);
                false
            }
            outcome => outcome.is_none(),
        });
        self.story.acked = acked;
        if failed && !self.waiting.is_empty() {
            return Err(Broken::Restless);
        }
        self.story.note();
        Ok(())
    }

    /// An id that was taken is not taken again.
    fn repeat(&mut self) -> Found {
        for (stream, id) in self.story.newest().lasts().collect::<Vec<_>>() {
            let mut batch: Batch<Bytes> = Batch::new();
            batch.append(stream, id, Bytes::new());
            if let Ok(Some(_)) = self.log().append(&batch, false, false) {
                return Err(Broken::Repeated { id });
            }
        }
        Ok(())
    }

    fn wait(&mut self) {
        // The log falls idle after 100.
        let millis = if self.rng.u8(..4) == 0 { self.rng.u64(100..300) } else { self.rng.u64(..60) };
        self.log().advance(Duration::from_millis(millis));
        if let Some((lsn, _)) = self.waiting.last().copied().filter(|_| self.rng.bool()) {
            // Whether it worked shows in what those who wait are told.
            let direct = self.rng.bool();
            let _ = self.log().want(lsn, direct);
        }
    }

    /// Frees all room, and then some is there for what comes.
    fn drop_all(&mut self) -> Found {
        let mut next = self.story.newest().clone();
        let batch = next.drop_all();
        if self.log().log().failure().is_some()
            || next == *self.story.newest()
            || !self.stage(next, &batch, true, false)?
        {
            return Ok(());
        }
        self.story.disk.set_capacity(u64::MAX);
        self.settle()?;
        let mut outcome = Ok(false);
        // A preparation that failed is tried again after a while, when somebody asks.
        for _ in 0..20 {
            let mut next = self.story.newest().clone();
            let batch = next.batch(Ids { large: [900, 900], ..self.ids }, &mut self.rng);
            outcome = self.offer(next, &batch, true, false);
            if let Ok(true) = outcome {
                return self.settle();
            }
            self.log().advance(Duration::from_millis(60));
            self.settle()?;
        }
        Err(Broken::StillFull(outcome.err()))
    }

    fn settle(&mut self) -> Found {
        if self.log().settle() { Ok(()) } else { Err(Broken::Restless) }
    }

    /// Reads what is durable of every stream while the log goes on.
    fn read_live(&mut self) -> Found {
        let (acked, staged) = (self.story.acked, self.story.staged());
        let forgiving = self.theme.has_faults() || self.lies();
        // A wait would have nobody to end it: what is written and not durable is not asked for.
        if self.story.acked != self.story.staged() {
            return Ok(());
        }
        for (stream, _) in self.log().log().streams() {
            let options = ReadOptions::new().up_to(ReadUpTo::Durable);
            let reader = match self.log().log().read(stream, .., options) {
                Err(_) if forgiving => return Ok(()),
                reader => reader.map_err(Broken::Read)?,
            };
            for entry in reader {
                let entry = match entry {
                    Err(_) if forgiving => return Ok(()),
                    entry => entry.map_err(Broken::Read)?,
                };
                let states = &self.story.states[acked..=staged];
                if !states.iter().any(|state| state.holds(stream, entry.id, &entry.payload)) {
                    return Err(Broken::Entry { stream, id: entry.id });
                }
            }
        }
        Ok(())
    }

    fn plan_fault(&mut self) {
        let (kind, within) = match (self.lies(), self.rng.u8(..7)) {
            (true, 0..4) => (FaultKind::LostWrite, 40),
            (true, _) => (FaultKind::MisdirectedWrite, 40),
            (_, 0) => (FaultKind::Write, 60),
            (_, 1) => (FaultKind::ShortWrite, 60),
            (_, 2) => (FaultKind::FlushDirectory, 3),
            (_, 3) => (FaultKind::NoSpace, 6),
            (_, 4) => (if self.rng.bool() { FaultKind::Read } else { FaultKind::Map }, 20),
            _ => (FaultKind::Flush, 8),
        };
        let after = self.rng.u32(..within);
        self.story.disk.plan_fault(kind, after);
    }

    /// Closes the log, whose every batch is durable then, and opens it again.
    fn reopen(&mut self) -> Found {
        self.log().close();
        self.settle()?;
        self.acknowledge()?;
        let whole = self.log().log().failure().is_none_or(|error| matches!(error, Error::Closed));
        if whole && !self.lies() && self.log().has_ended() {
            self.story.acked = self.story.staged();
        }
        self.check_snapshots(true)?;
        self.log = None;
        self.story.disk.kill();
        self.open()
    }

    /// Looks at what a power cut would have left, at the moments that were kept of this life, and gives
    /// them. With `inside`, now and then also at crashes of the recovery.
    fn check_snapshots(&mut self, inside: bool) -> Found<Vec<Snapshot>> {
        self.story.disk.sample(0, 0);
        let snapshots = self.story.disk.take_snapshots();
        for snapshot in &snapshots {
            let (durable, staged) = self.story.moment(snapshot.note());
            let image = snapshot.power_cut(self.rng.u64(..));
            let inside = inside && self.rng.u8(..4) == 0;
            self.check(&image, durable, staged, inside)?;
        }
        Ok(snapshots)
    }

    fn power_cut(&mut self) -> Found {
        let mut last = self.story.disk.snapshot();
        let snapshots = self.check_snapshots(true)?;
        if !snapshots.is_empty() && self.rng.bool() {
            last = snapshots[self.rng.usize(..snapshots.len())].clone();
            let (durable, staged) = self.story.moment(last.note());
            self.story.cut(staged);
            self.story.acked = durable;
        }
        self.stats.faults_of(&self.story.disk);
        self.log = None;
        self.story.disk = last.power_cut(self.rng.u64(..)).with_direct(self.direct);
        self.open()
    }

    fn kill(&mut self) -> Found {
        self.check_snapshots(false)?;
        self.log = None;
        self.story.disk.kill();
        self.open()
    }

    /// Recovers an image, twice, and looks at all of it; `inside`: also at crashes in recovery.
    fn check(&mut self, image: &SimDisk, durable: usize, staged: usize, inside: bool) -> Found {
        self.stats.points += 1;
        let disk = image.with_direct(self.direct);
        let floor = if self.lies() { self.story.below(vouched(&disk), durable) } else { durable };
        if inside {
            disk.sample(2, 3);
        }
        let opened = self.recover(&disk).and_then(|log| self.read(&log));
        disk.sample(0, 0);
        let first = match opened {
            Err(Broken::Open(_) | Broken::Read(_)) if self.lies() => return Ok(()),
            first => first?,
        };
        let reached = self.story.place(&first, floor, staged)?;
        self.stats.fold(reached as u64 ^ disk.ops());
        for snapshot in disk.take_snapshots() {
            let image = snapshot.power_cut(self.rng.u64(..));
            self.stats.inner += 1;
            self.check(&image, durable, staged, false)?;
        }
        disk.kill();
        let log = self.recover(&disk)?;
        let second = self.read(&log)?;
        self.story.place(&second, reached, reached).map(drop)
    }

    /// Copies of the disk are damaged: all that something sound vouches for is there, or an error says
    /// why not. What nothing vouches for may go as a torn tail does.
    fn damage(&mut self) -> Found {
        self.log().close();
        let settled = self.log().settle();
        self.acknowledge()?;
        // The first segment of an opening closes none.
        let rotated = self.log().log().stats().rotations > 1;
        self.log = None;
        let whole = self.story.disk.snapshot();
        let undamaged = whole.power_cut(0);
        let end = self.story.frames.last().copied().unwrap_or(Lsn(0));
        // Closed, and with a frame that vouches for all: then even a file that is gone is missed.
        let closed = settled && vouched(&undamaged) > end && self.story.acked == self.story.staged();
        let (durable, staged) = (self.story.acked, self.story.staged());
        for _ in 0..COPIES {
            let copy = whole.power_cut(self.rng.u64(..)).with_direct(self.direct);
            let files = closed && !self.lies();
            let Some(what) = damage(&copy, files, rotated, &mut self.rng) else { continue };
            self.stats.points += 1;
            self.stats.damaged(what);
            let floor = if files { durable } else { self.story.below(vouched(&copy), durable) };
            let found = match self.recover(&copy).and_then(|log| self.read(&log)) {
                Err(Broken::Open(_) | Broken::Read(_)) => continue,
                found => found?,
            };
            self.story.place(&found, floor, staged).map_err(|broken| Broken::Silent(Box::new(broken)))?;
        }
        self.story.disk.kill();
        self.open()
    }
}
