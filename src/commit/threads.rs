//! The threads of a log: started at open, ended by closing or dropping it.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, ThreadId};

use parking_lot::Mutex;
use tidelog_format::{FRAME_HEADER_LEN, LogId, Lsn};

use super::clock::Clock;
use super::committer;
use super::core::Core;
use super::engine::Engine;
use super::gather::Arrivals;
use super::keeper::{self, Job};
use super::notifier::{self, Notice};
use super::preparer::{self, Spare};
use super::progress::Progress;
use super::succession::{Ask, Succession};
use crate::error::{Error, Result};
use crate::io::{Backend, Bell, Claimed, Disk, ForkGuard, FrameBuf, open_queue};
use crate::observe::Counters;
use crate::options::{BackendChoice, Options};
use crate::segment::{Free, SegmentSet};
use crate::state::State;
use crate::sync::{Mutex as TailLock, Room};

/// What a pipeline starts from.
pub(crate) struct Start {
    pub(crate) options: Options,
    pub(crate) disk: Arc<dyn Disk>,
    /// Held by every thread, so that the directory stays locked until the last one has ended.
    pub(crate) lock: Arc<dyn Any + Send + Sync>,
    pub(crate) backend: Backend,
    pub(crate) log_id: LogId,
    pub(crate) state: State,
    pub(crate) segments: SegmentSet,
    pub(crate) newest: Option<(u64, Lsn)>,
    pub(crate) end: Lsn,
    pub(crate) next_sequence: u64,
    pub(crate) next_base: Lsn,
    pub(crate) bases: std::collections::BTreeMap<u64, Lsn>,
    pub(crate) spare: Option<Spare>,
    pub(crate) next_spare: u64,
    pub(crate) free: Vec<Free>,
}

#[derive(Debug)]
pub(crate) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
    ids: Mutex<Vec<ThreadId>>,
}

/// What the threads of a log are given to do, each its own.
pub(super) struct Inboxes {
    pub(super) asks: Receiver<Ask>,
    pub(super) jobs: Receiver<Job>,
    pub(super) notices: Receiver<Notice>,
}

impl Threads {
    /// None: whoever has this steps the pipeline by hand.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn none() -> Self {
        Self { handles: Mutex::default(), ids: Mutex::default() }
    }

    pub(crate) fn start(start: Start) -> Result<(Arc<Engine>, Self)> {
        let (lock, backend) = (Arc::clone(&start.lock), start.backend);
        let reserve = (start.spare, start.next_spare);
        let (engine, pool, inboxes) = assemble(start, Clock::start())?;
        let threads = Self { handles: Mutex::default(), ids: Mutex::default() };
        if let Err(error) = threads.spawn(&engine, &lock, pool, backend, inboxes, reserve) {
            engine.abandon();
            engine.end_threads();
            threads.join();
            return Err(error);
        }
        Ok((engine, threads))
    }

    fn spawn(
        &self,
        engine: &Arc<Engine>,
        lock: &Arc<dyn Any + Send + Sync>,
        pool: Vec<Arc<FrameBuf>>,
        backend: Backend,
        inboxes: Inboxes,
        (spare, next_spare): (Option<Spare>, u64),
    ) -> Result<()> {
        let (report, reported) = channel();
        let committer = Arc::clone(engine);
        self.thread(engine, lock, "tidelog-commit", move || {
            let queue =
                |backend| open_queue(backend, committer.options.queue_depth, &pool, committer.bell.clone());
            // A ring that cannot be had after the probe (memory limits) is no reason to fail.
            let opened = match queue(backend) {
                Err(_) if committer.options.backend == BackendChoice::Auto => queue(Backend::Std),
                opened => opened,
            };
            match opened {
                Ok(queue) => {
                    let _ = report.send(Ok(queue.backend()));
                    committer::run(&committer, queue);
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
        })?;
        let opened = reported.recv().unwrap_or_else(|_| Err(std::io::ErrorKind::BrokenPipe.into()));
        let opened = opened.map_err(|error| Error::RingUnavailable { cause: error.to_string().into() })?;
        engine.backend.get_or_init(|| opened);
        let shared = Arc::clone(engine);
        self.thread(engine, lock, "tidelog-prepare", move || {
            preparer::run(&shared, &inboxes.asks, spare, next_spare);
        })?;
        let shared = Arc::clone(engine);
        self.thread(engine, lock, "tidelog-keep", move || keeper::run(&shared, &inboxes.jobs))?;
        let observer = engine.options.observer.clone();
        self.thread(engine, lock, "tidelog-notify", move || {
            notifier::run(&inboxes.notices, observer.as_ref());
        })
    }

    fn thread(
        &self,
        engine: &Arc<Engine>,
        lock: &Arc<dyn Any + Send + Sync>,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let (shared, lock) = (Arc::clone(engine), Arc::clone(lock));
        let spawned = Builder::new().name(name.into()).spawn(move || {
            // What waits for this thread would wait for ever.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                shared.poison(&format!("the thread {name} panicked"));
            }
            drop(lock);
        });
        let handle = spawned.map_err(|error| Error::io("start a thread for", engine.disk.path(), error))?;
        self.ids.lock().push(handle.thread().id());
        self.handles.lock().push(handle);
        Ok(())
    }

    /// Waits for all threads to end. They must have been told to.
    pub(crate) fn join(&self) {
        // A callback runs on one of them, and cannot wait for itself.
        if self.ids.lock().contains(&std::thread::current().id()) {
            return;
        }
        // Held meanwhile: whoever closes beside us waits too.
        for handle in self.handles.lock().drain(..) {
            // A panic was told to everybody as poison.
            let _ = handle.join();
        }
    }
}

