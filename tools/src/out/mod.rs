//! How things are written.

pub(crate) mod control;
pub(crate) mod journal;
pub(crate) mod json;
pub(crate) mod payload;
pub(crate) mod table;
pub(crate) mod text;

use std::io::Write;

use tidelog::readonly::SegmentState;

/// The version of the JSON that the tool writes. It rises when a field changes or goes, not when one is added.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Tells of a problem on standard error. Where even that fails, the exit status is left.
pub(crate) fn warn(message: &str) {
    let _ = writeln!(std::io::stderr(), "tidelog: {}", text::tame(message));
}

pub(crate) fn state_name(state: SegmentState) -> &'static str {
    match state {
        SegmentState::Closed => "closed",
        SegmentState::Ended => "ended",
        SegmentState::Newest => "newest",
        SegmentState::Void => "void",
        SegmentState::LeftOver => "left-over",
        SegmentState::Damaged => "damaged",
        _ => "unknown",
    }
}
