//! The thread that runs what belongs to others: wakers, callbacks, observers. Outside every lock,
//! and apart from the committer, which none of them can hold up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::progress::{Callback, Wakes};
use crate::error::Result;
use crate::observe::{Event, Observer};

pub(crate) enum Notice {
    Wakes(Wakes),
    Call(Callback, Result<()>),
    Event(Event),
}

impl Notice {
    pub(crate) fn deliver(self, observer: Option<&Arc<dyn Observer>>) {
        match self {
            Self::Wakes(wakes) => {
                for waker in wakes.wakers {
                    guard(|| waker.wake());
                }
                for (callback, outcome) in wakes.callbacks {
                    guard(|| callback(outcome));
                }
            }
            Self::Call(callback, outcome) => guard(|| callback(outcome)),
            Self::Event(event) => {
                if let Some(observer) = observer {
                    guard(|| observer.event(&event));
                }
            }
        }
    }
}

pub(crate) fn run(notices: &Receiver<Notice>, observer: Option<&Arc<dyn Observer>>) {
    while let Ok(notice) = notices.recv() {
        notice.deliver(observer);
    }
}

/// A panic in the code of one waiter must not cost the others their notice.
fn guard(call: impl FnOnce()) {
    // Reported by the panic hook already; there is nobody to hand it to.
    let _ = catch_unwind(AssertUnwindSafe(call));
}
