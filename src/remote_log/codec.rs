//! Events as bytes: the values of Kafka's `__remote_log_metadata` topic (frame version 1, flexible
//! records of version 0), so that a journal can be compared with such a topic.
//!
//! Decoding accepts what encoding writes and nothing else: bytes that decode encode to themselves.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::error::RemoteStorageError;
use super::metadata::{
    RemoteLogSegmentDetails, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
};
use super::types::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentId, RemoteLogSegmentState, RemotePartitionDeleteState,
    TopicIdPartition,
};
use super::wire::{Reader, Writer};

const FRAME_VERSION: u32 = 1;
const RECORD_VERSION: u32 = 0;

const KIND_ADD: u32 = 0;
const KIND_UPDATE: u32 = 1;
const KIND_PARTITION_DELETE: u32 = 2;

/// The one tagged field of these records: whether an added segment's transaction index is empty.
const TAG_TXN_INDEX_EMPTY: u32 = 0;

/// Something that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A segment was added. A dump of live segments uses it with any state.
    AddSegment(RemoteLogSegmentMetadata),
    /// A segment changed.
    UpdateSegment(RemoteLogSegmentMetadataUpdate),
    /// The deletion of a partition went on.
    DeletePartition(RemotePartitionDeleteMetadata),
}

/// Why bytes are no event, or an event cannot become bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes end inside a field.
    #[error("{field} takes {needed} bytes, there are {left}")]
    Truncated {
        /// The field.
        field: &'static str,
        /// What it takes.
        needed: u64,
        /// What there is.
        left: u64,
    },
    /// Bytes after the end of the event.
    #[error("{count} bytes after the event")]
    TrailingBytes {
        /// How many.
        count: u64,
    },
    /// A field has a value that it cannot have.
    #[error("{field} is {value}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A field is longer than the encoding allows.
    #[error("{field} has length {length}, the limit is {limit}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// The topic's name is not UTF-8.
    #[error("the topic's name is not UTF-8: {0}")]
    TopicName(#[from] std::str::Utf8Error),
    /// The fields do not make a segment.
    #[error(transparent)]
    Segment(#[from] RemoteStorageError),
}

impl Event {
    /// The partition that the event belongs to.
    pub fn topic_id_partition(&self) -> &TopicIdPartition {
        match self {
            Self::AddSegment(metadata) => &metadata.remote_log_segment_id().topic_id_partition,
            Self::UpdateSegment(update) => &update.remote_log_segment_id.topic_id_partition,
            Self::DeletePartition(delete) => &delete.topic_id_partition,
        }
    }

    /// The event as bytes. Fails on a topic name above 32,767 bytes and on custom metadata above 2 GiB.
    pub fn encode(&self) -> Result<Bytes, CodecError> {
        let mut writer = Writer::default();
        writer.uvarint(FRAME_VERSION);
        match self {
            Self::AddSegment(metadata) => put_add(&mut writer, metadata)?,
            Self::UpdateSegment(update) => put_update(&mut writer, update)?,
            Self::DeletePartition(delete) => put_delete(&mut writer, delete)?,
        }
        Ok(writer.finish())
    }

    /// The event of which these are the bytes, all of them.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        expect(reader.uvarint("frame version")?, FRAME_VERSION, "frame version")?;
        let kind = reader.uvarint("record kind")?;
        expect(reader.uvarint("record version")?, RECORD_VERSION, "record version")?;
        let event = match kind {
            KIND_ADD => Self::AddSegment(get_add(&mut reader)?),
            KIND_UPDATE => Self::UpdateSegment(get_update(&mut reader)?),
            KIND_PARTITION_DELETE => Self::DeletePartition(get_delete(&mut reader)?),
            other => return Err(CodecError::Invalid { field: "record kind", value: other.into() }),
        };
        reader.finish()?;
        Ok(event)
    }
}

fn expect(found: u32, expected: u32, field: &'static str) -> Result<(), CodecError> {
    if found == expected { Ok(()) } else { Err(CodecError::Invalid { field, value: found.into() }) }
}

