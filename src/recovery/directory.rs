//! What lies in the log's directory. Names are matched strictly; all else is left alone.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use tidelog_format::{LogId, SEGMENT_HEADER_LEN, SegmentHeader};

use crate::error::{Error, Result};
use crate::io::{Access, Disk, DiskFile, FileKind, Listing};
use crate::segment::{Name, name};

/// The log's files by kind.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Length by sequence.
    pub(crate) segments: BTreeMap<u64, u64>,
    pub(crate) indexes: Vec<u64>,
    /// Size by number.
    pub(crate) spares: BTreeMap<u64, u64>,
    /// Files of retired segments, by number: their sizes.
    pub(crate) free: BTreeMap<u64, u64>,
    pub(crate) temporaries: Vec<String>,
    pub(crate) strangers: Vec<PathBuf>,
}

impl Directory {
    pub(crate) fn list(disk: &dyn Disk) -> Result<Self> {
        let mut directory = Self::default();
        let listing = disk.list().map_err(|error| Error::io("list", disk.path(), error))?;
        for Listing { name, kind, len } in listing {
            let path = disk.path().join(&name);
            let Some(own) = Name::parse(&name) else {
                directory.strangers.push(path);
                continue;
            };
            if kind != FileKind::Regular {
                let reason = format!("{} is not a regular file", path.display());
                return Err(Error::NotALog { path: disk.path().into(), reason });
            }
            match own {
                Name::Segment(sequence) => {
                    directory.segments.insert(sequence, len);
                }
                Name::Index(sequence) => directory.indexes.push(sequence),
                Name::Spare(number) => {
                    directory.spares.insert(number, len);
                }
                Name::Free(number) => {
                    directory.free.insert(number, len);
                }
                Name::Temporary => directory.temporaries.push(name.to_string_lossy().into_owned()),
            }
        }
        directory.strangers.sort();
        Ok(directory)
    }

    /// Whether there is nothing but what a file system puts into its root.
    pub(crate) fn is_empty(&self) -> bool {
        let strange = self.strangers.iter().any(|path| !path.ends_with("lost+found"));
        !self.has_own() && !strange
    }

    /// Whether there is a file that only a log makes. Index caches come and go with their segments.
    pub(crate) fn has_own(&self) -> bool {
        !(self.segments.is_empty() && self.spares.is_empty() && self.free.is_empty())
    }
}

/// Opens a segment's file for reading.
pub(crate) fn open(disk: &dyn Disk, sequence: u64) -> Result<std::sync::Arc<dyn DiskFile>> {
    let name = name::segment(sequence);
    let path = disk.path().join(&name);
    disk.open(&name, Access::Read).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::missing(path, "segment file"),
        _ => Error::io("open", path, error),
    })
}

/// Reads and checks a segment's header. Past the cache, if the cache shows a bad one.
pub(crate) fn header(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    sequence: u64,
    log_id: Option<LogId>,
) -> Result<SegmentHeader> {
    let path = disk.path().join(name::segment(sequence));
    let read = |cached: bool| {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        let read = if cached { file.read_at(0, &mut bytes) } else { file.read_uncached(0, &mut bytes) };
        let len = read.map_err(|error| Error::io("read", &path, error))?;
        SegmentHeader::decode(&bytes[..len]).map_err(|error| Error::header(&path, error))
    };
    let header = read(true).or_else(|_| read(false))?;
    let found = header.identity;
    if let Some(expected) = log_id
        && found.log_id != expected
    {
        let (expected, found) = (expected.to_string(), found.log_id.to_string());
        return Err(Error::ForeignLog { file: path, expected, found });
    }
    if found.sequence != sequence {
        return Err(Error::mismatch(path, 40, "sequence", sequence, found.sequence));
    }
    let len = file.len().map_err(|error| Error::io("stat", &path, error))?;
    if len < header.file_size {
        return Err(Error::mismatch(path, len, "length of the file", header.file_size, len));
    }
    Ok(header)
}
