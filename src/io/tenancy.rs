//! Who has a file open for reading, in any process, as a lock that the kernel keeps.
//!
//! An open file description holds it, so it lasts as long as the last map and the last descriptor, a forked child's
//! too. Such locks and those of flock(2) know nothing of each other on a local file system.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::io::{Errno, retry_on_intr};

/// Counts the open file among the readers. `WouldBlock` while somebody has shut them out.
pub(super) fn join(file: &File) -> io::Result<()> {
    set(file, libc::F_RDLCK)
}

/// Shuts readers out. `WouldBlock` where there is one. The file must be open for writing.
pub(super) fn shut(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// Lets readers in again.
pub(super) fn reopen(file: &File) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

fn set(file: &File, kind: libc::c_int) -> io::Result<()> {
    // Start and length 0: all of the file. Locks of descriptions want 0 as the process.
    let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    let lock = libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 };
    let locked = retry_on_intr(|| {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the call only reads `lock`, which outlives it.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        let failed = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
        if result == 0 { Ok(()) } else { Err(failed()) }
    });
    Ok(locked?)
}
