//! What time it is for the pipeline.

#[cfg(any(test, feature = "sim"))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time since the log was opened, and the one on the wall.
#[derive(Debug)]
pub(crate) enum Clock {
    /// That of the machine.
    Real(Instant),
    /// Nanoseconds that pass by command alone.
    #[cfg(any(test, feature = "sim"))]
    Stepped(AtomicU64),
}

impl Clock {
    /// The machine's, from now on.
    pub(crate) fn start() -> Self {
        Self::Real(Instant::now())
    }

    /// Since the log was opened.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Real(opened) => opened.elapsed(),
            #[cfg(any(test, feature = "sim"))]
            Self::Stepped(nanos) => Duration::from_nanos(nanos.load(Ordering::Relaxed)),
        }
    }

    /// Microseconds since 1970, for people alone: nothing is decided by it.
    pub(crate) fn wall(&self) -> u64 {
        let since = match self {
            Self::Real(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            #[cfg(any(test, feature = "sim"))]
            Self::Stepped(_) => self.now(),
        };
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// Lets time pass, where it does not by itself.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn advance(&self, by: Duration) {
        if let Self::Stepped(nanos) = self {
            nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}
