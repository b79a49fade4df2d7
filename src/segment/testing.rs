//! Segments on a real disk, for tests.

use std::sync::Arc;

use tempfile::TempDir;
use tidelog_format::{
    Checkpoint, FRAME_HEADER_LEN, FrameSpec, LogId, Lsn, Row, RowFlags, SegmentHeader, SegmentIdentity,
    StreamId, StreamSummary, frame_len, payload_crc, payload_room, seal_frame, sort_rows,
};

use super::prepare::{Pace, SegmentSpec, prepare};
use crate::io::{AlignedBuf, DirOptions, Disk, DiskFile, RealDisk};

pub(super) const LOG: LogId = LogId(*b"the log of tests");
pub(super) const SIZE: u64 = 256 << 10;
pub(super) const BLOCK: u32 = 4096;
pub(super) const A: StreamId = StreamId::new(1, 1);
pub(super) const B: StreamId = StreamId::new(1, 2);

/// A log's directory, gone with the value.
pub(super) struct Home {
    pub(super) dir: TempDir,
    pub(super) disk: Arc<dyn Disk>,
}

impl Home {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = DirOptions { create: false, allow_network_fs: true, direct: true, lock: false };
        let disk = Arc::new(RealDisk::open(dir.path(), options).unwrap());
        Self { dir, disk }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.disk.list().unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Changes bytes of a file behind the log's back.
    pub(super) fn patch(&self, name: &str, offset: u64, change: impl FnOnce(&mut [u8; 1])) {
        use std::os::unix::fs::FileExt;
        let file =
            std::fs::OpenOptions::new().read(true).write(true).open(self.dir.path().join(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        change(&mut byte);
        file.write_all_at(&byte, offset).unwrap();
        file.sync_all().unwrap();
    }

    pub(super) fn truncate(&self, name: &str, len: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(self.dir.path().join(name)).unwrap();
        file.set_len(len).unwrap();
    }
}

pub(super) fn identity(sequence: u64) -> SegmentIdentity {
    SegmentIdentity { log_id: LOG, sequence, base: Lsn((sequence - 1) * SIZE) }
}

pub(super) fn spec(sequence: u64) -> SegmentSpec {
    SegmentSpec::zeroed(identity(sequence), BLOCK, SIZE)
}

pub(super) fn unpaced(written: &mut dyn FnMut(u64)) -> Pace<'_> {
    Pace { rate: u64::MAX, stop: &|| false, written }
}

/// One record of a test's frame.
pub(super) type Record = (Row, Vec<u8>);

pub(super) fn entry(stream: StreamId, id: u64, payload: &[u8]) -> Record {
    let row = Row::entry(stream, id, 0, payload.len() as u32, payload_crc(payload));
    (row, payload.to_vec())
}

pub(super) fn moved(stream: StreamId, id: u64, payload: &[u8]) -> Record {
    let (row, payload) = entry(stream, id, payload);
    (Row { flags: RowFlags::MOVED, ..row }, payload)
}

pub(super) fn release(stream: StreamId) -> Record {
    (Row::release(stream), Vec::new())
}

/// Writes frames into a segment, one after the other.
pub(super) struct Writer {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) at: u64,
}

impl Writer {
    pub(super) fn new(home: &Home, sequence: u64) -> Self {
        let spec = spec(sequence);
        let (file, _) = prepare(&*home.disk, &spec, &mut unpaced(&mut |_| {})).unwrap();
        Self { header: spec.header().unwrap(), file, at: u64::from(BLOCK) }
    }

    pub(super) fn end(&self) -> Lsn {
        self.header.identity.lsn(self.at)
    }

    /// The frame's offset, and its rows as they are in its table.
    pub(super) fn frame(&mut self, records: &[Record]) -> (u64, Vec<Row>) {
        let mut rows = Vec::new();
        let mut payloads = vec![0; FRAME_HEADER_LEN];
        for (row, payload) in records {
            rows.push(Row { offset: payloads.len() as u32, ..*row });
            payloads.extend_from_slice(payload);
            payloads.resize(payloads.len() + (payload_room(row.length) as usize - payload.len()), 0);
        }
        sort_rows(&mut rows);
        let len = frame_len(payloads.len() as u64, rows.len(), BLOCK).unwrap();
        let mut frame = AlignedBuf::new(len as usize).unwrap();
        frame[..payloads.len()].copy_from_slice(&payloads);
        let spec = FrameSpec {
            identity: &self.header.identity,
            block_size: BLOCK,
            lsn: self.end(),
            watermark: self.end(),
            clock: 0,
            rows: &rows,
            table_offset: payloads.len() as u32,
        };
        seal_frame(&mut frame, &spec).unwrap();
        self.file.write_at(self.at, &frame, true).unwrap();
        let at = self.at;
        self.at += u64::from(len);
        (at, rows)
    }

    /// The first frame: a checkpoint that names each stream's newest segment.
    pub(super) fn checkpoint(
        &mut self,
        previous: Option<(u64, Lsn)>,
        newest: &[(StreamId, u64)],
    ) -> (u64, Vec<Row>) {
        let streams = newest
            .iter()
            .map(|&(stream, newest_segment)| StreamSummary {
                stream,
                first: Some(1),
                last: Some(1),
                newest_segment,
                ..StreamSummary::default()
            })
            .collect();
        let checkpoint = Checkpoint { previous, oldest: 1, streams, namespaces: Vec::new() };
        let payload = checkpoint.encode(self.header.identity.seed());
        self.frame(&[(Row::checkpoint(&payload), payload)])
    }
}
