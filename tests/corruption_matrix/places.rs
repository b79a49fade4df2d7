//! What lies where in the files.

use std::collections::BTreeSet;
use std::ops::Range;

use tidelog::StreamId;
use tidelog::readonly::Kind;
use tidelog::remote_log::JOURNAL_CLASS;
use tidelog_format::{INDEX_HEADER_LEN, INDEX_ROW_LEN, ROW_LEN, Row, SEGMENT_HEADER_LEN, Table};

use crate::base::{BLOCK, Base, Frame, has_suffix, sequence};
use crate::log::Specimen;

/// A piece of a file that is one structure.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) range: Range<usize>,
    pub(crate) structure: &'static str,
    pub(crate) role: &'static str,
    /// Where an error may say that the damage is: the frame, or what else has a checksum of its own.
    pub(crate) whole: Range<usize>,
}

impl Place {
    /// Whether it is much of the same.
    pub(crate) fn is_bulk(&self) -> bool {
        self.stride(false) > 1
    }

    /// One of so many of its bytes is tried.
    pub(crate) fn stride(&self, full: bool) -> usize {
        match self.structure {
            FILLER | UNUSED | RESERVE if full => 16,
            FILLER | UNUSED | RESERVE | PADDING | BLOCK_REST | INDEX_REST if !full => 509,
            _ => 1,
        }
    }
}

/// A payload longer than this fills a segment, and is not for looking at.
const LONG: u32 = 4096;
const FILLER: &str = "long payload";
const UNUSED: &str = "unused behind the frames";
const RESERVE: &str = "reserve";
const BLOCK_REST: &str = "rest of the header's block";
const INDEX_REST: &str = "rest of the index cache";
const PADDING: &str = "padding in a frame";
const EMPTY_FRAME: &str = "header of an empty frame";

/// Structures that a specimen must have, for the matrix to be one of all.
const ALL: [&str; 22] = [
    "segment header",
    "frame header",
    EMPTY_FRAME,
    "row: entry",
    "row: journal entry",
    "row: obsolete",
    "row: release",
    "row: truncate",
    "row: namespace create",
    "row: namespace delete",
    "row: oldest",
    "row: checkpoint",
    "row: segment end",
    "payload: entry",
    "payload: journal event",
    "payload: journal checkpoint",
    "payload: truncate",
    "payload: checkpoint",
    PADDING,
    "index header",
    "index rows",
    RESERVE,
];

pub(crate) fn assert_complete(specimens: &[Specimen]) {
    for specimen in specimens {
        let name = specimen.base.name;
        let found: BTreeSet<&str> = specimen.places.iter().map(|place| place.structure).collect();
        for structure in ALL {
            assert!(found.contains(structure), "{name} has no {structure}");
        }
        // Each byte of each file has its place.
        for (file, bytes) in &specimen.base.files {
            let mut at = 0;
            for place in specimen.places.iter().filter(|place| place.file == *file) {
                assert_eq!(place.range.start, at, "{file}: {place:?}");
                at = place.range.end;
            }
            assert_eq!(at, bytes.len(), "{file}");
        }
    }
}

pub(crate) fn survey(base: &Base) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, bytes) in &base.files {
        let mut survey = Survey { base, file, bytes, role: "", places: Vec::new() };
        if has_suffix(file, ".log") {
            survey.segment();
        } else if has_suffix(file, ".idx") {
            survey.index();
        } else {
            survey.push(0..bytes.len(), RESERVE, 0..bytes.len());
        }
        survey.places.sort_by_key(|place| place.range.start);
        places.append(&mut survey.places);
    }
    places
}

struct Survey<'a> {
    base: &'a Base,
    file: &'a str,
    bytes: &'a [u8],
    role: &'static str,
    places: Vec<Place>,
}

