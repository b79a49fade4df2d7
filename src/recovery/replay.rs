//! The newest segment: its checkpoint, the frames behind it, and where they end.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tidelog_format::{
    Checkpoint, Frame, FrameHeader, Lsn, Record, Row, SegmentHeader, Source, Step, Table, Walk,
    verify_payloads,
};

use super::report::{RecoveryReport, TornTail};
use crate::error::{Error, Result};
use crate::io::DiskFile;
use crate::planted::{Planted, planted};
use crate::segment::{FileSource, Runs};
use crate::state::{Change, Position, State};

/// A frame that was read and whose fate is open: its payloads count as sound once a later frame
/// vouches for it.
struct Pending {
    offset: u64,
    header: FrameHeader,
    rows: Vec<Row>,
}

/// What the newest segment comes to.
pub(crate) struct Replayed {
    pub(crate) state: State,
    /// Where its entries are: whoever reads first need not go over the segment again.
    pub(crate) runs: Runs,
    /// Where the frames that count end, in the file.
    pub(crate) end: u64,
    /// Where those begin that no later one vouches for; they must be written again.
    pub(crate) proven: u64,
    /// The successor that the closing frame names.
    pub(crate) closed: Option<u64>,
    pub(crate) previous: Option<(u64, Lsn)>,
}

/// How a segment begins.
pub(crate) enum Beginning {
    /// With a checkpoint: it holds frames of the log.
    Holds,
    /// With nothing that anything proves to have been acknowledged. A header in it may still
    /// vouch for what lies below, in the segments before.
    Void { proven: Lsn },
}

pub(crate) struct Replay<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: &'a Arc<dyn DiskFile>,
    pub(crate) header: SegmentHeader,
    /// What a later segment vouches for.
    pub(crate) proven: Lsn,
}

