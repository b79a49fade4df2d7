//! A segment's runs from its frames, where there is no index cache.

use std::collections::HashMap;

use tidelog_format::{
    Checkpoint, Fault, FrameHeader, Kind, Lsn, Row, SegmentHeader, Source, Step, StreamId, Table, Walk, What,
};

use super::runs::Runs;
use super::source::{FileSource, Flaw};
use crate::state::Link;

/// Goes over all frames up to `end`, where the log knows them to end.
pub(super) fn scan(source: &mut FileSource, header: &SegmentHeader, end: Lsn) -> Result<Runs, Flaw> {
    let mut runs = Runs::default();
    if is_void(header, end) {
        return Ok(runs);
    }
    let mut newest: HashMap<StreamId, u64> = HashMap::new();
    for summary in checkpoint(source, header)?.streams {
        if summary.newest_segment != 0 {
            newest.insert(summary.stream, summary.newest_segment);
        }
    }
    let limit = header.identity.offset(end).unwrap_or(0);
    // All below the end had been acknowledged, or the log would not go on elsewhere.
    let mut walk = Walk::new(header, limit, end);
    let mut rows = Vec::new();
    loop {
        match walk.next(source)? {
            Step::Frame(frame) => {
                rows.clear();
                rows.extend(frame.table.rows());
                let links = follow(&rows, &mut newest, header.identity.sequence);
                runs.add_frame(frame.offset, &rows, &links);
            }
            Step::Torn(fault) | Step::Corrupt(fault) => return Err(fault.into()),
            Step::End { offset } if offset == limit => return Ok(runs),
            Step::End { offset } => {
                return Err(Fault { offset, what: What::Length, expected: limit, actual: offset }.into());
            }
        }
    }
}

/// Whether a segment whose frames end there has none.
pub(super) fn is_void(header: &SegmentHeader, end: Lsn) -> bool {
    end <= header.identity.lsn(header.first_frame())
}

/// The checkpoint that a segment's first frame carries. Nothing behind that frame is looked at:
/// whether a segment without one is void or damaged is for a later segment to say.
pub(super) fn checkpoint(source: &mut FileSource, header: &SegmentHeader) -> Result<Checkpoint, Flaw> {
    let at = header.first_frame();
    let frame = FrameHeader::decode(source.read(at, header.block_size as usize)?, at, header)?;
    let table_at = at + u64::from(frame.table_offset);
    let table = source.read(table_at, frame.table_len() as usize)?;
    let table = Table::parse(table, &frame, &header.identity)?;
    let row = table.checkpoint().ok_or_else(|| Table::no_checkpoint(table_at, table.row(0).as_ref()))?;
    let payload_at = at + u64::from(row.offset);
    let payload = source.read(payload_at, row.length as usize)?;
    row.verify(payload, at)?;
    Ok(Checkpoint::decode(payload, header.identity.seed(), payload_at)?)
}

/// The links that applying these rows gave when they were written. `newest` is what the state
/// held of each stream's newest segment.
fn follow(rows: &[Row], newest: &mut HashMap<StreamId, u64>, sequence: u64) -> Vec<Link> {
    let mut links = Vec::new();
    for row in rows {
        match row.kind {
            Kind::Release => {
                newest.remove(&row.stream);
            }
            Kind::Entry if !row.is_moved() => {
                let previous = newest.insert(row.stream, sequence).unwrap_or(0);
                if previous != sequence {
                    links.push(Link { stream: row.stream, previous });
                }
            }
            _ => {}
        }
    }
    links
}
