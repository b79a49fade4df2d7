//! Telling a forked child from the process that opened the log.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Pid, getpid};

const PAGE: usize = 4096;

/// Knows whether the process forked since it was made. A child shares descriptors and locks with its parent, so it must
/// not touch the log.
#[derive(Debug)]
pub(crate) struct ForkGuard {
    owner: Pid,
    /// A page that the kernel wipes in a child: looking at it costs no system call.
    page: Option<Page>,
}

impl ForkGuard {
    /// A guard for the calling process.
    pub(crate) fn new() -> Self {
        Self { owner: getpid(), page: Page::new() }
    }

    /// A guard as on a kernel that cannot wipe pages.
    #[cfg(test)]
    pub(super) fn by_process_id() -> Self {
        Self { owner: getpid(), page: None }
    }

    /// Whether this is a child of the process that made the guard.
    pub(crate) fn is_child(&self) -> bool {
        match &self.page {
            Some(page) => page.wiped(),
            None => getpid() != self.owner,
        }
    }
}

#[derive(Debug)]
struct Page(NonNull<AtomicU8>);

// SAFETY: the page is only reached through an atomic, and unmapped by whichever thread drops its owner.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// None where the kernel does not know `MADV_WIPEONFORK`.
    fn new() -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, access, MapFlags::PRIVATE) }.ok()?;
        let page = Self(NonNull::new(start.cast())?);
        // SAFETY: the range is the mapping made above; the advice only changes what a child sees.
        unsafe { madvise(start, PAGE, Advice::LinuxWipeOnFork) }.ok()?;
        page.flag().store(1, Ordering::Relaxed);
        Some(page)
    }

    fn flag(&self) -> &AtomicU8 {
        // SAFETY: the page is mapped, zeroed and so a valid atomic, until `self` is dropped.
        unsafe { self.0.as_ref() }
    }

    fn wiped(&self) -> bool {
        self.flag().load(Ordering::Relaxed) == 0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this start and length, and nothing borrows it any more. A failure leaves a
        // page mapped, which harms nobody.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE) };
    }
}
