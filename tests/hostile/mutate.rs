//! What happens to files: bad bytes, lost writes, misdirected ones, names that go or change.

use std::fmt::Write;
use std::sync::Arc;

use crate::base::{BLOCK, Base, Files, Frame, sequence};
use crate::rng::Rng;

type Mutator = fn(&Base, &mut Files, &mut Rng) -> String;

const MUTATORS: [(&str, Mutator); 19] = [
    ("bits of a frame", frame_bits),
    ("bits of a header", header_bits),
    ("bits anywhere", bits),
    ("index cache", index),
    ("zero sectors", zero),
    ("zero frame", zero_frame),
    ("zero to the end", zero_tail),
    ("garbage sectors", garbage),
    ("swap sectors", swap),
    ("copy sectors", copy),
    ("copy frame", copy_frame),
    ("two frames", two_frames),
    ("shorten", shorten),
    ("lengthen", lengthen),
    ("swap files", swap_files),
    ("rename", rename),
    ("delete", delete),
    ("copy file", copy_file),
    ("strange names", strangers),
];

pub(crate) fn any(base: &Base, files: &mut Files, rng: &mut Rng) -> (&'static str, String) {
    let (kind, mutate) = *rng.pick(&MUTATORS);
    (kind, mutate(base, files, rng))
}

fn name(files: &Files, rng: &mut Rng, suffix: &str) -> String {
    let names: Vec<&String> = files.keys().filter(|name| name.ends_with(suffix)).collect();
    (*rng.pick(&names)).clone()
}

fn bytes<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    Arc::make_mut(files.get_mut(name).unwrap())
}

/// A frame, more often one of the newest.
fn frame(base: &Base, rng: &mut Rng) -> (Frame, String) {
    let frames = &base.frames;
    let recent = frames.len().saturating_sub(12);
    let frame = if rng.chance(40) { *rng.pick(&frames[recent..]) } else { *rng.pick(frames) };
    (frame, format!("{:020}.log", frame.sequence))
}

/// Where in a file something is likely to matter.
fn place(base: &Base, files: &Files, rng: &mut Rng) -> (String, usize) {
    if rng.chance(80) {
        let (frame, name) = frame(base, rng);
        return (name, frame.offset + rng.below(frame.range().len()));
    }
    let name = name(files, rng, "");
    let len = files[&name].len();
    (name, rng.below(len))
}

fn frame_bits(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, name) = frame(base, rng);
    let table = frame.header.table_offset as usize;
    let at = frame.offset
        + match rng.below(3) {
            0 => rng.below(64),
            1 => table + rng.below(32 * frame.header.row_count.max(1) as usize),
            _ => rng.below(frame.range().len()),
        };
    bytes(files, &name)[at] ^= 1 << rng.below(8);
    format!("{name} {at}, in {frame:?}")
}

fn header_bits(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let name = name(files, rng, ".log");
    let at = rng.below(64);
    bytes(files, &name)[at] ^= 1 << rng.below(8);
    format!("{name} {at}")
}

fn bits(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let mut what = String::new();
    for _ in 0..=rng.below(4) {
        let (name, at) = place(base, files, rng);
        bytes(files, &name)[at] ^= 1 << rng.below(8);
        write!(what, "{name} {at}; ").unwrap();
    }
    what
}

fn index(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (one, other) = (name(files, rng, ".idx"), name(files, rng, ".idx"));
    match rng.below(5) {
        0 => {
            files.remove(&one);
            format!("{one} gone")
        }
        1 => {
            let (a, b) = (files[&one].clone(), files[&other].clone());
            files.insert(one.clone(), b);
            files.insert(other.clone(), a);
            format!("{one} and {other} swapped")
        }
        2 => {
            let len = rng.below(files[&one].len());
            bytes(files, &one).truncate(len);
            format!("{one} cut to {len}")
        }
        3 => {
            let len = files[&one].len();
            let at = rng.below(len);
            bytes(files, &one)[at..].fill(0);
            format!("{one} zero from {at}")
        }
        _ => {
            let at = rng.below(files[&one].len().min(512));
            bytes(files, &one)[at] ^= 1 << rng.below(8);
            format!("{one} bit at {at}")
        }
    }
}

/// A run of whole sectors of a file.
fn sectors(base: &Base, files: &Files, rng: &mut Rng) -> (String, usize, usize) {
    let (name, at) = place(base, files, rng);
    let start = at / BLOCK * BLOCK;
    let len = (BLOCK << rng.below(4)).min(files[&name].len() - start);
    (name, start, len)
}

fn zero(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (name, start, len) = sectors(base, files, rng);
    bytes(files, &name)[start..start + len].fill(0);
    format!("{name} {start} +{len}")
}

fn zero_frame(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, name) = frame(base, rng);
    bytes(files, &name)[frame.range()].fill(0);
    format!("{name} {frame:?}")
}

fn zero_tail(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (frame, name) = frame(base, rng);
    bytes(files, &name)[frame.offset..].fill(0);
    format!("{name} {frame:?}")
}

