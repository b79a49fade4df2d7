//! The checkpoint: the state of a log where a segment starts.

mod decode;
mod layouts;

use alloc::vec::Vec;

use self::layouts::{
    EXTENT_LEN, ExtentLayout, FENCE_LEN, FenceLayout, HAS_FIRST, HAS_LAST, HAS_MARK, HeadLayout,
    NAMESPACE_LEN, NamespaceLayout, STREAM_LEN, StreamLayout,
};
use crate::{Fault, Lsn, Seed, StreamId, What};

/// Bytes of a checkpoint's head.
pub const CHECKPOINT_HEAD_LEN: usize = 48;

/// Entries of a stream in frames below `lsn` with ids from `from` on are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The frame that carries the truncation or release.
    pub lsn: Lsn,
    /// The lowest void id.
    pub from: u64,
}

/// Moved entries of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The lowest id.
    pub first: u64,
    /// The highest id.
    pub last: u64,
    /// The segment that holds them.
    pub segment: u64,
}

/// What a checkpoint says about one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// The stream.
    pub stream: StreamId,
    /// Its first live id, or a lower bound of it.
    pub first: Option<u64>,
    /// Its last id.
    pub last: Option<u64>,
    /// Its mark.
    pub mark: Option<u64>,
    /// The newest segment with natural entries of it; 0 where there is none.
    pub newest_segment: u64,
    /// Its fences.
    pub fences: Vec<Fence>,
    /// Where its moved entries are.
    pub extents: Vec<Extent>,
}

/// The state of a log where a segment starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The newest segment before this one that holds frames of the log, and the LSN where its frames end.
    pub previous: Option<(u64, Lsn)>,
    /// The oldest live segment.
    pub oldest: u64,
    /// The streams, each once.
    pub streams: Vec<StreamSummary>,
    /// The namespaces, each once.
    pub namespaces: Vec<StreamId>,
}

/// The head of a checkpoint. By itself it is not verified: the checksum covers the whole checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHead {
    /// As in [`Checkpoint`].
    pub previous: Option<(u64, Lsn)>,
    /// As in [`Checkpoint`].
    pub oldest: u64,
    /// Streams in the checkpoint.
    pub stream_count: u32,
    /// Namespaces in it.
    pub namespace_count: u32,
    /// Fences of all its streams.
    pub fence_count: u32,
    /// Extents of all its streams.
    pub extent_count: u32,
}

impl CheckpointHead {
    /// Reads the head from a checkpoint's first bytes, which are at `at` in the file.
    pub fn decode(bytes: &[u8], at: u64) -> Result<Self, Fault> {
        let short = Fault {
            offset: at,
            what: What::CheckpointLength,
            expected: CHECKPOINT_HEAD_LEN as u64,
            actual: bytes.len() as u64,
        };
        let raw = HeadLayout::decode(bytes.first_chunk().ok_or(short)?);
        let good = raw.previous_sequence != 0 || raw.previous_end == 0;
        Fault::unless(good, at.saturating_add(8), What::CheckpointField, 0u32, raw.previous_end)?;
        Fault::unless_equal(at.saturating_add(44), What::Reserved, 0u32, raw.reserved)?;
        Ok(Self {
            previous: (raw.previous_sequence != 0).then_some((raw.previous_sequence, Lsn(raw.previous_end))),
            oldest: raw.oldest,
            stream_count: raw.stream_count,
            namespace_count: raw.namespace_count,
            fence_count: raw.fence_count,
            extent_count: raw.extent_count,
        })
    }

    /// Bytes of the whole checkpoint.
    pub fn encoded_len(&self) -> u64 {
        let Self { stream_count, namespace_count, fence_count, extent_count, .. } = *self;
        Checkpoint::encoded_len(
            u64::from(stream_count),
            u64::from(fence_count),
            u64::from(extent_count),
            u64::from(namespace_count),
        )
    }
}

impl Checkpoint {
    /// Bytes of a checkpoint with so many streams, fences and extents of all streams, and namespaces.
    pub const fn encoded_len(streams: u64, fences: u64, extents: u64, namespaces: u64) -> u64 {
        (CHECKPOINT_HEAD_LEN as u64)
            .saturating_add(streams.saturating_mul(STREAM_LEN as u64))
            .saturating_add(fences.saturating_mul(FENCE_LEN as u64))
            .saturating_add(extents.saturating_mul(EXTENT_LEN as u64))
            .saturating_add(namespaces.saturating_mul(NAMESPACE_LEN as u64))
    }

    /// The checkpoint's bytes.
    pub fn encode(&self, seed: Seed) -> Vec<u8> {
        let mut streams: Vec<&StreamSummary> = self.streams.iter().collect();
        streams.sort_by_key(|summary| summary.stream);
        let mut namespaces = self.namespaces.clone();
        namespaces.sort_unstable();

        let fences = || streams.iter().flat_map(|summary| &summary.fences);
        let extents = || streams.iter().flat_map(|summary| &summary.extents);
        let (previous_sequence, previous_end) = self.previous.unwrap_or_default();
        let mut head = HeadLayout {
            previous_sequence,
            previous_end: previous_end.0,
            oldest: self.oldest,
            stream_count: streams.len() as u32,
            namespace_count: namespaces.len() as u32,
            fence_count: fences().count() as u32,
            extent_count: extents().count() as u32,
            checksum: 0,
            reserved: 0,
        };

        let mut bytes = Vec::new();
        bytes.extend_from_slice(&head.encode());
        for summary in &streams {
            bytes.extend_from_slice(&summary.encode());
        }
        for fence in fences() {
            bytes.extend_from_slice(&FenceLayout { lsn: fence.lsn.0, from: fence.from }.encode());
        }
        for &Extent { first, last, segment } in extents() {
            bytes.extend_from_slice(&ExtentLayout { first, last, segment }.encode());
        }
        for namespace in &namespaces {
            let raw = NamespaceLayout { id: namespace.id, class: namespace.class, reserved: [0; 6] };
            bytes.extend_from_slice(&raw.encode());
        }
        head.checksum = seed.checksum(&bytes);
        bytes[..CHECKPOINT_HEAD_LEN].copy_from_slice(&head.encode());
        bytes
    }
}

impl StreamSummary {
    fn encode(&self) -> [u8; STREAM_LEN] {
        let flag = |value: Option<u64>, flag| if value.is_some() { flag } else { 0 };
        StreamLayout {
            id: self.stream.id,
            first: self.first.unwrap_or(0),
            last: self.last.unwrap_or(0),
            mark: self.mark.unwrap_or(0),
            newest_segment: self.newest_segment,
            class: self.stream.class,
            flags: flag(self.first, HAS_FIRST) | flag(self.last, HAS_LAST) | flag(self.mark, HAS_MARK),
            fence_count: self.fences.len() as u32,
            extent_count: self.extents.len() as u32,
            reserved: 0,
        }
        .encode()
    }
}
