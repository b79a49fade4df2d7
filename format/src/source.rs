//! Where bytes come from.

use core::convert::Infallible;

/// The bytes of a segment file, at any place.
pub trait Source {
    /// Why a read failed.
    type Error;

    /// Reads `len` bytes at `offset`; fewer only where the file ends.
    fn read(&mut self, offset: u64, len: usize) -> Result<&[u8], Self::Error>;
}

/// A file in memory.
impl Source for &[u8] {
    type Error = Infallible;

    fn read(&mut self, offset: u64, len: usize) -> Result<&[u8], Infallible> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        Ok(&rest[..len.min(rest.len())])
    }
}
