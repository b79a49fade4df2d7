//! The bytes of a tidelog: what is in a segment and in its index cache, for writer and reader alike.
//!
//! A segment is a [`SegmentHeader`] and then frames. A frame is a [`FrameHeader`], the payloads, and a [`Table`] with
//! one [`Row`] for each record. [`Walk`] goes over a segment's frames and decides where they end, and whether they
//! end by a torn write or by damage. `SPEC.md`, in the root of the project, is the normative text.
//!
//! The crate does no I/O and needs no standard library. No function panics on any bytes it is given to decode, and
//! none allocates by a length that it has not compared with the bytes at hand.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

#[macro_use]
mod layout;

mod checkpoint;
mod fault;
mod frame;
mod ids;
mod index;
mod record;
mod row;
mod segment;
mod source;
mod table;
mod walk;

pub use checkpoint::{CHECKPOINT_HEAD_LEN, Checkpoint, CheckpointHead, Extent, Fence, StreamSummary};
pub use fault::{Fault, What};
pub use frame::{FrameHeader, FrameSpec, TooLarge, frame_len, seal_frame};
pub use ids::{LogId, Lsn, Seed, SegmentIdentity, StreamId};
pub use index::{INDEX_HEADER_LEN, INDEX_ROW_LEN, IndexHeader, IndexRow, IndexView, encode_index};
pub use record::{Record, TRUNCATE_PAYLOAD_LEN};
pub use row::{Kind, Row, RowFlags, payload_crc, sort_rows};
pub use segment::{HeaderError, SegmentHeader};
pub use source::Source;
pub use table::{Run, Table, verify_payloads};
pub use walk::{Frame, Step, Walk};

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;
/// Smallest block size.
pub const BLOCK_SIZE_MIN: u32 = 512;
/// Largest block size.
pub const BLOCK_SIZE_MAX: u32 = 65_536;
/// Block size where nothing else is asked for.
pub const BLOCK_SIZE_DEFAULT: u32 = 4096;
/// A segment file's size is a multiple of this, whatever its block size.
pub const FILE_SIZE_UNIT: u64 = 65_536;
/// Bytes of a segment header; the rest of its block is zero.
pub const SEGMENT_HEADER_LEN: usize = 64;
/// Bytes of a frame header, and so the place of a frame's first payload.
pub const FRAME_HEADER_LEN: usize = 64;
/// Bytes of one table row.
pub const ROW_LEN: usize = 32;
/// Payloads and tables start at a multiple of this within their frame.
pub const PAYLOAD_ALIGN: u64 = 8;
/// Longest frame, in bytes, and so the bound of a batch, a payload and a checkpoint.
pub const FRAME_LEN_MAX: u32 = 1 << 30;

/// The room that a payload of `len` bytes takes in a frame: `len` rounded up to [`PAYLOAD_ALIGN`].
pub const fn payload_room(len: u32) -> u64 {
    (len as u64).next_multiple_of(PAYLOAD_ALIGN)
}
