//! The directory that the data lives in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Empty when made; emptied again when dropped, and removed if it was not there before.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    made: bool,
    keep: bool,
}

impl Place {
    pub(crate) fn new(path: &Path, keep: bool) -> Result<Self, Failure> {
        let fail = Failure::of_file(path);
        let made = match fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(fail(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "not empty")));
                }
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path).map_err(&fail)?;
                true
            }
            Err(error) => return Err(fail(error)),
        };
        Ok(Self { path: path.to_owned(), made, keep })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes the data of some part of the run.
    pub(crate) fn clear(&self, name: &str) -> Result<(), Failure> {
        let path = self.join(name);
        if self.keep {
            return Ok(());
        }
        remove(&path).map_err(Failure::of_file(&path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Only what the run itself puts there.
        for name in super::DATA {
            let _ = remove(&self.join(name));
        }
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
