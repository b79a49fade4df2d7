//! One log and its model, side by side.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use tidelog::{Batch, Entry, Error, IdRule, Log, Lsn, Options, ReadMode, ReadOptions, ReadUpTo, StreamId};

use crate::common::files;
use crate::expected::{Act, Model, Refusal, Verdict, batch};
use crate::operations::{How, Op, Step, stream};

/// The log as it is, and the states that a crash may bring back.
pub(crate) struct Run<'a> {
    dir: &'a Path,
    options: Options,
    rule: IdRule,
    log: Option<Log>,
    model: Model,
    /// The state after each operation, and where the log ended then; 0 where it was durable on return.
    states: Vec<(Lsn, Model)>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(dir: &'a Path, options: Options, rule: IdRule) -> Self {
        let log = Log::open(dir, options.clone()).unwrap();
        let states = vec![(log.end_lsn(), Model::default())];
        Self { dir, options, rule, log: Some(log), model: Model::default(), states }
    }

    pub(crate) fn log(&self) -> &Log {
        self.log.as_ref().unwrap()
    }

    pub(crate) fn op(&mut self, number: u64, op: &Op) {
        let mut durable = false;
        match op {
            Op::Append { steps, how, restart } => {
                let (acts, after, verdict) = self.model.run(self.rule, *restart, number, steps);
                let answer = self.send(&batch(&acts, *restart), *how);
                durable = answer.is_ok() && matches!(how, How::Durable | How::DurableFuture);
                self.judge(answer, after, verdict);
            }
            Op::Single(step) => {
                let (acts, after, verdict) = self.model.run(self.rule, false, number, &[*step]);
                let answer = self.single(&acts[0].1);
                durable = matches!(step, Step::Release(_) | Step::Create(_) | Step::Delete(_));
                self.judge(answer, after, verdict);
            }
            Op::WaitEnd => {
                let end = self.log().end_lsn();
                if end > Lsn::ZERO {
                    self.log().wait_durable(Lsn(end.0 - 1)).unwrap();
                    assert!(self.log().durable_lsn() >= end);
                }
            }
            Op::WaitEntry(n, pick) => {
                let id = self.model.id(stream(*n), *pick);
                if let Some(lsn) = self.log().entry_lsn(stream(*n), id) {
                    self.log().wait_durable(lsn).unwrap();
                    assert_eq!(self.log().entry_lsn(stream(*n), id), None);
                }
            }
            Op::Read(n, from, count, up_to, mode) => {
                let from = self.model.id(stream(*n), *from);
                self.read(stream(*n), from..=from.saturating_add(*count), *up_to, *mode);
            }
            Op::Close => self.reopen(true),
            Op::Drop => self.reopen(false),
        }
        let log = self.log.as_ref().unwrap();
        self.model.agree(log, self.rule);
        let end = if durable { Lsn::ZERO } else { log.end_lsn() };
        self.states.push((end, self.model.clone()));
    }

    pub(crate) fn read(&self, name: StreamId, ids: RangeInclusive<u64>, up_to: ReadUpTo, mode: ReadMode) {
        let options = ReadOptions::new().up_to(up_to).mode(mode);
        let log = self.log();
        let read = log.read(name, ids.clone(), options).and_then(Iterator::collect::<Result<Vec<Entry>, _>>);
        let read = read.unwrap_or_else(|error| panic!("{name}, {ids:?}, {options:?}: {error}"));
        assert!(read.iter().all(|entry| entry.stream == name));
        if up_to == ReadUpTo::Durable {
            let durable = log.durable_lsn();
            assert!(read.iter().all(|entry| entry.lsn < durable));
        }
        let known = self.model.get(name).known.entries;
        let known = known.range(ids).map(|(id, payload)| (*id, payload));
        assert!(
            read.iter().map(|entry| (entry.id, &entry.payload)).eq(known.clone()),
            "{:?} is not {:?}",
            read.iter().map(|entry| (entry.id, entry.payload.len())).collect::<Vec<_>>(),
            known.map(|(id, payload)| (id, payload.len())).collect::<Vec<_>>()
        );
    }

    pub(crate) fn send(&self, batch: &Batch, how: How) -> Result<Lsn, Error> {
        let log = self.log();
        let answer = match how {
            How::Staged => log.append(batch),
            How::Tried => log.try_append(batch),
            How::Timed => log.append_timeout(batch, Duration::from_secs(60)),
            How::Future => block_on(log.append_async(batch.clone())),
            How::Durable => log.append_durable(batch),
            How::DurableFuture => block_on(log.append_durable_async(batch.clone())),
        };
        if let (Ok(lsn), How::Durable | How::DurableFuture) = (&answer, how) {
            let durable = log.durable_lsn();
            assert!(durable > *lsn, "{lsn:?} was called durable at {durable:?}");
        }
        answer
    }

    pub(crate) fn single(&self, act: &Act) -> Result<Lsn, Error> {
        let log = self.log();
        match act {
            Act::Obsolete(stream, id) => log.obsolete(*stream, *id)?,
            Act::Release(stream) => log.release(*stream)?,
            Act::Truncate(stream, from) => return log.truncate(*stream, *from),
            Act::Create(stream) => log.create_namespace(*stream)?,
            Act::Delete(stream) => log.delete_namespace(*stream)?,
            Act::Append(stream, id, payload) => {
                return log.append(Batch::<Bytes>::new().append(*stream, *id, payload.clone()));
            }
        }
        Ok(log.end_lsn())
    }

    pub(crate) fn judge(&mut self, answer: Result<Lsn, Error>, after: Model, verdict: Verdict) {
        match (answer, verdict) {
            (Ok(_), Verdict::Taken | Verdict::Either) => self.model = after,
            (Err(Error::Busy), _)
            | (Err(Error::OutOfOrder { .. } | Error::Obsolete { .. }), Verdict::Either) => {}
            (Err(error), Verdict::Refused(refusals)) => {
                let fits = refusals.iter().any(|refusal| self.fits(&error, refusal));
                assert!(fits, "{error:?} instead of one of {refusals:?}");
            }
            (Err(error), _) => panic!("{error:?} where nothing was wrong: {:?}", self.model.content),
            (Ok(lsn), Verdict::Refused(refusals)) => panic!("taken at {lsn:?}, in spite of {refusals:?}"),
        }
    }

    pub(crate) fn fits(&self, error: &Error, refusal: &Refusal) -> bool {
        let answered = match *error {
            Error::OutOfOrder { stream, first, last, attempted } => {
                Refusal::OutOfOrder { stream, first, last, attempted }
            }
            Error::Obsolete { stream, mark, attempted } => Refusal::Obsolete { stream, mark, attempted },
            _ => return false,
        };
        if self.rule == IdRule::Contiguous {
            return answered == *refusal;
        }
        // With gaps between ids, first and last are bounds.
        let attempt = |refusal: &Refusal| match *refusal {
            Refusal::OutOfOrder { stream, attempted, .. } | Refusal::Obsolete { stream, attempted, .. } => {
                (stream, attempted)
            }
        };
        attempt(&answered) == attempt(refusal)
    }

    /// The log comes back as it was, or as a crash may leave it: as it was after one of the operations, none of
    /// which was known to be durable.
    pub(crate) fn reopen(&mut self, close: bool) {
        let log = self.log.take().unwrap();
        let sure = if close {
            log.close().unwrap();
            assert!(matches!(log.append(&Batch::<Bytes>::new()), Err(Error::Closed)));
            self.states.len() - 1
        } else {
            let durable = log.durable_lsn();
            self.states.iter().rposition(|(end, _)| *end <= durable).unwrap()
        };
        drop(log);
        let log = Log::open(self.dir, self.options.clone()).unwrap();
        let found = files::read(self.dir).unwrap_or_else(|wrong| panic!("{wrong}"));
        let place = self.states[sure..].iter().rposition(|(_, state)| state.content == found);
        let Some(place) = place else {
            let wanted: Vec<_> = self.states[sure..].iter().map(|(_, state)| &state.content).collect();
            panic!("recovered {found:#?}\nwhich is none of {wanted:#?}");
        };
        self.model = self.states.swap_remove(sure + place).1;
        self.states = vec![(log.end_lsn(), self.model.clone())];
        self.log = Some(log);
        for number in 0..4 {
            self.read(stream(number), 0..=u64::MAX, ReadUpTo::Written, ReadMode::Map);
        }
    }
}
