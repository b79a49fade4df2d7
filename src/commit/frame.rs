//! Frames on their way from the appenders to the device.

use std::sync::Arc;
use std::time::Duration;

use tidelog_format::{
    Checkpoint, FRAME_HEADER_LEN, FrameSpec, Lsn, ROW_LEN, Row, SegmentIdentity, seal_frame, sort_rows,
};

use crate::io::{Claimed, FrameBuf};
use crate::state::Link;

/// Bytes of a frame with `payload` bytes of payload area and `rows` rows, in whole blocks.
pub(crate) fn frame_bytes(payload: u64, rows: u64, block: u64) -> u64 {
    (FRAME_HEADER_LEN as u64 + payload + rows * ROW_LEN as u64).next_multiple_of(block)
}

/// The frame that takes appends.
#[derive(Debug)]
pub(crate) struct OpenFrame {
    pub(crate) lsn: Lsn,
    pub(crate) buf: Arc<FrameBuf>,
    pub(crate) rows: Vec<Row>,
    pub(crate) links: Vec<Link>,
    /// Most bytes it may come to, the segment's room considered.
    pub(crate) limit: u64,
    /// When the committer first saw it: it lingers from then on.
    pub(crate) seen: Option<Duration>,
}

impl OpenFrame {
    /// Bytes that the frame comes to with `payload` bytes and `rows` rows more.
    pub(crate) fn bytes_with(&self, payload: u64, rows: u64, block: u64) -> u64 {
        let payload = self.buf.used() as u64 - FRAME_HEADER_LEN as u64 + payload;
        frame_bytes(payload, self.rows.len() as u64 + rows, block)
    }
}

/// What a frame carries.
#[derive(Debug)]
pub(crate) enum Body {
    /// Records of appenders, in a staging buffer.
    Data { buf: Arc<FrameBuf>, rows: Vec<Row>, links: Vec<Link> },
    /// The first frame of a segment.
    Checkpoint(Option<Checkpoint>),
    /// The last frame of a segment.
    Closing { next: u64 },
    /// No record: its header's watermark vouches for the commits before it.
    Vouch,
}

/// A frame whose place and length are fixed.
#[derive(Debug)]
pub(crate) struct ClosedFrame {
    pub(crate) lsn: Lsn,
    pub(crate) sequence: u64,
    pub(crate) len: u64,
    pub(crate) body: Body,
}

impl ClosedFrame {
    /// Whether all of its bytes are there.
    pub(crate) fn is_copied(&self) -> bool {
        match &self.body {
            Body::Data { buf, .. } => buf.is_quiet(),
            Body::Checkpoint(checkpoint) => checkpoint.is_some(),
            Body::Closing { .. } | Body::Vouch => true,
        }
    }
}

/// A frame to be sealed and written.
#[derive(Debug)]
pub(crate) struct FrameWrite {
    pub(crate) frame: ClosedFrame,
    /// The durable watermark when it was submitted.
    pub(crate) watermark: Lsn,
    pub(crate) dsync: bool,
}

/// A sealed frame, ready for the device.
#[derive(Debug)]
pub(crate) struct SealedFrame {
    pub(crate) buf: Claimed,
    pub(crate) len: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) links: Vec<Link>,
}

impl FrameWrite {
    /// Puts header and table around the payloads. Outside any lock.
    ///
    /// # Panics
    /// When a data frame still has reservations, or room was miscounted: both are decided before.
    pub(crate) fn seal(
        self,
        identity: &SegmentIdentity,
        block_size: u32,
        clock: u64,
    ) -> std::io::Result<SealedFrame> {
        let len = self.frame.len as usize;
        let (mut buf, mut rows, links, table_offset) = match self.frame.body {
            Body::Data { buf, rows, links } => {
                let buf = buf.claim().expect("a frame is sealed once its copies are done");
                let table_offset = buf.used();
                (buf, rows, links, table_offset)
            }
            Body::Checkpoint(checkpoint) => {
                let payload =
                    checkpoint.expect("a checkpoint is sealed once it is captured").encode(identity.seed());
                let mut buf = Claimed::new(len, None)?;
                let row = Row::checkpoint(&payload);
                buf[row.offset as usize..][..payload.len()].copy_from_slice(&payload);
                // It may come out smaller than what was set aside, so its table ends the frame.
                (buf, vec![row], Vec::new(), len - ROW_LEN)
            }
            Body::Closing { next } => {
                (Claimed::new(len, None)?, vec![Row::segment_end(next)], Vec::new(), FRAME_HEADER_LEN)
            }
            Body::Vouch => (Claimed::new(len, None)?, Vec::new(), Vec::new(), FRAME_HEADER_LEN),
        };
        sort_rows(&mut rows);
        let spec = FrameSpec {
            identity,
            block_size,
            lsn: self.frame.lsn,
            watermark: self.watermark,
            clock,
            rows: &rows,
            table_offset: table_offset as u32,
        };
        let sealed = seal_frame(&mut buf, &spec).expect("room was counted when the frame was closed");
        debug_assert_eq!(sealed as usize, len, "what is written is what was set aside");
        Ok(SealedFrame { buf, len, rows, links })
    }
}
