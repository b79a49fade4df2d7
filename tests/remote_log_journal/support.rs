//! A log with a journal in it.

use std::io;

use tidelog::remote_log::{
    JOURNAL_CLASS, Journal, JournalOptions, RemoteLogMetadataManager, RemoteLogSegmentMetadata,
    RemoteStorageError, TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};
use tidelog::{Batch, Log, Options, StreamId};

use crate::segments::{FINISHED, orders, segment, update};

pub(crate) const STREAM: StreamId = StreamId::new(JOURNAL_CLASS, 1);

/// Reopens at once what it closed.
pub(crate) struct Env {
    pub(crate) dir: tempfile::TempDir,
}

impl Env {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn log(&self) -> Log {
        Log::open(self.dir.path(), Options::new()).unwrap()
    }

    /// A log and a manager of all partitions.
    pub(crate) fn open(&self) -> (Log, TideRemoteLogMetadataManager) {
        let log = self.log();
        let manager = TideRemoteLogMetadataManager::new(journal(&log));
        (log, manager)
    }
}

pub(crate) fn manual() -> JournalOptions {
    JournalOptions::new().checkpoint_after(None)
}

pub(crate) fn journal(log: &Log) -> Journal {
    Journal::open(log, 1, manual()).unwrap()
}

/// Appends entries to the journal's stream as they are.
pub(crate) fn append_raw(log: &Log, payloads: &[Vec<u8>]) {
    let next = log.stream(STREAM).and_then(|info| info.last).map_or(1, |last| last + 1);
    let mut batch: Batch<&[u8]> = Batch::new();
    for (id, payload) in (next..).zip(payloads) {
        batch.append(STREAM, id, payload.as_slice());
    }
    log.append_durable(&batch).unwrap();
}

pub(crate) fn add_finished(manager: &dyn RemoteLogMetadataManager, number: u128, range: [i64; 2]) {
    manager.add_remote_log_segment_metadata(segment(number, range, &[(0, range[0])])).unwrap();
    manager.update_remote_log_segment_metadata(update(number, FINISHED)).unwrap();
}

pub(crate) fn list(manager: &dyn RemoteLogMetadataManager) -> Vec<RemoteLogSegmentMetadata> {
    manager.list_remote_log_segments(&orders()).unwrap()
}

pub(crate) fn at(manager: &dyn RemoteLogMetadataManager, offset: i64) -> Option<u128> {
    let found = manager.remote_log_segment_metadata(&orders(), 0.into(), offset).unwrap();
    found.as_ref().map(crate::segments::number)
}

pub(crate) fn payments() -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(9), "payments", 4)
}

#[track_caller]
pub(crate) fn assert_io<T: std::fmt::Debug>(outcome: Result<T, RemoteStorageError>) -> io::Error {
    match outcome {
        Err(RemoteStorageError::Io(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// All calls of the interface answer that the store has failed.
#[track_caller]
pub(crate) fn assert_failed(manager: &TideRemoteLogMetadataManager) {
    use tidelog::remote_log::RemotePartitionDeleteMetadata;

    let tp = &orders();
    assert_io(manager.add_remote_log_segment_metadata(segment(99, [0, 9], &[(0, 0)])));
    assert_io(manager.update_remote_log_segment_metadata(update(99, FINISHED)));
    assert_io(manager.remote_log_segment_metadata(tp, 0.into(), 0));
    assert_io(manager.highest_offset_for_epoch(tp, 0.into()));
    assert_io(manager.list_remote_log_segments(tp));
    assert_io(manager.list_remote_log_segments_by_epoch(tp, 0.into()));
    let delete = RemotePartitionDeleteMetadata::new(tp.clone(), crate::segments::MARKED, 0, 0);
    assert_io(manager.put_remote_partition_delete_metadata(delete));
    assert_io(manager.caught_up(tp));
    assert_io(manager.purge_partition(tp));
}
