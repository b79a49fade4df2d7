//! Payloads on a terminal.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::text;
use crate::args::PayloadForm;

/// A payload, or its beginning, as characters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// How the characters are to be read: `utf8`, `hex` or `base64`.
    pub(crate) encoding: &'static str,
    pub(crate) characters: String,
    /// Bytes at the end that are not shown.
    pub(crate) cut: usize,
}

/// The payload for a line of text.
pub(crate) fn for_text(bytes: &[u8], form: PayloadForm, max: usize) -> Option<Shown> {
    let cut = cut(bytes, form, max);
    match form {
        PayloadForm::Utf8 => Some(shown("utf8", text::quote(cut), bytes, cut)),
        _ => plain(bytes, cut, form),
    }
}

/// The payload for a JSON string, which can hold any text but no other bytes: these are in base64.
pub(crate) fn for_json(bytes: &[u8], form: PayloadForm, max: usize) -> Option<Shown> {
    let cut = cut(bytes, form, max);
    match (form, std::str::from_utf8(cut)) {
        (PayloadForm::Utf8, Ok(text)) => Some(shown("utf8", text.into(), bytes, cut)),
        (PayloadForm::Utf8, Err(_)) => plain(bytes, cut, PayloadForm::Base64),
        _ => plain(bytes, cut, form),
    }
}

fn plain(bytes: &[u8], cut: &[u8], form: PayloadForm) -> Option<Shown> {
    match form {
        PayloadForm::Hex => {
            let mut hex = String::with_capacity(cut.len() * 2);
            for byte in cut {
                // A string takes all that is written to it.
                let _ = write!(hex, "{byte:02x}");
            }
            Some(shown("hex", hex, bytes, cut))
        }
        PayloadForm::Base64 => Some(shown("base64", STANDARD.encode(cut), bytes, cut)),
        _ => None,
    }
}

fn shown(encoding: &'static str, characters: String, bytes: &[u8], shown: &[u8]) -> Shown {
    Shown { encoding, characters, cut: bytes.len() - shown.len() }
}

/// The beginning that is shown. Text is not cut inside a character.
fn cut(bytes: &[u8], form: PayloadForm, max: usize) -> &[u8] {
    let is_inside = |end: usize| bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut end = max.min(bytes.len());
    if form == PayloadForm::Utf8 {
        // No character is longer than four bytes; what goes on beyond that is no text.
        end = (end.saturating_sub(3)..=end).rev().find(|&end| !is_inside(end)).unwrap_or(end);
    }
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], form: PayloadForm, max: usize) -> (String, usize) {
        let shown = for_text(bytes, form, max).unwrap();
        (shown.characters, shown.cut)
    }

    #[test]
    fn each_form_shows_the_beginning() {
        assert_eq!(text(b"abc\x00", PayloadForm::Hex, 9), ("61626300".into(), 0));
        assert_eq!(text(b"abcd", PayloadForm::Hex, 3), ("616263".into(), 1));
        assert_eq!(text(b"abcd", PayloadForm::Base64, 9), ("YWJjZA==".into(), 0));
        assert_eq!(text("a\u{e4}".as_bytes(), PayloadForm::Utf8, 2), ("\"a\"".into(), 2));
        assert_eq!(text(&[0x80; 6], PayloadForm::Utf8, 5), (r#""\x80\x80\x80\x80\x80""#.into(), 1));
        assert_eq!(for_text(b"x", PayloadForm::Len, 9), None);
        assert_eq!(for_text(b"x", PayloadForm::None, 9), None);
    }

    #[test]
    fn json_has_base64_for_what_is_no_text() {
        let shown = for_json(b"\xff\x00", PayloadForm::Utf8, 9).unwrap();
        assert_eq!((shown.encoding, &*shown.characters), ("base64", "/wA="));
        let shown = for_json(b"plain", PayloadForm::Utf8, 3).unwrap();
        assert_eq!((shown.encoding, &*shown.characters, shown.cut), ("utf8", "pla", 2));
    }
}
