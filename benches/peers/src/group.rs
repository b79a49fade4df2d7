//! A bare group commit: whoever finds the sink free writes for all that have come by then.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};

use crate::device::Blocks;
use crate::subject::Record;

/// More than groups in flight and open at once, so that each has a bell of its own.
const BELLS: usize = 16;

/// What groups are written to.
pub(crate) trait Sink: Send + Sync {
    /// Makes the records of a group durable: they lie packed at the start of the buffer, so many bytes. Groups that are
    /// in flight at once may come in any order; `group` counts them.
    fn write(&self, group: u64, buffer: &Blocks, bytes: usize) -> Result<()>;
}

#[derive(Debug)]
pub(crate) struct Group<S> {
    sink: S,
    /// Most groups in flight.
    depth: usize,
    state: Mutex<State>,
    bells: [Condvar; BELLS],
}

#[derive(Debug)]
struct State {
    open: Blocks,
    len: usize,
    /// The number of the open group.
    group: u64,
    in_flight: usize,
    /// All groups below are durable.
    durable: u64,
    /// Written, above one that is not yet.
    ahead: BTreeSet<u64>,
    spare: Vec<Blocks>,
    failure: Option<String>,
}

impl<S: Sink> Group<S> {
    /// `room`: bytes of all that is appended at once, headers included.
    pub(crate) fn new(sink: S, depth: usize, room: usize) -> Self {
        assert!(depth < BELLS, "too many groups in flight");
        let state = State {
            open: Blocks::new(room),
            len: 0,
            group: 0,
            in_flight: 0,
            durable: 0,
            ahead: BTreeSet::new(),
            spare: (0..depth).map(|_| Blocks::new(room)).collect(),
            failure: None,
        };
        Self { sink, depth, state: Mutex::new(state), bells: Default::default() }
    }

    /// Durable on return. `crcs` are those of the records, taken before the lock.
    pub(crate) fn append(&self, records: &[Record], crcs: &[u32]) -> Result<()> {
        let mut state = self.lock();
        for (record, crc) in records.iter().zip(crcs) {
            let State { open, len, .. } = &mut *state;
            *len = record.put(*crc, open.get_mut(), *len);
        }
        let group = state.group;
        loop {
            if let Some(failure) = &state.failure {
                return Err(anyhow!(failure.clone()));
            }
            if state.durable > group {
                return Ok(());
            }
            state = if state.group == group && state.in_flight < self.depth {
                self.lead(state)
            } else {
                self.bell(group).wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bell(&self, group: u64) -> &Condvar {
        &self.bells[(group % BELLS as u64) as usize]
    }

    /// Writes the open group. The next one's leader is woken before those who are done.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(next) = state.spare.pop() else { return state };
        let buffer = std::mem::replace(&mut state.open, next);
        let bytes = std::mem::take(&mut state.len);
        let group = state.group;
        (state.group, state.in_flight) = (group + 1, state.in_flight + 1);
        drop(state);

        let written = self.sink.write(group, &buffer, bytes);

        let mut state = self.lock();
        state.in_flight -= 1;
        state.spare.push(buffer);
        if let Err(error) = written {
            state.failure = Some(format!("{error:#}"));
            self.bells.iter().for_each(Condvar::notify_all);
            return state;
        }
        state.ahead.insert(group);
        let done = state.durable;
        while {
            let next = state.durable;
            state.ahead.remove(&next)
        } {
            state.durable += 1;
        }
        let (durable, next) = (state.durable, (state.len > 0).then_some(state.group));
        drop(state);
        if let Some(next) = next {
            self.bell(next).notify_one();
        }
        for group in done..durable {
            self.bell(group).notify_all();
        }
        self.lock()
    }
}
