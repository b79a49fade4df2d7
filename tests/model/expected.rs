//! The model: what the log must hold after each step, and what it must refuse.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidelog::{Batch, IdRule, Log, StreamId, StreamInfo};

use crate::common::content::{Content, Stream};
use crate::common::payload;
use crate::operations::{Pick, Step, stream};

/// A step with its id, and with the payload of an append.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Append(StreamId, u64, Bytes),
    Obsolete(StreamId, u64),
    Release(StreamId),
    Truncate(StreamId, u64),
    Create(StreamId),
    Delete(StreamId),
}

/// What the model holds of one stream. With gaps between ids, a truncation may leave the last id as high as just
/// below its place: which one it is, is asked of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modelled {
    pub(crate) known: Stream,
    last_at_most: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) content: Content,
    last_at_most: BTreeMap<StreamId, Option<u64>>,
}

/// A refusal that the log may answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    OutOfOrder { stream: StreamId, first: Option<u64>, last: Option<u64>, attempted: u64 },
    Obsolete { stream: StreamId, mark: u64, attempted: u64 },
}

pub(crate) enum Verdict {
    Taken,
    Refused(Vec<Refusal>),
    /// It depends on what a truncation has left, which the model does not know.
    Either,
}

impl Model {
    pub(crate) fn get(&self, name: StreamId) -> Modelled {
        let known = self.content.streams.get(&name).cloned().unwrap_or_default();
        let last_at_most = self.last_at_most.get(&name).copied().unwrap_or(known.last);
        Modelled { known, last_at_most }
    }

    pub(crate) fn set(&mut self, name: StreamId, stream: Modelled) {
        self.last_at_most.insert(name, stream.last_at_most);
        self.content.streams.insert(name, stream.known);
    }

    pub(crate) fn id(&self, name: StreamId, pick: Pick) -> u64 {
        let stream = self.get(name);
        let high = stream.last_at_most.max(stream.known.mark);
        let next = high.map_or(1, |high| high.saturating_add(1));
        match pick {
            Pick::Next => next,
            Pick::Above(by) => next.saturating_add(by.into()),
            Pick::Below(by) => stream.known.last.unwrap_or(0).saturating_sub(by.into()),
            Pick::At(id) => id,
        }
    }

    pub(crate) fn act(&self, step: Step, seed: u64) -> Act {
        match step {
            Step::Append(n, pick, len) => {
                let id = self.id(stream(n), pick);
                Act::Append(stream(n), id, payload(seed ^ id.rotate_left(20) ^ u64::from(n), len as usize))
            }
            Step::Obsolete(n, pick) => Act::Obsolete(stream(n), self.id(stream(n), pick)),
            Step::Release(n) => Act::Release(stream(n)),
            Step::Truncate(n, pick) => Act::Truncate(stream(n), self.id(stream(n), pick)),
            Step::Create(n) => Act::Create(stream(n)),
            Step::Delete(n) => Act::Delete(stream(n)),
        }
    }

    pub(crate) fn append(
        &mut self,
        rule: IdRule,
        restart: bool,
        name: StreamId,
        id: u64,
        payload: &Bytes,
    ) -> Result<bool, Refusal> {
        let mut stream = self.get(name);
        let known = &mut stream.known;
        let mut sure = true;
        let is_empty = known.entries.is_empty();
        let out_of_order =
            Refusal::OutOfOrder { stream: name, first: known.first(), last: known.last, attempted: id };
        match (is_empty, known.mark) {
            (true, Some(mark)) if id <= mark => {
                if !restart {
                    return Err(Refusal::Obsolete { stream: name, mark, attempted: id });
                }
                // With gaps between ids the log may not know that the stream is empty.
                sure &= rule == IdRule::Contiguous;
                (*known, stream.last_at_most) = Default::default();
            }
            _ => {}
        }
        if rule == IdRule::Contiguous {
            if !known.entries.is_empty() && known.last.and_then(|last| last.checked_add(1)) != Some(id) {
                return Err(out_of_order);
            }
        } else if known.last.is_some_and(|last| id <= last) {
            return Err(out_of_order);
        } else if stream.last_at_most.is_some_and(|last| id <= last) {
            sure = false;
        }
        known.entries.insert(id, payload.clone());
        known.last = Some(id);
        stream.last_at_most = Some(id);
        self.set(name, stream);
        Ok(sure)
    }

