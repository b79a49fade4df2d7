//! What needs a process of its own: limits, another user, a forked child.

use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::*;

const CHILD: &str = "TIDELOG_TEST_CHILD";

/// Runs the test of this name again in a process of its own. True in that process.
fn in_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        return true;
    }
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && report.contains("1 passed"),
        "{report}\n{}",
        String::from_utf8_lossy(&child.stderr)
    );
    false
}

/// Becomes an ordinary user, where this process is not one already.
fn drop_privileges() {
    // SAFETY: both only change the credentials of this process, which runs this one test.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
            assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
        }
        assert_ne!(libc::geteuid(), 0);
    }
}

fn limit(resource: Resource, bytes: u64) {
    setrlimit(resource, Rlimit { current: Some(bytes), maximum: Some(bytes) }).unwrap();
}

fn write_one(
    backend: Backend,
    file: &Arc<dyn DiskFile>,
    buf: Claimed,
    buffers: &[Arc<FrameBuf>],
) -> Completion {
    let mut queue = open_queue(backend, 2, buffers, Bell::new().unwrap()).unwrap();
    let len = buf.len();
    queue.write(WriteOp { token: 1, file: Arc::clone(file), offset: 0, buf, len, dsync: true });
    let mut done = Vec::new();
    while done.is_empty() {
        queue.wait(None, &mut done).unwrap();
    }
    done.pop().unwrap()
}

#[test]
fn a_write_cut_short_by_a_limit_fails_as_a_whole() {
    if !in_child("a_write_cut_short_by_a_limit_fails_as_a_whole") {
        return;
    }
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let disks = every_disk();
    limit(Resource::Fsize, 2 * BLOCK as u64);
    for backend in backends() {
        for Scratch { disk, root: _root } in &disks {
            let file = disk.create(&backend.to_string()).unwrap();
            let mut buf = Claimed::new(5 * BLOCK, None).unwrap();
            fill(1, &mut buf);
            let error = write_one(backend, &file, buf, &[]).result.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG), "{backend} on {disk:?}");
            // The first part was written, the rest was tried and refused.
            let mut back = vec![0; 5 * BLOCK];
            assert_eq!(file.read_at(0, &mut back).unwrap(), 2 * BLOCK);
            assert_eq!(back[..2 * BLOCK], pattern(1, 5 * BLOCK)[..2 * BLOCK]);
        }
    }
}

#[test]
fn an_ordinary_user_with_little_lockable_memory_writes_all_the_same() {
    if !in_child("an_ordinary_user_with_little_lockable_memory_writes_all_the_same") {
        return;
    }
    limit(Resource::Memlock, 64 << 10);
    drop_privileges();
    for Scratch { disk, root: _root } in every_disk() {
        for backend in backends() {
            let file = disk.create(&backend.to_string()).unwrap();
            // Too large to be registered.
            let mut buf = Claimed::new(1 << 20, Some(0)).unwrap();
            fill(2, &mut buf);
            let shared = Arc::clone(buf.shared());
            write_one(backend, &file, buf, &[shared]).result.unwrap();
            let mut back = vec![0; 1 << 20];
            assert_eq!(file.read_uncached(0, &mut back).unwrap(), 1 << 20);
            assert!(back == pattern(2, 1 << 20)[..]);
        }
    }
}

#[test]
fn a_forked_child_knows_that_it_is_one() {
    if !in_child("a_forked_child_knows_that_it_is_one") {
        return;
    }
    for guard in [ForkGuard::new(), ForkGuard::by_process_id()] {
        assert!(!guard.is_child());
        // SAFETY: the child only looks at the guard and exits, without running any destructor.
        let status = unsafe {
            match libc::fork() {
                0 => libc::_exit(if guard.is_child() { 42 } else { 1 }),
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    status
                }
            }
        };
        assert!(libc::WIFEXITED(status), "{status}");
        assert_eq!(libc::WEXITSTATUS(status), 42, "{guard:?}");
        assert!(!guard.is_child());
    }
}
