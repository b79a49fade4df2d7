//! What a build for use takes.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
pub(crate) use std::thread::{Thread, current, park, park_timeout};

pub(crate) use event_listener::{Event as Room, EventListener as RoomListener, Listener};
pub(crate) use parking_lot::Mutex;
