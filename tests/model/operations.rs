//! What is asked of the log, at random.

use proptest::prelude::*;
use tidelog::{ReadMode, ReadUpTo, StreamId};

/// An id, by where it lies from the stream's last one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// The next one that must be taken.
    Next,
    Above(u8),
    /// The last one or lower ones.
    Below(u8),
    At(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Append(u8, Pick, u32),
    Obsolete(u8, Pick),
    Release(u8),
    Truncate(u8, Pick),
    Create(u8),
    Delete(u8),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Staged,
    Tried,
    Timed,
    Future,
    Durable,
    DurableFuture,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Append {
        steps: Vec<Step>,
        how: How,
        restart: bool,
    },
    /// One step, by the method of the log that is there for it.
    Single(Step),
    WaitEnd,
    WaitEntry(u8, Pick),
    /// So many ids from this one on.
    Read(u8, Pick, u64, ReadUpTo, ReadMode),
    Close,
    Drop,
}

pub(crate) fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        20 => Just(Pick::Next),
        1 => (1..4_u8).prop_map(Pick::Above),
        1 => (0..4_u8).prop_map(Pick::Below),
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX - 1), Just(u64::MAX)].prop_map(Pick::At),
    ]
}

/// Where marks and truncations go: mostly among what is there.
pub(crate) fn place() -> impl Strategy<Value = Pick> {
    prop_oneof![
        12 => (0..12_u8).prop_map(Pick::Below),
        2 => Just(Pick::Next),
        1 => (1..4_u8).prop_map(Pick::Above),
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX)].prop_map(Pick::At),
    ]
}

pub(crate) fn control() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, place()).prop_map(|(stream, id)| Step::Obsolete(stream, id)),
        2 => (0..4_u8).prop_map(Step::Release),
        3 => (0..4_u8, place()).prop_map(|(stream, from)| Step::Truncate(stream, from)),
        1 => (0..4_u8).prop_map(Step::Create),
        1 => (0..4_u8).prop_map(Step::Delete),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![8 => 0..200_u32, 4 => 200..5000_u32];
    let entry = (0..4_u8, pick(), len).prop_map(|(stream, id, len)| Step::Append(stream, id, len));
    prop_oneof![5 => entry, 1 => control()]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Larger than a frame, or than a segment.
    let large = prop_oneof![3 => 17_000..40_000_u32, 1 => 130_000..200_000_u32];
    let large = (0..4_u8, large).prop_map(|(stream, len)| Step::Append(stream, Pick::Next, len));
    prop_oneof![
        12 => prop::collection::vec(step(), 0..8),
        1 => (prop::collection::vec(step(), 0..3), large).prop_map(|(mut steps, large)| {
            steps.push(large);
            steps
        }),
    ]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    use How::{Durable, DurableFuture, Future, Staged, Timed, Tried};
    let how = prop_oneof![
        4 => Just(Staged),
        1 => Just(Tried),
        1 => Just(Timed),
        1 => Just(Future),
        2 => Just(Durable),
        1 => Just(DurableFuture)
    ];
    let up_to = prop_oneof![Just(ReadUpTo::Written), Just(ReadUpTo::Durable)];
    let mode = prop_oneof![Just(ReadMode::Map), Just(ReadMode::Copy)];
    prop_oneof![
        16 => (steps(), how, prop::bool::weighted(0.2))
            .prop_map(|(steps, how, restart)| Op::Append { steps, how, restart }),
        4 => control().prop_map(Op::Single),
        1 => Just(Op::WaitEnd),
        1 => (0..4_u8, place()).prop_map(|(stream, id)| Op::WaitEntry(stream, id)),
        4 => (0..4_u8, place(), prop_oneof![1..20_u64, Just(u64::MAX)], up_to, mode)
            .prop_map(|(stream, from, count, up_to, mode)| Op::Read(stream, from, count, up_to, mode)),
        1 => Just(Op::Close),
        1 => Just(Op::Drop),
    ]
}

pub(crate) fn stream(number: u8) -> StreamId {
    [StreamId::new(1, 1), StreamId::new(1, u64::MAX), StreamId::new(2, 1), StreamId::new(u16::MAX, 0)]
        [usize::from(number)]
}