fn put_add(writer: &mut Writer, metadata: &RemoteLogSegmentMetadata) -> Result<(), CodecError> {
    writer.uvarint(KIND_ADD);
    writer.uvarint(RECORD_VERSION);
    put_segment_id(writer, metadata.remote_log_segment_id())?;
    writer.i64(metadata.start_offset());
    writer.i64(metadata.end_offset());
    writer.i32(metadata.broker_id());
    writer.i64(metadata.max_timestamp_ms());
    writer.i64(metadata.event_timestamp_ms());
    writer.count("leader epochs", metadata.segment_leader_epochs().len())?;
    for (epoch, offset) in metadata.segment_leader_epochs() {
        writer.i32(epoch.0);
        writer.i64(*offset);
        writer.no_tags();
    }
    writer.i32(metadata.segment_size_in_bytes());
    writer.nullable_bytes("custom metadata", metadata.custom_metadata().map(|custom| custom.0.as_slice()))?;
    writer.u8(segment_state_number(metadata.state()));
    if metadata.txn_index_empty() {
        writer.one_tag(TAG_TXN_INDEX_EMPTY, 1);
    } else {
        writer.no_tags();
    }
    Ok(())
}

fn get_add(reader: &mut Reader<'_>) -> Result<RemoteLogSegmentMetadata, CodecError> {
    let id = get_segment_id(reader)?;
    let start_offset = reader.i64("start offset")?;
    let end_offset = reader.i64("end offset")?;
    let broker_id = reader.i32("broker")?;
    let max_timestamp_ms = reader.i64("latest time stamp")?;
    let event_timestamp_ms = reader.i64("event time stamp")?;
    let epochs = get_epochs(reader)?;
    let size = reader.i32("segment size")?;
    let custom = reader.nullable_bytes("custom metadata")?.map(|bytes| CustomMetadata(bytes.to_vec()));
    let state = get_segment_state(reader)?;
    let txn_index_empty = match reader.one_tag("tagged fields")? {
        None => false,
        Some((TAG_TXN_INDEX_EMPTY, 1)) => true,
        Some((TAG_TXN_INDEX_EMPTY, value)) => {
            return Err(CodecError::Invalid { field: "transaction index flag", value: value.into() });
        }
        Some((tag, _)) => return Err(CodecError::Invalid { field: "tag", value: tag.into() }),
    };
    let details = RemoteLogSegmentDetails::new(size, state, epochs);
    let metadata = RemoteLogSegmentMetadata::new(
        id,
        start_offset,
        end_offset,
        max_timestamp_ms,
        broker_id,
        event_timestamp_ms,
        details,
    )?
    .with_txn_index_empty(txn_index_empty);
    Ok(match custom {
        Some(custom) => metadata.with_custom_metadata(custom),
        None => metadata,
    })
}

fn get_epochs(reader: &mut Reader<'_>) -> Result<BTreeMap<LeaderEpoch, i64>, CodecError> {
    /// Epoch, offset, and the count of tagged fields.
    const ITEM_BYTES: usize = 13;
    let mut epochs = BTreeMap::new();
    for _ in 0..reader.count("leader epochs", ITEM_BYTES)? {
        let epoch = LeaderEpoch(reader.i32("leader epoch")?);
        if epochs.last_key_value().is_some_and(|(last, _)| *last >= epoch) {
            return Err(CodecError::Invalid {
                field: "leader epoch that does not follow",
                value: epoch.0.into(),
            });
        }
        epochs.insert(epoch, reader.i64("offset of a leader epoch")?);
        reader.no_tags("leader epoch's tagged fields")?;
    }
    Ok(epochs)
}

fn put_update(writer: &mut Writer, update: &RemoteLogSegmentMetadataUpdate) -> Result<(), CodecError> {
    writer.uvarint(KIND_UPDATE);
    writer.uvarint(RECORD_VERSION);
    put_segment_id(writer, &update.remote_log_segment_id)?;
    writer.i32(update.broker_id);
    writer.i64(update.event_timestamp_ms);
    let custom = update.custom_metadata.as_ref().map(|custom| custom.0.as_slice());
    writer.nullable_bytes("custom metadata", custom)?;
    writer.u8(segment_state_number(update.state));
    writer.no_tags();
    Ok(())
}

