//! The tool on damaged logs: it says so, and never falls over.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidelog::{BackendChoice, Batch, Log, Options, StreamId};

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }
}

fn options() -> Options {
    Options::new()
        .backend(BackendChoice::Std)
        .block_size(512)
        .first_segment_size(64 << 10)
        .segment_size(64 << 10)
        .frame_size(16 << 10)
}

/// Several segments with records of every kind.
fn fill(dir: &Path) {
    for opening in 0..3_u64 {
        let log = Log::open(dir, options()).unwrap();
        for id in opening * 40 + 1..=opening * 40 + 40 {
            let mut batch: Batch<Vec<u8>> = Batch::new();
            for stream in 1..=2 {
                batch.append(StreamId::new(1, stream), id, vec![id as u8; 700]);
            }
            log.append_durable(&batch).unwrap();
        }
        log.truncate(StreamId::new(1, 2), opening * 40 + 40).unwrap();
        log.append_durable(Batch::<Vec<u8>>::new().append(StreamId::new(1, 2), opening * 40 + 40, vec![]))
            .unwrap();
        log.create_namespace(StreamId::new(2, opening)).unwrap();
        log.obsolete(StreamId::new(1, 1), opening + 1).unwrap();
        log.release(StreamId::new(1, 9)).unwrap();
        log.close().unwrap();
    }
}

/// Does something to the files, and tells what.
fn damage(dir: &Path, files: &BTreeMap<PathBuf, Vec<u8>>, numbers: &mut Numbers) -> String {
    let names: Vec<&PathBuf> =
        files.keys().filter(|name| name.extension().is_some_and(|e| e == "log")).collect();
    let (name, other) = (names[numbers.below(names.len())], names[numbers.below(names.len())]);
    let mut bytes = files[name].clone();
    let bound = if numbers.below(2) == 0 { 4096 } else { bytes.len() };
    let at = numbers.below(bound);
    let kind = numbers.below(8);
    match kind {
        0 | 1 => bytes[at] ^= 1 << numbers.below(8),
        2 => bytes[at / 512 * 512..].fill(0),
        3 => {
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill_with(|| numbers.below(256) as u8);
        }
        4 => bytes.truncate(at),
        5 => bytes.clone_from(&files[other]),
        6 => fs::write(dir.join(format!("{}.log", u64::MAX)), &bytes).unwrap(),
        _ => {
            fs::remove_file(dir.join(name)).unwrap();
            return format!("{} is gone", name.display());
        }
    }
    fs::write(dir.join(name), bytes).unwrap();
    format!("kind {kind} at {at} of {}", name.display())
}

#[test]
fn damage_is_told_by_the_status_and_nothing_falls_over() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    fill(&dir);
    let read = |entry: fs::DirEntry| (PathBuf::from(entry.file_name()), fs::read(entry.path()).unwrap());
    let files: BTreeMap<_, _> = fs::read_dir(&dir).unwrap().map(|entry| read(entry.unwrap())).collect();
    let mut seen = BTreeMap::new();
    for round in 0..60 {
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        for (name, bytes) in &files {
            fs::write(dir.join(name), bytes).unwrap();
        }
        let what = damage(&dir, &files, &mut Numbers(round));
        let code = |args: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_tidelog")).args(args).arg(&dir).output().unwrap();
            let code = output.status.code().unwrap();
            assert!(matches!(code, 0 | 1 | 3), "{what}: {args:?}: {output:?}");
            assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{what}: {output:?}");
            code
        };
        let verified = code(&["verify"]);
        let dumped = code(&["dump"]);
        assert_eq!(dumped, verified, "{what}");
        code(&["dump", "--format", "jsonl"]);
        code(&["stat"]);
        let opened = Log::open(&dir, options());
        if verified == 0 {
            let log = opened.unwrap_or_else(|error| panic!("{what}: sound, and it does not open: {error}"));
            log.close().unwrap();
        }
        *seen.entry(verified).or_insert(0) += 1;
    }
    assert!(seen[&0] > 0 && seen[&1] > 0, "{seen:?}");
}
