//! A log's content, read from its files by their format alone: no code of the engine's is asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tidelog_format::{Checkpoint, Lsn, Record, SegmentHeader, Step, Walk};

use super::content::{Content, Stream};

/// The segment files, by their sequence.
pub(crate) fn segments(dir: &Path) -> BTreeMap<u64, PathBuf> {
    let segment = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
        Some((name.parse().ok()?, path))
    };
    fs::read_dir(dir).unwrap().filter_map(|entry| segment(entry.unwrap().path())).collect()
}

struct Frame {
    lsn: Lsn,
    end: Lsn,
    /// Rows and their payloads, in the table's order.
    rows: Vec<(tidelog_format::Row, Bytes)>,
    offset: u64,
}

struct SegmentFrames {
    header: SegmentHeader,
    frames: Vec<Frame>,
    checkpoint: Checkpoint,
}

/// The frames of one file whose payloads are sound; `None` where there is not one.
fn read_segment(path: &Path) -> Result<Option<SegmentFrames>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let header = SegmentHeader::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut walk = Walk::new(&header, bytes.len() as u64, Lsn(0));
    let mut source = bytes.as_slice();
    let (mut frames, mut checkpoint) = (Vec::new(), None);
    'walk: loop {
        match walk.next(&mut source).map_err(|error| format!("{error:?}"))? {
            Step::Frame(frame) => {
                let mut rows = Vec::new();
                for row in frame.table.rows() {
                    let start = (frame.offset + u64::from(row.offset)) as usize;
                    let payload = &bytes[start..start + row.length as usize];
                    match Record::decode(&row, payload, frame.offset) {
                        Ok(Record::Checkpoint(payload)) => {
                            let found = Checkpoint::decode(payload, header.identity.seed(), frame.offset);
                            checkpoint = Some(found.map_err(|fault| format!("{}: {fault}", path.display()))?);
                        }
                        Ok(_) => {}
                        Err(_) => break 'walk,
                    }
                    rows.push((row, Bytes::copy_from_slice(payload)));
                }
                frames.push(Frame {
                    lsn: frame.header.lsn,
                    end: frame.header.end(),
                    rows,
                    offset: frame.offset,
                });
            }
            Step::Corrupt(fault) => return Err(format!("{}: {fault}", path.display())),
            Step::Torn(_) | Step::End { .. } => break,
        }
    }
    match (frames.is_empty(), checkpoint) {
        (true, _) => Ok(None),
        (false, Some(checkpoint)) => Ok(Some(SegmentFrames { header, frames, checkpoint })),
        (false, None) => Err(format!("{} does not begin with a checkpoint", path.display())),
    }
}

/// Everything that is live, and whatever about the files is not as it should be as an error. Nobody may be
/// writing. Each checkpoint is compared with what the frames before it come to.
pub(crate) fn read(dir: &Path) -> Result<Content, String> {
    let mut segments_read = Vec::new();
    for (sequence, path) in segments(dir) {
        if let Some(segment) = read_segment(&path)? {
            if segment.header.identity.sequence != sequence {
                return Err(format!("{} has the sequence of another", path.display()));
            }
            segments_read.push(segment);
        }
    }
    // A checkpoint says where the frames before it end: what lies behind was cut off as torn.
    let ends: BTreeMap<u64, Lsn> =
        segments_read.iter().filter_map(|segment| segment.checkpoint.previous).collect();
    let last = segments_read.last().map(|segment| segment.header.identity.sequence);
    let mut content: Option<Content> = None;
    for segment in &segments_read {
        let sequence = segment.header.identity.sequence;
        let end = match ends.get(&sequence) {
            Some(end) => *end,
            None if last == Some(sequence) => Lsn(u64::MAX),
            // Void: it begins with a frame that was cut off.
            None => continue,
        };
        match &content {
            None => content = Some(from_checkpoint(&segment.checkpoint)),
            Some(content) => compare(content, &segment.checkpoint, sequence)?,
        }
        for frame in segment.frames.iter().take_while(|frame| frame.lsn < end) {
            if frame.end > end {
                return Err(format!("segment {sequence}: a frame spans the end at {end:?}"));
            }
            apply(content.get_or_insert_default(), frame)?;
        }
    }
    let mut content = content.unwrap_or_default();
    content.forget_unknown();
    Ok(content)
}

