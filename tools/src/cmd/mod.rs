//! The commands.

mod append;
mod bench;
mod dump;
mod journal;
mod stat;
mod summary;
mod verify;

pub(crate) use self::{
    append::append, bench::bench, dump::dump, journal::journal, stat::stat, verify::verify,
};
