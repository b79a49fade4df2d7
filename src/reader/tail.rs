//! The reader of one stream that goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelog_format::{Lsn, StreamId};

use super::origin::Wait;
use super::snapshot::Snapshot;
use super::stream::{Feed, Todo};
use super::{Entry, EntryStream, ReadOptions, Reader};
use crate::commit::{Engine, Goal};
use crate::error::{Error, Result};
use crate::state::StreamState;

/// Reads one stream from an id on, and goes on with what is appended later.
///
/// Entries that become obsolete before the tail has got to them are passed over. Where an entry
/// below its place is cut off, by truncation or release, the tail ends with [`Error::Truncated`];
/// also where so much has retired since it last looked that this cannot be told any more. It ends when
/// the log is closed, after what was appended before.
///
/// As an iterator it blocks; [`Tail::into_stream`] does not.
#[derive(Debug)]
pub struct Tail {
    engine: Arc<Engine>,
    stream: StreamId,
    options: ReadOptions,
    next: u64,
    seen: Seen,
    /// Over what there was when the tail looked last.
    reader: Option<Reader>,
    /// Where that ends.
    reader_end: u64,
    /// The log had ended when the tail looked last.
    last_look: Option<Error>,
    done: bool,
}

/// How the stream was when the tail looked last.
#[derive(Debug)]
struct Seen {
    state: StreamState,
    /// The newest segment; of a log without any the first that it will have. What the stream met
    /// later lies there or above.
    newest: u64,
}

impl Seen {
    fn new(snapshot: &Snapshot) -> Self {
        Self { state: snapshot.state.clone(), newest: snapshot.shelf.newest().max(1) }
    }
}

impl Tail {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        stream: StreamId,
        from: u64,
        options: ReadOptions,
    ) -> Result<Self> {
        engine.check_fork()?;
        let snapshot = Snapshot::take(engine, stream, &(from..), &options);
        Ok(Self {
            engine: Arc::clone(engine),
            stream,
            options,
            next: from,
            seen: Seen::new(&snapshot),
            reader: None,
            reader_end: 0,
            last_look: None,
            done: false,
        })
    }

    /// The id of the next entry, or a lower bound of it.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next entry, waited for no longer than `limit`: then `None`. At the end of the tail,
    /// [`Error::Closed`].
    pub fn next_timeout(&mut self, limit: Duration) -> Result<Option<Entry>> {
        match self.next_until(Instant::now().checked_add(limit)) {
            Some(Err(Error::Busy)) => Ok(None),
            next => next.unwrap_or(Err(Error::Closed)).map(Some),
        }
    }

    /// The entries in batches, for asynchronous code. No runtime is needed.
    pub fn into_stream(self) -> EntryStream {
        EntryStream::new(self)
    }

    fn next_until(&mut self, deadline: Option<Instant>) -> Option<Result<Entry>> {
        loop {
            match self.todo() {
                Todo::End(error) => return error.map(Err),
                // Any other failure shows in what there is to do next.
                Todo::Wait(wait) => {
                    if let Err(error @ (Error::Busy | Error::Forked)) = wait.block(deadline) {
                        return Some(Err(error));
                    }
                }
                Todo::Read => {
                    let next = self.reader.as_mut().and_then(Iterator::next);
                    self.note(next.as_ref().map(|next| next.as_ref().map(|entry| entry.id)));
                    if next.is_some() {
                        return next;
                    }
                }
            }
        }
    }

    /// Moves on behind what was read: the id of the last entry, an error, or the end of the reader.
    fn note(&mut self, read: Option<Result<u64, &Error>>) {
        let passed = match read {
            Some(Ok(id)) => id,
            Some(Err(_)) => {
                self.done = true;
                return;
            }
            None => {
                self.reader = None;
                if self.last_look.is_some() {
                    return;
                }
                self.reader_end
            }
        };
        match passed.checked_add(1) {
            Some(next) => self.next = self.next.max(next),
            None => self.done = true,
        }
    }

    /// Looks for what has come since.
    fn look(&mut self) -> Todo {
        if let Some(error) = self.last_look.take() {
            return self.end(Some(error));
        }
        let failure = self.engine.progress.failure().cloned();
        if failure.is_none()
            && let Some(end) = self.unchanged()
        {
            return Todo::Wait(Wait::pressing(&self.engine, Goal::written(end)));
        }
        let snapshot = Snapshot::take(&self.engine, self.stream, &(self.next..), &self.options);
        if self.is_cut(&snapshot) {
            return self.end(Some(Error::Truncated { stream: self.stream, next: self.next }));
        }
        self.seen = Seen::new(&snapshot);
        match (snapshot.range, failure) {
            (Some((_, last)), failure) => {
                self.last_look = failure;
                self.reader_end = last;
                let reader = self.reader.insert(Reader::over(snapshot, &self.options));
                reader.wait().map_or(Todo::Read, Todo::Wait)
            }
            (None, None) => Todo::Wait(Wait::pressing(&self.engine, Goal::written(snapshot.bound))),
            (None, failure) => self.end(failure),
        }
    }

    /// The end of the log, where the stream has nothing to read and is as it was.
    fn unchanged(&mut self) -> Option<Lsn> {
        let seen = &mut self.seen;
        let core = self.engine.core.lock();
        let (last, frame) =
            core.state.get(self.stream).map_or((None, Lsn::ZERO), |now| (now.last, now.last_frame));
        if (last, frame) != (seen.state.last, seen.state.last_frame) || last >= Some(self.next) {
            return None;
        }
        let segments = self.engine.segments.snapshot();
        seen.newest = segments.last().map_or(seen.newest, |segment| segment.sequence());
        Some(core.end())
    }

    fn is_cut(&self, snapshot: &Snapshot) -> bool {
        let (now, before) = (&snapshot.state, &self.seen.state);
        if (now.last, now.last_frame) == (before.last, before.last_frame) {
            return false;
        }
        let cuts = |fence: &tidelog_format::Fence| fence.from < self.next && !before.fences.contains(fence);
        // A fence is forgotten once its segment has retired, which is no older than the newest one seen.
        now.last < before.last || now.fences.iter().any(cuts) || snapshot.shelf.oldest() > self.seen.newest
    }

    fn end(&mut self, error: Option<Error>) -> Todo {
        self.done = true;
        Todo::End(error.filter(|error| !matches!(error, Error::Closed)))
    }
}

impl Feed for Tail {
    fn todo(&mut self) -> Todo {
        if self.done {
            return Todo::End(None);
        }
        match &mut self.reader {
            Some(reader) => reader.wait().map_or(Todo::Read, Todo::Wait),
            None => self.look(),
        }
    }

    fn read(&mut self) -> Option<Result<Vec<Entry>>> {
        let batch = self.reader.as_mut().and_then(Reader::next_batch);
        let last = |batch: &Vec<Entry>| batch.last().map_or(0, |entry| entry.id);
        self.note(batch.as_ref().map(|batch| batch.as_ref().map(last)));
        batch
    }
}

impl Iterator for Tail {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.next_until(None)
    }
}
