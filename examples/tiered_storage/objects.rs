//! The directory that plays the object store. An object appears whole; what a killed upload leaves
//! has a name of its own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidelog::remote_log::RemoteLogSegmentMetadata;

use crate::crash::Crash;

const UPLOAD: &str = ".upload";

pub(crate) struct Objects {
    dir: PathBuf,
}

/// The name of a segment's object.
pub(crate) fn key(segment: &RemoteLogSegmentMetadata) -> String {
    let id = segment.remote_log_segment_id();
    format!("{}-{:020}-{}", id.topic_id_partition.partition, segment.start_offset(), id.id)
}

/// Whether this is a part of an object whose upload did not end; then its name.
pub(crate) fn upload_of(name: &str) -> Option<&str> {
    name.strip_suffix(UPLOAD)
}

impl Objects {
    pub(crate) fn new(dir: &Path) -> anyhow::Result<Self> {
        let dir = dir.join("objects");
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    pub(crate) fn put(&self, key: &str, bytes: &[u8], crash: &Crash) -> io::Result<()> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let mut upload = self.begin(key, first)?;
        crash.point();
        upload.write_all(second)?;
        crash.point();
        fs::rename(self.upload(key), self.dir.join(key))
    }

    /// Begins an upload.
    pub(crate) fn begin(&self, key: &str, bytes: &[u8]) -> io::Result<File> {
        let mut upload = File::create(self.upload(key))?;
        upload.write_all(bytes)?;
        Ok(upload)
    }

    pub(crate) fn get(&self, key: &str) -> anyhow::Result<Vec<u8>> {
        fs::read(self.dir.join(key)).with_context(|| format!("object {key} cannot be read"))
    }

    /// Removes an object, whole or not, or neither.
    pub(crate) fn delete(&self, key: &str) -> io::Result<()> {
        for path in [self.dir.join(key), self.upload(key)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn list(&self) -> anyhow::Result<BTreeSet<String>> {
        let names =
            fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn upload(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}{UPLOAD}"))
    }
}
