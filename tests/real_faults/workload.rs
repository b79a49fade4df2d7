//! What is asked of a log while something breaks, and what it may be afterwards: one of the states that it went
//! through, none older than the last one that was acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use futures::executor::block_on;
use tidelog::{Batch, Error, Log, Lsn, StreamId};

use crate::common::content::Content;
use crate::common::payload;

/// Entries that a stream keeps, about; so segments retire.
const KEPT: u64 = 40;

/// A sequence of numbers that its seed determines.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        u64::from_le_bytes(payload(self.0, 8)[..].try_into().unwrap()) % bound
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(StreamId, u64, Bytes),
    Obsolete(StreamId, u64),
    Truncate(StreamId, u64),
    Release(StreamId),
    Create(StreamId),
    Delete(StreamId),
}

/// One batch, and where it went as far as the log said so.
struct Done {
    steps: Vec<Step>,
    lsn: Option<Lsn>,
}

/// A writer with streams of its own.
pub(crate) struct Actor {
    class: u16,
    random: Random,
    /// What was there before `done`.
    base: Content,
    now: Content,
    done: Vec<Done>,
    /// So many of `done` are known to be durable.
    acknowledged: usize,
    number: u64,
}

/// Which of an actor's batches are there after a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) acknowledged: u64,
    pub(crate) entries: u64,
    /// The last one that surely is.
    pub(crate) last: Option<Lsn>,
    /// The first one that surely is not.
    pub(crate) lost: Option<Lsn>,
}

impl Actor {
    pub(crate) fn new(class: u16) -> Self {
        let (base, now) = Default::default();
        Self {
            class,
            random: Random::new(u64::from(class) << 40),
            base,
            now,
            done: Vec::new(),
            acknowledged: 0,
            number: 0,
        }
    }

    fn stream(&self, number: u64) -> StreamId {
        StreamId::new(self.class, number)
    }

    pub(crate) fn has_durable(&self) -> bool {
        self.acknowledged > 0
    }

