//! Everything that is done to a log, once each.

use std::sync::Arc;

use crate::base::{BLOCK, Files, has_suffix};
use crate::log::Specimen;
use crate::places::Place;

/// How the damaged log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    View,
    Write,
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::View => "read-only",
            Self::Write => "for writing",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Bit,
    Zero,
    Swap,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bit => "bit flipped",
            Self::Zero => "sector zeroed",
            Self::Swap => "sectors swapped",
        }
    }
}

/// Bytes that are put somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub(crate) file: String,
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Case {
    pub(crate) way: Way,
    pub(crate) kind: Kind,
    /// What is there, and in which segment.
    pub(crate) structure: &'static str,
    pub(crate) role: &'static str,
    pub(crate) patches: Vec<Patch>,
    /// Whether the log is written to afterwards.
    pub(crate) go_on: bool,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in the {} ({} segment)", self.kind.name(), self.structure, self.role)?;
        self.patches.iter().try_for_each(|patch| write!(f, ", {} at {}", patch.file, patch.at))?;
        write!(f, ", opened {}", self.way.name())
    }
}

impl Case {
    pub(crate) fn apply(&self, files: &Files) -> Files {
        let mut files = files.clone();
        for patch in &self.patches {
            let bytes = Arc::make_mut(files.get_mut(&patch.file).unwrap());
            bytes[patch.at..patch.at + patch.bytes.len()].copy_from_slice(&patch.bytes);
        }
        files
    }
}

pub(crate) fn cases(specimen: &Specimen, full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for place in &specimen.places {
        bits(specimen, place, full, &mut cases);
    }
    let sectors = sectors(specimen);
    for sector in &sectors {
        zero(specimen, sector, &mut cases);
    }
    swaps(&sectors, full, &mut cases);
    cases
}

/// Bits of a structure: all, or of some bytes one each, where there are too many that are alike.
fn bits(specimen: &Specimen, place: &Place, full: bool, cases: &mut Vec<Case>) {
    let file = &specimen.base.files[&place.file];
    let dense = full || !specimen.closed;
    let stride = place.stride(full);
    for (index, at) in place.range.clone().step_by(stride).enumerate() {
        let one = at.wrapping_mul(5) % 8;
        for bit in 0..8 {
            let mut add = |way| {
                let bytes = vec![file[at] ^ (1 << bit)];
                let patches = vec![Patch { file: place.file.clone(), at, bytes }];
                let go_on = cases.len().is_multiple_of(16);
                let (structure, role) = (place.structure, place.role);
                cases.push(Case { way, kind: Kind::Bit, structure, role, patches, go_on });
            };
            if bit == one || (dense && !place.is_bulk()) {
                add(Way::View);
            }
            if (bit == one && (dense || index % 8 == 0)) || (full && !place.is_bulk()) {
                add(Way::Write);
            }
        }
    }
}

/// A sector of a file, and what it begins with.
struct Sector<'a> {
    file: &'a str,
    at: usize,
    bytes: &'a [u8],
    place: &'a Place,
}

impl Sector<'_> {
    fn is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }

    fn patch(&self, bytes: &[u8]) -> Patch {
        Patch { file: self.file.into(), at: self.at, bytes: bytes.into() }
    }
}

/// All but those of the reserve, whose bytes mean nothing: each that is not zero, and of each file one that is.
fn sectors(specimen: &Specimen) -> Vec<Sector<'_>> {
    let mut sectors = Vec::new();
    for (file, bytes) in specimen.base.files.iter().filter(|(name, _)| !has_suffix(name, ".spare")) {
        let mut zeros = 0;
        for (index, sector) in bytes.chunks(BLOCK).enumerate() {
            let at = index * BLOCK;
            let Some(place) = specimen.place(file, at) else { continue };
            let sector = Sector { file, at, bytes: sector, place };
            zeros += usize::from(sector.is_zero());
            if !sector.is_zero() || zeros == 1 {
                sectors.push(sector);
            }
        }
    }
    sectors
}

fn both(kind: Kind, place: &Place, patches: &[Patch], cases: &mut Vec<Case>) {
    for way in [Way::View, Way::Write] {
        let (patches, go_on) = (patches.to_vec(), cases.len() % 16 < 2);
        let (structure, role) = (place.structure, place.role);
        cases.push(Case { way, kind, structure, role, patches, go_on });
    }
}

fn zero(specimen: &Specimen, sector: &Sector<'_>, cases: &mut Vec<Case>) {
    if !sector.is_zero() {
        let zeros = vec![0; sector.bytes.len()];
        both(Kind::Zero, specimen.place(sector.file, sector.at).unwrap(), &[sector.patch(&zeros)], cases);
    }
}

/// Each sector with each other, or with the next ones and with those at the same place in other files.
fn swaps(sectors: &[Sector<'_>], full: bool, cases: &mut Vec<Case>) {
    let mut across = false;
    for (index, one) in sectors.iter().enumerate() {
        for (distance, other) in sectors[index + 1..].iter().enumerate() {
            if one.bytes == other.bytes || one.bytes.len() != other.bytes.len() {
                continue;
            }
            let is_bulk = one.place.is_bulk() && other.place.is_bulk();
            let wanted = if full {
                !is_bulk || distance < 2
            } else {
                (distance < 1 && !is_bulk) || (one.at == other.at && one.at <= 2 * BLOCK)
            };
            if wanted {
                across |= one.file != other.file;
                both(Kind::Swap, one.place, &[one.patch(other.bytes), other.patch(one.bytes)], cases);
            }
        }
    }
    assert!(across, "no sectors of different files are swapped");
}
