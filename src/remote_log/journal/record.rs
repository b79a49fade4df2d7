//! What the entries of a journal hold: events, and the records of checkpoints.
//!
//! An event's first byte is the version of Kafka's frame, which is never zero. A record of a
//! checkpoint is a zero, its kind, the checkpoint's number, and what the kind needs:
//!
//! | kind | | then |
//! |---|---|---|
//! | 1 | begin | |
//! | 2 | state | position of the last event (u64), and the state as an event |
//! | 3 | end | number of state records (u64) |

use bytes::Bytes;

use super::super::codec::{CodecError, Event};
use super::super::wire::{Reader, Writer};

const CHECKPOINT: u8 = 0;
const BEGIN: u8 = 1;
const STATE: u8 = 2;
const END: u8 = 3;

/// What an entry of a [`Journal`](super::Journal) holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Something happened.
    Event(Event),
    /// A checkpoint begins. All that happened before is in its state records.
    Begin {
        /// Its number.
        checkpoint: u64,
    },
    /// A segment (in any state) or the deletion of a partition.
    State {
        /// The number of the checkpoint that it is part of.
        checkpoint: u64,
        /// The id of the entry whose event left it so.
        position: u64,
        /// The segment, as if it were added in its state, or the deletion.
        state: Event,
    },
    /// The checkpoint is complete.
    End {
        /// Its number.
        checkpoint: u64,
        /// How many state records it has.
        count: u64,
    },
}

impl Record {
    pub(super) fn encode(&self) -> Result<Bytes, CodecError> {
        let mut writer = Writer::default();
        let mut head = |kind, checkpoint: u64| {
            writer.u8(CHECKPOINT);
            writer.u8(kind);
            writer.u64(checkpoint);
        };
        match self {
            Self::Event(event) => return event.encode(),
            Self::Begin { checkpoint } => head(BEGIN, *checkpoint),
            Self::State { checkpoint, position, state } => {
                head(STATE, *checkpoint);
                writer.u64(*position);
                writer.raw(&state.encode()?);
            }
            Self::End { checkpoint, count } => {
                head(END, *checkpoint);
                writer.u64(*count);
            }
        }
        Ok(writer.finish())
    }

    /// Reads an entry's payload. Bytes that are a record encode to themselves.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        if bytes.first() != Some(&CHECKPOINT) {
            return Event::decode(bytes).map(Self::Event);
        }
        let mut reader = Reader::new(bytes);
        reader.u8("record class")?;
        let kind = reader.u8("record kind")?;
        let checkpoint = reader.u64("checkpoint number")?;
        let record = match kind {
            BEGIN => Self::Begin { checkpoint },
            STATE => {
                let position = reader.u64("position")?;
                let state = Event::decode(reader.rest())?;
                if matches!(state, Event::UpdateSegment(_)) {
                    return Err(CodecError::Invalid { field: "kind of a state", value: 1 });
                }
                Self::State { checkpoint, position, state }
            }
            END => Self::End { checkpoint, count: reader.u64("number of states")? },
            other => return Err(CodecError::Invalid { field: "record kind", value: other.into() }),
        };
        reader.finish()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::super::super::metadata::RemotePartitionDeleteMetadata;
    use super::super::super::types::{RemotePartitionDeleteState, TopicIdPartition};
    use super::*;

    fn records() -> [Record; 4] {
        let tp = TopicIdPartition::new(Uuid::from_u128(1), "orders", 0);
        let marked = RemotePartitionDeleteState::DeletePartitionMarked;
        let event = Event::DeletePartition(RemotePartitionDeleteMetadata::new(tp, marked, 5, 6));
        [
            Record::Event(event.clone()),
            Record::Begin { checkpoint: 3 },
            Record::State { checkpoint: 3, position: u64::MAX, state: event },
            Record::End { checkpoint: 3, count: 1 },
        ]
    }

    #[test]
    fn there_and_back_and_no_shorter() {
        for record in records() {
            let bytes = record.encode().unwrap();
            assert_eq!(Record::decode(&bytes).unwrap(), record);
            for length in 0..bytes.len() {
                assert!(Record::decode(&bytes[..length]).is_err(), "{record:?} in {length} bytes");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(matches!(Record::decode(&longer), Err(CodecError::TrailingBytes { count: 1 })));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(kind in 0u8..5, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [&[CHECKPOINT, kind], &bytes[..]].concat();
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode().unwrap(), bytes);
            }
        }
    }
}
