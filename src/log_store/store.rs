//! The log store on a log of this crate.

use std::collections::HashMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use tidelog_format::{Lsn, StreamId};

use super::closing::Closing;
use super::gate::Gate;
use super::read::RegionStream;
use super::{
    AppendBatchResponse, Entry, EntryId, LogStore, LogStoreError, NaiveEntry, Provider, RaftEngineProvider,
    RegionId, SendableEntryStream,
};
use crate::commit::Batch;
use crate::error::Error;
use crate::log::{Append, Log};
use crate::options::{IdRule, Options};
use crate::reader::ReadOptions;

/// The class of streams that regions are.
pub const REGION_CLASS: u16 = 1;

/// When an append is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// When it is durable.
    #[default]
    Durable,
    /// When it is ordered and readable. The caller waits with [`LogStore::wait_durable`] before
    /// it persists an id as a place to replay from.
    Staged,
}

/// How a [`TideLogStore`] is opened.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct StoreOptions {
    log: Options,
    ack: Ack,
    read: ReadOptions,
}

impl StoreOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the log is opened.
    pub fn log(mut self, log: Options) -> Self {
        self.log = log;
        self
    }

    /// When an append is acknowledged.
    pub fn ack(mut self, ack: Ack) -> Self {
        self.ack = ack;
        self
    }

    /// How regions are read: how far, and in batches of which size.
    pub fn read(mut self, read: ReadOptions) -> Self {
        self.read = read;
        self
    }
}

/// A [`LogStore`] that keeps each region as a stream of a [`Log`].
///
/// No runtime is assumed, and nothing blocks in a poll. Dropping the store without
/// [`LogStore::stop`] loses nothing that was acknowledged as durable.
#[derive(Debug)]
pub struct TideLogStore {
    log: Log,
    /// The log is this store's own: stopping the store closes it.
    owned: bool,
    closing: OnceLock<Arc<Closing>>,
    ack: Ack,
    read: ReadOptions,
    gate: Gate,
    /// Frames below it carry all that this store staged.
    staged: AtomicU64,
}

impl TideLogStore {
    /// Opens the log in the directory for this store alone. Blocks while the log is recovered.
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Self, LogStoreError> {
        check_rule(options.log.id_rule)?;
        let log = Log::open(dir, options.log)?;
        Ok(Self::new(log, true, options.ack, options.read))
    }

    /// A store on a log that others use too; how it was opened is theirs to say, so
    /// [`StoreOptions::log`] does not matter. Stopping the store leaves the log running.
    pub fn on_log(log: Log, options: &StoreOptions) -> Result<Self, LogStoreError> {
        check_rule(log.engine().options.id_rule)?;
        Ok(Self::new(log, false, options.ack, options.read))
    }

    fn new(log: Log, owned: bool, ack: Ack, read: ReadOptions) -> Self {
        let (closing, gate, staged) = (OnceLock::new(), Gate::default(), AtomicU64::new(0));
        Self { log, owned, closing, ack, read, gate, staged }
    }

    /// The log beneath.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The first and the last live entry of the region.
    pub fn span(&self, provider: &RaftEngineProvider) -> (Option<EntryId>, Option<EntryId>) {
        let info = self.log.stream(StreamId::new(REGION_CLASS, provider.id)).unwrap_or_default();
        (info.first, info.first.and(info.last))
    }

    fn check_running(&self) -> Result<(), LogStoreError> {
        if self.gate.is_closed() { Err(LogStoreError::Stopped) } else { Ok(()) }
    }

    /// The batch is in the log, or an error says why not. Dropped before, it leaves no trace.
    async fn stage(&self, append: Append<Bytes>) -> Result<Lsn, LogStoreError> {
        let mut append = pin!(append);
        let mut stopped = None;
        poll_fn(|cx| {
            let Some(_pass) = self.gate.enter() else { return Poll::Ready(Err(LogStoreError::Stopped)) };
            match append.as_mut().poll(cx) {
                Poll::Ready(staged) => Poll::Ready(staged.map_err(LogStoreError::from).inspect(|lsn| {
                    self.staged.fetch_max(lsn.0.saturating_add(1), Ordering::SeqCst);
                })),
                Poll::Pending => {
                    self.gate.poll_closed(&mut stopped, cx).map(|()| Err(LogStoreError::Stopped))
                }
            }
        })
        .await
    }

