//! Looking at a directory: which files are the log's, and what each is to it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::RangeBounds;
use std::sync::Arc;

use tidelog_format::{CheckpointHead, Fault, HeaderError, LogId, Lsn, SegmentHeader, What};

use super::item::{SegmentInfo, SegmentState};
use super::probe::{self, First, Survey};
use crate::error::{Corruption, Error, Result};
use crate::io::{Access, Disk, DiskFile, FileKind, Listing};
use crate::segment::FileSource;
use crate::segment::name::{self, Name};

/// Missing files named, of those in one gap.
const MISSING_MAX: usize = 64;
/// How often a look starts anew because a file vanished or a segment retired under it.
pub(super) const LOOKS_MAX: u32 = 100;

/// What one look at a directory saw.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// By sequence.
    pub(super) segments: Vec<SegmentInfo>,
    /// What is wrong with whole files, by the sequence that the file has or should have.
    pub(super) damage: Vec<(u64, Corruption)>,
    pub(super) log_id: Option<LogId>,
    /// The oldest live segment.
    pub(super) oldest: u64,
    /// All below is known to have been durable.
    pub(super) watermark: Lsn,
}

/// Damage is what two looks in a row show: the second one began after all that could prove it was read, and a live
/// writer may retire and add files meanwhile.
pub(super) fn settle(disk: &dyn Disk) -> Result<Directory> {
    let first = look(disk)?;
    if first.damage.is_empty() {
        return Ok(first);
    }
    let mut second = look(disk)?;
    second.damage.retain(|damage| first.damage.contains(damage));
    Ok(second)
}

fn look(disk: &dyn Disk) -> Result<Directory> {
    let mut looks = 1;
    loop {
        match Look::new(disk).and_then(Look::finish) {
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && looks < LOOKS_MAX =>
            {
                looks += 1;
            }
            other => return other,
        }
    }
}

/// What a directory lacks.
pub(super) const SEGMENT_FILE: &str = "segment file";

struct Look<'a> {
    disk: &'a dyn Disk,
    found: BTreeMap<u64, SegmentInfo>,
    firsts: HashMap<u64, First>,
    damage: Vec<(u64, Corruption)>,
    log_id: Option<LogId>,
}

impl<'a> Look<'a> {
    fn new(disk: &'a dyn Disk) -> Result<Self> {
        let listed = disk.list().map_err(|error| Error::io("list", disk.path(), error))?;
        let mut look =
            Self { disk, found: BTreeMap::new(), firsts: HashMap::new(), damage: Vec::new(), log_id: None };
        let segments = listed.iter().filter_map(|entry| match Name::parse(&entry.name)? {
            Name::Segment(sequence) => Some((sequence, entry)),
            _ => None,
        });
        for (sequence, entry) in segments {
            look.read_header(sequence, entry)?;
        }
        if look.found.is_empty() {
            let (path, reason) = (disk.path().into(), "it has no segment file".into());
            return Err(Error::NotALog { path, reason });
        }
        look.compare_headers();
        look.read_firsts()?;
        Ok(look)
    }

    fn read_header(&mut self, sequence: u64, entry: &Listing) -> Result<()> {
        let file = self.disk.path().join(&entry.name);
        let mut info = SegmentInfo {
            sequence,
            file_len: entry.len,
            header: None,
            state: SegmentState::Damaged,
            end: None,
            checkpoint: None,
            file,
        };
        if entry.kind == FileKind::Regular {
            let open = self.open(&info)?;
            info.file_len = open.len().map_err(|error| Error::io("stat", &info.file, error))?;
            let header = probe::header(&open).map_err(|error| Error::io("read", &info.file, error))?;
            match header {
                Ok(header) => {
                    let fault = misfit(&header, &info);
                    self.damage
                        .extend(fault.map(|fault| (sequence, Corruption::fault(&info.file, &fault, None))));
                    // A file that was cut off has frames to read all the same.
                    info.header = (header.identity.sequence == sequence).then_some(header);
                }
                Err(HeaderError::Damaged(fault)) => {
                    self.damage.push((sequence, Corruption::fault(&info.file, &fault, None)));
                }
                Err(version @ HeaderError::UnsupportedVersion { .. }) => {
                    return Err(Error::header(&info.file, version));
                }
            }
        } else {
            let what = "file type (not a regular file)".into();
            let file = info.file.clone();
            let damage = Corruption { file, offset: 0, what, expected: 1, actual: 0, stream: None };
            self.damage.push((sequence, damage));
        }
        self.found.insert(sequence, info);
        Ok(())
    }

