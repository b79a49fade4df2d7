//! The journals that this process has open, so that each stream has one.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidelog_format::StreamId;

use super::Shared;
use crate::log::Log;

static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The journal on a stream, and whether it is new. One that has failed is replaced: it answers
/// nothing any more.
pub(super) fn get_or_insert(
    log: &Log,
    stream: StreamId,
    make: impl FnOnce() -> Shared,
) -> (Arc<Shared>, bool) {
    let mut open = OPEN.lock();
    open.retain(|journal| journal.strong_count() > 0);
    let same = |shared: &Arc<Shared>| {
        shared.stream == stream
            && Arc::ptr_eq(shared.log.engine(), log.engine())
            && shared.failure.get().is_none()
    };
    if let Some(shared) = open.iter().filter_map(Weak::upgrade).find(same) {
        return (shared, false);
    }
    let shared = Arc::new(make());
    open.push(Arc::downgrade(&shared));
    (shared, true)
}
