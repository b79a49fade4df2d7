//! A batch made ready outside the tail lock: checksums computed, places in the payload area
//! given, steps grouped by stream.

use tidelog_format::{FRAME_LEN_MAX, PAYLOAD_ALIGN, StreamId, TRUNCATE_PAYLOAD_LEN, payload_crc};

use super::batch::{Batch, Op, TruncateHint};
use super::frame::frame_bytes;
use crate::error::{Error, Result};
use crate::options::IdRule;

/// A step, with its place. `offset` counts from the start of the batch's reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) stream: StreamId,
    ordinal: u32,
    pub(crate) step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Append { id: u64, offset: u32, len: u32, crc: u32 },
    Obsolete { id: u64 },
    Release,
    Truncate { from: u64, offset: u32, below: Option<TruncateHint> },
    CreateNamespace,
    DeleteNamespace,
}

/// The steps of one stream: `items[start..end]` of the plan, in the batch's order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) stream: StreamId,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Only appends, and their ids follow each other by the rule.
    pub(crate) plain: bool,
}

/// Reusable: nothing is allocated for a batch once its vectors have grown.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Sorted by stream, each stream's in the batch's order.
    pub(crate) items: Vec<Item>,
    /// In the order in which the batch first names the streams.
    pub(crate) groups: Vec<Group>,
    /// Bytes of the payload area.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) restart_emptied: bool,
}

impl Plan {
    /// Most rows that the batch can take: a release may ride in front of each stream.
    pub(crate) fn rows_max(&self) -> u64 {
        let releases = if self.restart_emptied { self.groups.len() } else { 0 };
        (self.items.len() + releases) as u64
    }

    /// Bytes of the frame that the batch takes alone, where that is more than a pooled buffer of
    /// `frame_size` holds: it needs one of its own.
    pub(crate) fn large(&self, block: u64, frame_size: u64) -> Result<Option<u64>> {
        let bytes = frame_bytes(self.bytes, self.rows_max(), block);
        if bytes > u64::from(FRAME_LEN_MAX) {
            return Err(Error::BatchTooLarge { size: bytes, limit: FRAME_LEN_MAX.into() });
        }
        Ok((bytes > frame_size).then_some(bytes))
    }

    /// Whether it lets segments retire, perhaps.
    pub(crate) fn frees(&self) -> bool {
        let frees = |step| matches!(step, Step::Obsolete { .. } | Step::Release | Step::Truncate { .. });
        self.items.iter().any(|item| frees(item.step))
    }

    /// Whether it only frees: such a batch may use the reserve of a full disk.
    pub(crate) fn only_frees(&self) -> bool {
        self.items.iter().all(|item| matches!(item.step, Step::Obsolete { .. } | Step::Release))
    }

    /// `hints` are those for the batch's truncations, in their order; none where ids have no gaps.
    pub(crate) fn fill<P: AsRef<[u8]>>(
        &mut self,
        batch: &Batch<P>,
        rule: IdRule,
        hints: &[TruncateHint],
    ) -> Result<()> {
        let mut hints = hints.iter();
        *self = Self {
            items: std::mem::take(&mut self.items),
            groups: std::mem::take(&mut self.groups),
            restart_emptied: batch.restart_emptied,
            ..Self::default()
        };
        self.items.clear();
        self.groups.clear();
        for op in &batch.ops {
            self.push(op, &mut hints)?;
        }
        // Stable order within a stream by the ordinal; most batches come sorted.
        if !self.items.is_sorted_by_key(|item| (item.stream, item.ordinal)) {
            self.items.sort_unstable_by_key(|item| (item.stream, item.ordinal));
        }
        self.group(rule);
        Ok(())
    }

