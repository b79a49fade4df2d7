//! How a log is opened.

use std::sync::Arc;
use std::time::Duration;

use tidelog_format::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, FILE_SIZE_UNIT};

use crate::error::{Error, Result};
use crate::observe::Observer;

/// Which way the log's writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The ring where a probe at open shows that it works, else [`BackendChoice::Std`].
    #[default]
    Auto,
    /// `io_uring`; opening fails where the kernel refuses it.
    Ring,
    /// `pwrite` and `fdatasync`.
    Std,
}

/// Whether opening may make a new log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// A missing or an empty directory becomes a log.
    #[default]
    Missing,
    /// An empty directory becomes a log, a missing one is refused.
    Empty,
    /// There must be a log.
    Never,
}

/// Which id may follow which in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdRule {
    /// The next id is the last one plus one; a stream without live entries takes any id above its mark.
    #[default]
    Contiguous,
    /// The next id is above the last one.
    Increasing,
}

/// How payloads of ended segments are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// As bytes that share the segment's map. A medium that fails after the payload was checked
    /// and handed out raises SIGBUS in whoever touches it.
    #[default]
    Map,
    /// As owned copies.
    Copy,
}

/// How a log is opened. `Options::default()` suits a WAL.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) block_size: u32,
    pub(crate) first_segment_size: u64,
    pub(crate) segment_size: u64,
    pub(crate) frame_size: usize,
    pub(crate) staging_buffers: usize,
    pub(crate) queue_depth: u32,
    pub(crate) backend: BackendChoice,
    pub(crate) create: Create,
    pub(crate) id_rule: IdRule,
    pub(crate) read_mode: ReadMode,
    pub(crate) linger: Duration,
    pub(crate) flush_interval: Duration,
    pub(crate) max_unflushed_bytes: u64,
    pub(crate) idle_after: Duration,
    pub(crate) lock_wait: Duration,
    pub(crate) prepare_rate: u64,
    pub(crate) recycled_files: usize,
    pub(crate) allow_network_fs: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_size: 4096,
            first_segment_size: 1 << 20,
            segment_size: 64 << 20,
            frame_size: 1 << 20,
            staging_buffers: 8,
            queue_depth: 8,
            backend: BackendChoice::Auto,
            create: Create::Missing,
            id_rule: IdRule::Contiguous,
            read_mode: ReadMode::Map,
            linger: Duration::from_millis(1),
            flush_interval: Duration::from_millis(100),
            max_unflushed_bytes: 32 << 20,
            idle_after: Duration::from_millis(100),
            lock_wait: Duration::from_secs(10),
            prepare_rate: 1 << 30,
            recycled_files: 2,
            allow_network_fs: false,
            observer: None,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, value: $type) -> Self {
            self.$name = value;
            self
        }
    )*};
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Bytes a block (default 4096): a power of two from 512 to 65536, at least what the
        /// device writes at once. A commit takes whole blocks. Of an existing log, each
        /// segment keeps its own.
        block_size: u32;
        /// Bytes of an opening's first segment (default 1 MiB); the next ones double up to
        /// [`Options::segment_size`].
        first_segment_size: u64;
        /// Bytes of a normal segment (default 64 MiB).
        segment_size: u64;
        /// Most bytes of a frame that appends share (default 1 MiB). A larger batch gets a buffer of its own.
        frame_size: usize;
        /// Number of frames staged or in flight at once (default 8, at least 2).
        staging_buffers: usize;
        /// Most writes in flight (default 8).
        queue_depth: u32;
        /// Which way the writes go.
        backend: BackendChoice;
        /// Whether opening may make a new log.
        create: Create;
        /// Which id may follow which.
        id_rule: IdRule;
        /// How payloads of ended segments are handed out.
        read_mode: ReadMode;
        /// How long staged entries that nobody waits for stay in memory before they are written (default 1 ms, at most
        /// about twice that; zero: no longer than the device is busy). Whoever comes to wait for them, to read them
        /// too, has them written at once, all in one frame.
        linger: Duration;
        /// How long staged entries that nobody waits for stay unflushed at most (default 100 ms).
        flush_interval: Duration;
        /// Unflushed bytes that make a flush due (default 32 MiB).
        max_unflushed_bytes: u64;
        /// After how long without a write the log vouches for its last commits (default 100 ms).
        idle_after: Duration;
        /// How long opening waits for the last writes of a killed process (default 10 s).
        lock_wait: Duration;
        /// Most bytes a second that preparing the next segment writes (default 1 GiB/s).
        prepare_rate: u64;
        /// Most files of retired segments that are kept to become the next ones (default 2, at most 64; 0: none). They
        /// spare a segment the zeros that are otherwise written first, and hold old payloads until they are used.
        recycled_files: usize;
        /// Whether a network file system is accepted (default no: its locks and flushes promise less).
        allow_network_fs: bool;
    }

    /// Who is told of rare events: rotation, retirement, poison, failures of background work.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let check = |ok: bool, name: &'static str, value: u64, reason: &'static str| {
            if ok { Ok(()) } else { Err(Error::InvalidOption { name, value, reason }) }
        };
        let block = u64::from(self.block_size);
        check(
            self.block_size.is_power_of_two() && (BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX).contains(&self.block_size),
            "block_size",
            block,
            "a power of two from 512 to 65536",
        )?;
        for (name, size) in
            [("first_segment_size", self.first_segment_size), ("segment_size", self.segment_size)]
        {
            let whole = size.is_multiple_of(FILE_SIZE_UNIT);
            check(whole && size >= 8 * block, name, size, "a multiple of 64 KiB, at least eight blocks")?;
            check(size <= 1 << 40, name, size, "at most 1 TiB")?;
        }
        let frame = self.frame_size as u64;
        check(
            frame.is_multiple_of(block) && (block..=1 << 28).contains(&frame),
            "frame_size",
            frame,
            "a multiple of the block size, at most 256 MiB",
        )?;
        check(
            (2..=64).contains(&self.staging_buffers),
            "staging_buffers",
            self.staging_buffers as u64,
            "2 to 64",
        )?;
        check((1..=64).contains(&self.queue_depth), "queue_depth", self.queue_depth.into(), "1 to 64")?;
        check(self.recycled_files <= 64, "recycled_files", self.recycled_files as u64, "at most 64")?;
        check(self.prepare_rate >= 1 << 20, "prepare_rate", self.prepare_rate, "at least 1 MiB a second")
    }
}
