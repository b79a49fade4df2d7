//! The log's readers.

use std::ops::RangeBounds;

use tidelog_format::{Lsn, StreamId};

use super::Log;
use crate::error::Result;
use crate::reader::{ReadOptions, Reader, Scan, Subscription, Tail};

impl Log {
    /// Reads the live entries of a stream whose ids lie in the range, as of now. Nothing is read before the
    /// first entry is asked for.
    ///
    /// ```
    /// # fn main() -> tidelog::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use tidelog::{Batch, Log, Options, ReadOptions, StreamId};
    ///
    /// let log = Log::open(dir.path(), Options::new())?;
    /// let region = StreamId::new(1, 42);
    /// let mut batch: Batch<&[u8]> = Batch::new();
    /// batch.append(region, 1, b"first".as_slice()).append(region, 2, b"next".as_slice());
    /// log.append(&batch)?;
    /// for entry in log.read(region, 2.., ReadOptions::new())? {
    ///     assert_eq!(entry?.payload, b"next".as_slice());
    /// }
    /// # log.close()
    /// # }
    /// ```
    pub fn read(&self, stream: StreamId, ids: impl RangeBounds<u64>, options: ReadOptions) -> Result<Reader> {
        Reader::new(self.engine(), stream, &ids, &options)
    }

    /// Reads a stream from an id on, and goes on with what is appended later.
    pub fn tail(&self, stream: StreamId, from: u64, options: ReadOptions) -> Result<Tail> {
        Tail::new(self.engine(), stream, from, options)
    }

    /// Reads all records of all streams from an LSN up to the end of the log as it is now.
    pub fn scan(&self, from: Lsn, options: ReadOptions) -> Result<Scan> {
        Scan::new(self.engine(), from, &options)
    }

    /// Hands out the durable watermark as it moves.
    pub fn subscribe(&self) -> Result<Subscription> {
        Subscription::new(self.engine())
    }
}
