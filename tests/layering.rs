//! The rules of the source tree that the compiler does not enforce: imports point down only,
//! `unsafe` stays in `src/io/` with its argument beside it, and files stay small.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may import, lowest first. A module that is not listed may not exist.
///
/// `planted` is a leaf that any of them may import.
const LAYERS: [(&str, &[&str]); 16] = [
    ("planted", &[]),
    ("error", &[]),
    ("observe", &[]),
    ("options", &["error", "observe"]),
    ("sync", &[]),
    ("io", &["sync"]),
    ("state", &[]),
    ("segment", &["error", "options", "io", "state"]),
    ("commit", &["error", "observe", "options", "sync", "io", "state", "segment"]),
    ("recovery", &["error", "options", "io", "state", "segment", "commit"]),
    ("reader", &["error", "options", "io", "state", "segment", "commit"]),
    ("readonly", &["error", "io", "segment"]),
    (
        "log",
        &["error", "observe", "options", "sync", "io", "state", "segment", "commit", "recovery", "reader"],
    ),
    ("sim", &["error", "options", "io", "commit", "log"]),
    ("log_store", &["error", "observe", "options", "commit", "reader", "log"]),
    ("remote_log", &["error", "observe", "options", "commit", "reader", "readonly", "log"]),
];

/// Longest source file, in lines. Tests may be longer.
const LINES_MAX: usize = 600;

#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

#[test]
fn the_tree_keeps_its_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for part in ["src", "format/src", "tools/src", "tools/sim/src"] {
        rust_files(&root.join(part), &mut files);
    }
    assert!(files.len() > 80, "only {} files: is this the tree?", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap();
        found.extend(check(name, &fs::read_to_string(&file).unwrap()));
    }
    let found: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn layers_import_only_what_is_listed_before_them() {
    for (place, (module, imports)) in LAYERS.iter().enumerate() {
        for import in *imports {
            let lower = LAYERS[..place].iter().any(|(other, _)| other == import);
            assert!(lower, "{module} imports {import}, which is not below it");
        }
    }
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// All that is wrong with the file `name`, a path from the root of the project.
fn check(name: &str, source: &str) -> Vec<Violation> {
    let tokens = tokens(source);
    let mut found = check_unsafe(name, source, &tokens);
    if let Some(path) = name.strip_prefix("src/") {
        found.extend(check_imports(name, &module_path(path), &tokens));
    }
    let lines = source.lines().count();
    if lines > LINES_MAX && !is_test(name) {
        let what = format!("{lines} lines, at most {LINES_MAX} are allowed");
        found.push(Violation { file: name.into(), line: lines, what });
    }
    found
}

fn is_test(name: &str) -> bool {
    name.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "testing.rs"))
}

/// `commit/core.rs` is the module `commit::core`; the root has an empty path.
fn module_path(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
        parts.pop();
    }
    parts
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    line: usize,
    text: String,
}

/// Identifiers, numbers, `::` and single characters; no comments, strings or characters in quotes.
fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let len = skipped(rest).unwrap_or_else(|| {
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let len = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            if !first.is_whitespace() {
                tokens.push(Token { line, text: rest[..len].into() });
            }
            len
        });
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the comment or literal that `text` starts with.
fn skipped(text: &str) -> Option<usize> {
    let until =
        |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| {
        let rest = text[..].strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.trim_start_matches('#').starts_with('"') || rest.starts_with('\''))
    });
    let body = &text[prefix.map_or(0, str::len)..];
    let skip = text.len() - body.len();
    if prefix.is_some_and(|prefix| prefix.ends_with('r')) {
        let hashes = body.len() - body.trim_start_matches('#').len();
        return Some(until(&format!("\"{}", "#".repeat(hashes)), skip + hashes + 1));
    }
    if body.starts_with('"') {
        return Some(skip + quoted(body, '"'));
    }
    // A lifetime has no closing quote behind its first character.
    let mut chars = body.strip_prefix('\'')?.chars();
    let is_char = chars.next()? == '\\' || chars.next() == Some('\'');
    is_char.then(|| skip + quoted(body, '\''))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Paths that start at the root of the crate, by `crate::` or by enough of `super::`.
fn check_imports(file: &str, module: &[String], tokens: &[Token]) -> Vec<Violation> {
    let Some(own) = module.first() else { return Vec::new() };
    let known = LAYERS.iter().find(|(layer, _)| layer == own);
    let Some((_, allowed)) = known else {
        let what = format!("module {own} has no place among the layers");
        return vec![Violation { file: file.into(), line: 1, what }];
    };
    let mut found = Vec::new();
    for (at, target) in root_paths(module.len(), tokens) {
        if target.text != *own && target.text != "planted" && !allowed.contains(&target.text.as_str()) {
            let what = format!("{own} may not import {}", target.text);
            found.push(Violation { file: file.into(), line: tokens[at].line, what });
        }
    }
    found
}