fn get_update(reader: &mut Reader<'_>) -> Result<RemoteLogSegmentMetadataUpdate, CodecError> {
    let remote_log_segment_id = get_segment_id(reader)?;
    let broker_id = reader.i32("broker")?;
    let event_timestamp_ms = reader.i64("event time stamp")?;
    let custom_metadata =
        reader.nullable_bytes("custom metadata")?.map(|bytes| CustomMetadata(bytes.to_vec()));
    let state = get_segment_state(reader)?;
    reader.no_tags("tagged fields")?;
    Ok(RemoteLogSegmentMetadataUpdate {
        remote_log_segment_id,
        event_timestamp_ms,
        custom_metadata,
        state,
        broker_id,
    })
}

fn put_delete(writer: &mut Writer, delete: &RemotePartitionDeleteMetadata) -> Result<(), CodecError> {
    writer.uvarint(KIND_PARTITION_DELETE);
    writer.uvarint(RECORD_VERSION);
    put_partition(writer, &delete.topic_id_partition)?;
    writer.i32(delete.broker_id);
    writer.i64(delete.event_timestamp_ms);
    writer.u8(delete_state_number(delete.state));
    writer.no_tags();
    Ok(())
}

fn get_delete(reader: &mut Reader<'_>) -> Result<RemotePartitionDeleteMetadata, CodecError> {
    let topic_id_partition = get_partition(reader)?;
    let broker_id = reader.i32("broker")?;
    let event_timestamp_ms = reader.i64("event time stamp")?;
    let number = reader.u8("partition delete state")?;
    let state = RemotePartitionDeleteState::ALL
        .into_iter()
        .find(|state| delete_state_number(*state) == number)
        .ok_or(CodecError::Invalid { field: "partition delete state", value: number.into() })?;
    reader.no_tags("tagged fields")?;
    Ok(RemotePartitionDeleteMetadata { topic_id_partition, state, event_timestamp_ms, broker_id })
}

fn put_segment_id(writer: &mut Writer, id: &RemoteLogSegmentId) -> Result<(), CodecError> {
    put_partition(writer, &id.topic_id_partition)?;
    writer.uuid(id.id);
    writer.no_tags();
    Ok(())
}

fn get_segment_id(reader: &mut Reader<'_>) -> Result<RemoteLogSegmentId, CodecError> {
    let topic_id_partition = get_partition(reader)?;
    let id = reader.uuid("segment id")?;
    reader.no_tags("segment id's tagged fields")?;
    Ok(RemoteLogSegmentId { topic_id_partition, id })
}

fn put_partition(writer: &mut Writer, partition: &TopicIdPartition) -> Result<(), CodecError> {
    writer.string("topic name", &partition.topic)?;
    writer.uuid(partition.topic_id);
    writer.i32(partition.partition);
    writer.no_tags();
    Ok(())
}

fn get_partition(reader: &mut Reader<'_>) -> Result<TopicIdPartition, CodecError> {
    let topic = reader.string("topic name")?.to_owned();
    let topic_id = reader.uuid("topic id")?;
    let partition = reader.i32("partition")?;
    reader.no_tags("partition's tagged fields")?;
    Ok(TopicIdPartition { topic_id, topic, partition })
}

fn segment_state_number(state: RemoteLogSegmentState) -> u8 {
    match state {
        RemoteLogSegmentState::CopySegmentStarted => 0,
        RemoteLogSegmentState::CopySegmentFinished => 1,
        RemoteLogSegmentState::DeleteSegmentStarted => 2,
        RemoteLogSegmentState::DeleteSegmentFinished => 3,
    }
}

fn get_segment_state(reader: &mut Reader<'_>) -> Result<RemoteLogSegmentState, CodecError> {
    let number = reader.u8("segment state")?;
    RemoteLogSegmentState::ALL
        .into_iter()
        .find(|state| segment_state_number(*state) == number)
        .ok_or(CodecError::Invalid { field: "segment state", value: number.into() })
}

fn delete_state_number(state: RemotePartitionDeleteState) -> u8 {
    match state {
        RemotePartitionDeleteState::DeletePartitionMarked => 0,
        RemotePartitionDeleteState::DeletePartitionStarted => 1,
        RemotePartitionDeleteState::DeletePartitionFinished => 2,
    }
}
