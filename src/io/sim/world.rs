//! The state of a simulated disk, and every operation on it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use fastrand::Rng;
use tidelog_format::{SEGMENT_HEADER_LEN, SegmentHeader};

use super::crash::Keep;
use super::fault::{FaultKind, Schedule};
use super::file::Inode;
use super::own_lsn;
use super::pages::{Pages, SECTOR};
use super::snapshot::{Sampler, Snapshot};
use crate::planted::{Planted, planted};

pub(super) type Ino = usize;

/// A change of the directory that is not durable: a power cut keeps or loses it.
#[derive(Clone, Debug)]
pub(super) enum NameOp {
    Create(String, Ino),
    Rename(String, String, Ino),
    Unlink(String),
}

impl NameOp {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, Ino>) {
        match self {
            Self::Create(name, ino) => {
                names.insert(name.clone(), *ino);
            }
            Self::Rename(from, to, ino) => {
                names.remove(from);
                names.insert(to.clone(), *ino);
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
        }
    }
}

/// A write that was submitted and has not completed.
#[derive(Clone, Debug)]
pub(super) struct Flying {
    pub(super) id: u64,
    pub(super) ino: Ino,
    pub(super) offset: u64,
    pub(super) bytes: Arc<[u8]>,
    pub(super) dsync: bool,
}

