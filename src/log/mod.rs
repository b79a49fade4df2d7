//! The facade: one handle for all that a log does.

mod futures;
mod open;
mod reading;
#[cfg(any(test, feature = "sim"))]
mod simulated;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidelog_format::{Lsn, StreamId};

use self::futures::Aim;
pub use self::futures::{Append, Durable};
#[cfg(any(test, feature = "sim"))]
use crate::commit::Stepped;
use crate::commit::{Batch, Blocked, Engine, Goal, Mark, Notice, Op, Patience, Threads, TruncateHint};
use crate::error::{Error, Result};
use crate::io::Backend;
#[cfg(any(test, feature = "sim"))]
use crate::io::sim::SimDisk;
use crate::observe::Stats;
use crate::options::{IdRule, Options};
use crate::recovery::RecoveryReport;

/// How often a truncation looks its stream up again when others change it meanwhile.
const TRIES: usize = 64;

/// What the log knows of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The first live id (a lower bound of it where ids may have gaps); `None`: nothing is live.
    pub first: Option<u64>,
    /// The last id, kept when everything is obsolete.
    pub last: Option<u64>,
    /// Entries at or below it are obsolete.
    pub mark: Option<u64>,
}

/// A segmented append-only log of many streams, open for writing.
///
/// Cheap to clone; all clones are the same log. When the last one is dropped without
/// [`Log::close`], nothing that was acknowledged as durable is lost, but what was only staged may
/// be: as in a crash. Dropping does not block.
#[derive(Clone, Debug)]
pub struct Log {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Arc<Engine>,
    threads: Threads,
    report: RecoveryReport,
    lock: Weak<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The child of a fork has no threads to end, and the bell is its parent's.
        if self.engine.fork.is_child() {
            return;
        }
        if self.lock.strong_count() > 0 {
            open::leave(self.engine.disk.path(), &self.lock);
        }
        self.engine.abandon();
    }
}

