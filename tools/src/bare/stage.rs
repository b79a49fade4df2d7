//! The floor of staged appends: buffers of a mebibyte, filled under a lock and written by two threads.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::device::{Blocks, Ring};
use super::{Put, Sink};

const BUFFER: usize = 1 << 20;
/// As many as the log has by default, the open one included.
const BUFFERS: usize = 8;
const WRITERS: usize = 2;

/// Staged appends.
#[derive(Debug)]
pub struct Stage {
    open: Mutex<Open>,
    writers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Open {
    blocks: Blocks,
    len: usize,
    /// `None` once it ends.
    full: Option<Sender<Full>>,
    written: Receiver<io::Result<Blocks>>,
    in_flight: usize,
    spare: Vec<Blocks>,
}

#[derive(Debug)]
struct Full {
    blocks: Blocks,
    bytes: usize,
}

impl Stage {
    /// `room`: bytes of the largest append.
    pub fn new(ring: Ring, room: usize) -> Self {
        let (full, jobs) = channel::<Full>();
        let (results, written) = channel();
        let (ring, jobs) = (Arc::new(ring), Arc::new(Mutex::new(jobs)));
        let writer = |_| {
            let (ring, jobs, results) = (Arc::clone(&ring), Arc::clone(&jobs), results.clone());
            thread::spawn(move || write_all(&ring, &jobs, &results))
        };
        let writers = (0..WRITERS).map(writer).collect();
        let blocks = || Blocks::new(room.max(BUFFER));
        let spare = (1..BUFFERS).map(|_| blocks()).collect();
        let open = Open { blocks: blocks(), len: 0, full: Some(full), written, in_flight: 0, spare };
        Self { open: Mutex::new(open), writers }
    }

    /// Copied on return; waits where there is no room.
    pub fn append(&self, records: &[impl Put]) -> io::Result<()> {
        let mut open = self.lock();
        for record in records {
            if open.len + record.size() > open.blocks.room() {
                open.send()?;
            }
            let Open { blocks, len, .. } = &mut *open;
            *len = record.put(blocks.get_mut(), *len);
        }
        Ok(())
    }

    /// Everything is durable on return.
    pub fn flush(&self) -> io::Result<()> {
        let mut open = self.lock();
        if open.len > 0 {
            open.send()?;
        }
        while open.in_flight > 0 {
            open.take_back()?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn send(&mut self) -> io::Result<()> {
        let next = loop {
            match self.spare.pop() {
                Some(blocks) => break blocks,
                None => self.take_back()?,
            }
        };
        let bytes = std::mem::take(&mut self.len);
        let full = Full { blocks: std::mem::replace(&mut self.blocks, next), bytes };
        let gone = || io::Error::other("the writers are gone");
        self.full.as_ref().ok_or_else(gone)?.send(full).map_err(|_| gone())?;
        self.in_flight += 1;
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<()> {
        let blocks = self.written.recv().map_err(io::Error::other)??;
        self.in_flight -= 1;
        self.spare.push(blocks);
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.lock().full = None;
        for writer in self.writers.drain(..) {
            let _ = writer.join();
        }
    }
}

fn write_all(ring: &Ring, jobs: &Mutex<Receiver<Full>>, results: &Sender<io::Result<Blocks>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Full { blocks, bytes }) = job else { return };
        let written = ring.write(&blocks, bytes).map(|()| blocks);
        if results.send(written).is_err() {
            return;
        }
    }
}
