//! What a log store keeps: entries, whole or in parts.

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::{Provider, RegionId};

/// Id of an entry in its region.
pub type Id = u64;

/// An entry that is one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveEntry {
    /// Where it is kept.
    pub provider: Provider,
    /// Its region.
    pub region_id: RegionId,
    /// Its id.
    pub entry_id: Id,
    /// Its payload.
    pub data: Bytes,
}

impl NaiveEntry {
    fn estimated_size(&self) -> usize {
        size_of::<Self>() + self.data.len()
    }
}

impl fmt::Display for NaiveEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "NaiveEntry(provider={:?}, region_id={}, entry_id={})",
            self.provider, self.region_id, self.entry_id
        )
    }
}

/// Which part of its entry a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiplePartHeader {
    /// The first one.
    First,
    /// One in the middle, by number.
    Middle(usize),
    /// The last one.
    Last,
}

/// An entry in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiplePartEntry {
    /// Where it is kept.
    pub provider: Provider,
    /// Its region.
    pub region_id: RegionId,
    /// Its id.
    pub entry_id: Id,
    /// Which parts there are.
    pub headers: Vec<MultiplePartHeader>,
    /// Their payloads.
    pub parts: Vec<Bytes>,
}

impl MultiplePartEntry {
    fn is_complete(&self) -> bool {
        self.headers.contains(&MultiplePartHeader::First) && self.headers.contains(&MultiplePartHeader::Last)
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    fn estimated_size(&self) -> usize {
        size_of::<Self>() + self.bytes() + self.headers.len() * size_of::<MultiplePartHeader>()
    }

    fn into_bytes(self) -> Bytes {
        let mut joined = BytesMut::with_capacity(self.bytes());
        self.parts.iter().for_each(|part| joined.extend_from_slice(part));
        joined.freeze()
    }
}

impl fmt::Display for MultiplePartEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MultiplePartEntry(provider={:?}, region_id={}, entry_id={}, len={})",
            self.provider,
            self.region_id,
            self.entry_id,
            self.parts.len()
        )
    }
}

/// An entry of a region. Payloads are [`Bytes`], which a `Vec<u8>` becomes without a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// In one piece.
    Naive(NaiveEntry),
    /// In parts.
    MultiplePart(MultiplePartEntry),
}

impl Entry {
    /// The entry, if it is one piece.
    pub fn into_naive_entry(self) -> Option<NaiveEntry> {
        match self {
            Self::Naive(entry) => Some(entry),
            Self::MultiplePart(_) => None,
        }
    }

    /// The entry, if it is in parts.
    pub fn into_multiple_part_entry(self) -> Option<MultiplePartEntry> {
        match self {
            Self::Naive(_) => None,
            Self::MultiplePart(entry) => Some(entry),
        }
    }

    /// Where it is kept.
    pub fn provider(&self) -> &Provider {
        match self {
            Self::Naive(entry) => &entry.provider,
            Self::MultiplePart(entry) => &entry.provider,
        }
    }

    /// Its region.
    pub fn region_id(&self) -> RegionId {
        match self {
            Self::Naive(entry) => entry.region_id,
            Self::MultiplePart(entry) => entry.region_id,
        }
    }

    /// Its id.
    pub fn entry_id(&self) -> Id {
        match self {
            Self::Naive(entry) => entry.entry_id,
            Self::MultiplePart(entry) => entry.entry_id,
        }
    }

    /// Gives it another id.
    pub fn set_entry_id(&mut self, id: Id) {
        match self {
            Self::Naive(entry) => entry.entry_id = id,
            Self::MultiplePart(entry) => entry.entry_id = id,
        }
    }

    /// Whether it is one piece, or has both a first and a last part.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Naive(_) => true,
            Self::MultiplePart(entry) => entry.is_complete(),
        }
    }

    /// Its payload; parts are joined.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Naive(entry) => entry.data,
            Self::MultiplePart(entry) => entry.into_bytes(),
        }
    }

    /// Roughly how much memory it takes.
    pub fn estimated_size(&self) -> usize {
        match self {
            Self::Naive(entry) => entry.estimated_size(),
            Self::MultiplePart(entry) => entry.estimated_size(),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Naive(entry) => entry.fmt(f),
            Self::MultiplePart(entry) => entry.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(data: Vec<u8>) -> Entry {
        let region_id = RegionId::new(1, 1);
        let provider = Provider::raft_engine_provider(region_id.as_u64());
        Entry::Naive(NaiveEntry { provider, region_id, entry_id: 3, data: data.into() })
    }

    fn parts(headers: &[MultiplePartHeader], parts: &[&'static [u8]]) -> Entry {
        let region_id = RegionId::new(1, 1);
        Entry::MultiplePart(MultiplePartEntry {
            provider: Provider::kafka_provider("t".into()),
            region_id,
            entry_id: 3,
            headers: headers.to_vec(),
            parts: parts.iter().copied().map(Bytes::from_static).collect(),
        })
    }

    #[test]
    fn a_vector_becomes_the_payload_without_a_copy() {
        let data = vec![7; 100];
        let at = data.as_ptr();
        let entry = naive(data);
        assert!(entry.is_complete());
        assert_eq!(entry.estimated_size(), size_of::<NaiveEntry>() + 100);
        assert_eq!(entry.into_bytes().as_ptr(), at);
    }

    #[test]
    fn parts_are_joined_in_their_order() {
        use MultiplePartHeader::{First, Last, Middle};
        let entry = parts(&[First, Middle(1), Last], &[b"ab", b"", b"cde"]);
        assert!(entry.is_complete());
        let size = size_of::<MultiplePartEntry>() + 5 + 3 * size_of::<MultiplePartHeader>();
        assert_eq!(entry.estimated_size(), size);
        assert_eq!(entry.into_bytes(), "abcde");
    }

    #[test]
    fn an_entry_is_complete_with_a_first_and_a_last_part() {
        use MultiplePartHeader::{First, Last, Middle};
        assert!(parts(&[First, Last], &[b"a", b"b"]).is_complete());
        for headers in [&[First, Middle(1)][..], &[Middle(0), Last], &[]] {
            assert!(!parts(headers, &[b"a", b"b"]).is_complete(), "{headers:?}");
        }
    }

    #[test]
    fn accessors_see_both_kinds() {
        for mut entry in [naive(vec![1]), parts(&[], &[])] {
            assert_eq!((entry.region_id(), entry.entry_id()), (RegionId::new(1, 1), 3));
            entry.set_entry_id(9);
            assert_eq!(entry.entry_id(), 9);
            let whole = entry.provider().as_raft_engine_provider().is_some();
            assert_eq!(entry.clone().into_naive_entry().is_some(), whole);
            assert_eq!(entry.into_multiple_part_entry().is_some(), !whole);
        }
    }

    #[test]
    fn both_kinds_show_their_address() {
        assert_eq!(
            naive(vec![1]).to_string(),
            "NaiveEntry(provider=RaftEngine(RaftEngineProvider { id: 4294967297 }), \
             region_id=4294967297(1, 1), entry_id=3)"
        );
        assert_eq!(
            parts(&[], &[b"a", b"b"]).to_string(),
            "MultiplePartEntry(provider=Kafka(KafkaProvider { topic: \"t\" }), \
             region_id=4294967297(1, 1), entry_id=3, len=2)"
        );
    }
}