    pub(crate) fn apply(&mut self, rule: IdRule, restart: bool, act: &Act) -> Result<bool, Refusal> {
        match act {
            Act::Append(name, id, payload) => return self.append(rule, restart, *name, *id, payload),
            Act::Obsolete(name, id) => {
                let mut stream = self.get(*name);
                if let Some(last) = stream.known.last {
                    // Where only the log knows the last id, so it is with a mark there.
                    let sure = *id <= last || stream.last_at_most == Some(last);
                    stream.known.obsolete(last.min(*id));
                    self.set(*name, stream);
                    return Ok(sure);
                }
                return Ok(stream.last_at_most.is_none());
            }
            Act::Release(name) => self.set(*name, Modelled::default()),
            Act::Truncate(name, from) => {
                let mut stream = self.get(*name);
                let known = &mut stream.known;
                if known.last.is_none_or(|last| *from > last) && stream.last_at_most < Some(*from) {
                    return Ok(true);
                }
                let was_empty = known.entries.is_empty();
                known.truncate(*from);
                let last = known.entries.last_key_value().map(|(id, _)| *id).or(known.mark);
                if rule == IdRule::Contiguous {
                    if !was_empty {
                        (known.last, stream.last_at_most) = (last, last);
                    }
                } else {
                    known.last = last;
                    let bound = stream.last_at_most.min(from.checked_sub(1));
                    stream.last_at_most = bound.max(last);
                }
                self.set(*name, stream);
            }
            Act::Create(name) => {
                self.content.namespaces.insert(*name);
            }
            Act::Delete(name) => {
                self.content.namespaces.remove(name);
            }
        }
        Ok(true)
    }

    /// Steps one after the other; on a refusal the other streams' steps are still looked at, since any of the
    /// refusals may be the answer.
    pub(crate) fn run(
        &self,
        rule: IdRule,
        restart: bool,
        seed: u64,
        steps: &[Step],
    ) -> (Vec<(Step, Act)>, Self, Verdict) {
        let mut after = self.clone();
        let (mut acts, mut refusals, mut sure) = (Vec::new(), Vec::new(), true);
        let mut refused = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let act = after.act(*step, seed.wrapping_mul(1000) + number as u64);
            let name = act.stream();
            if !refused.contains(&name) {
                match after.apply(rule, restart, &act) {
                    Ok(known) => sure &= known,
                    Err(refusal) => {
                        refused.push(name);
                        refusals.push(refusal);
                    }
                }
            }
            acts.push((*step, act));
        }
        after.content.forget_unknown();
        let verdict = match (sure, refusals.is_empty()) {
            (false, _) => Verdict::Either,
            (true, true) => Verdict::Taken,
            (true, false) => Verdict::Refused(refusals),
        };
        (acts, after, verdict)
    }

    /// What the log says of its streams fits; what only it can know is taken over.
    pub(crate) fn agree(&mut self, log: &Log, rule: IdRule) {
        let mut told: BTreeMap<StreamId, StreamInfo> = log.streams().into_iter().collect();
        for number in 0..4 {
            let name = stream(number);
            let info = told.remove(&name);
            assert_eq!(log.stream(name), info, "one stream and all streams are told alike");
            let info = info.unwrap_or_default();
            let Modelled { mut known, last_at_most } = self.get(name);
            let say = format!("{name}: {info:?}, but {known:?}");
            assert_eq!(info.mark, known.mark, "the mark of {say}");
            assert!(info.last >= known.last && info.last <= last_at_most, "the last id of {say}");
            if rule == IdRule::Contiguous {
                assert_eq!(info.first, known.first(), "the first id of {say}");
            } else if let Some(first) = known.first() {
                let bound = info.first.unwrap_or_else(|| panic!("no first id of {say}"));
                assert!(bound <= first && known.mark.is_none_or(|mark| bound > mark), "the first of {say}");
            }
            known.last = info.last;
            self.set(name, Modelled { known, last_at_most: info.last });
        }
        self.content.forget_unknown();
        assert!(told.is_empty(), "streams of nobody: {told:?}");
        assert!(log.namespaces().iter().eq(&self.content.namespaces), "{:?}", log.namespaces());
    }
}

impl Act {
    pub(crate) fn stream(&self) -> StreamId {
        match self {
            Self::Append(stream, ..)
            | Self::Obsolete(stream, _)
            | Self::Release(stream)
            | Self::Truncate(stream, _)
            | Self::Create(stream)
            | Self::Delete(stream) => *stream,
        }
    }
}

pub(crate) fn batch(acts: &[(Step, Act)], restart: bool) -> Batch {
    let mut batch = Batch::new();
    batch.restart_emptied(restart);
    for (_, act) in acts {
        match act {
            Act::Append(stream, id, payload) => batch.append(*stream, *id, payload.clone()),
            Act::Obsolete(stream, id) => batch.obsolete(*stream, *id),
            Act::Release(stream) => batch.release(*stream),
            Act::Truncate(stream, from) => batch.truncate(*stream, *from),
            Act::Create(stream) => batch.create_namespace(*stream),
            Act::Delete(stream) => batch.delete_namespace(*stream),
        };
    }
    batch
}
