//! Reading a checkpoint. Each part is taken off bytes that are there; no count is trusted before.

use alloc::vec::Vec;

use super::layouts::{
    EXTENT_LEN, ExtentLayout, FENCE_LEN, FenceLayout, HAS_FIRST, HAS_LAST, HAS_MARK, HeadLayout,
    NamespaceLayout, STREAM_LEN, StreamLayout,
};
use super::{Checkpoint, CheckpointHead, Extent, Fence, StreamSummary};
use crate::{Fault, Lsn, Seed, StreamId, What};

impl Checkpoint {
    /// Reads a whole checkpoint, which is at `at` in the file.
    pub fn decode(bytes: &[u8], seed: Seed, at: u64) -> Result<Self, Fault> {
        let head = CheckpointHead::decode(bytes, at)?;
        Fault::unless_equal(at, What::CheckpointLength, head.encoded_len(), bytes.len() as u64)?;
        let mut body = Body { rest: bytes, at };
        let raw_head = HeadLayout::decode(body.take()?);
        let unsigned = HeadLayout { checksum: 0, ..raw_head };
        let checksum = seed.checksum_parts(&[&unsigned.encode(), body.rest]);
        Fault::unless_equal(at.saturating_add(40), What::CheckpointChecksum, checksum, raw_head.checksum)?;

        let rows_at = body.at;
        let rows: &[[u8; STREAM_LEN]] = body.take_many(head.stream_count)?;
        let fences: &[[u8; FENCE_LEN]] = body.take_many(head.fence_count)?;
        let extents: &[[u8; EXTENT_LEN]] = body.take_many(head.extent_count)?;
        let mut parts = Parts { fences, extents };
        let mut streams: Vec<StreamSummary> = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let at = rows_at.saturating_add((index * STREAM_LEN) as u64);
            let summary = StreamSummary::decode(row, &mut parts, at)?;
            check_order(streams.last().map(|before| before.stream), summary.stream, at)?;
            streams.push(summary);
        }
        Fault::unless_equal(at.saturating_add(32), What::CheckpointField, 0u32, parts.fences.len() as u64)?;
        Fault::unless_equal(at.saturating_add(36), What::CheckpointField, 0u32, parts.extents.len() as u64)?;
        let namespaces = body.namespaces(head.namespace_count)?;
        Ok(Self { previous: head.previous, oldest: head.oldest, streams, namespaces })
    }
}

impl StreamSummary {
    fn decode(bytes: &[u8; STREAM_LEN], parts: &mut Parts<'_>, at: u64) -> Result<Self, Fault> {
        let raw = StreamLayout::decode(bytes);
        let known = HAS_FIRST | HAS_LAST | HAS_MARK;
        Fault::unless(raw.flags & !known == 0, at.saturating_add(42), What::Flags, known, raw.flags)?;
        Fault::unless_equal(at.saturating_add(52), What::Reserved, 0u32, raw.reserved)?;
        Fault::unless(raw.class != 0, at.saturating_add(40), What::CheckpointField, 1u32, raw.class)?;
        let optional = |value: u64, flag: u16, field: u64| {
            let is_there = raw.flags & flag != 0;
            Fault::unless(
                is_there || value == 0,
                at.saturating_add(field),
                What::CheckpointField,
                0u32,
                value,
            )?;
            Ok(is_there.then_some(value))
        };
        let (fences, extents) = parts.take(raw.fence_count, raw.extent_count, at)?;
        Ok(Self {
            stream: StreamId { class: raw.class, id: raw.id },
            first: optional(raw.first, HAS_FIRST, 8)?,
            last: optional(raw.last, HAS_LAST, 16)?,
            mark: optional(raw.mark, HAS_MARK, 24)?,
            newest_segment: raw.newest_segment,
            fences,
            extents,
        })
    }
}

fn check_order(before: Option<StreamId>, this: StreamId, at: u64) -> Result<(), Fault> {
    let bound = before.map_or(0, |before| before.id);
    Fault::unless(before < Some(this), at, What::CheckpointOrder, bound, this.id)
}

/// What is left of the bytes, and where in the file that starts.
struct Body<'a> {
    rest: &'a [u8],
    at: u64,
}

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], Fault> {
        let Some((value, rest)) = self.rest.split_first_chunk() else {
            return Err(self.short(N as u64));
        };
        self.rest = rest;
        self.at = self.at.saturating_add(N as u64);
        Ok(value)
    }

    fn take_many<const N: usize>(&mut self, count: u32) -> Result<&'a [[u8; N]], Fault> {
        let len = count as usize * N;
        let Some((values, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.short(len as u64));
        };
        self.rest = rest;
        self.at = self.at.saturating_add(len as u64);
        Ok(crate::layout::rows(values))
    }

    fn short(&self, expected: u64) -> Fault {
        Fault { offset: self.at, what: What::CheckpointLength, expected, actual: self.rest.len() as u64 }
    }

    fn namespaces(&mut self, count: u32) -> Result<Vec<StreamId>, Fault> {
        let mut namespaces: Vec<StreamId> = Vec::new();
        for _ in 0..count {
            let at = self.at;
            let raw = NamespaceLayout::decode(self.take()?);
            let namespace = StreamId { class: raw.class, id: raw.id };
            Fault::unless(raw.reserved == [0; 6], at.saturating_add(10), What::Reserved, 0u32, 1u32)?;
            Fault::unless(raw.class != 0, at.saturating_add(8), What::CheckpointField, 1u32, raw.class)?;
            check_order(namespaces.last().copied(), namespace, at)?;
            namespaces.push(namespace);
        }
        Ok(namespaces)
    }
}

/// Fences and extents that the streams so far have not taken.
struct Parts<'a> {
    fences: &'a [[u8; FENCE_LEN]],
    extents: &'a [[u8; EXTENT_LEN]],
}

impl Parts<'_> {
    fn take(&mut self, fences: u32, extents: u32, at: u64) -> Result<(Vec<Fence>, Vec<Extent>), Fault> {
        let missing = |field, wanted: u32, there: usize| Fault {
            offset: at.saturating_add(field),
            what: What::CheckpointField,
            expected: there as u64,
            actual: u64::from(wanted),
        };
        let split = self.fences.split_at_checked(fences as usize);
        let (own_fences, rest) = split.ok_or_else(|| missing(44, fences, self.fences.len()))?;
        self.fences = rest;
        let split = self.extents.split_at_checked(extents as usize);
        let (own_extents, rest) = split.ok_or_else(|| missing(48, extents, self.extents.len()))?;
        self.extents = rest;
        let fences = own_fences.iter().map(FenceLayout::decode);
        let extents = own_extents.iter().map(ExtentLayout::decode);
        Ok((
            fences.map(|raw| Fence { lsn: Lsn(raw.lsn), from: raw.from }).collect(),
            extents.map(|raw| Extent { first: raw.first, last: raw.last, segment: raw.segment }).collect(),
        ))
    }
}
