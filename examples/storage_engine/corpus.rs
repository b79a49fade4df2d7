//! The lines that are appended.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, ensure};
use walkdir::{DirEntry, WalkDir};

/// Lines of any bytes, without what separates them.
#[derive(Debug)]
pub(crate) struct Corpus {
    text: Vec<u8>,
    lines: Vec<Range<usize>>,
}

impl Corpus {
    pub(crate) fn new(mut text: Vec<u8>) -> anyhow::Result<Self> {
        if text.last() == Some(&b'\n') {
            text.pop();
        } else {
            ensure!(!text.is_empty(), "there are no lines to append");
        }
        let mut start = 0;
        let lines = text
            .split(|byte| *byte == b'\n')
            .map(|line| {
                let line = start..start + line.len();
                start = line.end + 1;
                line
            })
            .collect();
        Ok(Self { text, lines })
    }

    /// The lines of the files, or of the checkout's text files where none are named.
    pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut text = Vec::new();
        for file in files {
            let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            add(&mut text, &bytes);
        }
        if files.is_empty() {
            read_checkout(Path::new(env!("CARGO_MANIFEST_DIR")), &mut text)?;
        }
        Self::new(text)
    }

    /// What [`Corpus::new`] makes the same lines of.
    pub(crate) fn write_to(&self, mut to: impl io::Write) -> io::Result<()> {
        to.write_all(&self.text)?;
        to.write_all(b"\n")
    }

    pub(crate) fn len(&self) -> u64 {
        self.lines.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.len() as u64).sum()
    }

    /// The line at `index`, over and over.
    pub(crate) fn line(&self, index: u64) -> &[u8] {
        &self.text[self.lines[(index % self.len()) as usize].clone()]
    }
}

fn add(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend_from_slice(bytes);
    if bytes.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
}

fn read_checkout(root: &Path, text: &mut Vec<u8>) -> anyhow::Result<()> {
    let kept = |entry: &DirEntry| {
        let name = entry.file_name();
        name != OsStr::new("target") && (entry.depth() == 0 || !name.as_encoded_bytes().starts_with(b"."))
    };
    for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(kept) {
        let entry = entry.context("cannot list the checkout")?;
        if entry.file_type().is_file() {
            let bytes =
                fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            if std::str::from_utf8(&bytes).is_ok() {
                add(text, &bytes);
            }
        }
    }
    Ok(())
}
