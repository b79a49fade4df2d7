//! A write-ahead log for the regions of a storage engine: the trait [`LogStore`], its types, and
//! [`TideLogStore`], which keeps it in a [`Log`](crate::Log).

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::Pin;

use futures_core::Stream;

mod closing;
pub mod entry;
mod error;
mod gate;
pub mod provider;
mod read;
mod region;
mod store;

pub use entry::{Entry, Id as EntryId, MultiplePartEntry, MultiplePartHeader, NaiveEntry};
pub use error::LogStoreError;
pub use provider::{KafkaProvider, Provider, RaftEngineProvider};
pub use region::{MAX_REGION_SEQ, RegionGroup, RegionId, RegionNumber, RegionSeq, TableId};
pub use store::{Ack, REGION_CLASS, StoreOptions, TideLogStore};

/// A stream of batches that can be sent to another thread.
pub type SendableEntryStream<'a, I, E> = Pin<Box<dyn Stream<Item = Result<Vec<I>, E>> + Send + 'a>>;

/// A write-ahead log for a storage engine. All regions of the engine share one store.
#[async_trait::async_trait]
pub trait LogStore: Send + Sync + 'static + Debug {
    /// Why a call fails.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Stops the store: what was accepted is finished, further calls are refused.
    async fn stop(&self) -> Result<(), Self::Error>;

    /// Appends the entries, over one or many regions. The response holds, for each region of the
    /// batch, the id of its last entry.
    async fn append_batch(&self, entries: Vec<Entry>) -> Result<AppendBatchResponse, Self::Error>;

    /// Reads the entries of the provider from `id` on, to the last one there is at the call. The
    /// stream owns what it needs.
    async fn read(
        &self,
        provider: &Provider,
        id: EntryId,
    ) -> Result<SendableEntryStream<'static, Entry, Self::Error>, Self::Error>;

    /// Lists the provider as a namespace.
    async fn create_namespace(&self, ns: &Provider) -> Result<(), Self::Error>;

    /// Lists the provider as a namespace no more.
    async fn delete_namespace(&self, ns: &Provider) -> Result<(), Self::Error>;

    /// The namespaces that were created and not deleted.
    async fn list_namespaces(&self) -> Result<Vec<Provider>, Self::Error>;

    /// Marks the region's entries with an id at or below `entry_id` as obsolete, so that the
    /// store may drop them when it sees fit.
    async fn obsolete(
        &self,
        provider: &Provider,
        region_id: RegionId,
        entry_id: EntryId,
    ) -> Result<(), Self::Error>;

    /// Marks all entries of the region as obsolete, and deletes its namespace where it has one of its own.
    async fn obsolete_all(&self, provider: &Provider, region_id: RegionId) -> Result<(), Self::Error>;

    /// Makes an entry as this store wants it.
    fn entry(
        &self,
        data: Vec<u8>,
        entry_id: EntryId,
        region_id: RegionId,
        provider: &Provider,
    ) -> Result<Entry, Self::Error>;

    /// The id of the provider's last entry, 0 without one.
    fn latest_entry_id(&self, provider: &Provider) -> Result<EntryId, Self::Error>;

    /// Waits until each entry of the provider's region with an id at or below `entry_id` is as
    /// safe as an acknowledged append is with this store, so that the caller can persist
    /// `entry_id` as the place from which to replay.
    ///
    /// By default it returns at once, which is right for a store whose acknowledgement already
    /// says so. One that acknowledges earlier overrides it.
    async fn wait_durable(&self, _provider: &Provider, _entry_id: EntryId) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Drops what is left of a region that no longer exists, after all of it was marked as
    /// obsolete, so that nothing of it comes back in a restart: nobody will open the region again
    /// and repeat the mark.
    ///
    /// By default it does nothing. A store that may forget a mark overrides it, and returns when
    /// the release is durable.
    async fn release_region(&self, _provider: &Provider, _region_id: RegionId) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The outcome of an append.
#[derive(Debug, Default)]
pub struct AppendResponse {
    /// The entry's id.
    pub last_entry_id: EntryId,
}

/// The outcome of a batch of appends.
#[derive(Debug, Default)]
pub struct AppendBatchResponse {
    /// For each region of the batch the id of its last entry.
    pub last_entry_ids: HashMap<RegionId, EntryId>,
}