fn garbage(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (name, start, len) = sectors(base, files, rng);
    bytes(files, &name)[start..start + len].fill_with(|| rng.next() as u8);
    format!("{name} {start} +{len}")
}

fn swap(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (one, here, a) = sectors(base, files, rng);
    let (other, there, b) = sectors(base, files, rng);
    let len = a.min(b);
    let first = files[&one][here..here + len].to_vec();
    let second = files[&other][there..there + len].to_vec();
    bytes(files, &one)[here..here + len].copy_from_slice(&second);
    bytes(files, &other)[there..there + len].copy_from_slice(&first);
    format!("{one} {here} and {other} {there} +{len}")
}

fn copy(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (from, here, a) = sectors(base, files, rng);
    let (to, there, b) = sectors(base, files, rng);
    let len = a.min(b);
    let source = files[&from][here..here + len].to_vec();
    bytes(files, &to)[there..there + len].copy_from_slice(&source);
    format!("{from} {here} to {to} {there} +{len}")
}

/// A misdirected write: a frame where another one is, or behind the last.
fn copy_frame(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let ((from, source), (to, target)) = (frame(base, rng), frame(base, rng));
    let frame = files[&source][from.range()].to_vec();
    let at = if rng.chance(30) { to.range().end } else { to.offset };
    let target_bytes = bytes(files, &target);
    let len = frame.len().min(target_bytes.len() - at);
    target_bytes[at..at + len].copy_from_slice(&frame[..len]);
    format!("{from:?} to {target} {at}")
}

/// A frame and one of those that vouch for it.
fn two_frames(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let place = base.frames.len() - 1 - rng.below(base.frames.len() - 1);
    let next = (place + 1 + rng.below(3)).min(base.frames.len() - 1);
    let mut what = String::new();
    for frame in [base.frames[place], base.frames[next]] {
        let at = frame.offset + rng.below(frame.range().len());
        bytes(files, &format!("{:020}.log", frame.sequence))[at] ^= 1 << rng.below(8);
        write!(what, "{at} in {frame:?}; ").unwrap();
    }
    what
}

fn shorten(base: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (name, at) = place(base, files, rng);
    let len = if rng.chance(50) { at / BLOCK * BLOCK } else { at };
    bytes(files, &name).truncate(len);
    format!("{name} to {len}")
}

fn lengthen(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let name = name(files, rng, "");
    let (more, byte) = (1 + rng.below(100_000), if rng.chance(50) { 0 } else { 0xa5 });
    let len = files[&name].len() + more;
    bytes(files, &name).resize(len, byte);
    format!("{name} by {more} of {byte}")
}

fn swap_files(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let (one, other) = (name(files, rng, ".log"), name(files, rng, ".log"));
    let (a, b) = (files[&one].clone(), files[&other].clone());
    files.insert(one.clone(), b);
    files.insert(other.clone(), a);
    format!("{one} and {other}")
}

fn other_number(files: &Files, rng: &mut Rng) -> u64 {
    let numbers: Vec<u64> = files.keys().filter_map(|name| sequence(name)).collect();
    let number = *rng.pick(&numbers);
    *rng.pick(&[number, number + 1, number + 1000, number.max(2) - 1, 1, u64::MAX, u64::MAX - 1])
}

fn rename(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let suffix = *rng.pick(&[".log", ".log", ".idx", ".spare"]);
    let from = name(files, rng, suffix);
    let to = format!("{:020}{suffix}", other_number(files, rng));
    let file = files.remove(&from).unwrap();
    files.insert(to.clone(), file);
    format!("{from} to {to}")
}

fn delete(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let mut what = String::new();
    for _ in 0..=rng.below(2) {
        let suffix = if rng.chance(70) { ".log" } else { "" };
        let name = name(files, rng, suffix);
        files.remove(&name);
        write!(what, "{name}; ").unwrap();
    }
    what
}

fn copy_file(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let from = name(files, rng, "");
    let suffix = *rng.pick(&[".log", ".idx", ".spare", ".log.new", ".spare.new"]);
    let to = format!("{:020}{suffix}", other_number(files, rng));
    files.insert(to.clone(), files[&from].clone());
    format!("{from} to {to}")
}

/// Names that look like the log's, and files of nobody's.
fn strangers(_: &Base, files: &mut Files, rng: &mut Rng) -> String {
    let number = other_number(files, rng);
    let name = match rng.below(7) {
        0 => format!("{number:020}.spare"),
        1 => format!("{number:020}.idx"),
        2 => format!("{number:020}.log.new"),
        3 => format!("{number:020}.LOG"),
        4 => format!("{number:021}.log"),
        5 => format!("99999999999999999999{}", rng.pick(&[".log", ".idx", ".spare"])),
        _ => "lost+found".into(),
    };
    let len = *rng.pick(&[0, 1, 64, 4096, 65_536]);
    files.insert(name.clone(), Arc::new((0..len).map(|_| rng.next() as u8).collect()));
    format!("{name} of {len}")
}
