//! What a process of its own does: one job, once.

mod kept;
mod window;

use std::path::Path;

use anyhow::Result;

use crate::case::{Case, Figures, Job};
use crate::subject::Record;

/// Makes the data that a job reads.
pub(crate) fn fill(job: &Job, dir: &Path) -> Result<Figures> {
    kept::fill(job, dir)
}

pub(crate) fn run(job: &Job, dir: &Path) -> Result<Figures> {
    match job.case {
        Case::W1 | Case::W1p | Case::W2 | Case::W3 => window::run(job, dir),
        Case::W4 => kept::reopen(job, dir),
        Case::W5 => kept::replay(job, dir),
        Case::W6 => kept::obsolete(job, dir),
        Case::W7 => kept::empty(job, dir),
    }
}

/// Bytes that payloads are cut from: random ones, since some logs compress.
const POOL: usize = 4 << 20;

/// Endless records of one thread.
struct Records {
    pool: &'static [u8],
    payload: usize,
    at: usize,
    first_region: u32,
    regions: u32,
    next: Vec<u64>,
    batch: Vec<Record>,
}

impl Records {
    fn new(pool: &'static [u8], payload: usize, first_region: u32, regions: u32) -> Self {
        let (next, at) = (vec![1; regions as usize], first_region as usize * 4099 % (POOL - payload));
        Self { pool, payload, at, first_region, regions, next, batch: Vec::new() }
    }

    /// So many, the regions in turn.
    fn next(&mut self, count: u32) -> &[Record] {
        self.batch.clear();
        for index in 0..count {
            let region = index % self.regions;
            let id = &mut self.next[region as usize];
            let payload = &self.pool[self.at..self.at + self.payload];
            self.batch.push(Record { region: self.first_region + region, id: *id, payload });
            *id += 1;
            self.at = (self.at + self.payload + 1) % (POOL - self.payload);
        }
        &self.batch
    }
}

/// One pool a process.
fn pool() -> &'static [u8] {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    Vec::leak((0..POOL).map(|_| next()).collect())
}
