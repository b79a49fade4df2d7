//! Running the tool, and logs to run it on.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A place for a log, gone with the value.
pub(crate) struct Home {
    dir: TempDir,
    log: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log").to_str().unwrap().to_owned();
        Self { dir, log }
    }

    pub(crate) fn path(&self) -> &str {
        &self.log
    }

    pub(crate) fn segment(&self, sequence: u64) -> PathBuf {
        self.dir.path().join(format!("log/{sequence:020}.log"))
    }

    /// Every file's bytes and times of change.
    pub(crate) fn contents(&self) -> BTreeMap<OsString, (Vec<u8>, std::time::SystemTime)> {
        let entries = fs::read_dir(&self.log).unwrap().map(Result::unwrap);
        let content = |entry: &fs::DirEntry| {
            let modified = entry.metadata().unwrap().modified().unwrap();
            (fs::read(entry.path()).unwrap(), modified)
        };
        entries.map(|entry| (entry.file_name(), content(&entry))).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelog"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(args: &[&str], input: &str) -> Output {
    let mut child = command(args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing may be gone by now.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What a command prints that must find nothing wrong.
pub(crate) fn stdout(args: &[&str]) -> String {
    let output = run(args, "");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args:?}: {output:?}");
    output.stdout
}

/// Runs a command whose output nobody reads.
pub(crate) fn run_closed(args: &[&str]) -> (i32, String) {
    let mut child = command(args).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code().unwrap(), stderr)
}