/// The engine that the threads are to share, its staging buffers, and what will tell the threads
/// what to do.
pub(super) fn assemble(start: Start, clock: Clock) -> Result<(Arc<Engine>, Vec<Arc<FrameBuf>>, Inboxes)> {
    let failed = |op: &'static str, disk: &Arc<dyn Disk>| {
        let path = disk.path().to_path_buf();
        move |error| Error::io(op, path, error)
    };
    let disk = Arc::clone(&start.disk);
    let pool = pool(&start.options).map_err(failed("allocate staging buffers for", &disk))?;
    let bell = Bell::new().map_err(failed("make an eventfd for", &disk))?;
    let (preparer, asks) = channel();
    let (keeper, jobs) = channel();
    let (notifier, notices) = channel();
    let sizes = Core::sizes(&start.options);
    let succession = Succession::new(sizes, start.next_sequence, start.next_base, start.bases);
    let core = Core::new(&start.options, start.state, succession, start.newest, start.end, pool.clone());
    let engine = Arc::new(Engine {
        log_id: start.log_id,
        disk: start.disk,
        segments: start.segments,
        core: TailLock::new(core),
        progress: Progress::new(start.end),
        room: Room::new(),
        bell,
        counters: Counters::default(),
        arrivals: Arrivals::default(),
        fork: ForkGuard::new(),
        backend: OnceLock::new(),
        prepared: Mutex::new(HashMap::new()),
        free: Mutex::new(start.free),
        preparer: Mutex::new(Some(preparer)),
        keeper: Mutex::new(Some(keeper)),
        notifier: Mutex::new(Some(notifier)),
        retire_asked: AtomicBool::new(false),
        ending: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
        clock,
        options: start.options,
    });
    Ok((engine, pool, Inboxes { asks, jobs, notices }))
}

fn pool(options: &Options) -> std::io::Result<Vec<Arc<FrameBuf>>> {
    let buffer = |slot| Ok(Claimed::new(options.frame_size, Some(slot as u16))?.reopen(FRAME_HEADER_LEN));
    (0..options.staging_buffers).map(buffer).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::io::{DirOptions, RealDisk};

    /// What a new log starts from.
    pub(crate) fn new_log(options: Options, disk: Arc<dyn Disk>, backend: Backend) -> Start {
        Start {
            options,
            disk,
            lock: Arc::new(()),
            backend,
            log_id: LogId([1; 16]),
            state: State::default(),
            segments: SegmentSet::default(),
            newest: None,
            end: Lsn(65_536),
            next_sequence: 1,
            next_base: Lsn(65_536),
            bases: BTreeMap::new(),
            spare: None,
            next_spare: 1,
            free: Vec::new(),
        }
    }

    /// A pipeline on a new directory, by plain system calls.
    pub(crate) fn start(path: &Path) -> (Arc<Engine>, Threads) {
        let plain = DirOptions { create: true, allow_network_fs: false, direct: false, lock: false };
        let disk = Arc::new(RealDisk::open(path, plain).unwrap());
        Threads::start(new_log(Options::new(), disk, Backend::Std)).unwrap()
    }

    #[test]
    fn a_panic_of_any_thread_poisons_the_log() {
        let home = tempfile::tempdir().unwrap();
        let (engine, threads) = start(home.path());
        let lock: Arc<dyn Any + Send + Sync> = Arc::new(());
        threads.thread(&engine, &lock, "tidelog-test", || panic!("as if it had a fault")).unwrap();
        threads.join();
        let failure = engine.progress.failure().map(ToString::to_string).unwrap_or_default();
        assert!(failure.contains("the thread tidelog-test panicked"), "{failure}");
    }
}
