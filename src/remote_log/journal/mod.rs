//! The journal of the metadata: a stream of a log, and the state that its events make.
//!
//! A mutation is judged by what is recorded and what is pending on top, and staged, under one
//! lock; then it waits, without the lock, until it is durable. What is durable is applied in the
//! order of the log, by whoever comes first. So nothing invalid is ever written, mutations share
//! flushes, and reads, whose lock is held only to read and to apply, never wait for one.
//!
//! Locks are taken in this order: checkpoint, tail, state, queue. Whoever applies lets the state go before it
//! takes the tail.

mod checkpoint;
mod error;
mod record;
mod registry;
mod replay;
mod stage;
mod view;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use tidelog_format::{Lsn, StreamId};

use self::checkpoint::Checkpoint;
pub use self::error::JournalError;
pub use self::record::Record as JournalRecord;
pub use self::replay::JournalReport;
use self::replay::{Entries, Replay};
pub use self::view::{EpochView, JournalView, PartitionView};
use super::codec::Event;
use super::error::RemoteStorageError;
use super::pending::Pending;
use super::store::Store;
use super::types::TopicIdPartition;
use crate::error::Error;
use crate::log::Log;

/// The class of streams that journals are.
pub const JOURNAL_CLASS: u16 = 2;

/// How a [`Journal`] is kept.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct JournalOptions {
    checkpoint_after: Option<u64>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { checkpoint_after: Some(100_000) }
    }
}

impl JournalOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// A checkpoint is written once more than so many entries (default 100,000), and more than half of
    /// all, no longer matter. `None`: only [`Journal::checkpoint`] writes one.
    pub fn checkpoint_after(mut self, dead_entries: Option<u64>) -> Self {
        self.checkpoint_after = dead_entries;
        self
    }
}

/// Counters of a [`Journal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStats {
    /// Entries from the first live one to the end.
    pub entries: u64,
    /// Entries that a checkpoint would write: one a segment, and one a partition in deletion.
    pub live: u64,
    /// Number of the last checkpoint; 0: there was none.
    pub last_checkpoint: u64,
    /// Checkpoints that came due and could not be written. Each is tried again later.
    pub failed_checkpoints: u64,
}

/// The events of remote log metadata in a stream of a [`Log`], and the state that they make.
///
/// A handle; all handles on one stream of a log are the same journal. It keeps the log open.
#[derive(Clone, Debug)]
pub struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    log: Log,
    stream: StreamId,
    options: JournalOptions,
    opening: Arc<Opening>,
    /// Set once; nothing works from then on.
    failure: OnceLock<JournalError>,
    tail: Mutex<Tail>,
    /// Staged and not applied yet, in the order of the log.
    queue: Mutex<VecDeque<Staged>>,
    state: RwLock<Store>,
    checkpoint: Mutex<Option<Checkpoint>>,
    /// A checkpoint is to be begun, or to be gone on with.
    checkpoint_due: AtomicBool,
}

/// Apart from the rest, so that whoever is woken finds that the reading thread holds nothing else.
#[derive(Debug, Default)]
struct Opening {
    /// Set once, when the journal has been read.
    report: OnceLock<JournalReport>,
    lock: Mutex<()>,
    over: Condvar,
}

/// Where the next entry goes, and what it is judged by.
#[derive(Debug, Default)]
struct Tail {
    first: u64,
    next: u64,
    last_checkpoint: u64,
    failed_checkpoints: u64,
    /// A checkpoint that failed is not tried again before the journal reaches this id.
    retry_at: u64,
    pending: HashMap<TopicIdPartition, Pending>,
}

#[derive(Debug)]
struct Staged {
    id: u64,
    lsn: Lsn,
    /// `None`: part of a checkpoint.
    event: Option<Event>,
}

impl Journal {
    /// Opens the journal with this id in a log, new or not, and reads it to its end.
    pub fn open(log: &Log, id: u64, options: JournalOptions) -> Result<Self, RemoteStorageError> {
        let journal = Self::open_in_background(log, id, options)?;
        journal.wait_ready(None)?;
        Ok(journal)
    }

    /// As [`Journal::open`], but the journal is read by a thread of its own. Until it is at the end,
    /// calls answer [`RemoteStorageError::NotReady`]; if it fails, [`RemoteStorageError::Io`].
    pub fn open_in_background(
        log: &Log,
        id: u64,
        options: JournalOptions,
    ) -> Result<Self, RemoteStorageError> {
        let stream = StreamId::new(JOURNAL_CLASS, id);
        let (shared, new) = registry::get_or_insert(log, stream, || Shared::new(log, stream, options));
        if new {
            Self::start_reading(&shared).map_err(|error| {
                let error = shared.fail(error);
                shared.opening.end();
                error
            })?;
        }
        Ok(Self { shared })
    }

    fn start_reading(shared: &Arc<Shared>) -> Result<(), JournalError> {
        let entries = Entries::of(&shared.log, shared.stream)?;
        let (opening, reading) = (Arc::clone(&shared.opening), Arc::downgrade(shared));
        let thread = std::thread::Builder::new().name("tidelog-replay".into());
        let started = thread.spawn(move || opening.read(entries, &reading));
        started.map(drop).map_err(|error| JournalError::Thread(Arc::new(error)))
    }

