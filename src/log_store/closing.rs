//! Closing the log beneath without blocking whoever waits for it.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use event_listener::Event;

use crate::error::{Error, Result};
use crate::log::Log;

/// A log that a thread of its own closes: that joins the log's threads, which must not happen in a poll.
#[derive(Debug)]
pub(super) struct Closing {
    outcome: OnceLock<Result<()>>,
    done: Event,
}

impl Closing {
    pub(super) fn begin(log: Log) -> Result<Arc<Self>> {
        let closing = Arc::new(Self { outcome: OnceLock::new(), done: Event::new() });
        let (here, path) = (Arc::clone(&closing), log.path().to_owned());
        let close = move || {
            let outcome = log.close();
            drop(log);
            here.outcome.get_or_init(|| outcome);
            here.done.notify(usize::MAX);
        };
        let spawned = thread::Builder::new().name("tidelog-close".into()).spawn(close);
        spawned.map(|_| closing).map_err(|error: io::Error| Error::io("spawn", path, error))
    }

    pub(super) async fn ended(&self) -> Result<()> {
        loop {
            if let Some(outcome) = self.outcome.get() {
                return outcome.clone();
            }
            let done = self.done.listen();
            if self.outcome.get().is_none() {
                done.await;
            }
        }
    }
}
