//! The reader of a range of one stream.

use std::ops::RangeBounds;
use std::sync::Arc;

use tidelog_format::StreamId;

use super::cursor::Cursor;
use super::origin::Wait;
use super::snapshot::Snapshot;
use super::stream::{Feed, Todo};
use super::{Entry, EntryStream, ReadOptions};
use crate::commit::Engine;
use crate::error::Result;

/// Reads a range of one stream, as it was when the reader was made: what is truncated, made
/// obsolete or retired later is still delivered. As an iterator it gives entry by entry, and with
/// [`Reader::next_batch`] many at once. It blocks; [`Reader::into_stream`] does not.
///
/// An error is given once, then the reader is at its end; [`Reader::position`] tells where it
/// happened. After the log has failed, reading ends with what is durable.
///
/// A reader may outlive the log's handles and does not keep the directory locked. What another
/// opening retires meanwhile is lost to it, where it has not read from that segment yet.
#[derive(Debug)]
pub struct Reader {
    cursor: Cursor,
    max_bytes: usize,
    max_entries: usize,
    /// Read, and for the next call: it did not fit in a batch, or it follows one.
    put_back: Option<Result<Entry>>,
    done: bool,
}

impl Reader {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        stream: StreamId,
        ids: &impl RangeBounds<u64>,
        options: &ReadOptions,
    ) -> Result<Self> {
        engine.check_fork()?;
        Ok(Self::over(Snapshot::take(engine, stream, ids, options), options))
    }

    pub(super) fn over(snapshot: Snapshot, options: &ReadOptions) -> Self {
        Self {
            cursor: Cursor::new(snapshot),
            max_bytes: options.max_batch_bytes,
            max_entries: options.max_batch_entries,
            put_back: None,
            done: false,
        }
    }

    /// The id of the next entry, or a lower bound of it; behind an error the id that could not be
    /// read. `None` at the end.
    pub fn position(&self) -> Option<u64> {
        match &self.put_back {
            Some(Ok(entry)) => Some(entry.id),
            _ => self.cursor.position(),
        }
    }

    /// The next entries, at least one: as many as [`ReadOptions`] lets a batch have.
    pub fn next_batch(&mut self) -> Option<Result<Vec<Entry>>> {
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        while batch.len() < self.max_entries
            && let Some(next) = self.take(!batch.is_empty())
        {
            match next {
                Ok(entry) if batch.is_empty() || bytes + entry.payload.len() <= self.max_bytes => {
                    bytes = bytes.saturating_add(entry.payload.len());
                    batch.push(entry);
                }
                Err(error) if batch.is_empty() => return Some(Err(error)),
                next => {
                    self.put_back = Some(next);
                    break;
                }
            }
        }
        (!batch.is_empty()).then_some(Ok(batch))
    }

    /// The same entries in the same batches, for asynchronous code. No runtime is needed.
    pub fn into_stream(self) -> EntryStream {
        EntryStream::new(self)
    }

    /// What must be waited for before reading.
    pub(super) fn wait(&self) -> Option<Wait> {
        self.cursor.wait()
    }

    /// The next entry; the first of a batch, or one that follows.
    fn take(&mut self, follows: bool) -> Option<Result<Entry>> {
        if let Some(next) = self.put_back.take() {
            return Some(next);
        }
        if self.done {
            return None;
        }
        let next = if follows { self.cursor.next_of_batch() } else { self.cursor.next() }.transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }

    fn is_at_end(&self) -> bool {
        self.put_back.is_none() && (self.done || self.cursor.position().is_none())
    }
}

impl Feed for Reader {
    fn todo(&mut self) -> Todo {
        if self.is_at_end() { Todo::End(None) } else { self.wait().map_or(Todo::Read, Todo::Wait) }
    }

    fn read(&mut self) -> Option<Result<Vec<Entry>>> {
        self.next_batch()
    }
}

impl Iterator for Reader {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.take(false)
    }
}

impl std::iter::FusedIterator for Reader {}
