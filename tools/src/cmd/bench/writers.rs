//! Those who append to the log.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Batch, Log, StreamId};

use super::outcome::Turn;
use super::plan::{BATCH_STREAMS, Setting};
use super::subject::{Counted, Subject};
use super::window::{Meter, measure};
use crate::args::Case;
use crate::bare::BLOCK;
use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct Writers {
    case: Case,
    callers: Vec<Caller>,
}

/// One thread's part: streams of its own.
#[derive(Debug)]
struct Caller {
    streams: Vec<StreamId>,
    /// The last id, the same in each stream.
    last: u64,
    /// Entries that a batch has of each stream.
    run: u64,
    /// Ids between two trims.
    trim: u64,
    trimmed: u64,
    outstanding: usize,
    payload: Vec<u8>,
    think: Option<Duration>,
}

impl Writers {
    pub(crate) fn new(subject: &mut Subject, setting: &Setting) -> Self {
        let streams = if setting.case == Case::Batch { BATCH_STREAMS } else { 1 };
        let threads = u64::from(setting.threads);
        // A record alone takes a block at least.
        let bytes = if setting.batch() == 1 { setting.payload.max(BLOCK as u64) } else { setting.payload };
        let caller = |_| Caller {
            streams: subject.new_streams(streams),
            last: 0,
            run: setting.batch() / streams,
            trim: (subject.trim_bytes() / bytes / threads / streams).max(1),
            trimmed: 0,
            outstanding: setting.outstanding.into(),
            payload: vec![0x5a; setting.payload as usize],
            think: setting.think,
        };
        Self { case: setting.case, callers: (0..threads).map(caller).collect() }
    }

    pub(crate) fn window(&mut self, subject: &Subject, length: Duration) -> Result<Turn, Failure> {
        let (case, log) = (self.case, &subject.log);
        subject.take_rotations();
        let before = log.stats();
        let window = measure(&mut self.callers, length, |caller, meter| {
            match case {
                Case::Staged => caller.stage(log, meter),
                Case::Wait => caller.keep_outstanding(log, meter),
                _ => caller.commit(log, meter),
            }
            .map_err(Failure::Log)
        })?;
        let counted = Counted::between(&before, &log.stats());
        subject.rest();
        Ok(Turn { window, counted: Some(counted), rotations: subject.take_rotations() })
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.callers.iter().flat_map(|caller| caller.streams.iter().copied())
    }
}

impl Caller {
    /// The next entries; now and then with a mark below them, as a log in use gets it.
    fn fill<'a>(
        streams: &[StreamId],
        payload: &'a [u8],
        ids: std::ops::RangeInclusive<u64>,
        mark: Option<u64>,
        batch: &mut Batch<&'a [u8]>,
    ) -> u64 {
        batch.clear();
        for stream in streams {
            if let Some(mark) = mark {
                batch.obsolete(*stream, mark);
            }
            for id in ids.clone() {
                batch.append(*stream, id, payload);
            }
        }
        streams.len() as u64 * (ids.end() - ids.start() + 1)
    }

    /// Fills the batch, and gives its number of entries.
    fn next<'a>(&mut self, payload: &'a [u8], batch: &mut Batch<&'a [u8]>) -> u64 {
        let due = self.last >= self.trimmed + self.trim;
        let mark = due.then_some(self.last);
        if due {
            self.trimmed = self.last;
        }
        let ids = self.last + 1..=self.last + self.run;
        self.last += self.run;
        Self::fill(&self.streams, payload, ids, mark, batch)
    }

    fn commit(&mut self, log: &Log, meter: &mut Meter<'_>) -> tidelog::Result<()> {
        let (mut batch, payload) = (Batch::new(), self.payload.clone());
        while meter.goes_on() {
            let records = self.next(&payload, &mut batch);
            let begun = Instant::now();
            let frame = log.append_durable(&batch)?;
            meter.note_commit(begun, records, frame.0);
            if let Some(think) = self.think {
                thread::sleep(think);
            }
        }
        Ok(())
    }

    fn stage(&mut self, log: &Log, meter: &mut Meter<'_>) -> tidelog::Result<()> {
        let (mut batch, payload) = (Batch::new(), self.payload.clone());
        let mut last = None;
        while meter.goes_on() {
            let records = self.next(&payload, &mut batch);
            let begun = Instant::now();
            last = Some(log.append(&batch)?);
            meter.note(begun, 1, records);
        }
        last.map_or(Ok(()), |frame| log.wait_durable(frame))
    }

    /// Waits for the oldest append whenever too many are outstanding; all that are durable by then are done.
    fn keep_outstanding(&mut self, log: &Log, meter: &mut Meter<'_>) -> tidelog::Result<()> {
        let (mut batch, payload) = (Batch::new(), self.payload.clone());
        let mut waiting = VecDeque::with_capacity(self.outstanding);
        loop {
            while waiting.len() < self.outstanding && meter.goes_on() {
                self.next(&payload, &mut batch);
                let begun = Instant::now();
                waiting.push_back((log.append(&batch)?, begun));
            }
            let Some((oldest, _)) = waiting.front() else { return Ok(()) };
            log.wait_durable(*oldest)?;
            let durable = log.durable_lsn();
            while let Some((frame, begun)) = waiting.front().filter(|(frame, _)| *frame < durable) {
                meter.note_commit(*begun, 1, frame.0);
                waiting.pop_front();
            }
        }
    }
}