    async fn durable(&self, staged: Lsn) -> Result<(), LogStoreError> {
        Ok(self.log.durable(staged).await?)
    }

    async fn close(&self) -> crate::error::Result<()> {
        let closing = if let Some(closing) = self.closing.get() {
            closing
        } else {
            let closing = Closing::begin(self.log.clone())?;
            self.closing.get_or_init(|| closing)
        };
        closing.ended().await
    }
}

/// A region's ids have no gaps, and its log must see to that.
fn check_rule(rule: IdRule) -> Result<(), LogStoreError> {
    let error = |value| Error::InvalidOption { name: "id_rule", value, reason: "contiguous for a log store" };
    if rule == IdRule::Contiguous { Ok(()) } else { Err(LogStoreError::Log(error(rule as u64))) }
}

/// The stream that the provider addresses.
fn stream_of(provider: &Provider) -> Result<StreamId, LogStoreError> {
    let local = provider.as_raft_engine_provider().ok_or_else(|| LogStoreError::InvalidProvider {
        expected: RaftEngineProvider::type_name(),
        actual: provider.type_name(),
    })?;
    Ok(StreamId::new(REGION_CLASS, local.id))
}

/// The stream of the region, if that is what the provider addresses.
fn region_stream(provider: &Provider, region: RegionId) -> Result<StreamId, LogStoreError> {
    let stream = stream_of(provider)?;
    if stream.id == region.as_u64() {
        Ok(stream)
    } else {
        Err(LogStoreError::RegionMismatch { provider_id: stream.id, region })
    }
}

/// The stream that the namespace is. No namespace has the id 0.
fn namespace_stream(provider: &Provider) -> Result<StreamId, LogStoreError> {
    match stream_of(provider)? {
        StreamId { id: 0, .. } => Err(LogStoreError::IllegalNamespace { id: 0 }),
        stream => Ok(stream),
    }
}

/// What one call appends.
struct Appends {
    batch: Batch,
    last_ids: HashMap<RegionId, EntryId>,
    /// Each region's first id, in order of appearance.
    first_ids: Vec<(u64, EntryId)>,
}

impl Appends {
    fn new(entries: Vec<Entry>) -> Result<Self, LogStoreError> {
        let mut batch = Batch::new();
        batch.restart_emptied(true);
        let mut appends = Self { batch, last_ids: HashMap::new(), first_ids: Vec::new() };
        for entry in entries {
            let (region, id) = (entry.region_id(), entry.entry_id());
            let stream = region_stream(entry.provider(), region)?;
            if !entry.is_complete() {
                return Err(LogStoreError::IncompleteEntry { region, entry_id: id });
            }
            if appends.last_ids.insert(region, id).is_none() {
                appends.first_ids.push((stream.id, id));
            }
            appends.batch.append(stream, id, entry.into_bytes());
        }
        Ok(appends)
    }
}

/// What the refusal of an id means here. Only a region's first entry in a batch can lie below the
/// region's first one: those behind it follow an entry of the batch.
fn refusal(error: LogStoreError, first_ids: &[(u64, EntryId)]) -> LogStoreError {
    let LogStoreError::Log(Error::OutOfOrder { stream, first, last: Some(last), attempted }) = error else {
        return error;
    };
    let region = RegionId::from_u64(stream.id);
    match first {
        Some(first) if attempted < first && first_ids.contains(&(stream.id, attempted)) => {
            LogStoreError::ObsoleteEntry { region, first, attempted }
        }
        _ => LogStoreError::DiscontinuousEntry { region, last, attempted },
    }
}

#[async_trait::async_trait]
impl LogStore for TideLogStore {
    type Error = LogStoreError;

    async fn stop(&self) -> Result<(), LogStoreError> {
        self.gate.close();
        self.gate.emptied().await;
        let durable = match self.staged.load(Ordering::SeqCst).checked_sub(1) {
            Some(last) => self.log.durable(Lsn(last)).await,
            None => Ok(()),
        };
        let closed = if self.owned { self.close().await } else { Ok(()) };
        Ok(durable.and(closed)?)
    }

