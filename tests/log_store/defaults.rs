//! A store of others that implements the trait: what the defaults do, and where a new region begins.

use futures::executor::block_on;
use tidelog::log_store::{
    AppendBatchResponse, Entry, EntryId, LogStore, LogStoreError, NaiveEntry, Provider, RegionId,
    SendableEntryStream,
};

use crate::provider;

/// A remote log whose last id is 7. It keeps nothing.
#[derive(Debug)]
struct Remote;

#[async_trait::async_trait]
impl LogStore for Remote {
    type Error = LogStoreError;

    async fn stop(&self) -> Result<(), LogStoreError> {
        Ok(())
    }

    async fn append_batch(&self, entries: Vec<Entry>) -> Result<AppendBatchResponse, LogStoreError> {
        let last_entry_ids = entries.iter().map(|entry| (entry.region_id(), 0)).collect();
        Ok(AppendBatchResponse { last_entry_ids })
    }

    async fn read(
        &self,
        _provider: &Provider,
        _id: EntryId,
    ) -> Result<SendableEntryStream<'static, Entry, LogStoreError>, LogStoreError> {
        Ok(Box::pin(futures::stream::empty()))
    }

    async fn create_namespace(&self, _ns: &Provider) -> Result<(), LogStoreError> {
        Ok(())
    }

    async fn delete_namespace(&self, _ns: &Provider) -> Result<(), LogStoreError> {
        Ok(())
    }

    async fn list_namespaces(&self) -> Result<Vec<Provider>, LogStoreError> {
        Ok(vec![])
    }

    async fn obsolete(
        &self,
        _provider: &Provider,
        _region_id: RegionId,
        _entry_id: EntryId,
    ) -> Result<(), LogStoreError> {
        Ok(())
    }

    async fn obsolete_all(&self, _provider: &Provider, _region_id: RegionId) -> Result<(), LogStoreError> {
        Ok(())
    }

    fn entry(
        &self,
        data: Vec<u8>,
        entry_id: EntryId,
        region_id: RegionId,
        provider: &Provider,
    ) -> Result<Entry, LogStoreError> {
        Ok(Entry::Naive(NaiveEntry { provider: provider.clone(), region_id, entry_id, data: data.into() }))
    }

    fn latest_entry_id(&self, _provider: &Provider) -> Result<EntryId, LogStoreError> {
        Ok(7)
    }
}

#[test]
fn durability_and_release_need_not_be_implemented() {
    let region = RegionId::new(1, 1);
    block_on(Remote.wait_durable(&provider(region), 9)).unwrap();
    block_on(Remote.release_region(&provider(region), region)).unwrap();
}

#[test]
fn any_store_answers_for_each_region_of_a_batch() {
    let region = RegionId::new(1, 1);
    let entry = Remote.entry(vec![1], 1, region, &provider(region)).unwrap();
    let response = block_on(Remote.append_batch(vec![entry])).unwrap();
    assert_eq!((response.last_entry_ids.len(), response.last_entry_ids[&region]), (1, 0));
}

#[test]
fn a_new_region_of_a_remote_log_begins_behind_what_is_there() {
    assert_eq!(Provider::kafka_provider("topic".into()).initial_flushed_entry_id(&Remote), 7);
    assert_eq!(Provider::raft_engine_provider(1).initial_flushed_entry_id(&Remote), 0);
    assert_eq!(Provider::noop_provider().initial_flushed_entry_id(&Remote), 0);
}
