//! What a log was told and what it answered.

use tidelog::Lsn;
use tidelog::sim::SimDisk;

use crate::content::Content;
use crate::run::Broken;

/// The model beside a log.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) disk: SimDisk,
    /// What the log holds after so many batches.
    pub(crate) states: Vec<Content>,
    /// The frame of each batch: one fewer.
    pub(crate) frames: Vec<Lsn>,
    /// So many batches are durable.
    pub(crate) acked: usize,
    /// Of each moment that a snapshot can name: batches durable, and staged.
    moments: Vec<(usize, usize)>,
}

impl Story {
    pub(crate) fn new(disk: SimDisk) -> Self {
        Self { disk, states: vec![Content::default()], frames: Vec::new(), acked: 0, moments: Vec::new() }
    }

    pub(crate) fn staged(&self) -> usize {
        self.states.len() - 1
    }

    pub(crate) fn newest(&self) -> &Content {
        &self.states[self.states.len() - 1]
    }

    /// A batch is about to be staged; a crash within the call can find it already.
    pub(crate) fn push(&mut self, state: Content) {
        self.states.push(state);
        self.frames.push(Lsn(u64::MAX));
        self.note();
    }

    /// It was taken.
    pub(crate) fn taken(&mut self, frame: Lsn) {
        if let Some(last) = self.frames.last_mut() {
            *last = frame;
        }
    }

    /// It was not.
    pub(crate) fn pop(&mut self) {
        self.states.pop();
        self.frames.pop();
    }

    /// Only so many batches are left.
    pub(crate) fn cut(&mut self, batches: usize) {
        self.states.truncate(batches + 1);
        self.frames.truncate(batches);
        // What recovery found counts as durable, wherever it lies now.
        self.acked = batches;
    }

    /// A new life begins: snapshots name its moments.
    pub(crate) fn begin(&mut self) {
        self.moments.clear();
        self.note();
    }

    pub(crate) fn note(&mut self) {
        self.moments.push((self.acked, self.staged()));
        self.disk.note(self.moments.len() as u64 - 1);
    }

    /// Batches durable and staged at the moment of a snapshot.
    pub(crate) fn moment(&self, note: u64) -> (usize, usize) {
        self.moments[note as usize]
    }

    /// How many batches lie in frames that all lie below `vouched`.
    pub(crate) fn below(&self, vouched: Lsn, durable: usize) -> usize {
        self.frames[..durable].iter().take_while(|frame| **frame < vouched).count()
    }

    /// How many batches came to this: at least those that were durable, in order, and whole.
    pub(crate) fn place(&self, found: &Content, durable: usize, staged: usize) -> Result<usize, Broken> {
        (durable..=staged).rev().find(|at| self.states[*at] == *found).ok_or_else(|| Broken::Content {
            found: found.to_string(),
            durable: self.states[durable].to_string(),
            staged: self.states[staged].to_string(),
        })
    }
}
