//! What is fuzzed: a function of any bytes for each target. None may panic, and each holds what it decodes against
//! what the format says of it.
//!
//! The functions are fuzzed by `cargo fuzz run NAME` and replay the corpora in an ordinary test, `tools/tests/fuzz.rs`.

mod checksums;
mod directory;
mod format;
mod image;
mod journal;

pub use self::directory::{directory_read, directory_write, tool};
pub use self::format::{IDENTITY, checkpoint, frames, index_cache, segment_header};
pub use self::image::{pack, unpack_to_directory};
pub use self::journal::{journal, journal_event};

/// A function of any bytes.
pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: [(&str, Target); 9] = [
    ("segment_header", segment_header),
    ("frames", frames),
    ("index_cache", index_cache),
    ("checkpoint", checkpoint),
    ("journal_event", journal_event),
    ("journal", journal),
    ("directory_read", directory_read),
    ("directory_write", directory_write),
    ("tool", tool),
];

/// The first byte of an input says what is done to the rest; an input has at least that.
fn split(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, &[]), |(choice, rest)| (*choice, rest))
}

fn is_set(choice: u8, bit: u32) -> bool {
    choice >> bit & 1 == 1
}