    fn push<'h, P: AsRef<[u8]>>(
        &mut self,
        op: &Op<P>,
        hints: &mut impl Iterator<Item = &'h TruncateHint>,
    ) -> Result<()> {
        let stream = op.stream();
        if stream.class == StreamId::SYSTEM.class {
            return Err(Error::ReservedStream { stream });
        }
        let ordinal = u32::try_from(self.items.len())
            .map_err(|_| Error::BatchTooLarge { size: self.items.len() as u64, limit: u32::MAX.into() })?;
        let step = match op {
            Op::Append { id, payload, .. } => {
                let payload = payload.as_ref();
                let (offset, len) = self.place(payload.len())?;
                self.entries += 1;
                self.payload_bytes += u64::from(len);
                Step::Append { id: *id, offset, len, crc: payload_crc(payload) }
            }
            Op::Truncate { from, .. } => {
                let (offset, _) = self.place(TRUNCATE_PAYLOAD_LEN)?;
                Step::Truncate { from: *from, offset, below: hints.next().copied() }
            }
            Op::Obsolete { id, .. } => Step::Obsolete { id: *id },
            Op::Release { .. } => Step::Release,
            Op::CreateNamespace { .. } => Step::CreateNamespace,
            Op::DeleteNamespace { .. } => Step::DeleteNamespace,
        };
        self.items.push(Item { stream, ordinal, step });
        Ok(())
    }

    fn place(&mut self, len: usize) -> Result<(u32, u32)> {
        let offset = self.bytes;
        self.bytes += (len as u64).next_multiple_of(PAYLOAD_ALIGN);
        match (u32::try_from(offset), u32::try_from(self.bytes)) {
            (Ok(offset), Ok(_)) => Ok((offset, len as u32)),
            _ => Err(Error::BatchTooLarge { size: self.bytes, limit: u32::MAX.into() }),
        }
    }

    fn group(&mut self, rule: IdRule) {
        let mut start = 0;
        while let Some(head) = self.items.get(start) {
            let stream = head.stream;
            let len = self.items[start..].iter().take_while(|item| item.stream == stream).count();
            let items = &self.items[start..start + len];
            let plain = items.iter().all(|item| matches!(item.step, Step::Append { .. }))
                && items.windows(2).all(|pair| match (pair[0].step, pair[1].step) {
                    (Step::Append { id: a, .. }, Step::Append { id: b, .. }) => follows(rule, a, b),
                    _ => false,
                });
            self.groups.push(Group { stream, start, end: start + len, plain });
            start += len;
        }
        let items = &self.items;
        self.groups.sort_unstable_by_key(|group| items[group.start].ordinal);
    }
}

/// Whether `next` may follow `last` in a stream with live entries.
pub(crate) fn follows(rule: IdRule, last: u64, next: u64) -> bool {
    match rule {
        IdRule::Contiguous => last.checked_add(1) == Some(next),
        IdRule::Increasing => next > last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId { class: 1, id: 1 };
    const B: StreamId = StreamId { class: 1, id: 2 };

    #[test]
    fn groups_keep_the_order_of_first_appearance_and_payloads_their_places() {
        let mut batch: Batch<&[u8]> = Batch::new();
        batch.append(B, 5, b"123456789".as_slice()).append(A, 1, b"".as_slice());
        batch.append(B, 6, b"x".as_slice()).obsolete(A, 1);
        let mut plan = Plan::default();
        plan.fill(&batch, IdRule::Contiguous, &[]).unwrap();
        assert_eq!(
            plan.groups.iter().map(|g| (g.stream, g.plain)).collect::<Vec<_>>(),
            [(B, true), (A, false)]
        );
        assert_eq!((plan.bytes, plan.entries, plan.payload_bytes), (24, 3, 10));
        let Step::Append { offset, .. } = plan.items[plan.groups[0].start + 1].step else { panic!() };
        assert_eq!(offset, 16);
    }

    #[test]
    fn a_gap_is_no_plain_group_unless_ids_need_only_rise() {
        let mut batch: Batch<&[u8]> = Batch::new();
        batch.append(A, 1, b"".as_slice()).append(A, 3, b"".as_slice());
        let mut plan = Plan::default();
        plan.fill(&batch, IdRule::Contiguous, &[]).unwrap();
        assert!(!plan.groups[0].plain);
        plan.fill(&batch, IdRule::Increasing, &[]).unwrap();
        assert!(plan.groups[0].plain);
        assert!(!follows(IdRule::Contiguous, u64::MAX, 0));
    }

    #[test]
    fn the_logs_own_class_is_refused() {
        let mut batch: Batch<&[u8]> = Batch::new();
        batch.append(StreamId { class: 0, id: 9 }, 1, b"".as_slice());
        assert!(matches!(
            Plan::default().fill(&batch, IdRule::Contiguous, &[]),
            Err(Error::ReservedStream { .. })
        ));
    }
}
