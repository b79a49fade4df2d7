//! The journal, and its events as calls on a manager.

use std::path::Path;

use anyhow::Context;
use tidelog::remote_log::{
    Event, Journal, JournalOptions, RemoteLogMetadataManager, RemoteStorageError,
    TideRemoteLogMetadataManager,
};
use tidelog::{Log, Options};

/// Small, so that a short run crosses many of both.
const SEGMENT_SIZE: u64 = 256 << 10;
const CHECKPOINT_AFTER: u64 = 64;
const JOURNAL: u64 = 1;

pub(crate) fn open(dir: &Path) -> anyhow::Result<(Log, TideRemoteLogMetadataManager)> {
    let options = Options::new().first_segment_size(SEGMENT_SIZE / 4).segment_size(SEGMENT_SIZE);
    let log = Log::open(dir.join("metadata"), options).context("the log of the metadata does not open")?;
    let options = JournalOptions::new().checkpoint_after(Some(CHECKPOINT_AFTER));
    let journal = Journal::open(&log, JOURNAL, options).context("the journal does not open")?;
    Ok((log, TideRemoteLogMetadataManager::new(journal)))
}

pub(crate) fn record(manager: &dyn RemoteLogMetadataManager, event: Event) -> Result<(), RemoteStorageError> {
    match event {
        Event::AddSegment(metadata) => manager.add_remote_log_segment_metadata(metadata),
        Event::UpdateSegment(update) => manager.update_remote_log_segment_metadata(update),
        Event::DeletePartition(delete) => manager.put_remote_partition_delete_metadata(delete),
    }
}