/// The names right below the root in such paths, each with the place of its path. `depth` is that
/// of the file's module.
fn root_paths(depth: usize, tokens: &[Token]) -> Vec<(usize, &Token)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let (mut found, mut braces, mut inline) = (Vec::new(), 0_usize, Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match text(at) {
            "{" => {
                if at >= 2 && text(at - 2) == "mod" {
                    inline.push(braces);
                }
                braces += 1;
            }
            "}" => {
                braces = braces.saturating_sub(1);
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
            }
            "crate" if text(at + 1) == "::" => found.extend(heads(tokens, at + 2).map(|head| (at, head))),
            "super" if text(at + 1) == "::" => {
                let start = at;
                while text(at + 2) == "super" && text(at + 3) == "::" {
                    at += 2;
                }
                if (at - start) / 2 + 1 >= depth + inline.len() {
                    found.extend(heads(tokens, at + 2).map(|head| (start, head)));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The first names of the paths at `at`: one, or those of a group in braces.
fn heads(tokens: &[Token], at: usize) -> impl Iterator<Item = &Token> {
    let is_group = tokens.get(at).is_some_and(|token| token.text == "{");
    let mut depth = 0_usize;
    let mut expected = true;
    let rest = tokens.iter().skip(at).take(if is_group { usize::MAX } else { 1 });
    rest.take_while(move |token| {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        !is_group || depth > 0
    })
    .scan(0_usize, move |depth, token| {
        let mut head = None;
        match token.text.as_str() {
            "{" => *depth += 1,
            "}" => *depth = depth.saturating_sub(1),
            "," => expected |= *depth <= 1,
            _ if std::mem::take(&mut expected) => head = Some(token),
            _ => {}
        }
        Some(head)
    })
    .flatten()
}

fn check_unsafe(file: &str, source: &str, tokens: &[Token]) -> Vec<Violation> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for token in tokens.iter().filter(|token| token.text == "unsafe") {
        let what = if !file.starts_with("src/io/") {
            "unsafe outside src/io/"
        } else if is_argued(&lines, token.line) {
            continue;
        } else {
            "unsafe without a SAFETY comment"
        };
        found.push(Violation { file: file.into(), line: token.line, what: what.into() });
    }
    found
}

/// Whether the comment in front of the statement at `line` (from 1) argues why it is safe.
fn is_argued(lines: &[&str], line: usize) -> bool {
    let mut above = lines[..line - 1].iter().rev().map(|line| line.trim()).peekable();
    // Up to the first line of the statement.
    while above.next_if(|line| !line.starts_with("//") && !line.ends_with([';', '{', '}', ','])).is_some() {}
    let mut comment = above.take_while(|line| line.starts_with("//"));
    comment.any(|line| line.contains("SAFETY:"))
}

/// The document that lists them all.
const UNSAFE_LIST: &str = "docs/unsafe.md";
const LIST_HEADING: &str = "## All of it\n\n";

/// With `UPDATE` set it writes the list anew.
#[test]
fn the_list_of_unsafe_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&root.join("src/io"), &mut files);
    files.sort();
    let mut list = String::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap();
        list.extend(
            unsafe_items(&fs::read_to_string(&file).unwrap()).map(|item| format!("- `{name}` {item}\n")),
        );
    }
    let document = fs::read_to_string(root.join(UNSAFE_LIST)).unwrap();
    let (text, listed) = document.split_once(LIST_HEADING).expect("the heading of the list");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root.join(UNSAFE_LIST), format!("{text}{LIST_HEADING}{list}")).unwrap();
        return;
    }
    for (listed, found) in listed.lines().zip(list.lines()) {
        assert_eq!(listed, found, "{UNSAFE_LIST} is not what the sources say (UPDATE=1 writes it)");
    }
    assert_eq!(
        listed.lines().count(),
        list.lines().count(),
        "{UNSAFE_LIST} lacks some, or lists what is gone"
    );
}

/// What each piece of unsafe code belongs to, and its argument.
fn unsafe_items(source: &str) -> impl Iterator<Item = String> {
    let (tokens, lines) = (tokens(source), source.lines().collect::<Vec<_>>());
    let found: Vec<_> = (0..tokens.len()).filter(|&at| tokens[at].text == "unsafe").collect();
    let describe = move |at: usize| {
        let (after, before) = (&tokens[at + 1..], &tokens[..at]);
        let owner = if after[0].text == "impl" {
            let head = after.iter().take_while(|token| token.text != "{").map(|token| token.text.as_str());
            head.collect::<Vec<_>>().join(" ")
        } else {
            let name = before
                .windows(2)
                .rev()
                .find(|pair| pair[0].text == "fn" && is_word(pair[1].text.chars().next().unwrap()));
            name.map_or_else(|| "outside functions".into(), |pair| pair[1].text.clone())
        };
        format!("`{owner}`: {}", argument(&lines, tokens[at].line))
    };
    found.into_iter().map(describe)
}

