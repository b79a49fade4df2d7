//! The store against one that keeps a plain list and looks at all of it for every question.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidelog::remote_log::{
    CustomMetadata, LeaderEpoch, RemoteLogSegmentDetails, RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState, RemotePartitionDeleteState, RemoteStorageError,
};

use crate::support::*;

/// Offsets that matter: neighbours, and both ends of what there is.
const OFFSETS: [i64; 16] =
    [i64::MIN, i64::MIN + 1, -64, -2, -1, 0, 1, 2, 3, 4, 7, 8, 64, 1 << 40, i64::MAX - 1, i64::MAX];
const EPOCHS: [i32; 5] = [i32::MIN, -1, 0, 1, i32::MAX];
const NUMBERS: u128 = 8;

#[derive(Clone, Debug)]
struct Known {
    number: u128,
    start: i64,
    end: i64,
    epochs: BTreeMap<i32, i64>,
    state: RemoteLogSegmentState,
    timestamp: i64,
    broker: i32,
    custom: Option<Vec<u8>>,
    finished_at: usize,
}

#[derive(Debug, Default)]
struct Model {
    segments: Vec<Known>,
    deletion: Option<RemotePartitionDeleteState>,
    steps: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        number: u128,
        range: [i64; 2],
        epochs: BTreeMap<i32, i64>,
        state: RemoteLogSegmentState,
    },
    Update {
        number: u128,
        state: RemoteLogSegmentState,
        timestamp: i64,
        broker: i32,
        custom: Option<Vec<u8>>,
    },
    Delete {
        state: RemotePartitionDeleteState,
    },
    Purge,
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    InvalidAdd,
    NotFound,
    InvalidTransition,
    InvalidDelete,
    InvalidArgument,
}

impl Model {
    fn take(&mut self, step: &Step) -> Answer {
        self.steps += 1;
        match step {
            Step::Add { number, range, epochs, state } => {
                if *state != STARTED || self.segments.iter().any(|known| known.number == *number) {
                    return Answer::InvalidAdd;
                }
                self.segments.push(Known {
                    number: *number,
                    start: range[0],
                    end: range[1],
                    epochs: epochs.clone(),
                    state: *state,
                    timestamp: 0,
                    broker: 0,
                    custom: None,
                    finished_at: 0,
                });
                Answer::Done
            }
            Step::Update { number, state, timestamp, broker, custom } => {
                let Some(at) = self.segments.iter().position(|known| known.number == *number) else {
                    return Answer::NotFound;
                };
                let known = &mut self.segments[at];
                let retry = known.timestamp == *timestamp
                    && known.broker == *broker
                    && (custom.is_none() || known.custom == *custom);
                match (known.state, *state) {
                    (FINISHED, FINISHED) if retry => return Answer::Done,
                    (STARTED, FINISHED) => known.finished_at = self.steps,
                    (STARTED | FINISHED | DELETING, DELETING) | (DELETING, DELETED) => {}
                    _ => return Answer::InvalidTransition,
                }
                known.state = *state;
                known.timestamp = *timestamp;
                known.broker = *broker;
                if custom.is_some() {
                    known.custom.clone_from(custom);
                }
                if *state == DELETED {
                    self.segments.remove(at);
                }
                Answer::Done
            }
            Step::Delete { state } => {
                let next = match self.deletion {
                    None => MARKED,
                    Some(MARKED) => DELETE_STARTED,
                    _ => DELETE_FINISHED,
                };
                if *state != next && self.deletion != Some(*state) {
                    return Answer::InvalidDelete;
                }
                self.deletion = Some(*state);
                Answer::Done
            }
            Step::Purge if self.deletion == Some(DELETE_FINISHED) => {
                self.segments.clear();
                Answer::Done
            }
            Step::Purge => Answer::InvalidArgument,
        }
    }

    fn finished(&self, epoch: i32) -> impl Iterator<Item = &Known> {
        self.segments.iter().filter(move |known| known.state == FINISHED && known.epochs.contains_key(&epoch))
    }

    fn at(&self, epoch: i32, offset: i64) -> Option<u128> {
        let holds = |known: &&Known| {
            let next = known.epochs.iter().find(|(other, _)| **other > epoch);
            let last = next.map_or(i128::MAX, |(_, next)| i128::from(*next) - 1);
            known.start <= offset
                && known.epochs[&epoch] <= offset
                && offset <= known.end
                && i128::from(offset) <= last
        };
        self.finished(epoch).filter(holds).max_by_key(|known| known.finished_at).map(|known| known.number)
    }

    fn list(&self, wanted: impl Fn(&&Known) -> bool) -> Vec<u128> {
        let mut list: Vec<_> =
            self.segments.iter().filter(wanted).map(|known| (known.start, known.number)).collect();
        list.sort_unstable();
        list.into_iter().map(|(_, number)| number).collect()
    }
}

fn answer(outcome: Result<(), RemoteStorageError>) -> Answer {
    match outcome {
        Ok(()) => Answer::Done,
        Err(RemoteStorageError::InvalidAdd { .. }) => Answer::InvalidAdd,
        Err(RemoteStorageError::SegmentNotFound(_)) => Answer::NotFound,
        Err(RemoteStorageError::InvalidSegmentTransition { .. }) => Answer::InvalidTransition,
        Err(RemoteStorageError::InvalidPartitionDeleteTransition { .. }) => Answer::InvalidDelete,
        Err(RemoteStorageError::InvalidArgument(_)) => Answer::InvalidArgument,
        Err(other) => panic!("{other}"),
    }
}

