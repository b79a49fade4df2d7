//! What a power cut leaves.

use fastrand::Rng;

use super::pages::SECTOR;

/// Decides, for one power cut, what of the things that were not durable is there afterwards.
///
/// Each on its own, whatever the order in which they were done: devices and file systems write
/// back as they like.
#[derive(Debug)]
pub(super) struct Keep<'a> {
    rng: &'a mut Rng,
    how: How,
    /// How many things were asked about.
    seen: usize,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Nothing,
    Everything,
    /// Whole things by the toss of a coin.
    Some,
    /// Sectors by the toss of a coin.
    Torn,
    /// The thing with this number and no other.
    Only(usize),
    /// All but the thing with this number.
    Without(usize),
    /// The first so many.
    First(usize),
}

impl<'a> Keep<'a> {
    pub(super) fn draw(rng: &'a mut Rng, things: usize) -> Self {
        let number = rng.usize(..things.max(1));
        let how = match rng.u8(..10) {
            0 => How::Nothing,
            1 => How::Everything,
            2..5 => How::Some,
            5..7 => How::Torn,
            7 => How::Only(number),
            8 => How::Without(number),
            _ => How::First(number),
        };
        Self { rng, how, seen: 0 }
    }

    /// Whether a thing that is there or not is there.
    pub(super) fn whole(&mut self) -> bool {
        self.seen += 1;
        match self.how {
            How::Nothing => false,
            How::Everything => true,
            How::Some | How::Torn => self.rng.bool(),
            How::Only(number) => self.seen - 1 == number,
            How::Without(number) => self.seen - 1 != number,
            How::First(number) => self.seen - 1 < number,
        }
    }

    /// Puts what is there of a write.
    pub(super) fn sectors(&mut self, offset: u64, bytes: &[u8], put: &mut dyn FnMut(u64, &[u8])) {
        if !matches!(self.how, How::Torn) {
            if self.whole() {
                put(offset, bytes);
            }
            return;
        }
        // Not all writes of one power cut are torn.
        if self.rng.bool() {
            if self.whole() {
                put(offset, bytes);
            }
            return;
        }
        let mut at = 0;
        while at < bytes.len() {
            let skip = (offset + at as u64) % SECTOR;
            let end = (at + (SECTOR - skip) as usize).min(bytes.len());
            if self.rng.bool() {
                put(offset + at as u64, &bytes[at..end]);
            }
            at = end;
        }
    }
}
