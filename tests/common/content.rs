//! What a log holds, in the plainest form: the model that the engine is compared with.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tidelog::StreamId;

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Those that are live.
    pub(crate) entries: BTreeMap<u64, Bytes>,
    pub(crate) last: Option<u64>,
    pub(crate) mark: Option<u64>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.entries.iter().map(|(id, payload)| {
            let head: Vec<u8> = payload.iter().take(4).copied().collect();
            format!("{id}: {} bytes {head:02x?}", payload.len())
        });
        f.debug_struct("Stream")
            .field("last", &self.last)
            .field("mark", &self.mark)
            .field("entries", &entries.collect::<Vec<_>>())
            .finish()
    }
}

impl Stream {
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(id, _)| *id)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn obsolete(&mut self, id: u64) {
        self.mark = self.mark.max(Some(id));
        self.entries.retain(|other, _| *other > id);
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        self.entries.retain(|other, _| *other < from);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) namespaces: BTreeSet<StreamId>,
}

impl Content {
    /// Streams of which nothing is left are as if they had never been.
    pub(crate) fn forget_unknown(&mut self) {
        self.streams.retain(|_, stream| !stream.is_unknown());
    }
}
