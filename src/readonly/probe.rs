//! Looking at one file: what its header, its first frame and its end say.

use std::io;
use std::sync::Arc;

use tidelog_format::{
    Checkpoint, CheckpointHead, Fault, FrameHeader, HeaderError, Kind, Lsn, Row, SEGMENT_HEADER_LEN,
    SegmentHeader, Source, Step, Table, Walk,
};

use crate::io::DiskFile;
use crate::segment::FileSource;

/// What a segment starts with.
#[derive(Clone, Copy, Debug)]
pub(super) enum First {
    Checkpoint(CheckpointHead),
    /// Nothing, or what nobody can have relied on. A header in it may still vouch for what lies below.
    Void {
        proven: Lsn,
    },
    /// Frames that had been acknowledged, behind a checkpoint that cannot be read.
    Damaged,
}

/// Reads a file's header; of one that is bad, what the device holds.
pub(super) fn header(file: &Arc<dyn DiskFile>) -> io::Result<Result<SegmentHeader, HeaderError>> {
    let cached = SegmentHeader::decode(FileSource::cached(file)?.read(0, SEGMENT_HEADER_LEN)?);
    if cached.is_ok() {
        return Ok(cached);
    }
    Ok(SegmentHeader::decode(FileSource::uncached(file)?.read(0, SEGMENT_HEADER_LEN)?))
}

/// Reads a segment's checkpoint, or tells why there is none.
pub(super) fn first(file: &Arc<dyn DiskFile>, header: &SegmentHeader) -> io::Result<First> {
    match first_in(&mut FileSource::cached(file)?, header)? {
        good @ First::Checkpoint(_) => Ok(good),
        _ => first_in(&mut FileSource::uncached(file)?, header),
    }
}

fn first_in(source: &mut FileSource, header: &SegmentHeader) -> io::Result<First> {
    let mut walk = Walk::new(header, header.file_size, Lsn::ZERO);
    let (offset, row) = match walk.next(source)? {
        Step::Frame(frame) => (frame.offset, frame.table.checkpoint()),
        Step::Torn(_) | Step::End { .. } => return Ok(First::Void { proven: walk.highest_watermark() }),
        Step::Corrupt(_) => return Ok(First::Damaged),
    };
    if let Some(row) = row
        && let Ok(head) = checkpoint(
            source.read(offset + u64::from(row.offset), row.length as usize)?,
            &row,
            offset,
            header,
        )
    {
        return Ok(First::Checkpoint(head));
    }
    let proven = survey(source, header)?.watermark;
    Ok(if proven > header.identity.lsn(offset) { First::Damaged } else { First::Void { proven } })
}

/// The head of a checkpoint, all of which is verified.
pub(super) fn checkpoint(
    payload: &[u8],
    row: &Row,
    frame: u64,
    header: &SegmentHeader,
) -> Result<CheckpointHead, Fault> {
    let at = frame.saturating_add(u64::from(row.offset));
    row.verify(payload, frame)?;
    Checkpoint::decode(payload, header.identity.seed(), at)?;
    CheckpointHead::decode(payload, at)
}

/// What all frames of a segment say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// Where in the file they end.
    pub(super) end: u64,
    /// The successor that the closing frame names.
    pub(super) closed: Option<u64>,
    /// The oldest live segment that they name; 0 where they name none.
    pub(super) oldest: u64,
    /// All below is known to have been durable.
    pub(super) watermark: Lsn,
    /// The frames that nothing vouches for: where each starts and ends, and its rows.
    open: Vec<(u64, u64, Vec<Row>)>,
}

/// Goes over the headers and tables of a segment, damage or not.
pub(super) fn survey(source: &mut FileSource, header: &SegmentHeader) -> io::Result<Survey> {
    let mut walk = Walk::new(header, header.file_size, Lsn::ZERO);
    let mut survey = Survey { end: walk.offset(), ..Survey::default() };
    loop {
        let found = match walk.next(source)? {
            Step::Frame(frame) => Some((frame.offset, frame.end(), frame.table.rows().collect())),
            Step::Corrupt(_) => None,
            Step::Torn(_) | Step::End { .. } => break,
        };
        let go_on = found.is_some() || walk.resume_after_damage(source)?.is_some();
        survey.take(found, walk.highest_watermark(), header);
        if !go_on {
            break;
        }
    }
    survey.closed = walk.closed();
    Ok(survey)
}

impl Survey {
    /// Takes in a frame, and counts those that the watermark has reached.
    fn take(&mut self, frame: Option<(u64, u64, Vec<Row>)>, watermark: Lsn, header: &SegmentHeader) {
        self.open.extend(frame);
        self.watermark = watermark;
        let covered =
            self.open.iter().take_while(|(_, end, _)| header.identity.lsn(*end) <= watermark).count();
        for (_, end, rows) in self.open.drain(..covered).collect::<Vec<_>>() {
            self.count(end, &rows);
        }
    }

    fn count(&mut self, end: u64, rows: &[Row]) {
        self.end = end;
        let oldest = rows.iter().filter(|row| row.kind == Kind::Oldest).map(|row| row.entry_id);
        self.oldest = oldest.fold(self.oldest, u64::max);
    }

    /// Counts the frames that nothing vouches for, up to the first one with a bad payload: there the log ends. True
    /// where there is one.
    pub(super) fn finish(&mut self, source: &mut FileSource) -> io::Result<bool> {
        for (start, end, rows) in std::mem::take(&mut self.open) {
            for row in &rows {
                let payload = source.read(start + u64::from(row.offset), row.length as usize)?;
                if row.verify(payload, start).is_err() {
                    self.closed = None;
                    return Ok(true);
                }
            }
            self.count(end, &rows);
        }
        Ok(false)
    }
}

/// Whether the frames that end at `end` end with a closing one.
pub(super) fn is_closed(file: &Arc<dyn DiskFile>, header: &SegmentHeader, end: Lsn) -> io::Result<bool> {
    let block = header.block_size as usize;
    let Some(offset) = header.identity.offset(end).and_then(|end| end.checked_sub(block as u64)) else {
        return Ok(false);
    };
    let mut source = FileSource::cached(file)?;
    let block = source.read(offset, block)?;
    let Ok(frame) = FrameHeader::decode(block, offset, header) else { return Ok(false) };
    let start = frame.table_offset as usize;
    let table =
        block.get(start..).and_then(|rest| rest.get(..frame.table_len() as usize)).unwrap_or_default();
    let table = Table::parse(table, &frame, &header.identity);
    Ok(table.is_ok_and(|table| table.segment_end().is_some()))
}
