//! Events as bytes: against values that a JVM wrote, there and back, and on any bytes.

use proptest::prelude::*;
use tidelog::remote_log::{
    CodecError, Event, RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState, RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState, TopicIdPartition, Uuid,
};

use crate::support::{FINISHED, MARKED, STARTED, custom, epochs};

/// Written by the serializers of Kafka 4.0.0.
const ADD_WITH_CUSTOM: &str = "010000076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00000000000000000000000000000000630000002a0000000000000064000000000000007b0300000000000000000000000000000000010000000000000032000000100005010203040000";
const ADD: &str = "010000076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00000000000000000000000000000000630000002a0000000000000064000000000000007b03000000000000000000000000000000000100000000000000320000001000000000";
const ADD_TXN_EMPTY: &str = "010000076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00000000000000000000000000000000630000002a0000000000000064000000000000007b03000000000000000000000000000000000100000000000000320000001000000001000101";
const UPDATE: &str = "010100076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe000000002a00000000000001c8000100";
const DELETE: &str =
    "010200076f7264657273000000000000000000000000000000ca00000007000000002a00000000000003150000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|digit| digit.to_digit(16).expect("hex") as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn partition() -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(0xca), "orders", 7)
}

fn segment_id() -> RemoteLogSegmentId {
    RemoteLogSegmentId::new(partition(), Uuid::from_u128(0xfe))
}

fn added() -> RemoteLogSegmentMetadata {
    let details = RemoteLogSegmentDetails::new(4096, STARTED, epochs(&[(0, 0), (1, 50)]));
    RemoteLogSegmentMetadata::new(segment_id(), 0, 99, 100, 42, 123, details).expect("valid")
}

fn vectors() -> [(Event, Vec<u8>); 5] {
    let update = RemoteLogSegmentMetadataUpdate::new(segment_id(), 456, None, FINISHED, 42);
    let delete = RemotePartitionDeleteMetadata::new(partition(), MARKED, 789, 42);
    [
        (Event::AddSegment(added().with_custom_metadata(custom(&[1, 2, 3, 4]))), bytes(ADD_WITH_CUSTOM)),
        (Event::AddSegment(added()), bytes(ADD)),
        (Event::AddSegment(added().with_txn_index_empty(true)), bytes(ADD_TXN_EMPTY)),
        (Event::UpdateSegment(update), bytes(UPDATE)),
        (Event::DeletePartition(delete), bytes(DELETE)),
    ]
}

#[test]
fn agrees_with_the_jvm_in_both_directions() {
    let lengths = [122, 118, 121, 63, 45];
    for ((event, bytes), length) in vectors().into_iter().zip(lengths) {
        assert_eq!(bytes.len(), length);
        assert_eq!(event.encode().unwrap(), bytes);
        let decoded = Event::decode(&bytes).unwrap();
        assert_eq!(decoded, event);
        assert_eq!(decoded.topic_id_partition().topic, "orders");
    }
}

