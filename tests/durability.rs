//! What the kernel is asked for before an append is acknowledged, as strace sees it: the writes of the frame and of
//! all before it have ended, and then a flush of their file began and ended, unless the write was one that is
//! durable by itself (`RWF_DSYNC`).
//!
//! Of the ring's writes strace sees nothing; the pipeline that decides the order is the same.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::thread;

use tidelog::{BackendChoice, Batch, Log, Lsn, StreamId};

use common::{child, files, payload, tiny};

const TRACED: &str = "trace=pwrite64,pwritev,pwritev2,fdatasync,fsync,write,rename,renameat,renameat2";
const ROUNDS: u64 = 40;

#[test]
#[ignore = "the body of the process that is traced"]
fn writer() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, acks] = arguments.as_slice() else { panic!("{arguments:?}") };
    let log = Log::open(dir, tiny(BackendChoice::Std)).unwrap();
    let acks = Mutex::new(File::create(acks).unwrap());
    let ack = |lsn: Lsn| {
        let text = format!("ack {}\n", lsn.0);
        assert_eq!(acks.lock().unwrap().write(text.as_bytes()).unwrap(), text.len());
    };
    let batch = |stream, id| {
        let mut batch: Batch = Batch::new();
        batch.append(StreamId::new(1, stream), id, payload(id, 700));
        batch
    };
    thread::scope(|scope| {
        // Alone at first: a caller that finds the log idle writes its frame itself.
        (1..=10).for_each(|id| ack(log.append_durable(&batch(0, id)).unwrap()));
        // Plain writes and a flush.
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let mut last = Lsn::ZERO;
                for id in 1..=5 {
                    last = log.append(&batch(1, round * 5 + id)).unwrap();
                }
                log.wait_durable(last).unwrap();
                ack(last);
            }
        });
        scope.spawn(|| (1..=ROUNDS).for_each(|id| ack(log.append_durable(&batch(2, id)).unwrap())));
        scope.spawn(|| {
            for id in 1..=ROUNDS {
                ack(futures::executor::block_on(log.append_durable_async(batch(3, id))).unwrap());
            }
        });
    });
    log.close().unwrap();
}

/// A system call, and the lines of the trace where it began and ended.
#[derive(Clone, Debug)]
struct Call {
    text: String,
    begun: usize,
    ended: usize,
}

impl Call {
    fn name(&self) -> &str {
        self.text.split('(').next().unwrap_or_default()
    }

    /// The file behind the descriptor that comes first.
    fn path(&self) -> &str {
        let rest = self.text.split_once('<').map_or("", |(_, rest)| rest);
        rest.split('>').next().unwrap_or_default()
    }

    fn result(&self) -> Option<u64> {
        self.text.rsplit_once(" = ")?.1.split(' ').next()?.parse().ok()
    }

    /// The arguments, last one first. The bytes that are written may hold anything, but come before.
    fn last_arguments(&self) -> impl Iterator<Item = &str> {
        let arguments = self.text.rsplit_once(") = ").map_or("", |(arguments, _)| arguments);
        arguments.trim_end().rsplit(", ")
    }

    /// Where it wrote, and whether the write is durable by itself.
    fn write(&self) -> Option<(u64, bool)> {
        let mut arguments = self.last_arguments();
        let (offset, durable) = match self.name() {
            "pwrite64" | "pwritev" => (arguments.next()?, false),
            "pwritev2" => {
                let flags = arguments.next()?;
                (arguments.next()?, flags.contains("RWF_DSYNC"))
            }
            _ => return None,
        };
        Some((offset.parse().ok()?, durable))
    }

    fn is_flush(&self) -> bool {
        matches!(self.name(), "fsync" | "fdatasync") && self.result() == Some(0)
    }
}

/// Puts together what strace tells of one call in two lines.
fn calls(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: BTreeMap<&str, Call> = BTreeMap::new();
    for (line, text) in trace.lines().enumerate() {
        let Some((process, rest)) = text.split_once(' ') else { continue };
        let Some((_time, text)) = rest.trim_start().split_once(' ') else { continue };
        if let Some(head) = text.strip_suffix(" <unfinished ...>") {
            open.insert(process, Call { text: head.to_owned(), begun: line, ended: line });
        } else if let Some(rest) = text.strip_prefix("<... ") {
            let Some(mut call) = open.remove(process) else { continue };
            call.text.push_str(rest.split_once("resumed>").map_or("", |(_, rest)| rest));
            call.ended = line;
            calls.push(call);
        } else {
            calls.push(Call { text: text.to_owned(), begun: line, ended: line });
        }
    }
    calls
}

/// A frame that is in the log: its LSN, and where it lies.
struct Frame {
    lsn: u64,
    path: String,
    offset: u64,
}

fn frames(dir: &Path) -> Vec<Frame> {
    let mut all = Vec::new();
    for path in files::segments(dir).into_values() {
        let bytes = fs::read(&path).unwrap();
        let base = tidelog_format::SegmentHeader::decode(&bytes).unwrap().identity.base.0;
        let frame = |(place, _): (std::ops::Range<u64>, _)| Frame {
            lsn: base + place.start,
            path: child::text(&path).to_owned(),
            offset: place.start,
        };
        if bytes[4096..4100] != [0; 4] {
            all.extend(files::frames(&path).into_iter().map(frame));
        }
    }
    all
}

