//! A process that writes to a log, and tells what came of it.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidelog::{BackendChoice, Batch, Error, Log, Options, StreamId};

use crate::common::{child, one, payload, read, tiny};
use crate::{limits, refused};

/// Threads, each of which appends to a stream of its own.
pub(crate) const THREADS: u64 = 3;

/// Of the one large entry.
pub(crate) const LARGE: StreamId = StreamId::new(8, 1);

pub(crate) fn stream(number: u64) -> StreamId {
    StreamId::new(7, number)
}

pub(crate) fn options(backend: BackendChoice) -> Options {
    tiny(backend)
}

/// What the writer said, or as much as is known of one that did not come to it.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// By stream, the last id that was acknowledged.
    pub(crate) acknowledged: Vec<u64>,
    /// Which way the writes went.
    pub(crate) backend: String,
    /// What opening, each of the threads and closing met, as far as it was an error.
    pub(crate) errors: Vec<String>,
}

impl Told {
    pub(crate) fn read(outcome: &Path) -> Self {
        let text = fs::read_to_string(outcome).unwrap_or_default();
        let mut lines = text.lines().map(str::to_owned);
        let backend = lines.next().unwrap_or_default();
        let acknowledged = lines.by_ref().take(THREADS as usize).map(|id| id.parse().unwrap()).collect();
        Self { acknowledged, backend, errors: lines.collect() }
    }

    /// Everything that was acknowledged is there, and at most what else was asked for.
    pub(crate) fn check(&self, log: &Log) {
        for (number, acknowledged) in (0..).zip(&self.acknowledged) {
            let entries = read(log, stream(number));
            let ids: Vec<u64> = entries.iter().map(|(id, _)| *id).collect();
            assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
            assert!(ids.len() as u64 >= *acknowledged, "{} of {self:?}", ids.len());
            assert!(entries.iter().all(|(id, bytes)| *bytes == payload(*id, 300)));
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.errors.is_empty() && !self.acknowledged.is_empty()
    }
}

/// What the writer does.
pub(crate) struct Orders<'a> {
    /// Beside writing: `refuse CALL`, `files BYTES` half way, or `large`, an entry that takes a segment of its own.
    pub(crate) before: &'a str,
    pub(crate) backend: BackendChoice,
    /// Entries that each thread appends.
    pub(crate) count: u64,
}

fn name(backend: BackendChoice) -> &'static str {
    match backend {
        BackendChoice::Auto => "auto",
        BackendChoice::Ring => "ring",
        BackendChoice::Std => "std",
    }
}

/// Runs the writer to its end, behind another program if one is given; None where that cannot be started.
pub(crate) fn run(program: Option<Command>, dir: &Path, orders: &Orders<'_>) -> Option<(ExitStatus, Told)> {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let outcome = home.path().join("outcome");
    let count = orders.count.to_string();
    let arguments = [child::text(dir), child::text(&outcome), name(orders.backend), orders.before, &count];
    let mut command = match program {
        Some(program) => child::behind(program, "writer::writer", &arguments),
        None => child::command("writer::writer", &arguments),
    };
    let status = command.stderr(std::process::Stdio::null()).status().ok()?;
    Some((status, Told::read(&outcome)))
}

#[test]
#[ignore = "the body of another process"]
fn writer() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, outcome, backend, before, count] = arguments.as_slice() else { panic!("{arguments:?}") };
    let backend = match backend.as_str() {
        "ring" => BackendChoice::Ring,
        "std" => BackendChoice::Std,
        _ => BackendChoice::Auto,
    };
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let mut errors = Vec::new();
    let mut way = String::new();
    if let Some(call) = before.strip_prefix("refuse ") {
        refused::refuse(call);
    }
    match Log::open(dir, options(backend)) {
        Ok(log) => {
            way = log.stats().backend;
            if before == "large" {
                let mut batch: Batch = Batch::new();
                batch.append(LARGE, 1, payload(1, 300_000));
                errors.extend(log.append_durable(&batch).err());
            }
            errors.extend(write_all(&log, count.parse().unwrap(), &acknowledged, before));
            errors.extend(log.close().err());
        }
        Err(error) => errors.push(error),
    }
    let acknowledged: Vec<String> =
        acknowledged.iter().map(|id| id.load(Ordering::Relaxed).to_string()).collect();
    let errors: Vec<String> = errors.iter().map(|error| format!("{error:?}")).collect();
    fs::write(outcome, [vec![way], acknowledged, errors].concat().join("\n")).unwrap();
}

fn write_all(log: &Log, count: u64, acknowledged: &[AtomicU64], before: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    for half in [1..=count / 2, count / 2 + 1..=count] {
        let write = |number: usize| {
            for id in half.clone() {
                log.append_durable(&one(stream(number as u64), id))?;
                acknowledged[number].store(id, Ordering::Relaxed);
            }
            Ok(())
        };
        let outcomes: Vec<Result<(), Error>> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..acknowledged.len()).map(|number| scope.spawn(move || write(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        errors.extend(outcomes.into_iter().filter_map(Result::err));
        if !errors.is_empty() {
            break;
        }
        if let Some(limit) = before.strip_prefix("files ") {
            limits::limit_files(limit.parse().unwrap());
        }
    }
    errors
}
