//! A file system of the test's own, in an image file behind a loop device. Needs root, loop devices and the program
//! that makes the file system; says so where one is missing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Room that an image in memory leaves to others.
const SPARED: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    Ext4,
    /// Without a journal: nothing but data behind the first blocks.
    PlainExt4,
    /// An image of at least 300 MiB, sparse.
    Xfs,
}

/// What a power cut leaves of the file system's own log (`XFS_IOC_GOINGDOWN`, which ext4 knows too).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// What was flushed.
    Hard,
    /// All of it.
    LogFlushed,
}

/// A mounted image, unmounted and gone when dropped.
pub(crate) struct LoopDisk {
    home: tempfile::TempDir,
    frozen: bool,
}

impl LoopDisk {
    pub(crate) fn new(kind: FileSystem, mib: u64) -> Option<Self> {
        let memory = Path::new("/dev/shm");
        let free = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        let place = if free > SPARED + (mib << 20) { memory.to_owned() } else { std::env::temp_dir() };
        Self::within(&place, kind, mib)
    }

    /// With the image in this directory.
    pub(crate) fn within(place: &Path, kind: FileSystem, mib: u64) -> Option<Self> {
        let home = tempfile::Builder::new().prefix("tidelog-disk-").tempdir_in(place).unwrap();
        let disk = Self { home, frozen: false };
        File::create(disk.image()).unwrap().set_len(mib << 20).unwrap();
        fs::create_dir(disk.mount_point()).unwrap();
        let mut builder = match kind {
            FileSystem::Ext4 => command("mkfs.ext4", &["-q", "-m", "0"]),
            FileSystem::PlainExt4 => command("mkfs.ext4", &["-q", "-m", "0", "-O", "^has_journal"]),
            FileSystem::Xfs => command("mkfs.xfs", &["-q"]),
        };
        let made = run(builder.arg(disk.image())).and_then(|()| disk.mount());
        made.map_err(|error| eprintln!("skipped: no {kind:?} on a loop device: {error}")).ok()?;
        disk.check_that_it_is_none_of_the_machines();
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.home.path().join("image")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.home.path().join("mnt")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.mount_point().join("log")
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.mount_point().join("ballast")
    }

    pub(crate) fn mount(&self) -> io::Result<()> {
        run(command("mount", &["-o", "loop"]).arg(self.image()).arg(self.mount_point()))
    }

    pub(crate) fn unmount(&self) -> io::Result<()> {
        let mut outcome = Ok(());
        // Threads and child processes that are ending may have a file open a moment longer.
        for _ in 0..500 {
            outcome = run(command("umount", &[]).arg(self.mount_point()));
            if outcome.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        outcome
    }

    pub(crate) fn remount_read_only(&self) {
        self.check_that_it_is_none_of_the_machines();
        run(command("mount", &["-o", "remount,ro"]).arg(self.mount_point())).unwrap();
    }

    /// Has ext4 meet an error, after which it takes no writes.
    pub(crate) fn fail_to_read_only(&self) {
        self.check_that_it_is_none_of_the_machines();
        let wanted = ["-o", "remount,errors=remount-ro"];
        run(command("mount", &wanted).arg(self.mount_point())).unwrap();
        let device = self.device();
        let trigger = Path::new("/sys/fs/ext4").join(device.file_name().unwrap()).join("trigger_fs_error");
        fs::write(trigger, "as the test wants it").unwrap();
    }

    /// Shuts the file system down at once: what it holds in memory is lost, and every later call fails.
    pub(crate) fn cut(&self, cut: Cut) -> io::Result<()> {
        let order = match cut {
            Cut::Hard => "shutdown",
            Cut::LogFlushed => "shutdown -f",
        };
        self.check_that_it_is_none_of_the_machines();
        run(command("xfs_io", &["-x", "-c", order]).arg(self.mount_point()))?;
        assert!(File::create(self.mount_point().join("after the cut")).is_err(), "it is still there");
        Ok(())
    }

    /// Keeps every write in the file system from being done until [`LoopDisk::thaw`].
    pub(crate) fn freeze(&mut self) -> io::Result<()> {
        self.check_that_it_is_none_of_the_machines();
        run(command("fsfreeze", &["-f"]).arg(self.mount_point()))?;
        self.frozen = true;
        Ok(())
    }

    pub(crate) fn thaw(&mut self) {
        if self.frozen {
            run(command("fsfreeze", &["-u"]).arg(self.mount_point())).unwrap();
            self.frozen = false;
        }
    }

    /// Fills the disk to the last block.
    pub(crate) fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        for size in [1 << 20, 4096] {
            while file.write_all(&vec![1; size]).and_then(|()| file.sync_data()).is_ok() {}
        }
    }

