//! A kernel, or what stands in front of it, that refuses `io_uring`: the log does without, unless it must not.

use std::path::Path;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tidelog::{BackendChoice, Log};

use crate::writer::{self, Orders, Told, options};
use crate::{alone, common};

/// Has a system call of this thread, and of those that it starts, refused as a container's filter does.
pub(crate) fn refuse(call: &str) {
    let number = match call {
        "io_uring_setup" => libc::SYS_io_uring_setup,
        "io_uring_enter" => libc::SYS_io_uring_enter,
        "io_uring_register" => libc::SYS_io_uring_register,
        _ => panic!("{call}"),
    };
    let errno = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter =
        SeccompFilter::new([(number, Vec::new())].into(), SeccompAction::Allow, errno, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

fn check(call: &str, ring: bool) {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let before = &format!("refuse {call}");
    let run = |backend| {
        let (status, told) = writer::run(None, home.path(), &Orders { before, backend, count: 40 }).unwrap();
        assert!(status.success(), "{status}");
        told
    };
    let told = run(BackendChoice::Auto);
    assert!(told.is_clean(), "{told:?}");
    assert_eq!(told.backend, if ring { "ring" } else { "std" });
    look(home.path(), &told);

    let told = run(BackendChoice::Ring);
    if ring {
        assert_eq!(told.backend, "ring");
    } else {
        assert!(matches!(&told.errors[..], [e] if e.starts_with("RingUnavailable { cause:")), "{told:?}");
    }
}

/// What was acknowledged is there. The next process must not meet the lock of a log that is still ending.
fn look(dir: &Path, told: &Told) {
    let log = Log::open(dir, options(BackendChoice::Std)).unwrap();
    told.check(&log);
    log.close().unwrap();
}

/// The same as an error of the kernel's own, by strace: a kernel without the call, a sysctl, memory.
fn inject(error: &str) {
    let home = tempfile::tempdir().unwrap();
    let orders = Orders { before: "", backend: BackendChoice::Auto, count: 20 };
    let rule = format!("inject=io_uring_setup:error={error}");
    let Some(told) = crate::injected::writer(&[&rule], home.path(), &orders) else { return };
    assert!(told.is_clean() && told.backend == "std", "{error}: {told:?}");
    look(home.path(), &told);
    let told =
        crate::injected::writer(&[&rule], home.path(), &Orders { backend: BackendChoice::Ring, ..orders });
    let errors = told.unwrap().errors;
    assert!(matches!(&errors[..], [e] if e.starts_with("RingUnavailable { cause:")), "{errors:?}");
}

fn has_ring() -> bool {
    common::backends().contains(&BackendChoice::Ring)
}

#[test]
fn no_ring_may_be_made() {
    check("io_uring_setup", false);
}

#[test]
fn a_ring_may_be_made_and_not_be_used() {
    check("io_uring_enter", false);
}

#[test]
fn buffers_may_not_be_registered() {
    if has_ring() {
        check("io_uring_register", true);
    }
}

#[test]
fn the_kernel_has_no_ring_to_give() {
    let _alone = alone();
    ["ENOSYS", "EPERM", "ENOMEM"].into_iter().for_each(inject);
}
