//! Processes that fork, contend, and die with writes on their way.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fork::Fork;
use tidelog::{BackendChoice, Batch, Error, Log, Options, ReadOptions, StreamId};

use crate::alone;
use crate::common::child::{self, Killed};
use crate::common::disk::{FileSystem, LoopDisk};
use crate::common::{append, backends, one, payload, read, tiny};

const A: StreamId = StreamId::new(1, 1);

#[test]
fn the_child_of_a_fork_is_refused_and_the_parent_goes_on() {
    let _alone = alone();
    for name in ["ring", "std"] {
        let home = tempfile::tempdir().unwrap();
        let outcome = home.path().join("outcome");
        let dir = home.path().join("log");
        let arguments = [child::text(&dir), child::text(&outcome), name];
        assert!(child::command("processes::forker", &arguments).status().unwrap().success());
        let told = fs::read_to_string(&outcome).unwrap();
        assert!(told == "skipped" || told == "Forked Forked Forked Forked", "{told}");
    }
}

#[test]
#[ignore = "the body of another process"]
fn forker() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, outcome, name] = arguments.as_slice() else { panic!("{arguments:?}") };
    let backend = if name == "ring" { BackendChoice::Ring } else { BackendChoice::Std };
    let log = match Log::open(dir, tiny(backend)) {
        Err(Error::RingUnavailable { .. }) => return fs::write(outcome, "skipped").unwrap(),
        log => log.unwrap(),
    };
    log.append_durable(&one(A, 1)).unwrap();
    match fork::fork().unwrap() {
        Fork::Child => {
            let answers = [
                log.append(&one(A, 2)).map(drop),
                log.append_durable(&one(A, 2)).map(drop),
                log.wait_durable(tidelog::Lsn::ZERO),
                log.close(),
            ];
            let told: Vec<String> =
                answers.iter().map(|answer| format!("{:?}", answer.as_ref().unwrap_err())).collect();
            fs::write(outcome, told.join(" ")).unwrap();
            // Its handle goes without harm to the parent's log.
            drop(log);
            std::process::exit(0);
        }
        Fork::Parent(child) => {
            append(&log, A, 2..=300);
            fork::waitpid(child).unwrap();
            append(&log, A, 301..=400);
            assert_eq!(log.read(A, .., ReadOptions::new()).unwrap().count(), 400);
            log.close().unwrap();
        }
    }
}

#[test]
#[ignore = "the body of the process that is killed"]
fn appender() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, acks, name] = arguments.as_slice() else { panic!("{arguments:?}") };
    let backend = if name == "ring" { BackendChoice::Ring } else { BackendChoice::Std };
    let log = Log::open(dir, tiny(backend)).unwrap();
    // Written over and not anew: a number that grows is whole whenever the process is killed.
    let acks = fs::File::create(acks).unwrap();
    let mut id = 0_u64;
    loop {
        id += 1;
        let staged = log.append(&one(A, id)).unwrap();
        if id.is_multiple_of(4) {
            log.wait_durable(staged).unwrap();
            acks.write_all_at(id.to_string().as_bytes(), 0).unwrap();
        }
    }
}

/// What the appender of the next test does, once it is told to.
const LATE: StreamId = StreamId::new(1, 2);

#[test]
#[ignore = "the body of the process that is killed"]
fn late_writer() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, acks, go] = arguments.as_slice() else { panic!("{arguments:?}") };
    // A synchronous write or flush would keep the process from ending: none but those of the ring outlive it.
    let log = Log::open(dir, large(BackendChoice::Ring).flush_interval(Duration::MAX)).unwrap();
    append(&log, A, 1..=20);
    fs::write(acks, "20").unwrap();
    while !Path::new(go).exists() {
        thread::sleep(Duration::from_millis(1));
    }
    let mut batch: Batch = Batch::new();
    batch.append(LATE, 1, payload(1, 200_000));
    log.append(&batch).unwrap();
    // Until the ring has it.
    thread::sleep(Duration::from_millis(300));
    fs::write(acks, "and one more").unwrap();
    thread::sleep(Duration::MAX);
}

/// One segment holds all, and needs no successor yet.
fn large(backend: BackendChoice) -> Options {
    tiny(backend).first_segment_size(4 << 20).segment_size(4 << 20).idle_after(Duration::MAX)
}

