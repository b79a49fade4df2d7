//! Reading without blocking: batches come from the pool, waits are futures.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::Entry;
use super::origin::Wait;
use super::pool::{self, Task};
use crate::error::{Error, Result};

/// What is to be done before the next batch.
#[derive(Debug)]
pub(super) enum Todo {
    /// Read: it waits for nothing but the disk.
    Read,
    Wait(Wait),
    End(Option<Error>),
}

/// Where a stream's batches come from.
pub(super) trait Feed: Send {
    fn todo(&mut self) -> Todo;

    /// `None`: nothing now, ask again what to do.
    fn read(&mut self) -> Option<Result<Vec<Entry>>>;
}

type Read = (Box<dyn Feed>, Option<Result<Vec<Entry>>>);

/// The entries of a [`Reader`](super::Reader) or a [`Tail`](super::Tail), in batches that are never empty, as a
/// [`Stream`]. It needs no runtime and blocks nobody: reads run on a small pool of threads of the
/// process. Dropping it cancels them.
#[must_use = "a stream does nothing unless polled"]
pub struct EntryStream {
    step: Step,
}

enum Step {
    Idle(Box<dyn Feed>),
    Waiting(Box<dyn Feed>, Wait),
    Reading(Task<Read>),
    Done,
}

impl EntryStream {
    pub(super) fn new(feed: impl Feed + 'static) -> Self {
        Self { step: Step::Idle(Box::new(feed)) }
    }

    fn start(&mut self, mut feed: Box<dyn Feed>) -> Option<Error> {
        match feed.todo() {
            Todo::Wait(wait) => self.step = Step::Waiting(feed, wait),
            Todo::End(error) => return error,
            Todo::Read => {
                let work = move || {
                    let batch = feed.read();
                    (feed, batch)
                };
                match pool::run(work) {
                    Ok(task) => self.step = Step::Reading(task),
                    Err(error) => return Some(Error::io("start a thread to read", "", error)),
                }
            }
        }
        None
    }
}

impl Stream for EntryStream {
    type Item = Result<Vec<Entry>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.step {
                Step::Done => return Poll::Ready(None),
                Step::Waiting(_, wait) => {
                    // A failure shows in what there is to do next.
                    let _ = ready!(Pin::new(wait).poll(cx));
                }
                Step::Reading(task) => {
                    let read = ready!(Pin::new(task).poll(cx));
                    let Some((feed, batch)) = read else {
                        self.step = Step::Done;
                        let panic = std::io::Error::other("the thread that read panicked");
                        return Poll::Ready(Some(Err(Error::io("read", "", panic))));
                    };
                    self.step = Step::Idle(feed);
                    if batch.is_some() {
                        return Poll::Ready(batch);
                    }
                }
                Step::Idle(_) => {}
            }
            if let Step::Idle(feed) | Step::Waiting(feed, _) = std::mem::replace(&mut self.step, Step::Done)
                && let Some(error) = self.start(feed)
            {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl fmt::Debug for EntryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match &self.step {
            Step::Idle(_) => "idle",
            Step::Waiting(..) => "waiting",
            Step::Reading(_) => "reading",
            Step::Done => "done",
        };
        f.debug_struct("EntryStream").field("step", &step).finish()
    }
}
