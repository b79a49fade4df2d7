//! The floor of staged appends: buffers of a mebibyte, filled under a lock and written durably by two threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

use crate::device::{BLOCK, Blocks, Device};
use crate::subject::{HEADER, Record};

const BUFFER: usize = 1 << 20;
/// As many as tidelog has by default, the open one included.
const BUFFERS: usize = 8;
const WRITERS: usize = 2;

#[derive(Debug)]
pub(crate) struct Stage {
    open: Mutex<Open>,
    device: Arc<Device>,
    writers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Open {
    blocks: Blocks,
    len: usize,
    at: u64,
    /// `None` once it ends.
    jobs: Option<Sender<Full>>,
    written: Receiver<std::io::Result<Blocks>>,
    in_flight: usize,
    spare: Vec<Blocks>,
}

#[derive(Debug)]
struct Full {
    blocks: Blocks,
    bytes: usize,
    at: u64,
}

impl Stage {
    /// `room`: bytes of the largest append.
    pub(crate) fn new(device: Arc<Device>, room: usize) -> Self {
        let (jobs, queue) = channel::<Full>();
        let (results, written) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let spawn = |_| {
            let (device, queue, results) = (Arc::clone(&device), Arc::clone(&queue), results.clone());
            thread::spawn(move || write_all(&device, &queue, &results))
        };
        let writers = (0..WRITERS).map(spawn).collect();
        let blocks = || Blocks::new(room.max(BUFFER));
        let spare = (1..BUFFERS).map(|_| blocks()).collect();
        let open = Open { blocks: blocks(), len: 0, at: 0, jobs: Some(jobs), written, in_flight: 0, spare };
        Self { open: Mutex::new(open), device, writers }
    }

    /// Copied on return; waits where there is no room.
    pub(crate) fn append(&self, records: &[Record], crcs: &[u32]) -> Result<()> {
        let mut open = self.lock();
        for (record, crc) in records.iter().zip(crcs) {
            if open.len + HEADER + record.payload.len() > open.blocks.room() {
                self.send(&mut open)?;
            }
            let Open { blocks, len, .. } = &mut *open;
            *len = record.put(*crc, blocks.get_mut(), *len);
        }
        Ok(())
    }

    /// Everything is durable on return.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut open = self.lock();
        if open.len > 0 {
            self.send(&mut open)?;
        }
        while open.in_flight > 0 {
            open.take_back()?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, open: &mut Open) -> Result<()> {
        let next = loop {
            match open.spare.pop() {
                Some(blocks) => break blocks,
                None => open.take_back()?,
            }
        };
        let bytes = std::mem::take(&mut open.len).next_multiple_of(BLOCK);
        let (at, end) = self.device.place(open.at, bytes);
        open.at = end;
        let full = Full { blocks: std::mem::replace(&mut open.blocks, next), bytes, at };
        open.jobs.as_ref().context("it has ended")?.send(full).ok().context("the writers are gone")?;
        open.in_flight += 1;
        Ok(())
    }
}

impl Open {
    fn take_back(&mut self) -> Result<()> {
        let blocks = self.written.recv()??;
        self.in_flight -= 1;
        self.spare.push(blocks);
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.lock().jobs = None;
        for writer in self.writers.drain(..) {
            let _ = writer.join();
        }
    }
}

fn write_all(device: &Device, queue: &Mutex<Receiver<Full>>, results: &Sender<std::io::Result<Blocks>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Full { blocks, bytes, at }) = job else { return };
        let written = device.write(&blocks.get()[..bytes], at).map(|()| blocks);
        if results.send(written).is_err() {
            return;
        }
    }
}