    async fn append_batch(&self, entries: Vec<Entry>) -> Result<AppendBatchResponse, LogStoreError> {
        self.check_running()?;
        if entries.is_empty() {
            return Ok(AppendBatchResponse::default());
        }
        let Appends { batch, last_ids, first_ids } = Appends::new(entries)?;
        let refused = |error| refusal(error, &first_ids);
        match self.ack {
            Ack::Staged => self.stage(self.log.append_async(batch)).await.map(drop).map_err(refused)?,
            Ack::Durable => {
                let lsn = self.stage(self.log.append_wanted(batch)).await.map_err(refused)?;
                self.durable(lsn).await?;
            }
        }
        Ok(AppendBatchResponse { last_entry_ids: last_ids })
    }

    async fn read(
        &self,
        provider: &Provider,
        id: EntryId,
    ) -> Result<SendableEntryStream<'static, Entry, LogStoreError>, LogStoreError> {
        self.check_running()?;
        let stream = stream_of(provider)?;
        let reader = self.log.read(stream, id.., self.read)?;
        let next = reader.position().unwrap_or(id);
        let entries = reader.into_stream();
        Ok(Box::pin(RegionStream::new(entries, RegionId::from_u64(stream.id), next)))
    }

    async fn create_namespace(&self, ns: &Provider) -> Result<(), LogStoreError> {
        self.check_running()?;
        let mut batch = Batch::new();
        batch.create_namespace(namespace_stream(ns)?);
        self.durable(self.stage(self.log.append_wanted(batch)).await?).await
    }

    async fn delete_namespace(&self, ns: &Provider) -> Result<(), LogStoreError> {
        self.check_running()?;
        let mut batch = Batch::new();
        batch.delete_namespace(namespace_stream(ns)?);
        self.durable(self.stage(self.log.append_wanted(batch)).await?).await
    }

    async fn list_namespaces(&self) -> Result<Vec<Provider>, LogStoreError> {
        self.check_running()?;
        let regions = self.log.namespaces().into_iter().filter(|stream| stream.class == REGION_CLASS);
        Ok(regions.map(|stream| Provider::raft_engine_provider(stream.id)).collect())
    }

    async fn obsolete(
        &self,
        provider: &Provider,
        region_id: RegionId,
        entry_id: EntryId,
    ) -> Result<(), LogStoreError> {
        self.check_running()?;
        let mut batch = Batch::new();
        batch.obsolete(region_stream(provider, region_id)?, entry_id);
        self.stage(self.log.append_async(batch)).await.map(drop)
    }

    async fn obsolete_all(&self, provider: &Provider, region_id: RegionId) -> Result<(), LogStoreError> {
        self.check_running()?;
        let stream = region_stream(provider, region_id)?;
        let mut batch = Batch::new();
        batch.release(stream).delete_namespace(stream);
        self.durable(self.stage(self.log.append_wanted(batch)).await?).await
    }

    fn entry(
        &self,
        data: Vec<u8>,
        entry_id: EntryId,
        region_id: RegionId,
        provider: &Provider,
    ) -> Result<Entry, LogStoreError> {
        self.check_running()?;
        region_stream(provider, region_id)?;
        let provider = provider.clone();
        Ok(Entry::Naive(NaiveEntry { provider, region_id, entry_id, data: Bytes::from(data) }))
    }

    fn latest_entry_id(&self, provider: &Provider) -> Result<EntryId, LogStoreError> {
        let info = self.log.stream(stream_of(provider)?);
        Ok(info.and_then(|info| info.last).unwrap_or(0))
    }

    async fn wait_durable(&self, provider: &Provider, entry_id: EntryId) -> Result<(), LogStoreError> {
        self.check_running()?;
        match self.log.entry_lsn(stream_of(provider)?, entry_id) {
            Some(lsn) => self.durable(lsn).await,
            None => Ok(()),
        }
    }

    async fn release_region(&self, provider: &Provider, region_id: RegionId) -> Result<(), LogStoreError> {
        self.check_running()?;
        let mut batch = Batch::new();
        batch.release(region_stream(provider, region_id)?);
        self.durable(self.stage(self.log.append_wanted(batch)).await?).await
    }
}
