//! The real disk: a directory of a local file system.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, StatxFlags, flock, fstat,
    fstatfs, fsync, mkdirat, openat, renameat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::aligned::MEM_ALIGN;
use super::disk::{Access, Disk, DiskFile, FileKind, Listing};
use super::file::RealFile;
use super::queue::is_full;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// The largest block that a log can have.
const MAX_BLOCK: u32 = 65536;
const DIR_MODE: Mode = Mode::RWXU;

/// How a directory is opened.
// Independent switches, each named where it is set.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirOptions {
    /// Make the directory, and missing ones above it.
    pub(crate) create: bool,
    /// Accept a network file system, whose locks and flushes may promise less.
    pub(crate) allow_network_fs: bool,
    /// Pass the page cache by in writes, where the file system allows.
    pub(crate) direct: bool,
    /// Take the directory's lock.
    pub(crate) lock: bool,
}

/// Why a directory is refused: its file system lives on other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network file system ({name}, magic {magic:#x})")]
pub(crate) struct NetworkFileSystem {
    /// Its usual name.
    pub(crate) name: &'static str,
    /// The number by which statfs tells it.
    pub(crate) magic: u32,
}

/// A directory, all of whose files are reached through its descriptor. The lock is on that descriptor, and goes when
/// the last handle to it is closed.
#[derive(Debug)]
pub(crate) struct RealDisk {
    path: PathBuf,
    dir: File,
    direct: bool,
    /// Its file system is one of those of other machines.
    network: bool,
    /// What direct I/O needs here, known from the first file on; 1 where it is refused.
    align: OnceLock<u32>,
}

impl RealDisk {
    /// Opens a directory. `WouldBlock` when its lock is held, by this process or another; `Unsupported` around
    /// [`NetworkFileSystem`] on one that is not allowed.
    pub(crate) fn open(path: &Path, options: DirOptions) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        if options.create {
            create_dirs(&path)?;
        }
        let dir = open_dir(&path)?;
        let refused = refuse_network_fs(&dir);
        let network = refused.is_err();
        if !options.allow_network_fs {
            refused?;
        }
        if options.lock {
            retry_on_intr(|| flock(&dir, FlockOperation::NonBlockingLockExclusive))?;
        }
        Ok(Self { path, dir, direct: options.direct, network, align: OnceLock::new() })
    }

    /// Gives the directory's lock back. Closing the descriptor alone would leave it to a process that is just being
    /// started, which has a copy until it executes.
    pub(crate) fn unlock(&self) {
        // There is nothing to be done where it fails, and the descriptor goes next.
        let _ = flock(&self.dir, FlockOperation::Unlock);
    }

    fn openat(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
        check_name(name)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(retry_on_intr(|| openat(&self.dir, name, flags, mode))?.into())
    }

    /// The descriptor for writes to the file that `reader` reads, and the alignment it needs.
    fn open_writer(&self, name: &str, reader: &File) -> io::Result<(File, u32)> {
        self.pick_writer(reader, &|flags| {
            let writer = self.openat(name, OFlags::RDWR | OFlags::NONBLOCK | flags, Mode::empty())?;
            // Somebody may have moved the name since.
            if same_file(reader, &writer)? { Ok(writer) } else { Err(io::ErrorKind::ResourceBusy.into()) }
        })
    }

    /// Direct where that is wanted and the file system agrees, else buffered.
    fn pick_writer(
        &self,
        reader: &File,
        open: &dyn Fn(OFlags) -> io::Result<File>,
    ) -> io::Result<(File, u32)> {
        if self.direct && self.align.get() != Some(&1) {
            match open(OFlags::DIRECT) {
                Ok(writer) => match self.learn_align(reader) {
                    1 => {}
                    align => return Ok((writer, align)),
                },
                Err(error) if refuses_direct(&error) => {
                    let _ = self.align.set(1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((open(OFlags::empty())?, 1))
    }

    fn learn_align(&self, file: &File) -> u32 {
        *self.align.get_or_init(|| stated_align(file).unwrap_or(MEM_ALIGN as u32))
    }

    /// A file without a name, from two descriptors as every other.
    fn open_scratch(&self) -> io::Result<RealFile> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(reader) = retry_on_intr(|| openat(&self.dir, ".", flags, FILE_MODE)) {
            let reader = File::from(reader);
            let open = |flags| -> io::Result<File> {
                let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
                Ok(openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::empty())?.into())
            };
            if let Ok((writer, align)) = self.pick_writer(&reader, &open) {
                return Ok(RealFile::new(reader, Some(writer), align));
            }
        }
        // No O_TMPFILE, or no /proc: a name for a moment.
        let name = "probe.new";
        ignore_missing(self.unlink(name))?;
        let file = self.create_file(name)?;
        self.unlink(name)?;
        Ok(file)
    }

    fn create_file(&self, name: &str) -> io::Result<RealFile> {
        // Buffered first: with O_DIRECT a refusal can come after the file was made.
        let reader = self.openat(name, OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL, FILE_MODE)?;
        let open = || {
            let (writer, align) = self.open_writer(name, &reader)?;
            let file = RealFile::new(reader, Some(writer), align);
            if file.try_lock()? { Ok(file) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        open().inspect_err(|_| {
            // The first error is the one to report.
            let _ = self.unlink(name);
        })
    }
}

impl Disk for RealDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> io::Result<Vec<Listing>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Removed since it was listed.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            all.push(Listing {
                name: OsStr::from_bytes(name.to_bytes()).to_owned(),
                kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
                len: u64::try_from(stat.st_size).unwrap_or(0),
            });
        }
        Ok(all)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.create_file(name)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        // NONBLOCK: opening a pipe must not wait for its other end.
        let reader = self.openat(name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&reader)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is not a regular file")));
        }
        let (writer, align) = match access {
            Access::Read if self.direct => (None, self.learn_align(&reader)),
            Access::Read => (None, 1),
            Access::Write => {
                let (writer, align) = self.open_writer(name, &reader)?;
                (Some(writer), align)
            }
        };
        let file = RealFile::new(reader, writer, align);
        let file = if self.network { file.on_network() } else { file };
        Ok(Arc::new(match access {
            Access::Read => file.counted(),
            Access::Write => {
                file.try_lock()?;
                file
            }
        }))
    }

    fn scratch(&self) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.open_scratch()?;
        file.try_lock()?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        match retry_on_intr(|| renameat_with(&self.dir, from, &self.dir, to, RenameFlags::NOREPLACE)) {
            Ok(()) => Ok(()),
            // A file system without the flag. Only the holder of the directory's lock renames, so nobody comes between.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match statat(&self.dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EXIST.into()),
                    Err(Errno::NOENT) => Ok(retry_on_intr(|| renameat(&self.dir, from, &self.dir, to))?),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        Ok(retry_on_intr(|| unlinkat(&self.dir, name, AtFlags::empty()))?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.dir))?)
    }

    fn dio_align(&self) -> io::Result<u32> {
        if !self.direct {
            return Ok(1);
        }
        match self.align.get() {
            Some(align) => Ok(*align),
            None => match self.open_scratch() {
                // No room for a file to ask about; the first one there is room for will tell.
                Err(error) if is_full(&error) => Ok(1),
                file => Ok(file?.align()),
            },
        }
    }
}

