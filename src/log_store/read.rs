//! A region's entries as the trait hands them out.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::{Entry, EntryId, LogStoreError, NaiveEntry, Provider, RegionId};
use crate::reader::EntryStream;

/// Owns what it needs: the maps of its segments, not the store.
#[derive(Debug)]
pub(super) struct RegionStream {
    /// Gone after an error: what lies behind it would leave a hole.
    entries: Option<EntryStream>,
    provider: Provider,
    region: RegionId,
    next: EntryId,
}

impl RegionStream {
    /// Delivers `entries`, whose first one is `next`.
    pub(super) fn new(entries: EntryStream, region: RegionId, next: EntryId) -> Self {
        let provider = Provider::raft_engine_provider(region.as_u64());
        Self { entries: Some(entries), provider, region, next }
    }

    fn entry(&mut self, entry: crate::reader::Entry) -> Entry {
        self.next = entry.id.saturating_add(1);
        Entry::Naive(NaiveEntry {
            provider: self.provider.clone(),
            region_id: self.region,
            entry_id: entry.id,
            data: entry.payload,
        })
    }
}

impl Stream for RegionStream {
    type Item = Result<Vec<Entry>, LogStoreError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(entries) = &mut self.entries else { return Poll::Ready(None) };
        Poll::Ready(match ready!(Pin::new(entries).poll_next(cx)) {
            Some(Ok(batch)) => Some(Ok(batch.into_iter().map(|entry| self.entry(entry)).collect())),
            Some(Err(source)) => {
                self.entries = None;
                Some(Err(LogStoreError::Unreadable { region: self.region, entry_id: self.next, source }))
            }
            None => {
                self.entries = None;
                None
            }
        })
    }
}