/// The line of the trace at which the frame was durable, and the one at which its write began.
fn durable_at(frame: &Frame, calls: &[Call]) -> Result<(usize, usize), String> {
    let own = |call: &&Call| {
        call.path() == frame.path
            && call.write().is_some_and(|(offset, _)| offset == frame.offset)
            && call.result().is_some_and(|len| len > 0)
    };
    let mut writes = calls.iter().filter(own);
    let (Some(write), None) = (writes.next(), writes.next()) else {
        return Err(format!("not one write of {} at {}", frame.path, frame.offset));
    };
    if write.write().is_some_and(|(_, durable)| durable) {
        return Ok((write.ended, write.begun));
    }
    let flush = |call: &&Call| call.is_flush() && call.path() == frame.path && call.begun > write.ended;
    let flushed = calls.iter().filter(flush).map(|call| call.ended).min();
    flushed
        .map(|at| (at, write.begun))
        .ok_or_else(|| format!("no flush of {} after its write at {}", frame.path, frame.offset))
}

/// Whether each acknowledgement came after all that it stands for; gives their number.
fn judge(calls: &[Call], frames: &[Frame], dir: &str) -> Result<usize, String> {
    let times: Result<Vec<_>, String> = frames.iter().map(|frame| durable_at(frame, calls)).collect();
    let times = times?;
    for (place, frame) in frames.iter().enumerate().filter(|(_, frame)| frame.offset == 4096) {
        let begun = times[place].1;
        // The barrier: the segment begins when all before it is durable.
        if let Some(late) = (0..place).find(|&before| times[before].0 >= begun) {
            return Err(format!("{} was begun before {} was durable", frame.path, frames[late].lsn));
        }
        // Its file had its bytes, then its name, then the name was made to last.
        let step = |from: usize, what: &str, is: &dyn Fn(&Call) -> bool| {
            let found = calls.iter().find(|call| call.begun >= from && call.ended < begun && is(call));
            found
                .map(|call| call.ended)
                .ok_or_else(|| format!("{}: no {what} before its first frame", frame.path))
        };
        let fresh = format!("{}.new", frame.path);
        let name = frame.path.rsplit('/').next().unwrap_or_default();
        let written = step(0, "fsync", &|call| call.is_flush() && call.path() == fresh)?;
        let named = step(written, "rename", &|call| {
            call.name().starts_with("rename") && call.text.contains(&format!("\"{name}\""))
        })?;
        step(named, "fsync of the directory", &|call| call.is_flush() && call.path() == dir)?;
    }
    let mut acknowledged = 0;
    for call in calls.iter().filter(|call| call.name() == "write") {
        let Some((_, lsn)) = call.text.split_once("\"ack ") else { continue };
        let lsn: u64 =
            lsn.split('\\').next().unwrap_or_default().parse().map_err(|error| format!("{error}"))?;
        if !frames.iter().any(|frame| frame.lsn == lsn) {
            return Err(format!("there is no frame at {lsn}"));
        }
        let mut due = frames.iter().zip(&times).filter(|(frame, _)| frame.lsn <= lsn);
        if let Some((late, (at, _))) = due.find(|(_, (at, _))| *at >= call.begun) {
            return Err(format!(
                "{lsn} was acknowledged in line {} and {} was durable in line {at}",
                call.begun, late.lsn
            ));
        }
        acknowledged += 1;
    }
    Ok(acknowledged)
}

#[test]
fn nothing_is_acknowledged_before_the_kernel_has_flushed_it() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let (dir, acks, trace) = (home.join("log"), home.join("acks"), home.join("trace"));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-ttt", "-s", "40", "-e", TRACED, "-o", child::text(&trace)]);
    let outcome = child::behind(strace, "writer", &[child::text(&dir), child::text(&acks)]).status();
    if !outcome.as_ref().is_ok_and(ExitStatus::success) && !acks.exists() {
        eprintln!("skipped: no strace, or it may not trace: {outcome:?}");
        return;
    }
    assert!(outcome.unwrap().success());
    let (calls, frames) = (calls(&fs::read_to_string(&trace).unwrap()), frames(&dir));
    let expected = 10 + 3 * ROUNDS as usize;
    assert_eq!(judge(&calls, &frames, child::text(&dir)), Ok(expected));
    // The judge sees what is missing: without flushes, and with acknowledgements a little earlier.
    let unflushed: Vec<Call> = calls.iter().filter(|call| !call.is_flush()).cloned().collect();
    assert!(judge(&unflushed, &frames, child::text(&dir)).is_err());
    let early: Vec<Call> = calls
        .iter()
        .map(|call| match call.name() {
            "write" => Call { begun: call.begun.saturating_sub(20), ..call.clone() },
            _ => call.clone(),
        })
        .collect();
    assert!(judge(&early, &frames, child::text(&dir)).is_err());
}