    /// Sets all room aside but so many bytes.
    pub(crate) fn leave(&self, bytes: u64) {
        // On a full XFS it could not be made.
        File::create(self.ballast()).unwrap();
        let stat = rustix::fs::statvfs(self.mount_point()).unwrap();
        let Some(surplus) = (stat.f_bavail * stat.f_frsize).checked_sub(bytes) else { return };
        let file = File::create(self.mount_point().join("set aside")).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, surplus).unwrap();
        file.sync_all().unwrap();
    }

    /// The device's sectors from this byte on are lost: every read and write of them fails. Gives what they held.
    pub(crate) fn lose_from(&self, byte: u64) -> Vec<u8> {
        self.check_that_it_is_none_of_the_machines();
        run(command("sync", &["-f"]).arg(self.mount_point())).unwrap();
        let mut lost = Vec::new();
        let mut image = fs::OpenOptions::new().read(true).write(true).open(self.image()).unwrap();
        image.seek(SeekFrom::Start(byte)).unwrap();
        image.read_to_end(&mut lost).unwrap();
        image.set_len(byte).unwrap();
        run(command("losetup", &["-c"]).arg(self.device())).unwrap();
        lost
    }

    /// The sectors work again, and hold this.
    pub(crate) fn bring_back(&self, byte: u64, lost: &[u8]) {
        let mut image = fs::OpenOptions::new().write(true).open(self.image()).unwrap();
        image.seek(SeekFrom::Start(byte)).unwrap();
        image.write_all(lost).unwrap();
        run(command("losetup", &["-c"]).arg(self.device())).unwrap();
    }

    fn is_mounted(&self) -> bool {
        let number = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
        number(&self.mount_point()) != number(self.home.path())
    }

    fn device(&self) -> PathBuf {
        let number = fs::metadata(self.mount_point()).unwrap().dev();
        let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let link = fs::read_link(Path::new("/sys/dev/block").join(name)).unwrap();
        Path::new("/dev").join(link.file_name().unwrap())
    }

    /// What the tests do to a file system must never be done to one of the machine's.
    fn check_that_it_is_none_of_the_machines(&self) {
        let number = |path: &Path| fs::metadata(path).unwrap().dev();
        let own = number(&self.mount_point());
        let current = std::env::current_dir().unwrap();
        for other in [Path::new("/"), Path::new("/tmp"), &current, self.home.path(), &self.image()] {
            assert_ne!(
                own,
                number(other),
                "{} is not apart from {}",
                self.image().display(),
                other.display()
            );
        }
        let name = self.device().file_name().unwrap().to_owned();
        let behind = fs::read_to_string(Path::new("/sys/block").join(&name).join("loop/backing_file"));
        assert_eq!(Path::new(behind.unwrap().trim_end()), self.image().canonicalize().unwrap());
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.frozen {
            let _ = run(command("fsfreeze", &["-u"]).arg(self.mount_point()));
        }
        if self.is_mounted() && self.unmount().is_err() {
            // Gone by name at least, and wholly with the last file that is open there.
            let _ = run(command("umount", &["-l"]).arg(self.mount_point()));
        }
    }
}

/// Where the first bytes of a file lie on its device.
pub(crate) fn place_of(file: &Path) -> u64 {
    let map = command("filefrag", &["-e", "-b4096"]).arg(file).output().unwrap();
    let map = String::from_utf8(map.stdout).unwrap();
    // "   0:        0..     255:       2560..      2815:    256: ..."
    let first = map.lines().find_map(|line| line.trim_start().strip_prefix("0:")).expect(&map);
    let start = first.split(':').nth(1).unwrap().split("..").next().unwrap().trim();
    4096 * start.parse::<u64>().unwrap()
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim_end())))
}
