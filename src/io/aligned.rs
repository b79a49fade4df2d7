//! Heap memory that direct I/O accepts.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The alignment of every buffer: a page, which satisfies any device's demand on memory.
pub(crate) const MEM_ALIGN: usize = 4096;

/// Zeroed heap memory, aligned to [`MEM_ALIGN`].
pub(crate) struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is owned like that of a `Box<[u8]>`; no thread-bound state is attached.
unsafe impl Send for AlignedBuf {}
// SAFETY: through `&AlignedBuf` the bytes are only read; `base` gives a raw pointer, whose use is the user's proof.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Allocates `len` zero bytes. Fails instead of aborting when memory is short.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let layout = Self::layout(len).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: `layout` rounds up to at least one page, so its size is not zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { ptr, len })
    }

    /// Where the memory begins. Valid for reads and writes of `len` bytes as long as `self` lives; the user answers for
    /// aliasing.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The length, without looking at the bytes.
    pub(super) fn size(&self) -> usize {
        self.len
    }

    fn layout(len: usize) -> Option<Layout> {
        let size = len.max(1).checked_next_multiple_of(MEM_ALIGN)?;
        Layout::from_size_align(size, MEM_ALIGN).ok()
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: `ptr` came from `alloc_zeroed` with the layout that the same `len` gives.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that this value owns, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_writable() {
        // An interpreter takes long for each byte.
        let large = if cfg!(miri) { 3 * MEM_ALIGN } else { 1 << 20 };
        for len in [0, 1, 4095, 4096, 4097, large] {
            let mut buf = AlignedBuf::new(len).unwrap();
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr() as usize % MEM_ALIGN, 0);
            assert!(buf.iter().all(|&b| b == 0));
            buf.fill(0xa5);
            assert!(buf.iter().all(|&b| b == 0xa5));
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        for len in [usize::MAX, usize::MAX - MEM_ALIGN, isize::MAX as usize] {
            assert_eq!(AlignedBuf::new(len).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
