//! The content of a simulated file, shared by all images of it as long as it is the same.

use std::sync::{Arc, OnceLock};

/// Bytes that a device writes whole or not at all.
pub(super) const SECTOR: u64 = 512;
const PAGE: usize = 4096;

type Page = Arc<[u8; PAGE]>;

fn zeros() -> &'static Page {
    static ZEROS: OnceLock<Page> = OnceLock::new();
    ZEROS.get_or_init(|| Arc::new([0; PAGE]))
}

/// Bytes up to a length. A copy costs little; what was never written is zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Page>,
    len: u64,
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// At least so long.
    pub(super) fn extend(&mut self, len: u64) {
        self.len = self.len.max(len);
        let count = (self.len as usize).div_ceil(PAGE);
        if self.pages.len() < count {
            self.pages.resize_with(count, || Arc::clone(zeros()));
        }
    }

    /// No longer than that.
    pub(super) fn truncate(&mut self, len: u64) {
        self.len = self.len.min(len);
        self.pages.truncate((self.len as usize).div_ceil(PAGE));
    }

    /// Fills `buf`, as far as the content goes.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset as usize + done;
            let skip = at % PAGE;
            let part = (PAGE - skip).min(len - done);
            buf[done..done + part].copy_from_slice(&self.pages[at / PAGE][skip..skip + part]);
            done += part;
        }
        len
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.extend(offset + bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let at = offset as usize + done;
            let skip = at % PAGE;
            let part = &bytes[done..(done + PAGE - skip).min(bytes.len())];
            done += part.len();
            let page = &mut self.pages[at / PAGE];
            if part.len() == PAGE && part == zeros().as_slice() {
                *page = Arc::clone(zeros());
            } else {
                Arc::make_mut(page)[skip..skip + part.len()].copy_from_slice(part);
            }
        }
    }

    /// Turns one bit over.
    pub(super) fn flip(&mut self, bit: u64) {
        let at = (bit / 8) as usize;
        if let Some(page) = self.pages.get_mut(at / PAGE) {
            Arc::make_mut(page)[at % PAGE] ^= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_copies_part() {
        let mut pages = Pages::default();
        pages.write(4000, &[7; 5000]);
        let copy = pages.clone();
        pages.write(4100, &[8; 10]);
        pages.flip(4000 * 8);
        let mut buf = [1; 12_000];
        assert_eq!(pages.read(3999, &mut buf), 5001);
        assert_eq!((buf[0], buf[1], buf[101], buf[111], buf[5000], buf[5001]), (0, 6, 8, 7, 7, 1));
        assert_eq!(copy.read(4000, &mut buf), 5000);
        assert!(buf[..5000].iter().all(|&byte| byte == 7));
        pages.truncate(4001);
        assert_eq!((pages.len(), pages.read(4000, &mut buf)), (4001, 1));
    }
}