/// Before the oldest file nothing is live; marks and last ids are known from its checkpoint alone.
fn from_checkpoint(checkpoint: &Checkpoint) -> Content {
    let stream = |summary: &tidelog_format::StreamSummary| {
        let stream = Stream { last: summary.last, mark: summary.mark, ..Stream::default() };
        (summary.stream, stream)
    };
    Content {
        streams: checkpoint.streams.iter().map(stream).collect(),
        namespaces: checkpoint.namespaces.iter().copied().collect(),
    }
}

fn compare(content: &Content, checkpoint: &Checkpoint, sequence: u64) -> Result<(), String> {
    let mut known = content.clone();
    known.forget_unknown();
    for summary in &checkpoint.streams {
        let stream = known.streams.remove(&summary.stream).unwrap_or_default();
        let good = (summary.last, summary.mark) == (stream.last, stream.mark)
            && stream.first().is_none_or(|first| summary.first.is_some_and(|bound| bound <= first));
        if !good {
            return Err(format!("the checkpoint of segment {sequence} says {summary:?}, not {stream:?}"));
        }
    }
    if let Some((stream, lost)) = known.streams.first_key_value() {
        return Err(format!("the checkpoint of segment {sequence} leaves out {stream}: {lost:?}"));
    }
    if !checkpoint.namespaces.iter().eq(&content.namespaces) {
        let (found, expected) = (&checkpoint.namespaces, &content.namespaces);
        return Err(format!("the checkpoint of segment {sequence} lists {found:?}, not {expected:?}"));
    }
    Ok(())
}

fn apply(content: &mut Content, frame: &Frame) -> Result<(), String> {
    for (row, payload) in &frame.rows {
        let record = Record::decode(row, payload, frame.offset).map_err(|fault| fault.to_string())?;
        match record {
            Record::Entry { stream: name, id, moved, .. } => {
                let stream = content.streams.entry(name).or_default();
                if stream.mark >= Some(id) {
                    continue;
                }
                let before = stream.entries.insert(id, payload.clone());
                let sound = before.is_none_or(|before| moved && before == *payload);
                if !sound {
                    return Err(format!("entry {id} of {name} is there twice, again at {:?}", frame.lsn));
                }
                if !moved {
                    stream.last = stream.last.max(Some(id));
                }
            }
            Record::Obsolete { stream, id } => {
                let stream = content.streams.entry(stream).or_default();
                stream.obsolete(id);
                stream.last = stream.last.max(Some(id));
            }
            Record::Release { stream } => {
                content.streams.remove(&stream);
            }
            Record::Truncate { stream, from, last } => {
                let stream = content.streams.entry(stream).or_default();
                stream.truncate(from);
                stream.last = last;
            }
            Record::NamespaceCreate { stream } => {
                content.namespaces.insert(stream);
            }
            Record::NamespaceDelete { stream } => {
                content.namespaces.remove(&stream);
            }
            Record::Oldest { .. } | Record::Checkpoint(_) | Record::SegmentEnd { .. } => {}
        }
    }
    Ok(())
}

/// Where the frames of a segment lie in its file, and their rows.
pub(crate) fn frames(path: &Path) -> Vec<(std::ops::Range<u64>, Vec<tidelog_format::Row>)> {
    let segment = read_segment(path).unwrap().unwrap();
    let place = |frame: Frame| {
        let end = frame.offset + (frame.end.0 - frame.lsn.0);
        (frame.offset..end, frame.rows.into_iter().map(|(row, _)| row).collect())
    };
    segment.frames.into_iter().map(place).collect()
}
