//! Readers against a model: whatever is done to a stream, a reader gives what was live when it was made.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidelog::{Batch, Error, IdRule, Log, Options, ReadOptions, Reader, StreamId};

#[derive(Clone, Debug)]
enum Step {
    /// Entries of a stream, each this far above the one before.
    Append {
        stream: usize,
        entries: u8,
        gap: u64,
        len: usize,
    },
    Obsolete {
        stream: usize,
        share: u64,
    },
    Truncate {
        stream: usize,
        share: u64,
    },
    Release {
        stream: usize,
    },
    /// A reader that is only begun, and read at the end.
    Begin {
        stream: usize,
        share: u64,
    },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stream = 0..3_usize;
    let share = 0..100_u64;
    let step = prop_oneof![
        8 => (stream.clone(), 1..30_u8, 1..4_u64, 0..4000_usize)
            .prop_map(|(stream, entries, gap, len)| Step::Append { stream, entries, gap, len }),
        2 => (stream.clone(), share.clone()).prop_map(|(stream, share)| Step::Obsolete { stream, share }),
        2 => (stream.clone(), share.clone()).prop_map(|(stream, share)| Step::Truncate { stream, share }),
        1 => stream.clone().prop_map(|stream| Step::Release { stream }),
        3 => (stream, share).prop_map(|(stream, share)| Step::Begin { stream, share }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

/// Id and payload, which tells apart entries with the same id.
type Entries = BTreeMap<u64, Vec<u8>>;

#[derive(Default)]
struct Model {
    live: Entries,
    mark: Option<u64>,
    last: Option<u64>,
    releases: u64,
}

impl Model {
    /// The id at this share of the live range, in percent.
    fn pick(&self, share: u64) -> Option<u64> {
        let (first, last) = (*self.live.keys().next()?, *self.live.keys().next_back()?);
        Some(first + (last - first) * share / 100)
    }
}

fn options(rule: IdRule) -> Options {
    Options::new().id_rule(rule).first_segment_size(128 << 10).segment_size(128 << 10).frame_size(16 << 10)
}

fn collect(reader: Reader) -> Result<Entries, Error> {
    reader.map(|entry| entry.map(|entry| (entry.id, entry.payload.to_vec()))).collect()
}

fn id(stream: usize) -> StreamId {
    StreamId::new(1, stream as u64)
}

struct Begun {
    stream: usize,
    releases: u64,
    reader: Reader,
    expected: Entries,
}

fn finish(begun: Vec<Begun>, models: &[Model]) -> Result<(), TestCaseError> {
    for Begun { stream, releases, reader, expected } in begun {
        match collect(reader) {
            Ok(entries) => prop_assert_eq!(entries, expected),
            // A release before the first read may cut a reader, which then says so.
            Err(Error::Truncated { .. }) => prop_assert!(models[stream].releases > releases),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
    Ok(())
}

fn run(rule: IdRule, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), options(rule)).unwrap();
    let mut models: [Model; 3] = Default::default();
    let mut begun = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append { stream, entries, gap, len } => {
                let model = &mut models[stream];
                let mut batch: Batch<Vec<u8>> = Batch::new();
                for _ in 0..entries {
                    let gap = if rule == IdRule::Contiguous && !model.live.is_empty() { 1 } else { gap };
                    let next = model.last.max(model.mark).map_or(gap, |last| last + gap);
                    let payload = vec![(at as u64 + next) as u8; len];
                    batch.append(id(stream), next, payload.clone());
                    model.live.insert(next, payload);
                    model.last = Some(next);
                }
                log.append(&batch).unwrap();
            }
            Step::Obsolete { stream, share } => {
                let model = &mut models[stream];
                let Some(mark) = model.pick(share) else { continue };
                log.obsolete(id(stream), mark).unwrap();
                model.live = model.live.split_off(&(mark + 1));
                model.mark = model.mark.max(Some(mark));
            }
            Step::Truncate { stream, share } => {
                let model = &mut models[stream];
                let Some(from) = model.pick(share) else { continue };
                log.truncate(id(stream), from).unwrap();
                model.live.split_off(&from);
                model.last = log.stream(id(stream)).and_then(|info| info.last);
                if let Some((last, _)) = model.live.last_key_value() {
                    prop_assert_eq!(model.last, Some(*last));
                }
            }
            Step::Release { stream } => {
                log.release(id(stream)).unwrap();
                models[stream] = Model { releases: models[stream].releases + 1, ..Model::default() };
            }
            Step::Begin { stream, share } => {
                let from = models[stream].pick(share).unwrap_or(0);
                let reader = log.read(id(stream), from.., ReadOptions::new()).unwrap();
                let mut expected = models[stream].live.clone();
                let (expected, releases) = (expected.split_off(&from), models[stream].releases);
                begun.push(Begun { stream, releases, reader, expected });
            }
            Step::Reopen => {
                log.close().unwrap();
                drop(log);
                // What a later opening retires, readers of this one would not find.
                finish(std::mem::take(&mut begun), &models)?;
                log = Log::open(dir.path(), options(rule)).unwrap();
            }
        }
    }
    finish(begun, &models)?;
    for (stream, model) in models.into_iter().enumerate() {
        let entries = collect(log.read(id(stream), .., ReadOptions::new()).unwrap()).unwrap();
        prop_assert_eq!(entries, model.live);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn contiguous_streams_read_as_the_model_says(steps in steps()) {
        run(IdRule::Contiguous, steps)?;
    }

    #[test]
    fn streams_with_gaps_read_as_the_model_says(steps in steps()) {
        run(IdRule::Increasing, steps)?;
    }
}
