//! A log on a simulated disk: recovered and assembled as every other, but for its threads.

use std::sync::Arc;

use super::open::start;
use crate::commit::{Engine, Stepped};
use crate::error::Result;
use crate::io::sim::{SimDisk, SimQueue};
use crate::io::{Backend, Disk, open_queue};
use crate::options::Options;
use crate::recovery::{RecoveryReport, recover};

pub(super) fn open(disk: &SimDisk, options: Options) -> Result<(Arc<Engine>, Stepped, RecoveryReport)> {
    options.validate()?;
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let recovered = recover(&shared, &options)?;
    let report = recovered.report.clone();
    let backend = if disk.is_direct() { Backend::Ring } else { Backend::Std };
    let depth = options.queue_depth;
    let start = start(options, shared, Arc::new(()), backend, recovered);
    let (engine, stepped) = Stepped::start(start, |pool, bell| match backend {
        Backend::Ring => Ok(Box::new(SimQueue::new(disk))),
        Backend::Std => open_queue(Backend::Std, depth, pool, bell),
    })?;
    Ok((engine, stepped, report))
}