    fn open(&self, info: &SegmentInfo) -> Result<Arc<dyn DiskFile>> {
        open(self.disk, info.sequence).map_err(|error| Error::io("open", &info.file, error))
    }

    /// Headers must be of one log, and each base beyond the file before. Those that are not are as good as damaged.
    fn compare_headers(&mut self) {
        let mut counts: HashMap<LogId, usize> = HashMap::new();
        for header in self.found.values().filter_map(|info| info.header) {
            *counts.entry(header.identity.log_id).or_default() += 1;
        }
        self.log_id = counts.into_iter().max_by_key(|&(id, count)| (count, id.0)).map(|(id, _)| id);
        let mut lowest = Lsn::ZERO;
        for info in self.found.values_mut() {
            let Some(header) = info.header else { continue };
            let identity = header.identity;
            let half = |id: LogId| u64::from_le_bytes(*id.0.first_chunk().unwrap_or(&[0; 8]));
            let wrong = match self.log_id {
                Some(id) if id != identity.log_id => Some(("log id", 24, half(id), half(identity.log_id))),
                _ if identity.base < lowest => Some(("base LSN", 48, lowest.0, identity.base.0)),
                _ => None,
            };
            if let Some((what, offset, expected, actual)) = wrong {
                let (file, what) = (info.file.clone(), what.into());
                let damage = Corruption { file, offset, what, expected, actual, stream: None };
                self.damage.push((info.sequence, damage));
                info.header = None;
            } else {
                lowest = header.end();
            }
        }
    }

    fn read_firsts(&mut self) -> Result<()> {
        for info in self.found.values() {
            let Some(header) = info.header else { continue };
            let first = probe::first(&self.open(info)?, &header);
            self.firsts.insert(info.sequence, first.map_err(|error| Error::io("read", &info.file, error))?);
        }
        Ok(())
    }

    fn checkpoint(&self, sequence: u64) -> Option<CheckpointHead> {
        match self.firsts.get(&sequence) {
            Some(First::Checkpoint(head)) => Some(*head),
            _ => None,
        }
    }

    /// The newest segment in the range that has a checkpoint.
    fn newest(&self, range: impl RangeBounds<u64>) -> Option<(u64, CheckpointHead)> {
        self.found.range(range).rev().find_map(|(&sequence, _)| Some((sequence, self.checkpoint(sequence)?)))
    }

    /// Gives each segment its state, from the newest one down the chain of checkpoints.
    fn finish(mut self) -> Result<Directory> {
        for (sequence, first) in &self.firsts {
            if let Some(info) = self.found.get_mut(sequence) {
                (info.state, info.checkpoint) = match first {
                    First::Checkpoint(head) => (SegmentState::Void, Some(*head)),
                    First::Void { .. } => (SegmentState::Void, None),
                    First::Damaged => (SegmentState::Damaged, None),
                };
            }
        }
        let mut oldest = self.found.keys().next().copied().unwrap_or(0);
        let mut watermark = Lsn::ZERO;
        if let Some((newest, head)) = self.newest(..) {
            let survey = self.survey_newest(newest)?;
            oldest = head.oldest.max(survey.oldest).clamp(1, newest);
            // What lies above is void, and may vouch for what the newest one holds.
            let above = self.firsts.iter().filter(|(sequence, _)| **sequence > newest);
            watermark = above.fold(survey.watermark, |highest, (_, first)| match first {
                First::Void { proven } => highest.max(*proven),
                _ => highest,
            });
            self.follow(newest, head, oldest)?;
        }
        self.find_missing(oldest);
        for (_, info) in self.found.range_mut(..oldest) {
            info.state = SegmentState::LeftOver;
        }
        let mut damage = self.damage;
        damage.retain(|(sequence, _)| *sequence >= oldest);
        damage.sort_by_key(|(sequence, _)| *sequence);
        let segments = self.found.into_values().collect();
        Ok(Directory { segments, damage, log_id: self.log_id, oldest, watermark })
    }

