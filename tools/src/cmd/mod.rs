//! The commands.

mod append;
mod bench;
mod dump;
mod stat;
mod summary;
mod verify;

pub(crate) use self::{append::append, bench::bench, dump::dump, stat::stat, verify::verify};
