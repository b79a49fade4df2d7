//! Everything that the fuzzer starts from or once stumbled over, through the functions that it calls: `fuzz/corpus` and
//! `fuzz/regressions`, a directory for each target.

mod seeds;
#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "to the fuzzer it is a crate of its own")]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use targets::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn inputs(kind: &str, target: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(fuzz().join(kind).join(target)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn known_inputs_pass() {
    for (name, target) in TARGETS {
        let seeds = inputs("corpus", name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for path in seeds.iter().chain(&inputs("regressions", name)) {
            let input = fs::read(path).unwrap();
            println!("{}", path.display());
            target(&input);
            // Half of it, and it with a wrong byte, are inputs too.
            target(&input[..input.len() / 2]);
            let mut changed = input;
            if let Some(byte) = changed.last_mut() {
                *byte ^= 0x55;
            }
            target(&changed);
        }
    }
}

/// A target that the fuzzer cannot start, or that starts what no test replays, is none.
#[test]
fn each_target_has_a_program() {
    let mut programs: Vec<String> = fs::read_dir(fuzz().join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    programs.sort();
    let mut names = TARGETS.map(|(name, _)| name.to_owned());
    names.sort();
    assert_eq!(programs, names);
    for name in names {
        let program = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("tidelog_fuzz::{name}(input)")), "{program}");
    }
}

#[test]
fn a_packed_log_opens() {
    let log = seeds::closed();
    let input = targets::pack(0, log.path());
    let home = targets::unpack_to_directory(&input);
    for entry in fs::read_dir(log.path()).unwrap().map(Result::unwrap) {
        let copy = home.path().join(entry.file_name());
        if entry.path().extension().is_some_and(|extension| extension != "spare") {
            assert!(fs::read(&copy).unwrap() == fs::read(entry.path()).unwrap(), "{}", copy.display());
        }
    }
    let report = tidelog::readonly::ReadOnlyLog::open(home.path()).unwrap();
    assert!(report.segments().len() > 2);
}

/// Writes the seeds anew, after a change of the format.
#[test]
#[ignore = "it writes to the source tree"]
fn write_seeds() {
    for (target, name, bytes) in seeds::all() {
        let dir = fuzz().join("corpus").join(target);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(name), bytes).unwrap();
    }
}