/// A device that is stuck keeps the last write of a killed process, which lands when it goes on. Until then its file
/// is locked.
#[test]
fn an_opening_waits_for_the_last_writes_of_a_killed_process() {
    let _alone = alone();
    if !backends().contains(&BackendChoice::Ring) {
        return;
    }
    let Some(mut outer) = LoopDisk::new(FileSystem::Ext4, 256) else { return };
    let inner = LoopDisk::within(&outer.mount_point(), FileSystem::Ext4, 64).unwrap();
    let home = tempfile::tempdir().unwrap();
    let (dir, acks, go) = (inner.log(), home.path().join("acks"), home.path().join("go"));
    let arguments = [child::text(&dir), child::text(&acks), child::text(&go)];
    let mut writer = Killed(child::command("processes::late_writer", &arguments).spawn().unwrap());
    child::wait_for(&acks, 0, &mut writer.0);
    if let Err(error) = outer.freeze() {
        return eprintln!("skipped: {error}");
    }
    let thawed = AtomicBool::new(false);
    let log = thread::scope(|scope| {
        scope.spawn(|| {
            // Whatever becomes of the rest, it must not stay frozen.
            thread::sleep(Duration::from_millis(1500));
            thawed.store(true, Ordering::SeqCst);
            outer.thaw();
        });
        fs::write(&go, "").unwrap();
        child::wait_for(&acks, 2, &mut writer.0);
        drop(writer);
        println!("the writer died before its write had landed: {}", !thawed.load(Ordering::SeqCst));
        let log = Log::open(&dir, large(BackendChoice::Std).lock_wait(Duration::from_secs(60))).unwrap();
        assert!(thawed.load(Ordering::SeqCst), "the write has not landed");
        log
    });
    assert_eq!(read(&log, A), (1..=20).map(|id| (id, payload(id, 300))).collect::<Vec<_>>());
    assert_eq!(read(&log, LATE), [(1, payload(1, 200_000))]);
    log.close().unwrap();
    drop(log);
    drop(inner);
}

/// As if its last write landed late: it is there when whoever holds the lock lets go of it.
#[test]
fn what_lands_while_an_opening_waits_is_seen() {
    let _alone = alone();
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let (dir, acks) = (home.path().join("log"), home.path().join("acks"));
        let name = if backend == BackendChoice::Ring { "ring" } else { "std" };
        let arguments = [child::text(&dir), child::text(&acks), name];
        let mut writer = Killed(child::command("processes::appender", &arguments).spawn().unwrap());
        child::wait_for(&acks, 1, &mut writer.0);
        drop(writer);
        let segment = crate::common::files::segments(&dir).into_values().next().unwrap();
        let (late, _) = crate::common::files::frames(&segment).pop().unwrap();
        let whole = fs::read(&segment).unwrap();
        let file = fs::File::options().read(true).write(true).open(&segment).unwrap();
        file.lock().unwrap();
        let bytes = &whole[late.start as usize..late.end as usize];
        file.write_all_at(&vec![0; bytes.len()], late.start).unwrap();
        let short = tiny(backend).lock_wait(Duration::from_millis(50));
        let refusal = Log::open(&dir, short).unwrap_err();
        assert!(matches!(&refusal, Error::Locked { path } if *path == segment), "{refusal:?}");
        let log = thread::scope(|scope| {
            let opening = scope.spawn(|| Log::open(&dir, tiny(backend)));
            thread::sleep(Duration::from_millis(200));
            assert!(!opening.is_finished(), "nobody has let go yet");
            file.write_all_at(bytes, late.start).unwrap();
            file.sync_all().unwrap();
            drop(file);
            opening.join().unwrap().unwrap()
        });
        let acknowledged: usize = fs::read_to_string(&acks).unwrap().parse().unwrap();
        assert!(read(&log, A).len() >= acknowledged);
        log.close().unwrap();
    }
}

#[test]
fn of_many_processes_that_open_at_once_one_has_the_log() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let (dir, acks) = (home.path().join("log"), home.path().join("acks"));
    let mut holder = {
        let arguments = [child::text(&dir), child::text(&acks), "std"];
        Killed(child::command("processes::appender", &arguments).spawn().unwrap())
    };
    child::wait_for(&acks, 0, &mut holder.0);
    let tellers: Vec<_> = (0..4)
        .map(|number| {
            let outcome = home.path().join(format!("outcome {number}"));
            let arguments = [child::text(&dir), child::text(&outcome), "std"];
            (
                child::command("processes::forker", &arguments).stderr(std::process::Stdio::null()).spawn(),
                outcome,
            )
        })
        .collect();
    for (teller, outcome) in tellers {
        assert!(!teller.unwrap().wait().unwrap().success(), "it opened the log of another");
        assert!(!outcome.exists());
    }
    assert!(holder.0.try_wait().unwrap().is_none(), "the holder goes on");
    drop(holder);
    Log::open(&dir, tiny(BackendChoice::Std)).unwrap().close().unwrap();
}
