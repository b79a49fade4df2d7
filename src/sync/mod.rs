//! The primitives of whatever threads wait with for each other. Models of it run the same code on
//! primitives that try its interleavings; everything else gets the plain ones.

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod model;
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod plain;

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use model::{
    AtomicU8, AtomicU64, AtomicUsize, Listener, Mutex, OnceLock, Room, RoomListener, Thread, current, park,
    park_timeout,
};
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
pub(crate) use plain::{
    AtomicU8, AtomicU64, AtomicUsize, Listener, Mutex, OnceLock, Room, RoomListener, Thread, current, park,
    park_timeout,
};
