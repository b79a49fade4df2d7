//! The iterator over a whole log.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tidelog_format::{Lsn, StreamId};

use super::ReadOnlyLog;
use super::cursor::{Cursor, Met, Payloads};
use super::directory::{Directory, SEGMENT_FILE, settle};
use super::item::{Item, SegmentInfo, SegmentState};
use crate::error::Corruption;
use crate::error::{Error, Result};
use crate::io::Disk;

/// What a log holds, in the order of LSNs: see [`ReadOnlyLog::items`].
///
/// An `Err` says that a file could not be read; the iterator then goes on behind it, at the latest with the next
/// segment.
#[derive(Debug)]
pub struct Items {
    disk: Arc<dyn Disk>,
    directory: Arc<Directory>,
    segments: RangeInclusive<u64>,
    payloads: Payloads,
    /// The next segment, and the next damage of a whole file.
    next: usize,
    next_damage: usize,
    cursor: Option<Cursor>,
}

impl Items {
    pub(super) fn new(log: &ReadOnlyLog) -> Self {
        Self {
            disk: Arc::clone(&log.disk),
            directory: Arc::clone(&log.directory),
            segments: 0..=u64::MAX,
            payloads: Payloads::All,
            next: 0,
            next_damage: 0,
            cursor: None,
        }
    }

    /// Only those of these segments.
    #[must_use]
    pub fn segments(mut self, segments: RangeInclusive<u64>) -> Self {
        self.segments = segments;
        self
    }

    /// Leaves payloads out: they are neither read nor verified, but for those that tell where the log ends.
    #[must_use]
    pub fn skip_payloads(mut self) -> Self {
        self.payloads = Payloads::None;
        self
    }

    /// Leaves payloads out but for those of a stream and the log's own.
    pub(super) fn payloads_of(mut self, stream: StreamId) -> Self {
        self.payloads = Payloads::Of(stream);
        self
    }

    /// Damage of whole files up to the segment that comes next.
    fn damage(&mut self, up_to: u64) -> Option<Item> {
        loop {
            let (sequence, damage) = self.directory.damage.get(self.next_damage)?;
            if *sequence > up_to {
                return None;
            }
            self.next_damage += 1;
            if self.segments.contains(sequence) {
                return Some(Item::Damage(damage.clone()));
            }
        }
    }

    fn open(&self, info: &SegmentInfo) -> Result<Option<Cursor>> {
        let Directory { segments, watermark, .. } = &*self.directory;
        let newest = segments.iter().rfind(|info| info.state == SegmentState::Newest);
        let is_shown = match info.state {
            SegmentState::LeftOver => false,
            // Of those behind the newest one the remains of a torn write are shown.
            SegmentState::Void => newest.is_none_or(|newest| newest.sequence < info.sequence),
            _ => true,
        };
        if !is_shown || !self.segments.contains(&info.sequence) {
            return Ok(None);
        }
        // The watermark can lie above the end of an older segment, where that is not known.
        let proven = if info.state == SegmentState::Newest { *watermark } else { Lsn::ZERO };
        Cursor::new(&self.disk, info, proven, self.payloads)
            .map_err(|error| Error::io("open", &info.file, error))
    }

    /// What became of a segment whose file is gone: retired, unless the log still wants it.
    fn gone(&self, info: &SegmentInfo) -> Result<Item> {
        let now = settle(&*self.disk)?;
        Ok(if now.oldest > info.sequence {
            Item::Retired { segment: info.sequence }
        } else {
            Item::Damage(Corruption::missing(&info.file, SEGMENT_FILE))
        })
    }

    fn advance(&mut self) -> Option<Result<Item>> {
        let directory = Arc::clone(&self.directory);
        loop {
            if let Some(cursor) = &mut self.cursor {
                let sequence = cursor.sequence();
                match cursor.next() {
                    Ok(Met::Item(item)) => return Some(Ok(item)),
                    Ok(Met::End) => self.cursor = None,
                    Ok(Met::Gone) => {
                        self.cursor = None;
                        let info = directory.segments.iter().find(|info| info.sequence == sequence)?;
                        return Some(self.gone(info));
                    }
                    Err(error) => return Some(Err(error)),
                }
                continue;
            }
            let info = directory.segments.get(self.next);
            if let Some(damage) = self.damage(info.map_or(u64::MAX, |info| info.sequence)) {
                return Some(Ok(damage));
            }
            let info = info?;
            self.next += 1;
            match self.open(info) {
                Ok(cursor) => self.cursor = cursor,
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Some(self.gone(info));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for Items {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance()
    }
}
