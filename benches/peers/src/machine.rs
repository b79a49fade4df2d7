//! What the machine tells about this process and the device.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};

/// Counters that only grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    /// Seconds of processor time of the process.
    pub(crate) cpu: f64,
    /// Bytes that the process had written to the device.
    pub(crate) written: u64,
    /// Flushes that the device was asked for, by whomever; `None` where the kernel does not tell.
    pub(crate) flushes: Option<u64>,
}

impl Counters {
    pub(crate) fn now(dir: &Path) -> Result<Self> {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        let io = fs::read_to_string("/proc/self/io")?;
        let written =
            io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).context("no write_bytes")?;
        Ok(Self {
            cpu: now.tv_sec as f64 + now.tv_nsec as f64 / 1e9,
            written: written.parse()?,
            flushes: device_flushes(dir),
        })
    }
}

/// The sixteenth field of the device's statistics. Those of a partition are its disk's.
fn device_flushes(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mut block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
    if block.join("partition").exists() {
        block.pop();
    }
    fs::read_to_string(block.join("stat")).ok()?.split_whitespace().nth(15)?.parse().ok()
}

/// Bytes of anonymous memory that the process has touched and still holds.
pub(crate) fn anonymous() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Bytes on disk and bytes of length, of all files below the directory.
pub(crate) fn disk_use(dir: &Path) -> Result<(u64, u64)> {
    let mut total = (0, 0);
    each_file(dir, &mut |path| {
        // It may have gone meanwhile.
        if let Ok(metadata) = fs::metadata(path) {
            total = (total.0 + metadata.blocks() * 512, total.1 + metadata.len());
        }
        Ok(())
    })?;
    Ok(total)
}

/// Lets the page cache hold all files below the directory, or nothing of them.
pub(crate) fn set_cache(dir: &Path, cold: bool) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    each_file(dir, &mut |path| {
        let mut file = match File::open(path) {
            // What is made in the background may go at once.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        file.sync_all()?;
        if cold {
            fadvise(&file, 0, None, Advice::DontNeed)?;
        } else {
            while file.read(&mut buffer)? > 0 {}
        }
        Ok(())
    })
}

fn each_file(dir: &Path, each: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, each)?;
        } else {
            each(&path)?;
        }
    }
    Ok(())
}
