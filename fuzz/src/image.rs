//! A directory in few bytes: of each file the name, the length, and the pieces that are not zero.
//!
//! | bytes | of each file |
//! |---|---|
//! | 1 | kind: an index into [`SUFFIXES`], modulo their number |
//! | 1 | sequence; 255 stands for the highest there is |
//! | 3 | length |
//! | 1 | number of pieces |
//! | | of each piece: offset (3), length (2), bytes |
//!
//! What ends early is as if the rest were not there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tidelog_format::SegmentHeader;

use super::checksums::{fit_frames, fit_index, fit_segment_header};
use super::{is_set, split};

const SUFFIXES: [&str; 6] = [".log", ".idx", ".spare", ".log.new", ".spare.new", ".tmp"];
/// Longest file, and most files: what is looked at in one run is to take little room and time.
const LEN_MAX: usize = 192 << 10;
const FILES_MAX: usize = 8;
/// Zeros in between that are cheaper to write than a piece's head.
const GAP: usize = 16;

/// File names with their bytes.
type Files = BTreeMap<String, Vec<u8>>;

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len.min(self.0.len()))?;
        self.0 = rest;
        (!taken.is_empty() || len == 0).then_some(taken)
    }

    fn number(&mut self, width: usize) -> Option<usize> {
        let bytes = self.take(width)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
}

/// The files that these bytes stand for; the choice says which checksums are made to fit.
fn unpack(choice: u8, bytes: &[u8]) -> Files {
    let mut bytes = Bytes(bytes);
    let mut files = Files::new();
    while files.len() < FILES_MAX
        && let Some((name, file)) = unpack_file(&mut bytes)
    {
        files.insert(name, file);
    }
    fit(choice, &mut files);
    files
}

fn unpack_file(bytes: &mut Bytes<'_>) -> Option<(String, Vec<u8>)> {
    let (kind, sequence) = (bytes.number(1)?, bytes.number(1)?);
    let number = if sequence == 255 { u64::MAX } else { sequence as u64 };
    let name = format!("{number:020}{}", SUFFIXES[kind % SUFFIXES.len()]);
    let mut file = vec![0; bytes.number(3)?.min(LEN_MAX)];
    for _ in 0..bytes.number(1)? {
        let (Some(offset), Some(len)) = (bytes.number(3), bytes.number(2)) else { break };
        let Some(piece) = bytes.take(len) else { break };
        if let Some(place) = file.get_mut(offset..offset + piece.len()) {
            place.copy_from_slice(piece);
        }
    }
    Some((name, file))
}

fn fit(choice: u8, files: &mut Files) {
    let mut headers = BTreeMap::new();
    for (name, file) in files.iter_mut() {
        let Some(number) = name.strip_suffix(".log") else { continue };
        if is_set(choice, 0) {
            fit_segment_header(file);
        }
        let Ok(header) = SegmentHeader::decode(file) else { continue };
        if is_set(choice, 1) {
            fit_frames(file, &header);
        }
        headers.insert(format!("{number}.idx"), header);
    }
    for (name, file) in files {
        if is_set(choice, 2)
            && let Some(header) = headers.get(name)
        {
            fit_index(file, header.identity.seed());
        }
    }
}

/// Writes the files into a new directory.
fn lay_out(files: &Files) -> tempfile::TempDir {
    // In memory where that can be: no flush of a real disk is what is tested.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for (name, bytes) in files {
        fs::write(home.path().join(name), bytes).unwrap();
    }
    home
}

/// The bytes that stand for the log in a directory, behind the choice of what is done to it; strangers are left out.
///
/// # Panics
///
/// If a file cannot be read, or is longer or of a higher number than these bytes can say.
pub fn pack(choice: u8, dir: &Path) -> Vec<u8> {
    let mut out = vec![choice];
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some((number, suffix)) = name.split_at_checked(20) else { continue };
        let Some(kind) = SUFFIXES.iter().position(|other| *other == suffix) else { continue };
        let file = fs::read(&path).unwrap();
        assert!(file.len() <= LEN_MAX, "{name} is too long");
        let number: u64 = number.parse().unwrap();
        out.extend([kind as u8, if number == u64::MAX { 255 } else { u8::try_from(number).unwrap() }]);
        out.extend(&file.len().to_le_bytes()[..3]);
        // Of a reserve nobody reads the bytes.
        let pieces = if suffix == ".spare" { Vec::new() } else { pieces(&file) };
        out.push(u8::try_from(pieces.len()).unwrap());
        for piece in pieces {
            out.extend(&piece.start.to_le_bytes()[..3]);
            out.extend(&piece.len().to_le_bytes()[..2]);
            out.extend(&file[piece]);
        }
    }
    out
}

/// Where a file is not zero, but for short gaps.
fn pieces(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pieces: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..file.len()).filter(|at| file[*at] != 0) {
        match pieces.last_mut() {
            Some(last) if at - last.end <= GAP && at - last.start < usize::from(u16::MAX) => {
                last.end = at + 1;
            }
            _ => pieces.push(at..at + 1),
        }
    }
    pieces
}

/// The directory that an input stands for.
///
/// # Panics
///
/// If it cannot be made.
pub fn unpack_to_directory(input: &[u8]) -> tempfile::TempDir {
    let (choice, bytes) = split(input);
    lay_out(&unpack(choice, bytes))
}
