//! The names that a log gives its files. Whatever is not exactly one of them is somebody else's.

use std::ffi::OsStr;

const DIGITS: usize = 20;
const SEGMENT: &str = ".log";
const INDEX: &str = ".idx";
const SPARE: &str = ".spare";
const FREE: &str = ".free";
const TEMPORARY: &str = ".new";

/// What a file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A segment, by its sequence number.
    Segment(u64),
    /// The index cache of the segment with this sequence number.
    Index(u64),
    /// A reserve for the full disk.
    Spare(u64),
    /// The file of a retired segment, kept to become another one.
    Free(u64),
    /// Any of them while it is being made. One that is found is left over.
    Temporary,
}

impl Name {
    /// `None` for every name that this log cannot have given.
    pub(crate) fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        match name.strip_suffix(TEMPORARY) {
            Some(target) => Self::parse_final(target).map(|_| Self::Temporary),
            None => Self::parse_final(name),
        }
    }

    fn parse_final(name: &str) -> Option<Self> {
        let (digits, suffix) = name.split_at_checked(DIGITS)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = digits.parse().ok().filter(|&number| number > 0)?;
        match suffix {
            SEGMENT => Some(Self::Segment(number)),
            INDEX => Some(Self::Index(number)),
            SPARE => Some(Self::Spare(number)),
            FREE => Some(Self::Free(number)),
            _ => None,
        }
    }
}

/// The name of a segment.
pub(crate) fn segment(sequence: u64) -> String {
    format!("{sequence:0DIGITS$}{SEGMENT}")
}

/// The name of a segment's index cache.
pub(crate) fn index(sequence: u64) -> String {
    format!("{sequence:0DIGITS$}{INDEX}")
}

/// The name of a reserve.
pub(crate) fn spare(number: u64) -> String {
    format!("{number:0DIGITS$}{SPARE}")
}

/// The name of a retired segment's file that is kept.
pub(crate) fn free(number: u64) -> String {
    format!("{number:0DIGITS$}{FREE}")
}

/// The name that a file has until it is whole.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn parse(name: &str) -> Option<Name> {
        Name::parse(OsStr::new(name))
    }

    #[test]
    fn names_are_read_back() {
        for number in [1, 7, u64::MAX] {
            assert_eq!(parse(&segment(number)), Some(Name::Segment(number)));
            assert_eq!(parse(&index(number)), Some(Name::Index(number)));
            assert_eq!(parse(&spare(number)), Some(Name::Spare(number)));
            assert_eq!(parse(&free(number)), Some(Name::Free(number)));
            assert_eq!(parse(&temporary(&segment(number))), Some(Name::Temporary));
        }
        assert_eq!(temporary(&segment(7)), "00000000000000000007.log.new");
    }

    #[test]
    fn names_sort_like_their_numbers() {
        assert!(segment(9) < segment(10) && segment(10) < segment(u64::MAX));
    }

    #[test]
    fn anything_else_is_not_ours() {
        for name in [
            "",
            ".log",
            "0000000000000000007.log",
            "000000000000000000007.log",
            "00000000000000000000.log",
            "00000000000000000007.LOG",
            "00000000000000000007.log.new.new",
            "00000000000000000007.log.NEW",
            "00000000000000000007.log~",
            "00000000000000000007",
            "00000000000000000007.new",
            "+0000000000000000007.log",
            "99999999999999999999.log",
            " 0000000000000000007.log",
            "0000000000000000000\u{661}.log",
        ] {
            assert_eq!(parse(name), None, "{name:?}");
        }
        assert_eq!(Name::parse(OsStr::from_bytes(b"00000000000000000007.log\xff")), None);
    }
}