#[test]
fn every_prefix_is_refused() {
    for (_, bytes) in vectors() {
        for length in 0..bytes.len() {
            let outcome = Event::decode(&bytes[..length]);
            assert!(matches!(outcome, Err(CodecError::Truncated { .. })), "{length}: {outcome:?}");
        }
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for (_, mut bytes) in vectors() {
        bytes.push(0);
        assert!(matches!(Event::decode(&bytes), Err(CodecError::TrailingBytes { count: 1 })));
    }
}

/// The vector with one byte changed.
fn with(hex: &str, at: usize, value: u8) -> Vec<u8> {
    let mut bytes = bytes(hex);
    bytes[at] = value;
    bytes
}

#[track_caller]
fn assert_invalid(bytes: &[u8], field: &str, value: i64) {
    match Event::decode(bytes) {
        Err(CodecError::Invalid { field: f, value: v }) => assert_eq!((f, v), (field, value)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_kinds_versions_and_states_are_refused() {
    assert_invalid(&with(ADD, 0, 2), "frame version", 2);
    assert_invalid(&with(ADD, 1, 3), "record kind", 3);
    assert_invalid(&with(ADD, 2, 1), "record version", 1);
    assert_invalid(&with(ADD, 116, 7), "segment state", 7);
    assert_invalid(&with(UPDATE, 61, 4), "segment state", 4);
    assert_invalid(&with(DELETE, 43, 3), "partition delete state", 3);
    assert_invalid(&with(ADD_TXN_EMPTY, 118, 1), "tag", 1);
    assert_invalid(&with(ADD_TXN_EMPTY, 120, 2), "transaction index flag", 2);
    // What is at its default is not written.
    assert_invalid(&with(ADD_TXN_EMPTY, 120, 0), "transaction index flag", 0);
}

#[test]
fn lengths_beyond_the_bytes_are_refused() {
    let mut huge = bytes(ADD)[..84].to_vec();
    // So many epochs that their bytes overflow 32 bits.
    huge.extend([0xfe, 0xff, 0xff, 0xff, 0x07]);
    assert!(matches!(Event::decode(&huge), Err(CodecError::Truncated { field: "leader epochs", .. })));
    let mut endless = vec![1, 0, 0];
    endless.extend([0xff; 16]);
    assert!(matches!(Event::decode(&endless), Err(CodecError::Invalid { field: "topic name", .. })));
    let long_name = [1, 0, 0, 0x81, 0x80, 0x02];
    assert!(matches!(
        Event::decode(&long_name),
        Err(CodecError::TooLong { field: "topic name", length: 32_768, limit: 32_767 })
    ));
    // A number in more bytes than it takes.
    assert_invalid(&[0x81, 0x00, 0], "frame version", 1);
}

#[test]
fn a_name_that_is_no_text_is_refused() {
    assert!(matches!(Event::decode(&with(ADD, 4, 0xff)), Err(CodecError::TopicName(_))));
    // Null, where the name may not be.
    assert_invalid(&with(ADD, 3, 0), "topic name", -1);
}

#[test]
fn a_segment_that_cannot_be_is_refused() {
    // The size becomes negative, the end falls below the start, the epochs come twice.
    assert!(matches!(Event::decode(&with(ADD, 111, 0xff)), Err(CodecError::Segment(_))));
    assert!(matches!(Event::decode(&with(ADD, 56, 0x80)), Err(CodecError::Segment(_))));
    assert!(matches!(Event::decode(&with(ADD, 101, 0)), Err(CodecError::Invalid { value: 0, .. })));
}

#[test]
fn what_the_encoding_cannot_hold_is_refused() {
    let long = TopicIdPartition::new(Uuid::from_u128(1), "x".repeat(32_768), 0);
    let delete = Event::DeletePartition(RemotePartitionDeleteMetadata::new(long, MARKED, 0, 0));
    assert!(matches!(delete.encode(), Err(CodecError::TooLong { length: 32_768, .. })));
}

fn any_partition() -> impl Strategy<Value = TopicIdPartition> {
    (any::<u128>(), "\\PC{0,12}", any::<i32>()).prop_map(|(topic_id, topic, partition)| {
        TopicIdPartition::new(Uuid::from_u128(topic_id), topic, partition)
    })
}

fn any_segment_id() -> impl Strategy<Value = RemoteLogSegmentId> {
    (any_partition(), any::<u128>()).prop_map(|(tp, id)| RemoteLogSegmentId::new(tp, Uuid::from_u128(id)))
}

fn any_custom() -> impl Strategy<Value = Option<tidelog::remote_log::CustomMetadata>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200).prop_map(Into::into))
}

fn any_state() -> impl Strategy<Value = RemoteLogSegmentState> {
    proptest::sample::select(&RemoteLogSegmentState::ALL[..])
}

prop_compose! {
    fn any_added()(
        id in any_segment_id(),
        (one, other) in any::<(i64, i64)>(),
        (max_timestamp, broker, timestamp) in any::<(i64, i32, i64)>(),
        size in 0..=i32::MAX,
        state in any_state(),
        of in proptest::collection::btree_map(any::<i32>(), any::<i64>(), 1..20),
        custom in any_custom(),
        txn_index_empty in any::<bool>(),
    ) -> Event {
        let epochs = of.into_iter().map(|(epoch, offset)| (epoch.into(), offset)).collect();
        let details = RemoteLogSegmentDetails::new(size, state, epochs);
        let (start, end) = (one.min(other), one.max(other));
        let metadata =
            RemoteLogSegmentMetadata::new(id, start, end, max_timestamp, broker, timestamp, details);
        let metadata = metadata.expect("valid").with_txn_index_empty(txn_index_empty);
        Event::AddSegment(match custom {
            Some(custom) => metadata.with_custom_metadata(custom),
            None => metadata,
        })
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let update = (any_segment_id(), any::<i64>(), any_custom(), any_state(), any::<i32>());
    let deletes = proptest::sample::select(&RemotePartitionDeleteState::ALL[..]);
    prop_oneof![
        any_added(),
        update.prop_map(|(id, timestamp, custom, state, broker)| {
            Event::UpdateSegment(RemoteLogSegmentMetadataUpdate::new(id, timestamp, custom, state, broker))
        }),
        (any_partition(), deletes, any::<i64>(), any::<i32>()).prop_map(|(tp, state, timestamp, broker)| {
            Event::DeletePartition(RemotePartitionDeleteMetadata::new(tp, state, timestamp, broker))
        }),
    ]
}

proptest! {
    #[test]
    fn events_survive_the_way_there_and_back(event in any_event()) {
        let bytes = event.encode().unwrap();
        let decoded = Event::decode(&bytes).unwrap();
        prop_assert_eq!(&decoded.topic_id_partition().topic, &event.topic_id_partition().topic);
        prop_assert_eq!(decoded, event);
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(
        event in any_event(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = event.encode().unwrap().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(decoded) = Event::decode(&bytes) {
            prop_assert_eq!(decoded.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_an_error(
        kind in 0u8..4,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = Event::decode(&bytes);
        let framed = [&[1, kind, 0], &bytes[..]].concat();
        if let Ok(decoded) = Event::decode(&framed) {
            prop_assert_eq!(decoded.encode().unwrap(), framed);
        }
    }
}
