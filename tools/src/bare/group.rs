//! The floor of durable appends: a bare group commit. Whoever finds the sink free writes for all that have come by then.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Put;
use super::device::Blocks;

/// More than groups in flight and open at once, so that each has a bell of its own.
const BELLS: usize = 16;

/// What groups are written to.
pub trait Sink: Send + Sync {
    /// Makes what lies packed in the first so many bytes of the buffer durable. More of them can be in flight at once,
    /// and come in any order.
    fn write(&self, buffer: &Blocks, bytes: usize) -> io::Result<()>;
}

/// A group commit.
#[derive(Debug)]
pub struct Group<S> {
    sink: S,
    /// Most writes in flight.
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
    /// `room`: bytes of all that is appended at once.
    ///
    /// # Panics
    /// With more groups in flight than there are bells for.
    pub fn new(sink: S, depth: usize, room: usize) -> Self {
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

    /// Durable on return.
    pub fn append(&self, records: &[impl Put]) -> io::Result<()> {
        let mut state = self.lock();
        for record in records {
            let State { open, len, .. } = &mut *state;
            *len = record.put(open.get_mut(), *len);
        }
        let group = state.group;
        loop {
            if let Some(failure) = &state.failure {
                return Err(io::Error::other(failure.clone()));
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
        let blocks = std::mem::replace(&mut state.open, next);
        let bytes = std::mem::take(&mut state.len);
        let group = state.group;
        (state.group, state.in_flight) = (group + 1, state.in_flight + 1);
        drop(state);

        let written = self.sink.write(&blocks, bytes);

        let mut state = self.lock();
        state.in_flight -= 1;
        state.spare.push(blocks);
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