    /// Waits until the journal has been read, for ever or as long as given. Whether it has been.
    pub fn wait_ready(&self, limit: Option<Duration>) -> Result<bool, RemoteStorageError> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let opening = &self.shared.opening;
        let mut lock = opening.lock.lock();
        loop {
            self.shared.check()?;
            if self.is_ready() {
                return Ok(true);
            }
            match deadline {
                None => opening.over.wait(&mut lock),
                Some(deadline) => {
                    if opening.over.wait_until(&mut lock, deadline).timed_out() {
                        return Ok(self.is_ready());
                    }
                }
            }
        }
    }

    /// What opening found; `None` while it is being read.
    pub fn report(&self) -> Option<JournalReport> {
        self.shared.opening.report.get().copied()
    }

    /// Writes what is live as a checkpoint and makes all before it obsolete. Blocks until the
    /// checkpoint is durable; mutations and reads go on meanwhile.
    pub fn checkpoint(&self) -> Result<(), RemoteStorageError> {
        self.wait_ready(None)?;
        self.shared.write_checkpoint()
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> JournalStats {
        let tail = self.shared.tail.lock();
        JournalStats {
            entries: tail.next - tail.first,
            live: self.shared.state.read().live(),
            last_checkpoint: tail.last_checkpoint,
            failed_checkpoints: tail.failed_checkpoints,
        }
    }

    /// The log that holds the journal.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// The journal's stream.
    pub fn stream(&self) -> StreamId {
        self.shared.stream
    }

    /// An error if the journal can answer nothing any more.
    pub(super) fn check(&self) -> Result<(), RemoteStorageError> {
        self.shared.check()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.shared.opening.report.get().is_some()
    }

    /// What is recorded, for as long as the guard is held. Recording waits for it.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.shared.state.read()
    }

    /// Records an event, durably.
    pub(super) fn record(&self, event: Event) -> Result<(), RemoteStorageError> {
        let Some((id, lsn)) = self.shared.stage_event(event)? else { return Ok(()) };
        self.settle(id, lsn)
    }

    /// Drops every segment of a partition whose deletion is finished; gives their number.
    pub(super) fn purge(&self, tp: &TopicIdPartition) -> Result<usize, RemoteStorageError> {
        let mut purged = 0;
        while let Some((count, id, lsn)) = self.shared.stage_purge(tp)? {
            self.settle(id, lsn)?;
            purged += count;
        }
        Ok(purged)
    }

    /// Makes everything visible that is durable now.
    pub(super) fn catch_up(&self) -> Result<(), RemoteStorageError> {
        self.shared.apply_durable()
    }

    fn settle(&self, id: u64, lsn: Option<Lsn>) -> Result<(), RemoteStorageError> {
        self.shared.settle(id, lsn)?;
        if self.shared.checkpoint_due.load(Ordering::Relaxed) {
            self.shared.advance_checkpoint();
        }
        Ok(())
    }
}

impl Opening {
    /// Reads the journal, unless nobody holds it any more, and lets the callers in.
    fn read(&self, entries: Entries, journal: &Weak<Shared>) {
        let outcome = entries.replay(|| journal.strong_count() > 0);
        let Some(shared) = journal.upgrade() else { return };
        let report = match outcome {
            Ok(Replay { store, report, mut first, next, last_checkpoint, covered, .. }) => {
                // A process that ended between a checkpoint and the mark before it left that to do. A log that
                // takes no appends keeps what could go.
                if let Some(begin) = covered.filter(|begin| *begin > first)
                    && shared.log.obsolete(shared.stream, begin - 1).is_ok()
                {
                    first = begin;
                }
                *shared.state.write() = store;
                *shared.tail.lock() = Tail { first, next, last_checkpoint, ..Tail::default() };
                Some(report)
            }
            Err(error) => {
                shared.fail(error);
                None
            }
        };
        drop(shared);
        if let Some(report) = report {
            let _ = self.report.set(report);
        }
        self.end();
    }

    /// Wakes those who wait, once the outcome is there.
    fn end(&self) {
        // Whoever looked before that is waiting by now.
        drop(self.lock.lock());
        self.over.notify_all();
    }
}

impl Shared {
    fn new(log: &Log, stream: StreamId, options: JournalOptions) -> Self {
        Self {
            log: log.clone(),
            stream,
            options,
            opening: Arc::default(),
            failure: OnceLock::new(),
            tail: Mutex::default(),
            queue: Mutex::default(),
            state: RwLock::default(),
            checkpoint: Mutex::default(),
            checkpoint_due: AtomicBool::new(false),
        }
    }

    fn fail(&self, error: JournalError) -> RemoteStorageError {
        self.failure.get_or_init(|| error).clone().into()
    }

    fn check(&self) -> Result<(), RemoteStorageError> {
        match (self.failure.get(), self.log.failure()) {
            (Some(error), _) => Err(error.clone().into()),
            (None, Some(error @ Error::Poisoned { .. })) => Err(self.fail(error.into())),
            _ => Ok(()),
        }
    }
}
