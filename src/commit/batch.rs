//! What one append carries.

use bytes::Bytes;
use tidelog_format::{Lsn, StreamId};

/// One step of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Op<P> {
    Append { stream: StreamId, id: u64, payload: P },
    Obsolete { stream: StreamId, id: u64 },
    Release { stream: StreamId },
    Truncate { stream: StreamId, from: u64 },
    CreateNamespace { stream: StreamId },
    DeleteNamespace { stream: StreamId },
}

/// Which id a truncation leaves as the last one, looked up before the tail lock was taken. Good
/// only while the stream is what it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TruncateHint {
    pub(crate) seen_last: Option<u64>,
    /// Where the stream was cut or released last.
    pub(crate) seen_fence: Option<Lsn>,
    pub(crate) below: Option<u64>,
}

impl<P> Op<P> {
    pub(crate) fn stream(&self) -> StreamId {
        match *self {
            Self::Append { stream, .. }
            | Self::Obsolete { stream, .. }
            | Self::Release { stream }
            | Self::Truncate { stream, .. }
            | Self::CreateNamespace { stream }
            | Self::DeleteNamespace { stream } => stream,
        }
    }
}

/// Appends and control steps over one or many streams that take effect together or not at all.
///
/// Steps act in their order. Payloads are borrowed or shared (`P` is anything that gives bytes):
/// nothing is copied before the batch is staged. It is looked at more than once, for its checksum and
/// for the copy, and must give the same bytes each time: a frame with a payload that does not match its
/// checksum is taken for a torn write if a crash comes before the next frame, with all others in it.
/// A batch can be reused with [`Batch::clear`].
///
/// ```
/// use tidelog::{Batch, StreamId};
///
/// let region = StreamId::new(1, 42);
/// let mut batch: Batch<&[u8]> = Batch::new();
/// batch.append(region, 1, b"first".as_slice()).append(region, 2, b"next".as_slice()).obsolete(region, 1);
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Batch<P = Bytes> {
    pub(crate) ops: Vec<Op<P>>,
    pub(crate) restart_emptied: bool,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self { ops: Vec::new(), restart_emptied: false }
    }
}

impl<P: AsRef<[u8]>> Batch<P> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry.
    pub fn append(&mut self, stream: StreamId, id: u64, payload: impl Into<P>) -> &mut Self {
        self.ops.push(Op::Append { stream, id, payload: payload.into() });
        self
    }

    /// Marks the stream's entries at or below `id` as obsolete.
    pub fn obsolete(&mut self, stream: StreamId, id: u64) -> &mut Self {
        self.ops.push(Op::Obsolete { stream, id });
        self
    }

    /// Drops everything of the stream, its mark and last id too.
    pub fn release(&mut self, stream: StreamId) -> &mut Self {
        self.ops.push(Op::Release { stream });
        self
    }

    /// Drops the stream's entries at or above `from`, whose ids may then be appended anew.
    pub fn truncate(&mut self, stream: StreamId, from: u64) -> &mut Self {
        self.ops.push(Op::Truncate { stream, from });
        self
    }

    /// Lists the stream as a namespace.
    pub fn create_namespace(&mut self, stream: StreamId) -> &mut Self {
        self.ops.push(Op::CreateNamespace { stream });
        self
    }

    /// Lists the stream no more; its entries stay.
    pub fn delete_namespace(&mut self, stream: StreamId) -> &mut Self {
        self.ops.push(Op::DeleteNamespace { stream });
        self
    }

    /// Whether an id at or below the mark of a stream without live entries restarts the stream's
    /// id space: a release then rides in front of it. Otherwise such an id is refused (the default).
    pub fn restart_emptied(&mut self, restart: bool) -> &mut Self {
        self.restart_emptied = restart;
        self
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it appends and does nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.ops.iter().all(|op| matches!(op, Op::Append { .. }))
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.ops.clear();
    }
}