impl Replay<'_> {
    fn source(&self, cached: bool) -> Result<FileSource> {
        let source = if cached { FileSource::cached(self.file) } else { FileSource::uncached(self.file) };
        source.map_err(|error| Error::io("stat", self.path, error))
    }

    fn io(&self, error: std::io::Error) -> Error {
        Error::io("read", self.path, error)
    }

    fn fault(&self, fault: tidelog_format::Fault) -> Error {
        Error::fault(self.path, fault)
    }

    /// Whether the segment holds frames. A bad first frame that something proves is damage.
    ///
    /// Judged by what the device holds: after a failed flush the page cache can show a first
    /// frame that never reached it.
    pub(crate) fn beginning(&self) -> Result<Beginning> {
        let mut source = self.source(planted(Planted::FirstFrameThroughCache))?;
        let mut walk = Walk::new(&self.header, self.header.file_size, self.proven);
        let first = match walk.next(&mut source).map_err(|error| self.io(error))? {
            Step::Frame(frame) => Self::checkpoint_row(&frame).map(|row| (frame.offset, row)),
            Step::Torn(_) | Step::End { .. } => {
                return Ok(Beginning::Void { proven: walk.highest_watermark() });
            }
            Step::Corrupt(_) if planted(Planted::DamagedFirstIsVoid) => {
                return Ok(Beginning::Void { proven: self.proven });
            }
            Step::Corrupt(fault) => return Err(self.fault(fault)),
        };
        let fault = match first {
            Ok((offset, row)) => match self.checkpoint(&mut source, offset, &row)? {
                Ok(_) => return Ok(Beginning::Holds),
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        // The header is good and its payload is not: torn, unless a later frame vouches for it.
        let first = self.header.identity.lsn(self.header.first_frame());
        while let Step::Frame(_) = walk.next(&mut source).map_err(|error| self.io(error))? {}
        let proven = walk.highest_watermark();
        if proven > first { Err(self.fault(fault)) } else { Ok(Beginning::Void { proven }) }
    }

    fn checkpoint_row(frame: &Frame<'_>) -> Result<Row, tidelog_format::Fault> {
        let at = frame.offset + u64::from(frame.header.table_offset);
        frame.table.checkpoint().ok_or_else(|| Table::no_checkpoint(at, frame.table.row(0).as_ref()))
    }

    fn checkpoint(
        &self,
        source: &mut FileSource,
        offset: u64,
        row: &Row,
    ) -> Result<Result<Checkpoint, tidelog_format::Fault>> {
        let at = offset + u64::from(row.offset);
        let payload = source.read(at, row.length as usize).map_err(|error| self.io(error))?;
        let checked = row.verify(payload, offset);
        Ok(checked.and_then(|()| Checkpoint::decode(payload, self.header.identity.seed(), at)))
    }

    /// Applies the segment's frames, in order, as they were applied when they were staged.
    pub(crate) fn run(&self, report: &mut RecoveryReport) -> Result<Replayed> {
        let before = report.clone();
        match self.try_run(true, report) {
            // Damage is believed once the device shows it.
            Err(Error::Corrupt(_)) => {
                *report = before;
                self.try_run(false, report)
            }
            other => other,
        }
    }

    fn try_run(&self, cached: bool, report: &mut RecoveryReport) -> Result<Replayed> {
        let mut source = self.source(cached)?;
        let mut walk = Walk::new(&self.header, self.header.file_size, self.proven);
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut replayed = Replayed {
            state: State::default(),
            runs: Runs::default(),
            end: 0,
            proven: 0,
            closed: None,
            previous: None,
        };
        let bad = loop {
            match walk.next(&mut source).map_err(|error| self.io(error))? {
                Step::Frame(frame) => {
                    let rows = frame.table.rows().collect();
                    pending.push_back(Pending { offset: frame.offset, header: frame.header, rows });
                }
                Step::End { .. } => break None,
                Step::Torn(fault) => break Some(fault),
                Step::Corrupt(fault) if planted(Planted::DamageIsTail) => break Some(fault),
                Step::Corrupt(fault) => return Err(self.fault(fault)),
            }
            self.settle(&mut source, &mut pending, walk.highest_watermark(), &mut replayed, report)?;
        };
        self.settle(&mut source, &mut pending, walk.highest_watermark(), &mut replayed, report)?;
        replayed.proven = replayed.end.max(self.header.first_frame());
        let mut torn = bad.map(|fault| (walk.offset(), fault));
        // Only what no watermark covers can be torn; the first such frame ends the log. What the
        // page cache shows may never have reached the disk, so it is read past the cache.
        let mut device = self.source(planted(Planted::VerifyThroughCache))?;
        // Empty frames carry a watermark and nothing else: behind the last record they end nothing.
        while pending.back().is_some_and(|frame| frame.rows.is_empty()) {
            pending.pop_back();
        }
        while let Some(frame) = pending.pop_front() {
            if let Err(fault) = self.verify(&mut device, &frame)? {
                torn = Some((frame.offset, fault));
                break;
            }
            report.adopted_frames += 1;
            report.adopted_bytes += u64::from(frame.header.frame_len);
            self.apply(&mut source, &frame, &mut replayed, report)?;
        }
        if replayed.end == 0 {
            // It began well when it was chosen.
            let first = self.header.first_frame();
            let found = torn.map_or(first, |(_, fault)| fault.offset);
            return Err(Error::mismatch(self.path, first, "first frame", first, found));
        }
        replayed.closed = walk.closed().filter(|_| torn.is_none());
        report.torn_tail = torn.map(|(offset, fault)| TornTail {
            file: self.path.into(),
            offset,
            reason: fault.to_string(),
        });
        Ok(replayed)
    }

    /// Applies the frames that a watermark covers by now.
    fn settle(
        &self,
        source: &mut FileSource,
        pending: &mut VecDeque<Pending>,
        watermark: Lsn,
        replayed: &mut Replayed,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        while pending.front().is_some_and(|frame| frame.header.end() <= watermark) {
            if let Some(frame) = pending.pop_front() {
                self.apply(source, &frame, replayed, report)?;
            }
        }
        Ok(())
    }

    /// The whole frame, as the device has it.
    fn verify(&self, device: &mut FileSource, frame: &Pending) -> Result<Result<(), tidelog_format::Fault>> {
        let header = &frame.header;
        let bytes = device.read(frame.offset, header.frame_len as usize).map_err(|error| self.io(error))?;
        if planted(Planted::TrustTornPayload) {
            return Ok(Ok(()));
        }
        let checked = FrameHeader::decode(bytes, frame.offset, &self.header).and_then(|found| {
            let start = found.table_offset as usize;
            let table = bytes.get(start..start + found.table_len() as usize).unwrap_or_default();
            let table = Table::parse(table, &found, &self.header.identity)?;
            verify_payloads(bytes, &table, frame.offset)
        });
        Ok(checked)
    }

    fn apply(
        &self,
        source: &mut FileSource,
        frame: &Pending,
        replayed: &mut Replayed,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        let segment = self.header.identity.sequence;
        let at = Position { frame: frame.header.lsn, segment, durable: Lsn(u64::MAX) };
        let (mut rows, mut links) = (frame.rows.as_slice(), Vec::new());
        while let Some(row) = rows.first() {
            if row.is_entry() {
                let run = rows.iter().take_while(|next| next.is_entry() && next.stream == row.stream).count();
                let (run, rest) = rows.split_at(run);
                rows = rest;
                // Moved rows come first and leave first and last id alone.
                let natural = &run[run.iter().take_while(|row| row.is_moved()).count()..];
                // A stream that a mark emptied may go on with any id, so each piece without a gap
                // stands for itself: the first live id is one that exists.
                for piece in natural.chunk_by(|one, next| one.entry_id.checked_add(1) == Some(next.entry_id))
                {
                    if let [first, ..] = piece {
                        let last = first.entry_id + (piece.len() - 1) as u64;
                        let change = Change::Entries { stream: row.stream, first: first.entry_id, last };
                        links.extend(replayed.state.apply(&change, at));
                    }
                }
                continue;
            }
            self.control(source, frame, row, at, replayed)?;
            rows = &rows[1..];
        }
        replayed.runs.add_frame(frame.offset, &frame.rows, &links);
        replayed.end = frame.offset + u64::from(frame.header.frame_len);
        report.frames += 1;
        report.records += frame.rows.len() as u64;
        Ok(())
    }

    fn control(
        &self,
        source: &mut FileSource,
        frame: &Pending,
        row: &Row,
        at: Position,
        replayed: &mut Replayed,
    ) -> Result<()> {
        let place = frame.offset + u64::from(row.offset);
        let payload = source.read(place, row.length as usize).map_err(|error| self.io(error))?;
        let change = match Record::decode(row, payload, frame.offset).map_err(|fault| self.fault(fault))? {
            Record::Obsolete { stream, id } => Change::Obsolete { stream, id },
            Record::Release { stream } if planted(Planted::ReleaseById) => Change::Obsolete {
                stream,
                id: replayed.state.get(stream).and_then(|it| it.last).unwrap_or(0),
            },
            Record::Release { stream } => Change::Release { stream },
            Record::Truncate { stream, from, .. } if planted(Planted::TruncateLosesLast) => {
                Change::Truncate { stream, from, last: None }
            }
            Record::Truncate { stream, from, last } => Change::Truncate { stream, from, last },
            Record::NamespaceDelete { .. } if planted(Planted::IgnoreNamespaceDelete) => return Ok(()),
            Record::NamespaceCreate { stream } => Change::CreateNamespace { stream },
            Record::NamespaceDelete { stream } => Change::DeleteNamespace { stream },
            Record::Oldest { sequence } => Change::Oldest { sequence },
            Record::Checkpoint(payload) => {
                let checkpoint = Checkpoint::decode(payload, self.header.identity.seed(), place)
                    .map_err(|fault| self.fault(fault))?;
                replayed.previous = checkpoint.previous;
                replayed.state = State::restore(checkpoint);
                return Ok(());
            }
            Record::SegmentEnd { .. } | Record::Entry { .. } => return Ok(()),
        };
        replayed.state.apply(&change, at);
        Ok(())
    }
}
