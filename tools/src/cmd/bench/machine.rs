//! The machine that the figures are of.

use std::fs;
use std::path::Path;
use std::thread;

/// What can be told; empty where it cannot.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) arch: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) file_system: String,
    pub(crate) mount_options: String,
    pub(crate) device: String,
}

impl Machine {
    /// The one that this runs on, with the file system that holds the directory.
    pub(crate) fn here(dir: &Path) -> Self {
        let name = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let mount = fs::read_to_string("/proc/self/mountinfo").ok().and_then(|mounts| {
            let dir = fs::canonicalize(dir).ok()?;
            Mount::of(&mounts, &dir)
        });
        let mount = mount.unwrap_or_default();
        Self {
            kernel: text(name.release()),
            arch: text(name.machine()),
            processor: field("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal")
                .trim_end_matches(" kB")
                .parse::<u64>()
                .map_or(0, |kib| kib * 1024),
            file_system: mount.kind,
            mount_options: mount.options,
            device: mount.device,
        }
    }
}

/// The value behind the first such name and a colon.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Mount {
    kind: String,
    options: String,
    device: String,
}

impl Mount {
    /// The last one of those that lie deepest on the way to the directory, by lines as of proc(5).
    fn of(mounts: &str, dir: &Path) -> Option<Self> {
        let parse = |line: &str| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let mut right = right.split(' ');
            let point = left.get(4)?.replace("\\040", " ");
            let mount = Self {
                kind: right.next()?.to_owned(),
                device: right.next()?.to_owned(),
                options: (*left.get(5)?).to_owned(),
            };
            dir.starts_with(&point).then_some((point.len(), mount))
        };
        mounts.lines().filter_map(parse).max_by_key(|(depth, _)| *depth).map(|(_, mount)| mount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:30 / /tm rw - xfs /dev/x rw\n\
                      31 22 0:31 / /tmp rw,nosuid - tmpfs none rw\nnonsense\n";
        let kind = |dir: &str| Mount::of(mounts, Path::new(dir)).unwrap().kind;
        assert_eq!(
            (kind("/tmp/a").as_str(), kind("/home").as_str(), kind("/tm").as_str()),
            ("tmpfs", "ext4", "xfs")
        );
        assert_eq!(Mount::of(mounts, Path::new("/tmp")).unwrap().options, "rw,nosuid");
        assert_eq!(Mount::of("", Path::new("/")), None);
    }
}
