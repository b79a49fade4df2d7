//! One file of the log: how it is prepared, where its entries are, how they are read.

mod frame;
mod handle;
mod index_file;
pub(crate) mod name;
mod prepare;
mod rebuild;
mod recycle;
mod runs;
mod set;
mod source;
#[cfg(test)]
mod stale;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod window;

use crate::error::{Error, Result};

#[allow(unused_imports)]
pub(crate) use self::{
    frame::{FrameRead, Moment},
    handle::Segment,
    name::Name,
    prepare::{Fill, Pace, PrepareError, Prepared, SegmentSpec, make_spare, prepare, take},
    recycle::Free,
    runs::{Run, Runs, Select, StreamRuns},
    set::SegmentSet,
    source::FileSource,
    window::Window,
};
