//! Code that runs in a process of its own: the test binary, started again for one ignored test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ARGUMENT: &str = "TIDELOG_TEST_CHILD";

/// The arguments that this process was started with, if it is a child of a test.
pub(crate) fn arguments() -> Option<Vec<String>> {
    Some(std::env::var(ARGUMENT).ok()?.split('\n').map(str::to_owned).collect())
}

/// How to start the ignored test `body` in a process of its own.
pub(crate) fn command(body: &str, arguments: &[&str]) -> Command {
    wrapped(Command::new(std::env::current_exe().unwrap()), body, arguments)
}

/// The same behind a program that takes the command to run as its last arguments.
pub(crate) fn behind(mut program: Command, body: &str, arguments: &[&str]) -> Command {
    program.arg(std::env::current_exe().unwrap());
    wrapped(program, body, arguments)
}

fn wrapped(mut command: Command, body: &str, arguments: &[&str]) -> Command {
    command.args([body, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ARGUMENT, arguments.join("\n")).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A child that is killed, if nothing else ended it, when this goes.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the file is there with more than `above` bytes, and panics when the child ends before.
pub(crate) fn wait_for(file: &Path, above: u64, child: &mut Child) {
    let begun = Instant::now();
    while fs::metadata(file).map_or(0, |metadata| metadata.len()) <= above {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the child ended early: {status}");
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the child does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An argument as a path.
pub(crate) fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}
