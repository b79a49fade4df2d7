//! The floor of staged appends: buffers of a mebibyte, filled under a lock and written by two threads.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::device::{BLOCK, Blocks, Device, Record};

const BUFFER: usize = 1 << 20;
/// As many as the log has by default, the open one included.
const BUFFERS: usize = 8;
const WRITERS: usize = 2;

#[derive(Debug)]
pub(crate) struct Stage {
    device: Arc<Device>,
    open: Mutex<Open>,
    writers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Open {
    blocks: Blocks,
    len: usize,
    at: u64,
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
    at: u64,
}

impl Stage {
    /// `room`: bytes of the largest append.
    pub(crate) fn new(device: Arc<Device>, room: usize) -> Self {
        let (full, jobs) = channel::<Full>();
        let (results, written) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let writer = |_| {
            let (device, jobs, results) = (Arc::clone(&device), Arc::clone(&jobs), results.clone());
            thread::spawn(move || write_all(&device, &jobs, &results))
        };
        let writers = (0..WRITERS).map(writer).collect();
        let blocks = || Blocks::new(room.max(BUFFER));
        let spare = (1..BUFFERS).map(|_| blocks()).collect();
        let open = Open { blocks: blocks(), len: 0, at: 0, full: Some(full), written, in_flight: 0, spare };
        Self { device, open: Mutex::new(open), writers }
    }

    /// Copied on return; waits where there is no room.
    pub(crate) fn append(&self, record: &Record<'_>) -> io::Result<()> {
        let mut open = self.lock();
        if open.len + super::device::HEADER + record.payload.len() > open.blocks.len() {
            self.send(&mut open)?;
        }
        let Open { blocks, len, .. } = &mut *open;
        *len = record.put(blocks.get_mut(), *len);
        Ok(())
    }

    /// Everything is durable on return.
    pub(crate) fn flush(&self) -> io::Result<()> {
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

    fn send(&self, open: &mut Open) -> io::Result<()> {
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
        let gone = || io::Error::other("the writers are gone");
        open.full.as_ref().ok_or_else(gone)?.send(full).map_err(|_| gone())?;
        open.in_flight += 1;
        Ok(())
    }
}

impl Open {
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

fn write_all(device: &Device, jobs: &Mutex<Receiver<Full>>, results: &Sender<io::Result<Blocks>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Full { blocks, bytes, at }) = job else { return };
        let written = device.write(&blocks.get()[..bytes], at).map(|()| blocks);
        if results.send(written).is_err() {
            return;
        }
    }
}