fn open_dir(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(CWD, path, flags, Mode::empty()))?.into())
}

/// Makes `path` and what is missing above it, each name durable in its parent.
fn create_dirs(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    match retry_on_intr(|| mkdirat(CWD, path, DIR_MODE)) {
        Err(Errno::NOENT) => {
            create_dirs(parent)?;
            retry_on_intr(|| mkdirat(CWD, path, DIR_MODE))?;
        }
        // Possibly made a moment before a crash, and not durable yet. Where the parent may not be read, whoever made
        // the directory was somebody else.
        Err(Errno::EXIST) => {
            return match open_dir(parent) {
                Ok(parent) => Ok(retry_on_intr(|| fsync(&parent)).or_else(not_flushable)?),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                Err(error) => Err(error),
            };
        }
        made => made?,
    }
    let parent = open_dir(parent)?;
    Ok(retry_on_intr(|| fsync(&parent))?)
}

/// Read-only and special file systems refuse to flush a directory in which nothing was made.
fn not_flushable(error: Errno) -> Result<(), Errno> {
    if matches!(error, Errno::INVAL | Errno::ROFS) { Ok(()) } else { Err(error) }
}

/// Names are entries of the directory itself.
fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a file name")));
    }
    Ok(())
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn same_file(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (fstat(a)?, fstat(b)?);
    Ok((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// What the kernel says that direct I/O on this file needs. None when it says nothing (before Linux 6.1).
fn stated_align(file: &File) -> Option<u32> {
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return None;
    }
    let (memory, offset) = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
    // Stricter than any buffer or block is the same as none.
    let usable = memory as usize <= MEM_ALIGN && offset.is_power_of_two() && offset <= MAX_BLOCK;
    Some(if usable { offset.max(memory.next_power_of_two()) } else { 1 })
}

fn refuses_direct(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INVAL)
}

fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// File systems on other machines, or served by a program that may be one: by statfs(2) and linux/magic.h.
const NETWORK_FILE_SYSTEMS: [(u32, &str); 18] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x00C3_6400, "CEPH"),
    (0x7375_7245, "CODA"),
    (0x564C, "NCP"),
    (0x7461_636F, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x0BD0_0BD0, "LUSTRE"),
    (0x4750_4653, "GPFS"),
    (0x2003_0528, "ORANGEFS"),
    (0xBACB_ACBC, "VMHGFS"),
    (0x786F_4256, "VBOXSF"),
];

fn refuse_network_fs(dir: &File) -> io::Result<()> {
    let found = fstatfs(dir)?.f_type;
    // Magics are 32 bits wide; in a signed field the sign says nothing.
    match NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| i64::from(*known) == found & 0xFFFF_FFFF) {
        Some(&(magic, name)) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, NetworkFileSystem { name, magic }))
        }
        None => Ok(()),
    }
}
