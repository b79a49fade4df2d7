//! One record's row in the table of its frame.

use crate::{
    CHECKPOINT_HEAD_LEN, FRAME_HEADER_LEN, Fault, PAYLOAD_ALIGN, ROW_LEN, StreamId, TRUNCATE_PAYLOAD_LEN,
    What,
};

layout! {
    RowLayout, 32 {
        0 stream_id: u64,
        8 entry_id: u64,
        16 offset: u32,
        20 length: u32,
        24 crc: u32,
        28 class: u16,
        30 kind: u8,
        31 flags: u8,
    }
}

/// What a record is. Kind 0 is "never written" and never valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An entry of a stream.
    Entry = 1,
    /// Entries at or below an id are obsolete.
    Obsolete = 2,
    /// All of a stream is gone.
    Release = 3,
    /// Entries from an id on are gone.
    Truncate = 4,
    /// A namespace exists.
    NamespaceCreate = 5,
    /// A namespace no longer exists.
    NamespaceDelete = 6,
    /// Segments below a sequence have retired.
    Oldest = 7,
    /// The state at the start of the segment.
    Checkpoint = 8,
    /// The segment is closed.
    SegmentEnd = 9,
}

impl Kind {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Entry,
            2 => Self::Obsolete,
            3 => Self::Release,
            4 => Self::Truncate,
            5 => Self::NamespaceCreate,
            6 => Self::NamespaceDelete,
            7 => Self::Oldest,
            8 => Self::Checkpoint,
            9 => Self::SegmentEnd,
            _ => return None,
        })
    }

    /// Whether records of this kind are the log's own, and so belong to [`StreamId::SYSTEM`].
    pub const fn is_system(self) -> bool {
        matches!(self, Self::Oldest | Self::Checkpoint | Self::SegmentEnd)
    }

    const fn has_id(self) -> bool {
        matches!(self, Self::Entry | Self::Obsolete | Self::Truncate | Self::Oldest | Self::SegmentEnd)
    }
}

/// Flags of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowFlags(u8);

impl RowFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// An entry copied forward from a segment that is to retire.
    pub const MOVED: Self = Self(1);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags as they are on disk.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// One record of a frame. [`crate::Record`] gives the meaning of `entry_id` and the payload for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The stream.
    pub stream: StreamId,
    /// The entry's id, or another number that the kind needs, or 0.
    pub entry_id: u64,
    /// Where the payload starts, from the start of the frame.
    pub offset: u32,
    /// The payload's length.
    pub length: u32,
    /// The payload's CRC-32, not seeded: see [`payload_crc`].
    pub crc: u32,
    /// What the record is.
    pub kind: Kind,
    /// Its flags.
    pub flags: RowFlags,
}

impl Row {
    /// The row of an entry whose payload starts at `offset` in the frame.
    pub const fn entry(stream: StreamId, id: u64, offset: u32, length: u32, crc: u32) -> Self {
        Self { stream, entry_id: id, offset, length, crc, kind: Kind::Entry, flags: RowFlags::NONE }
    }

    /// Whether it is an entry, not a control record.
    pub const fn is_entry(&self) -> bool {
        matches!(self.kind, Kind::Entry)
    }

    /// Whether it is an entry copied forward from an older segment.
    pub const fn is_moved(&self) -> bool {
        self.flags.contains(RowFlags::MOVED)
    }

    /// The row's bytes.
    pub fn encode(&self) -> [u8; ROW_LEN] {
        RowLayout {
            stream_id: self.stream.id,
            entry_id: self.entry_id,
            offset: self.offset,
            length: self.length,
            crc: self.crc,
            class: self.stream.class,
            kind: self.kind as u8,
            flags: self.flags.0,
        }
        .encode()
    }

    /// The row as it is, or nothing where the kind is unknown. [`Row::check`] judges the rest.
    pub(crate) fn decode(bytes: &[u8; ROW_LEN]) -> Option<Self> {
        let raw = RowLayout::decode(bytes);
        Some(Self {
            stream: StreamId { class: raw.class, id: raw.stream_id },
            entry_id: raw.entry_id,
            offset: raw.offset,
            length: raw.length,
            crc: raw.crc,
            kind: Kind::from_byte(raw.kind)?,
            flags: RowFlags(raw.flags),
        })
    }

    /// The byte that is to say the kind.
    pub(crate) fn kind_byte(bytes: &[u8; ROW_LEN]) -> u8 {
        RowLayout::decode(bytes).kind
    }

    /// Checks what a row must be by itself: `at` is its offset in the file, `table_offset` where payloads end.
    pub(crate) fn check(&self, at: u64, table_offset: u32) -> Result<(), Fault> {
        let field = |offset| at.saturating_add(offset);
        let Self { stream, kind, flags, entry_id, .. } = *self;
        if kind.is_system() {
            Fault::unless_equal(field(28), What::RowStream, 0u32, stream.class)?;
            Fault::unless_equal(field(0), What::RowStream, 0u32, stream.id)?;
        } else {
            Fault::unless(stream.class != 0, field(28), What::RowStream, 1u32, stream.class)?;
        }
        let good = kind.has_id() || entry_id == 0;
        Fault::unless(good, field(8), What::RowId, 0u32, entry_id)?;
        let is_sequence = matches!(kind, Kind::Oldest | Kind::SegmentEnd);
        Fault::unless(!is_sequence || entry_id != 0, field(8), What::RowId, 1u32, entry_id)?;
        let known = if self.is_entry() { RowFlags::MOVED } else { RowFlags::NONE };
        Fault::unless(known.contains(flags), field(31), What::Flags, known.0, flags.0)?;
        self.check_payload(at, table_offset)
    }

    fn check_payload(&self, at: u64, table_offset: u32) -> Result<(), Fault> {
        const START: u64 = FRAME_HEADER_LEN as u64;
        let field = |offset| at.saturating_add(offset);
        let (offset, length) = (u64::from(self.offset), u64::from(self.length));
        let good = offset >= START && offset.is_multiple_of(PAYLOAD_ALIGN);
        Fault::unless(good, field(16), What::RowBounds, START, offset)?;
        let end = offset + length;
        Fault::unless(end <= u64::from(table_offset), field(20), What::RowBounds, table_offset, end)?;
        let (good, expected) = match self.kind {
            Kind::Entry => (true, 0),
            Kind::Truncate => (length == TRUNCATE_PAYLOAD_LEN as u64, TRUNCATE_PAYLOAD_LEN),
            Kind::Checkpoint => (length >= CHECKPOINT_HEAD_LEN as u64, CHECKPOINT_HEAD_LEN),
            _ => (length == 0, 0),
        };
        Fault::unless(good, field(20), What::RowBounds, expected as u64, length)?;
        Fault::unless(length != 0 || self.crc == 0, field(24), What::PayloadChecksum, 0u32, self.crc)
    }

    /// What rows of a frame are sorted by. Control records keep the order they were staged in.
    pub(crate) fn order(&self) -> (StreamId, bool, u64) {
        (self.stream, self.is_entry(), if self.is_entry() { self.entry_id } else { 0 })
    }
}

/// The CRC-32 of a payload. It is not seeded, so that a payload keeps it where it is copied forward.
pub fn payload_crc(payload: &[u8]) -> u32 {
    crc32fast::hash(payload)
}

/// Puts rows in the order that a table has: by stream; within one its control records, in the order given, and then its
/// entries by id.
pub fn sort_rows(rows: &mut [Row]) {
    rows.sort_by_key(Row::order);
}
