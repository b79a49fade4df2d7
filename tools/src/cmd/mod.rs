//! The commands.

mod append;
mod dump;
mod stat;
mod summary;
mod verify;

pub(crate) use self::{append::append, dump::dump, stat::stat, verify::verify};