    /// One batch after the other, until one fails. An acknowledgement that comes once the fault is `due` does not
    /// count.
    pub(crate) fn run(&mut self, log: &Log, due: &AtomicBool) -> Error {
        loop {
            match self.once(log) {
                Ok(true) if !due.load(Ordering::SeqCst) => self.acknowledged = self.done.len(),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }

    /// Whether it waited for the batch to be durable.
    fn once(&mut self, log: &Log) -> Result<bool, Error> {
        let steps = self.steps();
        for step in &steps {
            apply(&mut self.now, step);
        }
        let batch = batch(&steps);
        self.done.push(Done { steps, lsn: None });
        let lsn = match self.random.below(6) {
            0 => log.append_durable(&batch)?,
            1 => block_on(log.append_durable_async(batch))?,
            way => {
                let lsn = log.append(&batch)?;
                self.done.last_mut().unwrap().lsn = Some(lsn);
                match way {
                    2 => log.wait_durable(lsn)?,
                    3 => {
                        let (tell, told) = mpsc::channel();
                        log.on_durable(lsn, move |outcome| tell.send(outcome).unwrap());
                        told.recv().unwrap()?;
                    }
                    // Ordered, and left to what comes after it.
                    _ => return Ok(false),
                }
                lsn
            }
        };
        self.done.last_mut().unwrap().lsn = Some(lsn);
        Ok(true)
    }

    /// A batch of one entry, or of many over all streams as a log store makes them, behind a step that drops
    /// something or lists something.
    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut content = self.now.clone();
        let mut take = |content: &mut Content, step: Step| {
            apply(content, &step);
            steps.push(step);
        };
        let number = self.random.below(3);
        let stream = self.stream(number);
        let known = content.streams.get(&stream).cloned().unwrap_or_default();
        match (self.random.below(24), known.first(), known.last) {
            (0, _, Some(_)) => take(&mut content, Step::Release(stream)),
            (1 | 2, Some(first), Some(last)) => {
                let from = first + self.random.below(last - first + 1);
                take(&mut content, Step::Truncate(stream, from));
            }
            (3, ..) => take(&mut content, Step::Create(stream)),
            (4, ..) => take(&mut content, Step::Delete(stream)),
            (_, Some(first), Some(last)) if last - first > 2 * KEPT => {
                take(&mut content, Step::Obsolete(stream, last - KEPT));
            }
            _ => {}
        }
        let (streams, count) = match self.random.below(8) {
            0 => (0..3, 10),
            1..3 => (0..3, 1),
            _ => (number..number + 1, 1),
        };
        for _ in 0..count {
            for number in streams.clone() {
                let stream = self.stream(number);
                let id = content.streams.get(&stream).and_then(|known| known.last).map_or(1, |last| last + 1);
                let step = Step::Append(stream, id, self.payload());
                take(&mut content, step);
            }
        }
        steps
    }

    /// Most are small; some are larger than a frame, a few than a segment.
    fn payload(&mut self) -> Bytes {
        self.number += 1;
        let len = match self.random.below(1000) {
            0 => 150_000,
            1..6 => 20_000,
            6..50 => 5000,
            _ => self.random.below(400) as usize,
        };
        payload((u64::from(self.class) << 48) | self.number, len)
    }

    /// Compares what is found with the states that it may have, and starts anew from there.
    pub(crate) fn settle(&mut self, found: &Content) -> Result<Held, String> {
        let own = Content {
            streams: found
                .streams
                .iter()
                .filter(|(stream, _)| stream.class == self.class)
                .map(|(stream, known)| (*stream, known.clone()))
                .collect(),
            namespaces: found
                .namespaces
                .iter()
                .filter(|stream| stream.class == self.class)
                .copied()
                .collect(),
        };
        let mut state = self.base.clone();
        let mut fitting = None;
        for count in 0..=self.done.len() {
            if count > 0 {
                self.done[count - 1].steps.iter().for_each(|step| apply(&mut state, step));
            }
            if count >= self.acknowledged && state == own {
                fitting = Some((fitting.map_or(count, |(first, _)| first), count));
            }
        }
        let Some((first, last)) = fitting else {
            return Err(self.explain(&own));
        };
        let appends = |step: &&Step| matches!(step, Step::Append(..));
        let acknowledged = &self.done[..self.acknowledged];
        let entries = acknowledged.iter().map(|done| done.steps.iter().filter(appends).count() as u64).sum();
        let held = Held {
            acknowledged: self.acknowledged as u64,
            entries,
            last: self.done[..first].iter().rev().find_map(|done| done.lsn),
            lost: self.done[last..].iter().find_map(|done| done.lsn),
        };
        self.base = own.clone();
        self.now = own;
        self.done.clear();
        self.acknowledged = 0;
        Ok(held)
    }

    fn explain(&self, found: &Content) -> String {
        let mut known = self.base.clone();
        self.done[..self.acknowledged].iter().flat_map(|done| &done.steps).for_each(|s| apply(&mut known, s));
        let rest: Vec<_> = self.done[self.acknowledged..].iter().map(|done| &done.steps).collect();
        format!("class {}: found {found:#?}\nacknowledged {known:#?}\nand after that {rest:?}", self.class)
    }
}

fn apply(content: &mut Content, step: &Step) {
    match step {
        Step::Append(stream, id, payload) => {
            let known = content.streams.entry(*stream).or_default();
            known.entries.insert(*id, payload.clone());
            known.last = Some(*id);
        }
        Step::Obsolete(stream, id) => content.streams.entry(*stream).or_default().obsolete(*id),
        Step::Truncate(stream, from) => {
            let known = content.streams.entry(*stream).or_default();
            known.truncate(*from);
            known.last = known.entries.last_key_value().map(|(id, _)| *id).or(known.mark);
        }
        Step::Release(stream) => {
            content.streams.remove(stream);
        }
        Step::Create(stream) => {
            content.namespaces.insert(*stream);
        }
        Step::Delete(stream) => {
            content.namespaces.remove(stream);
        }
    }
    content.forget_unknown();
}

fn batch(steps: &[Step]) -> Batch {
    let mut batch = Batch::new();
    for step in steps {
        match step {
            Step::Append(stream, id, payload) => batch.append(*stream, *id, payload.clone()),
            Step::Obsolete(stream, id) => batch.obsolete(*stream, *id),
            Step::Truncate(stream, from) => batch.truncate(*stream, *from),
            Step::Release(stream) => batch.release(*stream),
            Step::Create(stream) => batch.create_namespace(*stream),
            Step::Delete(stream) => batch.delete_namespace(*stream),
        };
    }
    batch
}

/// What the log shows by its own means.
pub(crate) fn shown(log: &Log) -> Result<Content, Error> {
    let mut content = Content::default();
    for (stream, info) in log.streams() {
        let entries = crate::common::try_read(log, stream)?;
        let known = crate::common::content::Stream {
            entries: entries.into_iter().collect(),
            last: info.last,
            mark: info.mark,
        };
        assert_eq!(known.first(), info.first, "{stream}");
        content.streams.insert(stream, known);
    }
    content.namespaces = log.namespaces().into_iter().collect();
    Ok(content)
}

/// No batch is there of which one that came before it is not.
pub(crate) fn check_order(held: &[Held]) {
    let there = held.iter().filter_map(|held| held.last).max();
    let gone = held.iter().filter_map(|held| held.lost).min();
    if let (Some(there), Some(gone)) = (there, gone) {
        assert!(there < gone, "{there:?} is there and {gone:?} is not");
    }
}