    fn survey_newest(&mut self, newest: u64) -> Result<Survey> {
        let Some(info) = self.found.get(&newest) else { return Ok(Survey::default()) };
        let Some(header) = info.header else { return Ok(Survey::default()) };
        let file = self.open(info)?;
        let survey = survey(&file, &header);
        let survey = survey.map_err(|error| Error::io("read", &info.file, error))?;
        if let Some(next) = survey.closed
            && !self.found.contains_key(&next)
        {
            self.damage
                .push((next, Corruption::missing(self.disk.path().join(name::segment(next)), SEGMENT_FILE)));
        }
        if let Some(info) = self.found.get_mut(&newest) {
            info.state = SegmentState::Newest;
            info.end = Some(header.identity.lsn(survey.end));
        }
        Ok(survey)
    }

    /// Follows what each checkpoint says of the segment before it.
    fn follow(&mut self, newest: u64, head: CheckpointHead, oldest: u64) -> Result<()> {
        let (mut sequence, mut previous) = (newest, head.previous);
        while let Some((before, end)) = previous {
            if before < oldest || before >= sequence {
                break;
            }
            self.mark_ended(before, Some(end))?;
            sequence = before;
            previous = match self.checkpoint(before) {
                Some(head) => head.previous,
                // The chain is broken here. The next checkpoint below tells how it goes on.
                None => match self.newest(..before) {
                    Some((below, head)) if below >= oldest => {
                        self.mark_ended(below, None)?;
                        sequence = below;
                        head.previous
                    }
                    _ => None,
                },
            };
        }
        Ok(())
    }

    fn mark_ended(&mut self, sequence: u64, end: Option<Lsn>) -> Result<()> {
        let Some(info) = self.found.get(&sequence) else { return Ok(()) };
        let Some(header) = info.header else { return Ok(()) };
        let closed = match end {
            Some(end) => probe::is_closed(&self.open(info)?, &header, end)
                .map_err(|error| Error::io("read", &info.file, error))?,
            None => false,
        };
        if let Some(info) = self.found.get_mut(&sequence) {
            info.end = end;
            info.state = match (info.checkpoint, closed) {
                (None, _) => SegmentState::Damaged,
                (Some(_), true) => SegmentState::Closed,
                (Some(_), false) => SegmentState::Ended,
            };
        }
        Ok(())
    }

    /// Numbers have no gaps from the oldest live segment to the highest file.
    fn find_missing(&mut self, oldest: u64) {
        let mut next = oldest;
        for &sequence in self.found.range(oldest..).map(|(sequence, _)| sequence) {
            for absent in (next..sequence).take(MISSING_MAX) {
                self.damage.push((
                    absent,
                    Corruption::missing(self.disk.path().join(name::segment(absent)), SEGMENT_FILE),
                ));
            }
            next = sequence.saturating_add(1);
        }
    }
}

/// Goes over the newest segment. A bad end is believed once the device shows it.
fn survey(file: &Arc<dyn DiskFile>, header: &SegmentHeader) -> io::Result<Survey> {
    let mut source = FileSource::cached(file)?;
    let mut survey = probe::survey(&mut source, header)?;
    if survey.finish(&mut source)? {
        let mut device = FileSource::uncached(file)?;
        survey = probe::survey(&mut device, header)?;
        survey.finish(&mut device)?;
    }
    Ok(survey)
}

/// How a good header does not fit its file.
fn misfit(header: &SegmentHeader, info: &SegmentInfo) -> Option<Fault> {
    let fault = |offset, what, expected, actual| Some(Fault { offset, what, expected, actual });
    let sequence = header.identity.sequence;
    if sequence != info.sequence {
        fault(40, What::Sequence, info.sequence, sequence)
    } else if info.file_len < header.file_size {
        fault(16, What::FileSize, header.file_size, info.file_len)
    } else {
        None
    }
}

/// Opens a segment's file for reading.
pub(super) fn open(disk: &dyn Disk, sequence: u64) -> io::Result<Arc<dyn DiskFile>> {
    disk.open(&name::segment(sequence), Access::Read)
}
