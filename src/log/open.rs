//! From a path to a running pipeline.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::commit::{Engine, Start, Threads};
use crate::error::{Error, Result};
use crate::io::{Backend, DirOptions, Disk, RealDisk, probe_ring};
use crate::options::{BackendChoice, Create, Options};
use crate::recovery::{Recovered, RecoveryReport, recover};
use crate::segment::SegmentSet;

/// Logs of this process that were dropped and whose threads have not ended: their directories
/// are about to be free, so opening one of them waits a little where others are refused.
static LEAVING: Mutex<Vec<(PathBuf, Weak<()>)>> = Mutex::new(Vec::new());

/// How often a directory that is about to be free is tried.
const RETRY: Duration = Duration::from_millis(1);

/// The directory's lock. `held` goes behind the descriptor: once it is gone, the lock is free.
struct Lock {
    disk: RealDisk,
    held: Arc<()>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.unlock();
    }
}

pub(super) struct Opened {
    pub(super) engine: Arc<Engine>,
    pub(super) threads: Threads,
    pub(super) report: RecoveryReport,
    pub(super) lock: Weak<()>,
}

pub(super) fn open(path: &Path, options: Options) -> Result<Opened> {
    options.validate()?;
    let lock = lock(path, &options)?;
    let (disk, backend) = disk(path, &options)?;
    let align = disk.dio_align().map_err(|error| Error::io("probe", path, error))?;
    if options.block_size < align {
        let reason = "at least what the device writes at once";
        return Err(Error::InvalidOption { name: "block_size", value: options.block_size.into(), reason });
    }
    let recovered = recover(&disk, &options)?;
    let report = recovered.report.clone();
    let watched = Arc::downgrade(&lock.held);
    let (engine, threads) = Threads::start(start(options, disk, lock, backend, recovered))?;
    Ok(Opened { engine, threads, report, lock: watched })
}

pub(super) fn start(
    options: Options,
    disk: Arc<dyn Disk>,
    lock: Arc<dyn Any + Send + Sync>,
    backend: Backend,
    recovered: Recovered,
) -> Start {
    Start {
        options,
        disk,
        lock,
        backend,
        log_id: recovered.log_id,
        state: recovered.state,
        segments: SegmentSet::new(recovered.segments),
        newest: recovered.newest,
        end: recovered.end,
        next_sequence: recovered.next_sequence,
        next_base: recovered.next_base,
        bases: recovered.bases,
        spare: recovered.spare,
        next_spare: recovered.next_spare,
        free: recovered.free,
    }
}

/// Takes the directory's lock, on a descriptor of its own: it goes with the threads, whoever
/// else still reads the files.
fn lock(path: &Path, options: &Options) -> Result<Arc<Lock>> {
    let begun = Instant::now();
    loop {
        // Asked before the try: who is gone behind it has let go of the directory.
        let leaving = is_leaving(path);
        let wanted = DirOptions {
            create: options.create == Create::Missing,
            allow_network_fs: options.allow_network_fs,
            direct: false,
            lock: true,
        };
        match RealDisk::open(path, wanted) {
            Ok(disk) => return Ok(Arc::new(Lock { disk, held: Arc::new(()) })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !leaving || begun.elapsed() >= options.lock_wait {
                    return Err(Error::Locked { path: path.into() });
                }
                thread::sleep(RETRY);
            }
            Err(error) => return Err(refusal(path, error)),
        }
    }
}

fn refusal(path: &Path, error: io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "there is no such directory".to_owned(),
        io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
        io::ErrorKind::Unsupported => error.to_string(),
        _ => return Error::io("open", path, error),
    };
    Error::NotALog { path: path.into(), reason }
}

/// The directory, and the way that writes go. The ring writes past the page cache, the standard
/// calls through it.
fn disk(path: &Path, options: &Options) -> Result<(Arc<dyn Disk>, Backend)> {
    let open = |direct| {
        let allow_network_fs = options.allow_network_fs;
        let wanted = DirOptions { create: false, allow_network_fs, direct, lock: false };
        RealDisk::open(path, wanted)
            .map(|disk| Arc::new(disk) as Arc<dyn Disk>)
            .map_err(|error| refusal(path, error))
    };
    if options.backend == BackendChoice::Std {
        return Ok((open(false)?, Backend::Std));
    }
    let disk = open(true)?;
    match probe_ring(&*disk) {
        Ok(()) => Ok((disk, Backend::Ring)),
        Err(error) if options.backend == BackendChoice::Ring => {
            Err(Error::RingUnavailable { cause: error.to_string().into() })
        }
        Err(_) => Ok((open(false)?, Backend::Std)),
    }
}

fn is_leaving(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let mut leaving = LEAVING.lock();
    leaving.retain(|(_, lock)| lock.strong_count() > 0);
    leaving.iter().any(|(other, _)| *other == path)
}

/// The log in this directory was dropped and is about to let go of it.
pub(super) fn leave(path: &Path, lock: &Weak<()>) {
    if let Ok(path) = path.canonicalize() {
        LEAVING.lock().push((path, Weak::clone(lock)));
    }
}
