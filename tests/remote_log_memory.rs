//! What the remote log metadata takes in memory, and that it gives it back.
//!
//! One test, since it counts the bytes that the whole process allocates.

use std::alloc::System;
use std::collections::BTreeMap;

use cap::Cap;
use tidelog::remote_log::{
    InmemoryRemoteLogMetadataManager, LeaderEpoch, RemoteLogMetadataManager, RemoteLogSegmentDetails,
    RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState,
    TopicIdPartition, Uuid,
};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// What a segment may take.
const BYTES_MAX: usize = 200;

/// What it may take where each offset has a thousand candidates in each of two epochs.
const BYTES_MAX_OVERLAPPING_TWICE: usize = 210;

fn id(number: usize) -> RemoteLogSegmentId {
    let partition = TopicIdPartition::new(Uuid::from_u128(1), "a topic with a name of some length", 0);
    RemoteLogSegmentId::new(partition, Uuid::from_u128(number as u128))
}

fn add_finished(
    manager: &InmemoryRemoteLogMetadataManager,
    number: usize,
    [start, end]: [i64; 2],
    epochs: BTreeMap<LeaderEpoch, i64>,
) {
    let details = RemoteLogSegmentDetails::new(1, RemoteLogSegmentState::CopySegmentStarted, epochs);
    let metadata = RemoteLogSegmentMetadata::new(id(number), start, end, -1, 0, 0, details);
    manager.add_remote_log_segment_metadata(metadata.expect("valid")).expect("new");
    update(manager, number, RemoteLogSegmentState::CopySegmentFinished);
}

fn update(manager: &InmemoryRemoteLogMetadataManager, number: usize, state: RemoteLogSegmentState) {
    let update = RemoteLogSegmentMetadataUpdate::new(id(number), 0, None, state, 0);
    manager.update_remote_log_segment_metadata(update).expect("a valid transition");
}

fn delete(manager: &InmemoryRemoteLogMetadataManager, number: usize) {
    update(manager, number, RemoteLogSegmentState::DeleteSegmentStarted);
    update(manager, number, RemoteLogSegmentState::DeleteSegmentFinished);
}

/// Bytes a segment for `count` segments of 1,000 offsets, each `step` after the one before.
fn bytes_a_segment(count: usize, step: usize, epochs: i32) -> usize {
    let before = MEMORY.allocated();
    let manager = InmemoryRemoteLogMetadataManager::new();
    for number in 0..count {
        let start = i64::try_from(number * step).expect("small");
        let epochs = (0..epochs).map(|epoch| (LeaderEpoch(epoch), start + 500 * i64::from(epoch))).collect();
        add_finished(&manager, number, [start, start + 999], epochs);
    }
    (MEMORY.allocated() - before) / count
}

fn takes_little() {
    // Just above 7/8 of a power of two, hash tables have doubled and are emptiest.
    for count in [12_000, 14_400] {
        for epochs in [1, 2] {
            let apart = bytes_a_segment(count, 1000, epochs);
            assert!(apart <= BYTES_MAX, "{apart} bytes with {epochs} epochs");
            let overlapping = bytes_a_segment(count, 1, epochs);
            let limit = if epochs == 1 { BYTES_MAX } else { BYTES_MAX_OVERLAPPING_TWICE };
            assert!(overlapping <= limit, "{overlapping} bytes with {epochs} epochs, overlapping");
            println!("{count} segments of {epochs} epochs: {apart} bytes each, {overlapping} overlapping");
        }
        let same = bytes_a_segment(count, 0, 1);
        assert!(same <= BYTES_MAX, "{same} bytes with the same range");
    }
}

fn gives_back_epochs_and_partitions() {
    let count = 100_000;
    let manager = InmemoryRemoteLogMetadataManager::new();
    let empty = MEMORY.allocated();
    let last = |epoch: usize| BTreeMap::from([(LeaderEpoch(i32::try_from(epoch).expect("small")), 0)]);
    add_finished(&manager, 0, [0, 9], last(0));
    let before = MEMORY.allocated();
    for number in 1..=count {
        add_finished(&manager, number, [0, 9], last(number));
    }
    assert!(MEMORY.allocated() > before + count * 100);
    for number in 1..=count {
        delete(&manager, number);
    }
    let left = MEMORY.allocated() - before;
    assert!(left < 4096, "{left} bytes are left of {count} epochs");
    for number in 1..=count {
        add_finished(&manager, number, [0, 9], last(number));
        delete(&manager, number);
    }
    assert!(MEMORY.allocated() - before < 4096);
    delete(&manager, 0);
    assert!(MEMORY.allocated() - empty < 4096);
    assert_eq!(manager.partitions(), []);
}

#[test]
fn memory() {
    takes_little();
    gives_back_epochs_and_partitions();
}
