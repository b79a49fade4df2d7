//! The commands.

mod append;
mod dump;
mod journal;
mod stat;
mod summary;
mod verify;

pub(crate) use self::{append::append, dump::dump, journal::journal, stat::stat, verify::verify};
