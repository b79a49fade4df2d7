//! A write that fails for real: past a limit on the size of files, which holds for a whole process and so is set in
//! a child.

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const IN_CHILD: &str = "TIDELOG_TEST_IN_CHILD";

/// Whether this is the child. The parent runs one for the test of this name and comes back when it has succeeded.
pub(crate) fn is_child(test: &str) -> bool {
    if std::env::var_os(IN_CHILD).is_some() {
        return true;
    }
    // What a shell ignores, its children ignore: the write then fails with an error instead.
    let script = r#"trap '' XFSZ; exec "$0" "$@""#;
    let child = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(child).args(["--exact", test, "--nocapture"]).env(IN_CHILD, "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
    false
}

/// No write reaches beyond this many bytes of its file.
pub(crate) fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).unwrap();
}
