//! How a segment file comes to be: whole under a temporary name, then renamed.
//!
//! A file with a segment's name therefore has a durable header; one without is damage, never a
//! file in the making.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidelog_format::{SegmentHeader, SegmentIdentity};

use super::name;
use crate::io::{Access, AlignedBuf, Disk, DiskFile};
use crate::planted::{Planted, planted};

/// Bytes of one write. A file up to this size is written at once.
const SLICE: u64 = 1 << 20;
/// How often a pause looks whether it should end.
const PAUSE: Duration = Duration::from_millis(10);

/// How the blocks behind the header come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Zeros are written: writes into written blocks are durable sooner than into allocated ones.
    Zero,
    /// Room is set aside only: for a segment that is written once and at once.
    Allocate,
    /// They are those of an earlier segment, as it left them.
    Recycle,
}

/// What a prepared file shall be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentSpec {
    pub(crate) identity: SegmentIdentity,
    pub(crate) block_size: u32,
    pub(crate) size: u64,
    pub(crate) fill: Fill,
}

impl SegmentSpec {
    /// A segment of the usual kind.
    #[cfg(test)]
    pub(crate) fn zeroed(identity: SegmentIdentity, block_size: u32, size: u64) -> Self {
        Self { identity, block_size, size, fill: Fill::Zero }
    }

    /// Not for the highest sequence: no opening could follow it with another.
    pub(crate) fn header(&self) -> io::Result<SegmentHeader> {
        if self.identity.sequence == u64::MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no sequence is left"));
        }
        SegmentHeader::new(self.identity, self.block_size, self.size)
            .map(|header| header.with_recycled(self.fill == Fill::Recycle))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

/// How fast zeros are written, when to give up, and who is told of the bytes.
pub(crate) struct Pace<'a> {
    /// Bytes a second.
    pub(crate) rate: u64,
    pub(crate) stop: &'a dyn Fn() -> bool,
    pub(crate) written: &'a mut dyn FnMut(u64),
}

/// Why there is no new file. But for `Poison`, none of it is left behind and the same can be tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// The disk or the quota is full.
    #[error("no space for {0} bytes")]
    NoSpace(u64),
    #[error("preparing a file: {0}")]
    Failed(#[source] io::Error),
    /// The file has its name, but whether the name lasts is unknown.
    #[error("fsync of the directory: {0}")]
    Poison(#[source] io::Error),
    /// The caller wanted no more of it.
    #[error("preparing a file was stopped")]
    Stopped,
}

impl PrepareError {
    fn new(error: io::Error, size: u64) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace(size),
            _ => Self::Failed(error),
        }
    }
}

/// A segment's file, open for writing, and the header that it has.
pub(crate) type Prepared = (Arc<dyn DiskFile>, SegmentHeader);

/// Makes the segment file that `spec` describes.
pub(crate) fn prepare(
    disk: &dyn Disk,
    spec: &SegmentSpec,
    pace: &mut Pace<'_>,
) -> Result<Prepared, PrepareError> {
    let header = spec.header().map_err(PrepareError::Failed)?;
    let file = publish(disk, &name::segment(spec.identity.sequence), spec.size, |file| {
        let wrap = |error| PrepareError::new(error, spec.size);
        match spec.fill {
            // Not from a file that was there before.
            Fill::Zero | Fill::Recycle => fill_with_zeros(file, spec.size, pace),
            Fill::Allocate => file.allocate(spec.size).map_err(wrap),
        }?;
        write_header(file, &header).map_err(wrap)
    })?;
    Ok((file, header))
}

/// Makes a reserve of `size` written bytes for the day when the disk is full.
pub(crate) fn make_spare(
    disk: &dyn Disk,
    number: u64,
    size: u64,
    pace: &mut Pace<'_>,
) -> Result<(), PrepareError> {
    publish(disk, &name::spare(number), size, |file| fill_with_zeros(file, size, pace)).map(drop)
}

