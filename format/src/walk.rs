//! Going over the frames of a segment, and telling a torn tail from damage.

use alloc::vec::Vec;

use crate::{FRAME_HEADER_LEN, Fault, FrameHeader, Lsn, SegmentHeader, Source, Table, What};

/// How much is read at once while looking for frames behind a bad place.
const CHUNK: u64 = 256 * 1024;

/// A frame with a good header and table. Its payloads have not been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Where in the file it starts.
    pub offset: u64,
    /// Its header.
    pub header: FrameHeader,
    /// Its table.
    pub table: Table<'a>,
}

impl Frame<'_> {
    /// Where in the file it ends.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.header.frame_len as u64)
    }
}

/// What a walk meets next.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// The frames end here, in the remains of a write that nothing shows to have been acknowledged.
    Torn(Fault),
    /// The frames do not end here: something proves that a durable one was here.
    Corrupt(Fault),
    /// The frames end here, and nothing of this segment was written behind them.
    End {
        /// Where in the file they end.
        offset: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum Finish {
    Torn(Fault),
    Corrupt(Fault),
    End,
}

/// A walk over the frames of a segment, in order.
///
/// Where no good frame is found, the rest of the segment decides: a good frame header further on whose watermark lies
/// above this place proves that what was here had been durable.
#[derive(Debug)]
pub struct Walk {
    segment: SegmentHeader,
    limit: u64,
    watermark: Lsn,
    offset: u64,
    finish: Option<Finish>,
    closed: Option<u64>,
    table: Vec<u8>,
}

impl Walk {
    /// A walk up to `limit`, the file's length or the known end of its frames. Records below `proven` are known to have
    /// been durable; it is not to lie above the end of the segment's frames, where that is known.
    pub fn new(segment: &SegmentHeader, limit: u64, proven: Lsn) -> Self {
        Self {
            segment: *segment,
            limit: limit.min(segment.file_size),
            watermark: proven,
            offset: segment.first_frame(),
            finish: None,
            closed: None,
            table: Vec::new(),
        }
    }

    /// Where in the file the next frame is expected, or where the walk finished.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The highest watermark known: of the frames so far, of headers behind a bad place, and what was proven at first.
    pub const fn highest_watermark(&self) -> Lsn {
        self.watermark
    }

    /// The successor's sequence, once the closing frame was met.
    pub const fn closed(&self) -> Option<u64> {
        self.closed
    }

    /// The next frame, or why there is none. A finished walk gives the same again. After an error of the source the
    /// call may be repeated.
    pub fn next<S: Source>(&mut self, source: &mut S) -> Result<Step<'_>, S::Error> {
        if self.finish.is_none() {
            match self.read_frame(source)? {
                Ok(header) => return Ok(Step::Frame(self.accept(header))),
                Err(fault) => self.finish = Some(self.judge(source, fault)?),
            }
        }
        Ok(match self.finish {
            Some(Finish::Torn(fault)) => Step::Torn(fault),
            Some(Finish::Corrupt(fault)) => Step::Corrupt(fault),
            Some(Finish::End) | None => Step::End { offset: self.offset },
        })
    }

    /// Has the place where the walk finished looked at again, by a source that may know better. What was proven stays so.
    pub fn retry(&mut self) {
        if self.closed.is_none() {
            self.finish = None;
        }
    }

    /// Goes on behind the place where the walk finished, at the next good frame header, and gives its offset; for
    /// salvage. Frames met from there on say nothing about those that are missing.
    pub fn resume_after_damage<S: Source>(&mut self, source: &mut S) -> Result<Option<u64>, S::Error> {
        if self.closed.is_some() || self.finish.is_none() {
            return Ok(None);
        }
        let mut found = None;
        self.look_ahead(source, |offset, _| {
            found = Some(offset);
            false
        })?;
        if let Some(offset) = found {
            self.offset = offset;
            self.finish = None;
        }
        Ok(found)
    }

    /// Reads the frame at the current offset, leaving its table in `self.table`.
    fn read_frame<S: Source>(&mut self, source: &mut S) -> Result<Result<FrameHeader, Fault>, S::Error> {
        let Self { segment, offset, .. } = *self;
        let room = self.limit.saturating_sub(offset);
        // A whole block: that holds the table of a small frame too, and is what direct reads want.
        let block = source.read(offset, room.min(u64::from(segment.block_size)) as usize)?;
        let header = match FrameHeader::decode(block, offset, &segment) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        // Even where its table or payloads are bad, a header that verifies says what was durable before it.
        self.watermark = self.watermark.max(header.watermark);
        let len = u64::from(header.frame_len);
        if len > room {
            return Ok(Err(Fault { offset, what: What::Length, expected: len, actual: room }));
        }
        self.table.clear();
        let (start, len) = (header.table_offset as usize, header.table_len() as usize);
        match block.get(start..start + len) {
            Some(table) => self.table.extend_from_slice(table),
            None => self.table.extend_from_slice(source.read(offset + start as u64, len)?),
        }
        Ok(Table::parse(&self.table, &header, &segment.identity).map(|_| header))
    }

    fn accept(&mut self, header: FrameHeader) -> Frame<'_> {
        let offset = self.offset;
        self.offset += u64::from(header.frame_len);
        let table = Table::verified(&self.table);
        if let Some(next) = table.segment_end() {
            self.closed = Some(next);
            self.finish = Some(Finish::End);
        }
        Frame { offset, header, table }
    }

    /// Decides what a place without a good frame is.
    fn judge<S: Source>(&mut self, source: &mut S, fault: Fault) -> Result<Finish, S::Error> {
        let here = self.segment.identity.lsn(self.offset);
        let mut watermark = self.watermark;
        let mut written = self.is_written(source)?;
        if watermark <= here {
            let mut frames = false;
            let bytes = self.look_ahead(source, |_, header| {
                frames = true;
                watermark = watermark.max(header.watermark);
                watermark <= here
            })?;
            // In a file that was used before, only frames of this segment are remains of its writes.
            written |= frames || (bytes && !self.segment.recycled);
        }
        self.watermark = watermark;
        Ok(if watermark > here {
            Finish::Corrupt(fault)
        } else if written {
            Finish::Torn(fault)
        } else {
            Finish::End
        })
    }

    fn is_written<S: Source>(&self, source: &mut S) -> Result<bool, S::Error> {
        let len = self.limit.saturating_sub(self.offset).min(u64::from(self.segment.block_size));
        let block = source.read(self.offset, len as usize)?;
        Ok(if self.segment.recycled {
            FrameHeader::is_meant_for(block, self.offset, &self.segment)
        } else {
            has_bytes(block)
        })
    }

    /// Gives all good frame headers behind the current block to `visit`, until it returns false or the segment ends.
    /// Returns whether anything but zeros was seen.
    fn look_ahead<S: Source>(
        &self,
        source: &mut S,
        mut visit: impl FnMut(u64, FrameHeader) -> bool,
    ) -> Result<bool, S::Error> {
        let block = u64::from(self.segment.block_size);
        let mut written = false;
        let mut offset = self.offset.saturating_add(block);
        while offset < self.limit {
            let chunk = source.read(offset, CHUNK.min(self.limit - offset) as usize)?;
            written = written || has_bytes(chunk);
            let blocks = chunk.chunks(block as usize);
            for (block, offset) in blocks.zip((offset..).step_by(block as usize)) {
                match FrameHeader::decode(block, offset, &self.segment) {
                    Ok(header) if !visit(offset, header) => return Ok(true),
                    _ => {}
                }
            }
            if chunk.len() < FRAME_HEADER_LEN {
                break;
            }
            offset += CHUNK;
        }
        Ok(written)
    }
}

/// Whether anything but zeros is there. Whole pieces are folded, because a loop that stops at a byte is not vectorised.
fn has_bytes(bytes: &[u8]) -> bool {
    bytes.chunks(512).any(|piece| piece.iter().fold(0, |all, byte| all | byte) != 0)
}