fn take(store: &Store, step: &Step) -> Answer {
    answer(match step {
        Step::Add { number, range, epochs, state } => {
            let epochs: Vec<_> = epochs.iter().map(|(epoch, offset)| (*epoch, *offset)).collect();
            store.try_add(segment_in(*state, *number, *range, &epochs).expect("valid"))
        }
        Step::Update { number, state, timestamp, broker, custom } => {
            let custom = custom.clone().map(CustomMetadata);
            store.try_update(RemoteLogSegmentMetadataUpdate::new(
                id(*number),
                *timestamp,
                custom,
                *state,
                *broker,
            ))
        }
        Step::Delete { state } => store.put_delete(*state),
        Step::Purge => store.0.purge_partition(&orders()).map(drop),
    })
}

fn metadata_of(known: &Known) -> RemoteLogSegmentMetadata {
    let epochs = known.epochs.iter().map(|(epoch, offset)| (LeaderEpoch(*epoch), *offset)).collect();
    let details = RemoteLogSegmentDetails::new(1_048_576, known.state, epochs);
    let metadata = RemoteLogSegmentMetadata::new(
        id(known.number),
        known.start,
        known.end,
        -1,
        known.broker,
        known.timestamp,
        details,
    );
    let metadata = metadata.expect("valid");
    match &known.custom {
        Some(bytes) => metadata.with_custom_metadata(CustomMetadata(bytes.clone())),
        None => metadata,
    }
}

fn compare(store: &Store, model: &Model, offsets: &[i64], epochs: &[i32]) {
    for epoch in epochs {
        for offset in offsets {
            let (found, expected) = (store.at(*epoch, *offset), model.at(*epoch, *offset));
            assert_eq!(found, expected, "epoch {epoch}, offset {offset}");
        }
        assert_eq!(store.highest(*epoch), model.finished(*epoch).map(|known| known.end).max());
        assert_eq!(store.by_epoch(*epoch), model.list(|known| known.epochs.contains_key(epoch)));
    }
    assert_eq!(store.list(), model.list(|_| true));
    let mut expected: Vec<_> = model.segments.iter().map(metadata_of).collect();
    expected.sort_by_key(|metadata| (metadata.start_offset(), number(metadata)));
    assert_eq!(store.all(), expected);
    let known = model.deletion.is_some() || !model.segments.is_empty();
    assert_eq!(store.0.partitions().is_empty(), !known);
}

fn any_offset() -> impl Strategy<Value = i64> {
    proptest::sample::select(&OFFSETS[..])
}

fn any_epochs() -> impl Strategy<Value = BTreeMap<i32, i64>> {
    proptest::collection::btree_map(proptest::sample::select(&EPOCHS[..]), any_offset(), 1..=4)
}

fn any_step() -> impl Strategy<Value = Step> {
    let states = proptest::sample::select(&RemoteLogSegmentState::ALL[..]);
    let starting = prop_oneof![19 => Just(STARTED), 1 => states.clone()];
    let add = (0..NUMBERS, any_offset(), any_offset(), any_epochs(), starting);
    let custom = proptest::option::weighted(0.2, proptest::collection::vec(0..2u8, 0..2));
    let update = (0..NUMBERS, states, 0..2i64, 0..2i32, custom);
    prop_oneof![
        6 => add.prop_map(|(number, one, other, epochs, state)| {
            Step::Add { number, range: [one.min(other), one.max(other)], epochs, state }
        }),
        12 => update.prop_map(|(number, state, timestamp, broker, custom)| {
            Step::Update { number, state, timestamp, broker, custom }
        }),
        1 => proptest::sample::select(&RemotePartitionDeleteState::ALL[..])
            .prop_map(|state| Step::Delete { state }),
        1 => Just(Step::Purge),
    ]
}

proptest! {
    #[test]
    fn answers_as_the_plain_list_does(steps in proptest::collection::vec(any_step(), 1..60)) {
        let (store, mut model) = (Store::new(), Model::default());
        for step in &steps {
            prop_assert_eq!(take(&store, step), model.take(step), "{:?}", step);
            compare(&store, &model, &OFFSETS, &EPOCHS);
        }
    }

    /// Many segments of one epoch that overlap at will, and go in any order.
    #[test]
    fn deep_overlaps(
        ranges in proptest::collection::vec((0..40i64, 0..40i64), 1..80),
        order in proptest::collection::vec(any::<proptest::sample::Index>(), 80),
    ) {
        let (store, mut model) = (Store::new(), Model::default());
        let offsets: Vec<i64> = (-1..42).collect();
        let both = |model: &mut Model, step: Step| {
            assert_eq!(take(&store, &step), model.take(&step));
        };
        let update = |number, state| Step::Update { number, state, timestamp: 0, broker: 0, custom: None };
        for (number, (one, other)) in (0..).zip(&ranges) {
            let range = [*one.min(other), *one.max(other)];
            let epochs = BTreeMap::from([(0, range[0])]);
            both(&mut model, Step::Add { number, range, epochs, state: STARTED });
            both(&mut model, update(number, FINISHED));
        }
        compare(&store, &model, &offsets, &[0]);
        let mut left: Vec<u128> = (0..ranges.len() as u128).collect();
        for (gone, at) in order.iter().take(ranges.len()).enumerate() {
            let number = left.swap_remove(at.index(left.len()));
            both(&mut model, update(number, DELETING));
            if gone % 4 == 0 {
                compare(&store, &model, &offsets, &[0]);
            }
            both(&mut model, update(number, DELETED));
        }
        compare(&store, &model, &offsets, &[0]);
    }
}