impl Survey<'_> {
    fn push(&mut self, range: Range<usize>, structure: &'static str, whole: Range<usize>) {
        if !range.is_empty() {
            self.places.push(Place { file: self.file.into(), range, structure, role: self.role, whole });
        }
    }

    fn segment(&mut self) {
        let sequence = sequence(self.file).unwrap();
        let newest = self.base.frames.last().unwrap().sequence;
        self.role = match sequence.cmp(&newest) {
            std::cmp::Ordering::Less => "older",
            std::cmp::Ordering::Equal => "newest",
            std::cmp::Ordering::Greater => "void",
        };
        self.push(0..SEGMENT_HEADER_LEN, "segment header", 0..BLOCK);
        self.push(SEGMENT_HEADER_LEN..BLOCK, BLOCK_REST, 0..BLOCK);
        let mut end = BLOCK;
        for frame in self.base.frames.iter().filter(|frame| frame.sequence == sequence) {
            self.frame(frame);
            end = frame.range().end;
        }
        self.push(end..self.bytes.len(), UNUSED, end..self.bytes.len());
    }

    fn frame(&mut self, frame: &Frame) {
        let (whole, header) = (frame.range(), &frame.header);
        let structure = if header.row_count == 0 { EMPTY_FRAME } else { "frame header" };
        self.push(whole.start..whole.start + 64, structure, whole.clone());
        let start = whole.start + header.table_offset as usize;
        let table = start..start + header.table_len() as usize;
        let identity = &self.base.headers[&frame.sequence].identity;
        let rows: Vec<Row> =
            Table::parse(&self.bytes[table.clone()], header, identity).unwrap().rows().collect();
        let mut written = vec![];
        for (index, row) in rows.iter().enumerate() {
            let at = table.start + index * ROW_LEN;
            self.push(at..at + ROW_LEN, row_name(row), whole.clone());
            let start = whole.start + row.offset as usize;
            let range = start..start + row.length as usize;
            if !range.is_empty() {
                let structure = payload_name(row, self.bytes[start]);
                self.push(range.clone(), structure, whole.clone());
                written.push(range);
            }
        }
        written.push(table);
        written.sort_by_key(|range| range.start);
        let mut at = whole.start + 64;
        for range in written {
            self.push(at..range.start, PADDING, whole.clone());
            at = range.end;
        }
        self.push(at..whole.end, PADDING, whole.clone());
    }

    fn index(&mut self) {
        let whole = 0..self.bytes.len();
        let rows = u32::from_le_bytes(self.bytes[12..16].try_into().unwrap()) as usize;
        let end = INDEX_HEADER_LEN + rows * INDEX_ROW_LEN;
        self.push(0..INDEX_HEADER_LEN, "index header", whole.clone());
        self.push(INDEX_HEADER_LEN..end, "index rows", whole.clone());
        self.push(end..whole.end, INDEX_REST, whole.clone());
    }
}

fn row_name(row: &Row) -> &'static str {
    match row.kind {
        Kind::Entry if is_of_journal(row.stream) => "row: journal entry",
        Kind::Entry => "row: entry",
        Kind::Obsolete => "row: obsolete",
        Kind::Release => "row: release",
        Kind::Truncate => "row: truncate",
        Kind::NamespaceCreate => "row: namespace create",
        Kind::NamespaceDelete => "row: namespace delete",
        Kind::Oldest => "row: oldest",
        Kind::Checkpoint => "row: checkpoint",
        Kind::SegmentEnd => "row: segment end",
    }
}

fn is_of_journal(stream: StreamId) -> bool {
    stream.class == JOURNAL_CLASS
}

fn payload_name(row: &Row, first: u8) -> &'static str {
    match row.kind {
        Kind::Entry if is_of_journal(row.stream) && first == 0 => "payload: journal checkpoint",
        Kind::Entry if is_of_journal(row.stream) => "payload: journal event",
        Kind::Entry if row.length > LONG => FILLER,
        Kind::Entry => "payload: entry",
        Kind::Truncate => "payload: truncate",
        _ => "payload: checkpoint",
    }
}