impl Log {
    /// Opens the log in a directory, or makes one as far as the options allow it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let open::Opened { engine, threads, report, lock } = open::open(path.as_ref(), options)?;
        Ok(Self { inner: Arc::new(Inner { engine, threads, report, lock }) })
    }

    /// The log in the directory of a simulated disk, and what drives it.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn simulated(disk: &SimDisk, options: Options) -> Result<(Self, Stepped)> {
        let (engine, stepped, report) = simulated::open(disk, options)?;
        let inner = Inner { engine, threads: Threads::none(), report, lock: Weak::new() };
        Ok((Self { inner: Arc::new(inner) }, stepped))
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    /// What opening found.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.inner.report
    }

    /// The log's directory.
    pub fn path(&self) -> &Path {
        self.engine().disk.path()
    }

    /// Stages a batch, waiting for room if there is none. It is in the log then, in this order,
    /// and readable; it is durable once the durable watermark lies above the LSN that is returned.
    pub fn append<P: AsRef<[u8]>>(&self, batch: &Batch<P>) -> Result<Lsn> {
        self.hinted(batch, |hints| self.engine().append(batch, hints, false, Patience::Endless))
    }

    /// Appends a batch, durable on return, and with it all that came before it in the log.
    pub fn append_durable<P: AsRef<[u8]>>(&self, batch: &Batch<P>) -> Result<Lsn> {
        self.hinted(batch, |hints| self.engine().append(batch, hints, true, Patience::Endless))
    }

    /// As [`Log::append`], but [`Error::Busy`] where that would have to wait for room.
    pub fn try_append<P: AsRef<[u8]>>(&self, batch: &Batch<P>) -> Result<Lsn> {
        self.hinted(batch, |hints| match self.engine().try_append(batch, hints, false, false) {
            Ok(lsn) => Ok(lsn),
            Err(Blocked::Refused(error)) => Err(error),
            Err(Blocked::NoRoom) => {
                self.engine().ring_if_asleep();
                Err(Error::Busy)
            }
        })
    }

    /// As [`Log::append`], but [`Error::Busy`] where there is no room within the time given.
    pub fn append_timeout<P: AsRef<[u8]>>(&self, batch: &Batch<P>, limit: Duration) -> Result<Lsn> {
        let patience = Instant::now().checked_add(limit).map_or(Patience::Endless, Patience::Until);
        self.hinted(batch, |hints| self.engine().append(batch, hints, false, patience))
    }

    /// As [`Log::append`], as a future.
    pub fn append_async<P: AsRef<[u8]> + Unpin>(&self, batch: Batch<P>) -> Append<P> {
        Append::new(Arc::clone(self.engine()), batch, Aim::Staged)
    }

    /// As [`Log::append_async`], for a caller that waits with [`Log::durable`] next.
    pub(crate) fn append_wanted<P: AsRef<[u8]> + Unpin>(&self, batch: Batch<P>) -> Append<P> {
        Append::new(Arc::clone(self.engine()), batch, Aim::Wanted)
    }

    /// As [`Log::append_durable`], as a future. Once it was polled and did not resolve at once,
    /// the batch may be in the log even if the future is dropped.
    pub fn append_durable_async<P: AsRef<[u8]> + Unpin>(&self, batch: Batch<P>) -> Append<P> {
        Append::new(Arc::clone(self.engine()), batch, Aim::Durable)
    }

    /// Blocks until all up to the frame at `lsn`, as an append returned it, is durable.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        self.engine().check_position(lsn)?;
        self.engine().want_here(lsn)?;
        self.engine().progress.wait(Goal::durable(lsn), None)
    }

    /// As [`Log::wait_durable`], as a future.
    pub fn durable(&self, lsn: Lsn) -> Durable {
        Durable::new(Arc::clone(self.engine()), lsn)
    }

    /// As [`Log::wait_durable`], as a call back, on a thread of the log's.
    pub fn on_durable(&self, lsn: Lsn, call: impl FnOnce(Result<()>) + Send + 'static) {
        let engine = self.engine();
        if let Err(error) = engine.check_position(lsn) {
            return engine.notify(Notice::Call(Box::new(call), Err(error)));
        }
        engine.want(lsn);
        if let Some((call, outcome)) = engine.progress.call(Goal::durable(lsn), Box::new(call)) {
            engine.notify(Notice::Call(call, outcome));
        }
    }

    /// What to wait for so that every entry of the stream that was handed out with an id at or
    /// below `id` is durable; `None` where all of them are.
    pub fn entry_lsn(&self, stream: StreamId, id: u64) -> Option<Lsn> {
        let durable = self.durable_lsn();
        let core = self.engine().core.lock();
        core.state.get(stream)?.frame_of(id).filter(|frame| *frame >= durable)
    }

    /// Everything below survives a power cut.
    pub fn durable_lsn(&self) -> Lsn {
        self.engine().progress.get(Mark::Durable)
    }

    /// Everything below was handed to the device and can be read from it.
    pub fn written_lsn(&self) -> Lsn {
        self.engine().progress.get(Mark::Written)
    }

    /// Everything that was staged lies below.
    pub fn end_lsn(&self) -> Lsn {
        self.engine().core.lock().end()
    }

    /// Marks the stream's entries at or below `id` as obsolete: reads show them no more, and
    /// segments that hold nothing else retire. Monotone and cheap. The mark is durable with the
    /// next commit or flush; a crash may lose it. An unknown stream stays unknown.
    pub fn obsolete(&self, stream: StreamId, id: u64) -> Result<()> {
        let mut batch: Batch<&[u8]> = Batch::new();
        self.append(batch.obsolete(stream, id)).map(drop)
    }

    /// Drops everything of the stream, its mark and last id too; durable on return. Its ids start
    /// afresh.
    pub fn release(&self, stream: StreamId) -> Result<()> {
        let mut batch: Batch<&[u8]> = Batch::new();
        self.append_durable(batch.release(stream)).map(drop)
    }

    /// Drops the stream's entries at or above `from`, whose ids may then be appended anew. It is
    /// durable before anything that is appended after it.
    pub fn truncate(&self, stream: StreamId, from: u64) -> Result<Lsn> {
        let mut batch: Batch<&[u8]> = Batch::new();
        self.append(batch.truncate(stream, from))
    }

    /// With gaps between ids, the last id that a truncation leaves is looked up before the tail
    /// lock is taken, and good only while the stream stays as it is: if it does not, it is looked
    /// up again.
    pub(crate) fn hinted<P>(
        &self,
        batch: &Batch<P>,
        mut append: impl FnMut(&[TruncateHint]) -> Result<Lsn>,
    ) -> Result<Lsn> {
        for _ in 1..TRIES {
            match append(&hints(self.engine(), batch)?) {
                Err(Error::Contended { .. }) => {}
                other => return other,
            }
        }
        append(&hints(self.engine(), batch)?)
    }

    /// Lists the stream as a namespace; durable on return, idempotent.
    pub fn create_namespace(&self, stream: StreamId) -> Result<()> {
        let mut batch: Batch<&[u8]> = Batch::new();
        self.append_durable(batch.create_namespace(stream)).map(drop)
    }

    /// Lists the stream no more; its entries stay. Durable on return, idempotent.
    pub fn delete_namespace(&self, stream: StreamId) -> Result<()> {
        let mut batch: Batch<&[u8]> = Batch::new();
        self.append_durable(batch.delete_namespace(stream)).map(drop)
    }

    /// The namespaces, sorted.
    pub fn namespaces(&self) -> Vec<StreamId> {
        self.engine().core.lock().state.namespaces().iter().copied().collect()
    }

    /// What the log knows of a stream; `None`: nothing, or it was released.
    pub fn stream(&self, stream: StreamId) -> Option<StreamInfo> {
        self.engine().core.lock().state.get(stream).and_then(StreamInfo::of)
    }

    /// All streams, sorted: an engine that keeps a list of its own can release those that a crash
    /// orphaned.
    pub fn streams(&self) -> Vec<(StreamId, StreamInfo)> {
        let core = self.engine().core.lock();
        let mut streams: Vec<_> =
            core.state.iter().filter_map(|(stream, state)| Some((stream, StreamInfo::of(state)?))).collect();
        drop(core);
        streams.sort_unstable_by_key(|(stream, _)| *stream);
        streams
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> Stats {
        let engine = self.engine();
        let core = engine.core.lock();
        Stats {
            backend: match engine.backend.get() {
                Some(Backend::Ring) => "ring".into(),
                _ => "std".into(),
            },
            direct: engine.backend.get() == Some(&Backend::Ring)
                && engine.disk.dio_align().is_ok_and(|align| align > 1),
            segments: engine.segments.snapshot().len() as u64,
            streams: core.state.stream_count() as u64,
            written: self.written_lsn().0,
            durable: self.durable_lsn().0,
            end: core.end().0,
            ..engine.counters.snapshot()
        }
    }

    /// Why the log takes no more appends, if it does not.
    pub fn failure(&self) -> Option<Error> {
        self.engine().progress.failure().cloned()
    }

    /// Makes everything that was staged durable and ends the log's threads; blocks for it. Other
    /// handles answer [`Error::Closed`] to appends from now on. Idempotent.
    pub fn close(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_fork()?;
        engine.close();
        self.inner.threads.join();
        match engine.progress.failure() {
            Some(error @ Error::Poisoned { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

/// What the batch's truncations need to know of their streams; nothing where ids have no gaps.
fn hints<P>(engine: &Arc<Engine>, batch: &Batch<P>) -> Result<Vec<TruncateHint>> {
    if engine.options.id_rule == IdRule::Contiguous {
        return Ok(Vec::new());
    }
    let truncations = batch.ops.iter().filter_map(|op| match op {
        Op::Truncate { stream, from } => Some((*stream, *from)),
        _ => None,
    });
    let hint = |(stream, from)| {
        let (seen_last, seen_fence) = {
            let core = engine.core.lock();
            core.state.get(stream).map_or((None, None), |state| (state.last, state.newest_fence()))
        };
        let below = crate::reader::highest_below(engine, stream, from)?;
        Ok(TruncateHint { seen_last, seen_fence, below })
    };
    truncations.map(hint).collect()
}

impl StreamInfo {
    fn of(state: &crate::state::StreamState) -> Option<Self> {
        let info = Self { first: state.first, last: state.last, mark: state.mark };
        (info != Self::default()).then_some(info)
    }
}
