//! What a row and its payload say.

use crate::{FRAME_HEADER_LEN, Fault, Kind, Row, RowFlags, StreamId, What, payload_crc};

/// Bytes of a truncation's payload.
pub const TRUNCATE_PAYLOAD_LEN: usize = 16;

layout! {
    TruncateLayout, 16 {
        0 has_last: u64,
        8 last: u64,
    }
}

/// One record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An entry of a stream.
    Entry {
        /// The stream.
        stream: StreamId,
        /// The entry's id.
        id: u64,
        /// Its payload.
        payload: &'a [u8],
        /// Whether it is a copy of an entry of an older segment.
        moved: bool,
    },
    /// Entries of the stream at or below `id` are obsolete.
    Obsolete {
        /// The stream.
        stream: StreamId,
        /// The mark.
        id: u64,
    },
    /// All of the stream is gone, its mark and last id too.
    Release {
        /// The stream.
        stream: StreamId,
    },
    /// Entries of the stream from `from` on are gone.
    Truncate {
        /// The stream.
        stream: StreamId,
        /// The lowest id that is gone.
        from: u64,
        /// The stream's last id after it.
        last: Option<u64>,
    },
    /// The namespace is listed.
    NamespaceCreate {
        /// The namespace.
        stream: StreamId,
    },
    /// The namespace is no longer listed.
    NamespaceDelete {
        /// The namespace.
        stream: StreamId,
    },
    /// Segments below `sequence` have retired.
    Oldest {
        /// The oldest segment that is live.
        sequence: u64,
    },
    /// The state at the start of the segment: the bytes of a [`crate::Checkpoint`].
    Checkpoint(&'a [u8]),
    /// The segment is closed.
    SegmentEnd {
        /// The successor's sequence.
        next: u64,
    },
}

impl<'a> Record<'a> {
    /// The record of a row of a verified table, with its payload, which is verified here. The frame is at `offset` in
    /// the file.
    pub fn decode(row: &Row, payload: &'a [u8], offset: u64) -> Result<Self, Fault> {
        row.verify(payload, offset)?;
        let Row { stream, entry_id: id, .. } = *row;
        Ok(match row.kind {
            Kind::Entry => Self::Entry { stream, id, payload, moved: row.is_moved() },
            Kind::Obsolete => Self::Obsolete { stream, id },
            Kind::Release => Self::Release { stream },
            Kind::Truncate => {
                let at = offset.saturating_add(u64::from(row.offset));
                Self::Truncate { stream, from: id, last: decode_last(payload, at)? }
            }
            Kind::NamespaceCreate => Self::NamespaceCreate { stream },
            Kind::NamespaceDelete => Self::NamespaceDelete { stream },
            Kind::Oldest => Self::Oldest { sequence: id },
            Kind::Checkpoint => Self::Checkpoint(payload),
            Kind::SegmentEnd => Self::SegmentEnd { next: id },
        })
    }
}

fn decode_last(payload: &[u8], at: u64) -> Result<Option<u64>, Fault> {
    let short = Fault {
        offset: at,
        what: What::TruncatePayload,
        expected: TRUNCATE_PAYLOAD_LEN as u64,
        actual: payload.len() as u64,
    };
    let bytes: &[u8; TRUNCATE_PAYLOAD_LEN] = payload.try_into().map_err(|_| short)?;
    let raw = TruncateLayout::decode(bytes);
    Fault::unless(raw.has_last <= 1, at, What::TruncatePayload, 1u32, raw.has_last)?;
    let good = raw.has_last == 1 || raw.last == 0;
    Fault::unless(good, at.saturating_add(8), What::TruncatePayload, 0u32, raw.last)?;
    Ok((raw.has_last == 1).then_some(raw.last))
}

/// Rows of control records. Where one has a payload, `offset` is to be set to the payload's place in the frame; where it
/// has none, the row is complete.
impl Row {
    /// An [`Record::Obsolete`].
    pub const fn obsolete(stream: StreamId, id: u64) -> Self {
        Self::control(Kind::Obsolete, stream, id)
    }

    /// A [`Record::Release`].
    pub const fn release(stream: StreamId) -> Self {
        Self::control(Kind::Release, stream, 0)
    }

    /// A [`Record::Truncate`], and its payload.
    pub fn truncate(stream: StreamId, from: u64, last: Option<u64>) -> (Self, [u8; TRUNCATE_PAYLOAD_LEN]) {
        let raw = TruncateLayout { has_last: u64::from(last.is_some()), last: last.unwrap_or(0) };
        let payload = raw.encode();
        (Self::control(Kind::Truncate, stream, from).with_payload(&payload), payload)
    }

    /// A [`Record::NamespaceCreate`].
    pub const fn namespace_create(namespace: StreamId) -> Self {
        Self::control(Kind::NamespaceCreate, namespace, 0)
    }

    /// A [`Record::NamespaceDelete`].
    pub const fn namespace_delete(namespace: StreamId) -> Self {
        Self::control(Kind::NamespaceDelete, namespace, 0)
    }

    /// A [`Record::Oldest`].
    pub const fn oldest(sequence: u64) -> Self {
        Self::control(Kind::Oldest, StreamId::SYSTEM, sequence)
    }

    /// A [`Record::Checkpoint`] with this payload, of less than 4 GiB.
    pub fn checkpoint(payload: &[u8]) -> Self {
        Self::control(Kind::Checkpoint, StreamId::SYSTEM, 0).with_payload(payload)
    }

    /// A [`Record::SegmentEnd`].
    pub const fn segment_end(next: u64) -> Self {
        Self::control(Kind::SegmentEnd, StreamId::SYSTEM, next)
    }

    const fn control(kind: Kind, stream: StreamId, entry_id: u64) -> Self {
        let offset = FRAME_HEADER_LEN as u32;
        Self { stream, entry_id, offset, length: 0, crc: 0, kind, flags: RowFlags::NONE }
    }

    fn with_payload(self, payload: &[u8]) -> Self {
        Self { length: payload.len() as u32, crc: payload_crc(payload), ..self }
    }
}
