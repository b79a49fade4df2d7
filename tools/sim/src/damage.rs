//! Damage to what a log has left, and what of it the log can be expected to notice.

use fastrand::Rng;
use tidelog::Lsn;
use tidelog::sim::SimDisk;
use tidelog_format::{FrameHeader, SegmentHeader};

const SECTOR: usize = 512;

fn is_segment(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|extension| extension == "log")
}

fn segments(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.files().into_iter().map(|(name, _)| name).filter(|name| is_segment(name));
    names.filter_map(|name| disk.read(&name).map(|bytes| (name, bytes))).collect()
}

/// The highest watermark in any sound frame: what lies above it looks like a torn tail once it is
/// damaged. By the format alone, block by block, so that the engine's own walk is not asked.
pub(crate) fn vouched(disk: &SimDisk) -> Lsn {
    let mut highest = Lsn(0);
    for (_, bytes) in segments(disk) {
        let Ok(header) = SegmentHeader::decode(&bytes) else { continue };
        let block = header.block_size as usize;
        for (at, frame) in bytes.chunks(block).enumerate() {
            if let Ok(frame) = FrameHeader::decode(frame, (at * block) as u64, &header) {
                highest = highest.max(frame.watermark);
            }
        }
    }
    highest
}

fn place_of(segments: &[(String, Vec<u8>)], name: &str) -> usize {
    segments.iter().position(|(other, _)| other == name).unwrap_or(segments.len())
}

/// Damages one place of one segment, or a whole file if `files` may go: the newest one too if the one before
/// it was `closed`. Gives what was done.
pub(crate) fn damage(disk: &SimDisk, files: bool, closed: bool, rng: &mut Rng) -> Option<&'static str> {
    let segments = segments(disk);
    let (name, bytes) = segments.get(rng.usize(..segments.len().max(1)))?;
    let sectors: Vec<&[u8]> = bytes.chunks(SECTOR).collect();
    let used: Vec<usize> =
        (0..sectors.len()).filter(|at| sectors[*at].iter().any(|byte| *byte != 0)).collect();
    if used.is_empty() {
        return None;
    }
    // A sector that lands elsewhere is the most dangerous where a frame begins, in the place of another.
    let heads: Vec<usize> = used.iter().copied().filter(|at| sectors[*at].starts_with(b"TLFR")).collect();
    let from = if heads.is_empty() || rng.bool() { &used } else { &heads };
    let (at, other) = (from[rng.usize(..from.len())], from[rng.usize(..from.len())]);
    let place = (at * SECTOR) as u64;
    Some(match rng.u8(..if files { 9 } else { 7 }) {
        0 | 1 => {
            disk.flip(name, 8 * place + rng.u64(..8 * SECTOR as u64));
            "bit flip"
        }
        2 => {
            disk.flip(name, rng.u64(..8 * 64));
            "bit flip in a segment header"
        }
        3 => {
            disk.put(name, place, &[0; SECTOR]);
            "sector of zeros"
        }
        4 => {
            disk.put(name, place, sectors[other]);
            "sector of another place"
        }
        5 => {
            let (_, foreign) = &segments[rng.usize(..segments.len())];
            let start = (rng.usize(..foreign.len() / SECTOR)) * SECTOR;
            disk.put(name, place, &foreign[start..start + SECTOR]);
            "sector of another file"
        }
        6 => {
            disk.spoil(name, place / SECTOR as u64);
            "bad sector"
        }
        // The newest file is missed where the one before it was closed, and only there.
        7 if place_of(&segments, name) + 1 < segments.len() || closed => {
            disk.remove(name);
            "file removed"
        }
        _ => {
            disk.truncate(name, place);
            "file cut off"
        }
    })
}