/// Turns a file of exactly the size that `spec` asks for, all of it written, into a segment: a reserve,
/// or what a retired segment left. That takes no room. Where it fails before the rename, the file
/// keeps its name.
pub(crate) fn take(disk: &dyn Disk, from: &str, spec: &SegmentSpec) -> Result<Prepared, PrepareError> {
    let header = spec.header().map_err(PrepareError::Failed)?;
    let into_segment = || {
        let file = disk.open(from, Access::Write)?;
        let len = file.len()?;
        if len != spec.size {
            let text = format!("{from} has {len} bytes, not {}", spec.size);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // Who had the file open by the name that it had before may read on, also where its log has ended and
        // another opening knows nothing of it. Who comes from here on finds the new header.
        let reused = spec.fill == Fill::Recycle;
        if reused {
            file.exclude_readers()?;
            // A name that it was given as it was renamed: a backup.
            if file.links()? != 1 {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{from} has another name")));
            }
        }
        write_header(&*file, &header)?;
        if reused {
            file.admit_readers()?;
        }
        if !planted(Planted::SpareHeaderUnsynced) {
            file.sync_all()?;
        }
        disk.rename(from, &name::segment(spec.identity.sequence))?;
        Ok(file)
    };
    let file = into_segment().map_err(|error| PrepareError::new(error, spec.size))?;
    if planted(Planted::SpareNameUnsynced) {
        return Ok((file, header));
    }
    disk.sync().map_err(PrepareError::Poison)?;
    Ok((file, header))
}

/// Creates a file, lets `write` fill it, and gives it its durable name.
fn publish(
    disk: &dyn Disk,
    target: &str,
    size: u64,
    write: impl FnOnce(&dyn DiskFile) -> Result<(), PrepareError>,
) -> Result<Arc<dyn DiskFile>, PrepareError> {
    let wrap = |error| PrepareError::new(error, size);
    let temporary = name::temporary(target);
    if planted(Planted::ContinueUnused)
        && let Ok(file) = disk.open(target, Access::Write)
        && file.len().is_ok_and(|len| len == size)
    {
        return Ok(file);
    }
    if planted(Planted::ReuseLeftOver)
        && let Ok(file) = disk.open(&temporary, Access::Write)
        && file.len().is_ok_and(|len| len == size)
    {
        disk.rename(&temporary, target).map_err(wrap)?;
        disk.sync().map_err(PrepareError::Poison)?;
        return Ok(file);
    }
    unlink_if_there(disk, &temporary).map_err(wrap)?;
    let file = disk.create(&temporary).map_err(wrap)?;
    let published = write(&*file)
        .and_then(
            |()| if planted(Planted::SkipPreparedSync) { Ok(()) } else { file.sync_all().map_err(wrap) },
        )
        .and_then(|()| disk.rename(&temporary, target).map_err(wrap));
    if let Err(error) = published {
        // Nothing refers to the file; one that cannot be unlinked now is unlinked by the next try.
        let _ = disk.unlink(&temporary);
        return Err(error);
    }
    if planted(Planted::SkipDirectorySync) {
        return Ok(file);
    }
    match disk.sync() {
        Err(_) if planted(Planted::IgnoreDirectoryError) => {}
        synced => synced.map_err(PrepareError::Poison)?,
    }
    Ok(file)
}

pub(super) fn unlink_if_there(disk: &dyn Disk, name: &str) -> io::Result<()> {
    match disk.unlink(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn fill_with_zeros(file: &dyn DiskFile, size: u64, pace: &mut Pace<'_>) -> Result<(), PrepareError> {
    let wrap = |error| PrepareError::new(error, size);
    let zeros = AlignedBuf::new(size.min(SLICE) as usize).map_err(wrap)?;
    let begin = Instant::now();
    let mut at = 0;
    while at < size {
        pause_until(begin + time_for(at, pace.rate), pace.stop)?;
        let len = (size - at).min(SLICE);
        file.write_at(at, &zeros[..len as usize], false).map_err(wrap)?;
        at += len;
        (pace.written)(len);
    }
    Ok(())
}

fn time_for(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
}

fn pause_until(due: Instant, stop: &dyn Fn() -> bool) -> Result<(), PrepareError> {
    loop {
        if stop() {
            return Err(PrepareError::Stopped);
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(PAUSE));
    }
}

fn write_header(file: &dyn DiskFile, header: &SegmentHeader) -> io::Result<()> {
    let mut block = AlignedBuf::new(header.block_size as usize)?;
    let bytes = header.encode();
    block[..bytes.len()].copy_from_slice(&bytes);
    file.write_at(0, &block, false)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;
    use crate::segment::testing::{BLOCK, Home, SIZE, identity, spec, unpaced};

    fn prepare_now(home: &Home, spec: &SegmentSpec) -> Result<Prepared, PrepareError> {
        prepare(&*home.disk, spec, &mut unpaced(&mut |_| {}))
    }

    fn assert_prepared(home: &Home, spec: &SegmentSpec) {
        let bytes = fs::read(home.dir.path().join(name::segment(spec.identity.sequence))).unwrap();
        assert_eq!(bytes.len() as u64, spec.size);
        assert_eq!(SegmentHeader::decode(&bytes).unwrap(), spec.header().unwrap());
        assert!(bytes[tidelog_format::SEGMENT_HEADER_LEN..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_prepared_file_has_its_header_its_size_and_its_name() {
        let home = Home::new();
        let written = Cell::new(0);
        let mut count = |bytes| written.set(written.get() + bytes);
        let large = SegmentSpec { size: 5 << 19, ..spec(1) };
        let (file, header) = prepare(&*home.disk, &large, &mut unpaced(&mut count)).unwrap();
        assert_eq!(header, large.header().unwrap());
        assert_eq!(written.get(), large.size);
        prepare_now(&home, &SegmentSpec { fill: Fill::Allocate, ..spec(2) }).unwrap();
        assert_eq!(home.names(), [name::segment(1), name::segment(2)]);
        assert_prepared(&home, &large);
        assert_prepared(&home, &spec(2));
        let block = AlignedBuf::new(BLOCK as usize).unwrap();
        file.write_at(BLOCK.into(), &block, true).unwrap();
    }

    #[test]
    fn a_left_over_is_replaced_and_a_segment_never() {
        let home = Home::new();
        let left_over = home.dir.path().join(name::temporary(&name::segment(1)));
        fs::write(&left_over, b"half").unwrap();
        prepare_now(&home, &spec(1)).unwrap();
        assert_prepared(&home, &spec(1));
        let kept = fs::read(home.dir.path().join(name::segment(1))).unwrap();
        let other = SegmentSpec { size: 2 * SIZE, ..spec(1) };
        assert!(matches!(prepare_now(&home, &other), Err(PrepareError::Failed(error))
            if error.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(home.names(), [name::segment(1)]);
        assert_eq!(fs::read(home.dir.path().join(name::segment(1))).unwrap(), kept);
    }

    #[test]
    fn a_stop_and_an_impossible_size_leave_nothing() {
        let home = Home::new();
        let written = Cell::new(0);
        let mut pace = Pace {
            rate: 1 << 20,
            stop: &|| written.get() > 0,
            written: &mut |bytes| written.set(written.get() + bytes),
        };
        let begin = Instant::now();
        let large = SegmentSpec { size: 64 << 20, ..spec(1) };
        assert!(matches!(prepare(&*home.disk, &large, &mut pace), Err(PrepareError::Stopped)));
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not pause for all of 64 s");
        let odd = SegmentSpec { size: SIZE + 1, ..spec(1) };
        assert!(matches!(prepare_now(&home, &odd), Err(PrepareError::Failed(_))));
        assert_eq!(home.names(), [] as [&str; 0]);
    }

    #[test]
    fn a_full_disk_or_quota_is_told_apart_from_failures() {
        for full in [28, 122] {
            let error = PrepareError::new(io::Error::from_raw_os_error(full), 7);
            assert!(matches!(error, PrepareError::NoSpace(7)), "{error}");
        }
        assert!(matches!(PrepareError::new(io::Error::from_raw_os_error(5), 7), PrepareError::Failed(_)));
    }

    #[test]
    fn the_rate_bounds_the_writes() {
        let home = Home::new();
        let mut pace = Pace { rate: 20 << 20, stop: &|| false, written: &mut |_| {} };
        let begin = Instant::now();
        prepare(&*home.disk, &SegmentSpec { size: 3 << 20, ..spec(1) }, &mut pace).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(100), "2 of 3 MiB wait, at 20 MiB/s");
    }

    #[test]
    fn a_kept_file_with_another_name_is_not_written_over() {
        let home = Home::new();
        prepare_now(&home, &spec(3)).unwrap();
        let linked = home.dir.path().join("backup");
        fs::hard_link(home.dir.path().join(name::segment(3)), &linked).unwrap();
        let before = fs::read(&linked).unwrap();
        home.disk.rename(&name::segment(3), &name::free(3)).unwrap();
        let next = SegmentSpec { fill: Fill::Recycle, ..spec(9) };
        assert!(matches!(take(&*home.disk, &name::free(3), &next), Err(PrepareError::Failed(_))));
        assert!(fs::read(&linked).unwrap() == before);
        fs::remove_file(linked).unwrap();
        take(&*home.disk, &name::free(3), &next).unwrap();
        assert_eq!(home.names(), [name::segment(9)]);
    }

    #[test]
    fn a_reserve_becomes_a_segment() {
        let home = Home::new();
        make_spare(&*home.disk, 3, SIZE, &mut unpaced(&mut |_| {})).unwrap();
        assert_eq!(home.names(), [name::spare(3)]);
        let larger = SegmentSpec { size: 2 * SIZE, ..spec(9) };
        assert!(matches!(take(&*home.disk, &name::spare(3), &larger), Err(PrepareError::Failed(_))));
        assert_eq!(home.names(), [name::spare(3)]);
        take(&*home.disk, &name::spare(3), &spec(9)).unwrap();
        assert_eq!(home.names(), [name::segment(9)]);
        assert_prepared(&home, &spec(9));
        assert!(matches!(take(&*home.disk, &name::spare(3), &spec(10)), Err(PrepareError::Failed(_))));
        assert_eq!(spec(9).identity, identity(9));
    }
}
