//! Looking at a log without touching it: no lock, no change, no map.
//!
//! A [`ReadOnlyLog`] reads the files as they are, while another process may be writing them, and also where damage
//! keeps [`Log::open`](crate::Log::open) from opening them. It shows all records as they lie in the log, those too that
//! are obsolete, truncated or released since.
//!
//! ```no_run
//! use tidelog::readonly::{Item, ReadOnlyLog};
//!
//! # fn main() -> tidelog::Result<()> {
//! for item in ReadOnlyLog::open("/var/lib/engine/wal")?.items() {
//!     match item? {
//!         Item::Record(record) => println!("{} {}", record.row.stream, record.row.entry_id),
//!         Item::Damage(damage) => eprintln!("{damage}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod cursor;
mod directory;
mod item;
mod items;
mod live;
mod probe;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use tidelog_format::{CheckpointHead, FrameHeader, Kind, LogId, Row, RowFlags, SegmentHeader};

use self::directory::Directory;
pub use self::item::{Frame, Item, Payload, Record, SegmentInfo, SegmentState};
pub use self::items::Items;
use crate::error::{Corruption, Error, Result};
use crate::io::{DirOptions, Disk, RealDisk};

/// A log that is only looked at, as it was when it was opened; what is appended to its newest segment since shows too.
#[derive(Clone, Debug)]
pub struct ReadOnlyLog {
    disk: Arc<dyn Disk>,
    directory: Arc<Directory>,
}

impl ReadOnlyLog {
    /// Looks at the log in a directory, also on a network file system. Damage is not an error here:
    /// [`ReadOnlyLog::items`] gives it with all the rest.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let options = DirOptions { create: false, allow_network_fs: true, direct: true, lock: false };
        let disk = RealDisk::open(path, options).map_err(|error| Error::io("open", path, error))?;
        let directory = directory::settle(&disk)?;
        Ok(Self { disk: Arc::new(disk), directory: Arc::new(directory) })
    }

    /// The log's directory.
    pub fn path(&self) -> &Path {
        self.disk.path()
    }

    /// The log's identity, unless no header is readable.
    pub fn log_id(&self) -> Option<LogId> {
        self.directory.log_id
    }

    /// The oldest live segment.
    pub fn oldest(&self) -> u64 {
        self.directory.oldest
    }

    /// The segment files, by number.
    pub fn segments(&self) -> &[SegmentInfo] {
        &self.directory.segments
    }

    /// What is wrong with whole files: those that are missing, cut off, of another log, or have a damaged header.
    /// [`ReadOnlyLog::items`] gives these too.
    pub fn damaged_files(&self) -> impl Iterator<Item = &Corruption> {
        self.directory.damage.iter().map(|(_, damage)| damage)
    }

    /// Everything in the log, in the order of LSNs, with all payloads verified.
    pub fn items(&self) -> Items {
        Items::new(self)
    }
}