/// Everything about the disk.
#[derive(Debug)]
pub(super) struct World {
    pub(super) inodes: Vec<Inode>,
    /// What the directory shows.
    pub(super) live: BTreeMap<String, Ino>,
    /// What a power cut leaves of it at least.
    pub(super) stable: BTreeMap<String, Ino>,
    pub(super) names: Vec<NameOp>,
    pub(super) flying: Vec<Flying>,
    pub(super) rng: Rng,
    pub(super) faults: Schedule,
    /// Bytes that the files may take together.
    pub(super) capacity: u64,
    /// The process that has the files open; those of earlier ones do nothing any more.
    pub(super) process: u64,
    pub(super) sampler: Sampler,
    pub(super) next_id: u64,
    /// Counts completions.
    pub(super) completed: u64,
    pub(super) ops: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            inodes: Vec::new(),
            live: BTreeMap::new(),
            stable: BTreeMap::new(),
            names: Vec::new(),
            flying: Vec::new(),
            rng: Rng::with_seed(seed),
            faults: Schedule::default(),
            capacity: u64::MAX,
            process: 0,
            sampler: Sampler::default(),
            next_id: 1,
            completed: 0,
            ops: 0,
        }
    }

    /// The moment before an operation, or between its parts: a crash can come here.
    fn moment(&mut self) {
        self.ops += 1;
        if self.sampler.is_due(&mut self.rng) {
            let snapshot = Snapshot::of(self);
            self.sampler.keep(snapshot);
        }
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn used(&self) -> u64 {
        let named = |ino: &Ino| self.live.values().any(|other| other == ino);
        let counts = |(ino, inode): &(Ino, &Inode)| inode.handles > 0 || named(ino);
        self.inodes.iter().enumerate().filter(counts).map(|(_, inode)| inode.room()).sum()
    }

    /// Room for a file to reach `end`.
    fn claim_room(&mut self, ino: Ino, end: u64) -> io::Result<()> {
        let more = end.saturating_sub(self.inodes[ino].room());
        if more == 0 {
            return Ok(());
        }
        let full = self.capacity != u64::MAX && self.used().saturating_add(more) > self.capacity;
        if full || self.faults.strikes(FaultKind::NoSpace) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<Ino> {
        self.moment();
        if self.live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.inodes.push(Inode::default());
        let ino = self.inodes.len() - 1;
        self.change(NameOp::Create(name.into(), ino));
        Ok(ino)
    }

    pub(super) fn find(&self, name: &str) -> io::Result<Ino> {
        self.live.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.moment();
        let ino = self.find(from)?;
        if self.live.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(NameOp::Rename(from.into(), to.into(), ino));
        Ok(())
    }

    pub(super) fn unlink(&mut self, name: &str) -> io::Result<()> {
        self.moment();
        self.find(name)?;
        self.change(NameOp::Unlink(name.into()));
        Ok(())
    }

    fn change(&mut self, op: NameOp) {
        op.apply(&mut self.live);
        self.names.push(op);
    }

    pub(super) fn sync_names(&mut self) -> io::Result<()> {
        self.moment();
        if self.faults.strikes(FaultKind::FlushDirectory) {
            return Err(eio());
        }
        self.stable = self.live.clone();
        self.names.clear();
        Ok(())
    }

    /// A write begins. Its bytes may reach the disk from now on, in part too.
    pub(super) fn submit(&mut self, ino: Ino, offset: u64, bytes: Arc<[u8]>, dsync: bool) -> u64 {
        self.moment();
        let id = self.id();
        self.flying.push(Flying { id, ino, offset, bytes, dsync });
        id
    }

    /// The write with this number ends.
    pub(super) fn complete(&mut self, id: u64) -> io::Result<()> {
        self.moment();
        let at = self.flying.iter().position(|flying| flying.id == id).ok_or(io::ErrorKind::NotFound)?;
        let Flying { ino, offset, bytes, dsync, .. } = self.flying.remove(at);
        self.claim_room(ino, offset + bytes.len() as u64)?;
        if self.faults.strikes(FaultKind::Write) {
            self.leave_some(ino, offset, &bytes);
            return Err(eio());
        }
        if self.faults.strikes(FaultKind::ShortWrite) {
            let sectors = bytes.len() as u64 / SECTOR;
            let len = self.rng.u64(..sectors.max(1)) * SECTOR;
            if len > 0 {
                self.inodes[ino].leave(offset, bytes[..len as usize].into());
            }
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.completed += 1;
        let done = self.completed;
        if self.faults.strikes(FaultKind::LostWrite) {
            self.inodes[ino].live.extend(offset + bytes.len() as u64);
            self.inodes[ino].stable.extend(offset + bytes.len() as u64);
            return Ok(());
        }
        if self.faults.strikes(FaultKind::MisdirectedWrite) {
            let (ino, offset) = self.elsewhere(bytes.len() as u64);
            self.inodes[ino].complete(offset, bytes, dsync, done);
            return Ok(());
        }
        self.inodes[ino].complete(offset, bytes, dsync, done);
        Ok(())
    }

    fn leave_some(&mut self, ino: Ino, offset: u64, bytes: &Arc<[u8]>) {
        let mut parts = Vec::new();
        Keep::draw(&mut self.rng, 1).sectors(offset, bytes, &mut |at, part| parts.push((at, part.into())));
        for (at, part) in parts {
            self.inodes[ino].leave(at, part);
        }
    }

    /// A place inside some file that has a name.
    fn elsewhere(&mut self, len: u64) -> (Ino, u64) {
        let inos: Vec<Ino> = self.live.values().copied().collect();
        let ino = inos[self.rng.usize(..inos.len().max(1))];
        let sectors = self.inodes[ino].live.len().saturating_sub(len) / SECTOR;
        (ino, self.rng.u64(..=sectors) * SECTOR)
    }

    pub(super) fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8], dsync: bool) -> io::Result<()> {
        let id = self.submit(ino, offset, bytes.into(), dsync);
        self.complete(id)
    }

    /// A flush is submitted: gives what it covers.
    pub(super) fn begin_flush(&mut self) -> u64 {
        self.moment();
        self.completed
    }

    /// The flush ends.
    pub(super) fn end_flush(&mut self, ino: Ino, covered: u64, direct: bool) -> io::Result<()> {
        self.moment();
        if self.faults.strikes(FaultKind::Flush) {
            self.inodes[ino].fail_flush(direct, &mut self.rng);
            return Err(eio());
        }
        self.inodes[ino].flush(covered);
        Ok(())
    }

    pub(super) fn allocate(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        self.moment();
        self.claim_room(ino, len)?;
        let inode = &mut self.inodes[ino];
        if inode.live.len() < len {
            inode.live.extend(len);
            inode.set_len = Some(len);
        }
        Ok(())
    }

    /// Reads what the page cache shows, or what the device answers.
    pub(super) fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8], cached: bool) -> io::Result<usize> {
        if self.faults.strikes(FaultKind::Read) || self.inodes[ino].is_bad(offset, buf.len() as u64) {
            return Err(eio());
        }
        let inode = &self.inodes[ino];
        let pages = inode.cached.as_ref().filter(|_| cached).unwrap_or(&inode.live);
        let len = pages.read(offset, buf);
        if planted(Planted::OwnLsnUnchecked) {
            let mut header = [0; SEGMENT_HEADER_LEN];
            pages.read(0, &mut header);
            if let Ok(header) = SegmentHeader::decode(&header) {
                own_lsn::forge(&header, offset, &mut buf[..len]);
            }
        }
        Ok(len)
    }

    /// The process is killed: its files are closed, and each of its writes lands whole or not at all. Nobody
    /// waits for the flush that one of them may have asked for.
    pub(super) fn kill(&mut self) {
        for Flying { ino, offset, bytes, dsync, .. } in std::mem::take(&mut self.flying) {
            if self.rng.bool() {
                self.completed += 1;
                let dsync = dsync && self.rng.bool();
                self.inodes[ino].complete(offset, bytes, dsync, self.completed);
            }
        }
        self.process += 1;
        for inode in &mut self.inodes {
            (inode.handles, inode.maps, inode.lock) = (0, 0, None);
        }
    }

    /// Sets content directly, as damage does, durable or not.
    pub(super) fn edit(&mut self, ino: Ino, mut edit: impl FnMut(&mut Pages)) {
        let inode = &mut self.inodes[ino];
        edit(&mut inode.stable);
        edit(&mut inode.live);
        if let Some(cached) = &mut inode.cached {
            edit(cached);
        }
    }
}

pub(super) fn eio() -> io::Error {
    rustix::io::Errno::IO.into()
}