/// The argument in the comment in front of the statement at `line` (from 1), as one line.
fn argument(lines: &[&str], line: usize) -> String {
    let mut above = lines[..line - 1].iter().rev().map(|line| line.trim()).peekable();
    while above.next_if(|line| !line.starts_with("//")).is_some() {}
    let mut comment: Vec<&str> = above.take_while(|line| line.starts_with("//")).collect();
    comment.reverse();
    let text = comment.iter().map(|line| line.trim_start_matches(['/', ' '])).collect::<Vec<_>>().join(" ");
    text.split_once("SAFETY: ").map_or(text.clone(), |(_, argument)| argument.into())
}

mod checker {
    use super::*;

    fn found(name: &str, source: &str) -> Vec<String> {
        check(name, source).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn downward_imports_pass() {
        let source = "use crate::error::{Error, Result};\nuse crate::{io::Disk, state};\nuse super::flight::Flights;\n\
                      fn f() { crate::segment::name::segment(1); }\npub(crate) mod x {}";
        assert_eq!(found("src/commit/core.rs", source), [""; 0]);
        assert_eq!(found("src/lib.rs", "pub use crate::log::Log;"), [""; 0]);
    }

    #[test]
    fn upward_imports_are_found_in_every_form() {
        for source in [
            "use crate::commit::Batch;",
            "use crate::{error::Error, commit::{Batch, Engine}};",
            "use super::super::commit::Batch;",
            "fn f() -> crate::commit::Batch { todo!() }",
            "mod tests { use super::super::super::commit::Batch; }",
        ] {
            let file = "src/segment/set.rs";
            assert_eq!(found(file, source), [format!("{file}:1: segment may not import commit")], "{source}");
        }
        assert_eq!(found("src/state/mod.rs", "\nuse super::io::Disk;").len(), 1);
        assert_eq!(found("src/io/dir.rs", "use crate::Error;").len(), 1, "nor by way of the root");
    }

    #[test]
    fn what_stays_within_the_module_passes() {
        let source =
            "mod tests { use super::super::{Change, Position}; use super::*; use crate::state::State; }";
        assert_eq!(found("src/state/capture.rs", source), [""; 0]);
        let source = "mod tests { fn f() {} }\nuse super::super::commit::Batch;";
        assert_eq!(found("src/state/capture.rs", source).len(), 1, "the inner module has ended");
    }

    #[test]
    fn comments_and_literals_import_nothing() {
        let source = "//! [`Log`](crate::log::Log)\n/* use crate::log::Log; /* unsafe */ */\n\
                      const A: &str = \"\\\" crate::log \";\nconst B: &str = r#\"\" unsafe {} \"#;\n\
                      const C: char = '\"'; fn f<'a>(x: &'a u8) { b'\\''; }\nuse crate::log::Log;";
        assert_eq!(found("src/error.rs", source), ["src/error.rs:6: error may not import log"]);
    }

    #[test]
    fn a_module_without_a_layer_is_found() {
        assert_eq!(found("src/util.rs", "").len(), 1);
        assert_eq!(found("src/util/mod.rs", "").len(), 1);
    }

    #[test]
    fn unsafe_is_confined_and_argued() {
        let bare = "fn f() { unsafe { g() } }";
        assert_eq!(found("src/segment/set.rs", bare), ["src/segment/set.rs:1: unsafe outside src/io/"]);
        assert_eq!(found("format/src/row.rs", bare).len(), 1);
        assert_eq!(found("tools/src/main.rs", bare).len(), 1);
        assert_eq!(found("src/io/map.rs", bare), ["src/io/map.rs:1: unsafe without a SAFETY comment"]);
        let argued = "// SAFETY: g has no duties,\n// none at all.\nlet x =\n    unsafe { g() };";
        assert_eq!(found("src/io/map.rs", argued), [""; 0]);
        let stale = "// SAFETY: of f.\nunsafe { f() };\nunsafe { g() };";
        assert_eq!(found("src/io/map.rs", stale).len(), 1, "an argument counts once");
    }

    #[test]
    fn unsafe_code_is_listed_with_its_owner_and_its_argument() {
        let source = "fn f() {\n // Before.\n // SAFETY: g has\n // no duties.\n let x =\n unsafe { g() };\n}\n\
                      // SAFETY: none.\nunsafe impl Send for T {}\n// unsafe { no }";
        let items: Vec<_> = unsafe_items(source).collect();
        assert_eq!(items, ["`f`: g has no duties.", "`impl Send for T`: none."]);
    }

    #[test]
    fn long_files_are_found_unless_they_are_tests() {
        let long = "\n".repeat(LINES_MAX + 1);
        assert_eq!(found("src/error.rs", &long).len(), 1);
        assert_eq!(found("format/src/row.rs", &long).len(), 1);
        assert_eq!(found("src/segment/tests.rs", &long), [""; 0]);
        assert_eq!(found("src/error.rs", &long[1..]), [""; 0]);
    }
}
