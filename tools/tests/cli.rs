//! The tool as a process: what it prints, how it exits, and that looking changes nothing.

mod common;

use std::fs;

use common::{Home, Output, run, stdout};

const LINES: &str = "first\nsecond line\n\nfourth \u{1b}[31mred\u{9b}\u{202e}\nlast";

/// Two streams, written by three openings.
fn filled() -> Home {
    let home = Home::new();
    for (stream, lines) in [("7", LINES), ("8", "a\nb\n"), ("7", "later\n")] {
        let output = run(&["append", home.path(), "--stream", stream, "--backend", "std"], lines);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.stdout.starts_with("entries="), "{output:?}");
        assert_eq!(output.stderr, "", "no progress bar without a terminal");
    }
    home
}

fn entries(output: &str) -> Vec<&str> {
    output.lines().filter(|line| line.contains(" kind=entry ")).collect()
}

#[test]
fn what_was_appended_is_dumped_with_ids_that_go_on() {
    let home = filled();
    let output = stdout(&["dump", home.path(), "--stream", "7"]);
    let lines = entries(&output);
    let expected = [
        "\"first\"",
        "\"second line\"",
        "\"\"",
        r#""fourth \u{1b}[31mred\u{9b}\u{202e}""#,
        "\"last\"",
        "\"later\"",
    ];
    assert_eq!(lines.len(), expected.len());
    for (index, (line, payload)) in lines.iter().zip(expected).enumerate() {
        assert!(line.starts_with("record lsn="), "{line}");
        assert!(line.contains(&format!(" stream=1/7 kind=entry id={} ", index + 1)), "{line}");
        assert!(line.ends_with(&format!(" payload={payload}")), "{line}");
    }
    assert!(!output.contains(['\u{1b}', '\u{9b}', '\u{202e}']));
}

#[test]
fn filters_choose_records() {
    let home = filled();
    let ids = |args: &[&str]| {
        let output = stdout(&[&["dump", home.path()], args].concat());
        let id = |line: &str| line.split(" id=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        output.lines().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--stream", "7", "--from", "2", "--to", "3"]), ["2", "3"]);
    assert_eq!(ids(&["--stream", "8"]), ["1", "2"]);
    assert_eq!(ids(&["--segment", "2", "--kind", "entry"]), ["1", "2"]);
    assert_eq!(ids(&["--kind", "entry", "--limit", "4"]), ["1", "2", "3", "4"]);
    assert_eq!(ids(&["--class", "2"]), [""; 0]);
    assert_eq!(ids(&["--kind", "checkpoint"]).len(), 3);
}

#[test]
fn payloads_take_the_form_asked_for() {
    let home = filled();
    let payload = |args: &[&str]| {
        let output = stdout(&[&["dump", home.path(), "--stream", "7", "--limit", "1"], args].concat());
        output.trim_end().split_once(" payload=").map(|(_, payload)| payload.to_owned())
    };
    assert_eq!(payload(&["--payload", "hex"]).unwrap(), "6669727374");
    assert_eq!(payload(&["--payload", "base64"]).unwrap(), "Zmlyc3Q=");
    assert_eq!(payload(&["--max-payload", "2"]).unwrap(), "\"fi\" cut=3");
    assert_eq!(payload(&["--payload", "len"]), None);
    assert_eq!(payload(&["--payload", "none"]), None);
}

#[test]
fn json_lines_follow_their_schema() {
    let home = filled();
    let output = stdout(&["dump", home.path(), "--format", "jsonl", "--kind", "entry"]);
    assert!(!output.contains(['\u{1b}', '\u{9b}', '\u{202e}']));
    let values: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 8);
    assert!(values.iter().all(|value| value["schema_version"] == 1 && value["type"] == "record"));
    assert_eq!(values[3]["payload"], "fourth \u{1b}[31mred\u{9b}\u{202e}");
    assert_eq!(values[3]["id"], "4");
    assert_eq!(values[3]["stream"], serde_json::json!({ "class": 1, "id": "7" }));
}

#[test]
fn damage_is_named_and_hides_nothing_else() {
    let home = filled();
    let file = home.segment(1);
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.windows(11).position(|window| window == b"second line").unwrap();
    // Sixteen bytes: the payload and what pads it.
    bytes[place..place + 16].fill(b'#');
    fs::write(&file, &bytes).unwrap();

    let output = run(&["verify", home.path()], "");
    assert_eq!(output.code, 1, "{output:?}");
    let line = output.stdout.lines().find(|line| line.starts_with("damaged ")).unwrap();
    for part in [
        "id=2",
        "stream=1/7",
        &format!("file={file:?}"),
        &format!("offset={place}"),
        "expected=0x",
        "actual=0x",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(output.stdout.lines().last().unwrap().contains(" damage=1 torn=0 "));

    let output = run(&["dump", home.path(), "--kind", "entry"], "");
    assert_eq!(output.code, 1);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 8);
    assert!(lines[1].starts_with("damaged ") && lines[1].contains(" id=2 "), "{}", lines[1]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("record ")).count(), 7);
    let output = run(&["dump", home.path(), "--format", "jsonl", "--from", "2", "--to", "2"], "");
    let damaged = output.stdout.lines().next().unwrap();
    let damaged: serde_json::Value = serde_json::from_str(damaged).unwrap();
    assert_eq!((&damaged["type"], &damaged["offset"]), (&"damaged".into(), &place.to_string().into()));
}

#[test]
fn a_damaged_frame_is_told_and_a_torn_tail_allowed() {
    let home = filled();
    let file = home.segment(1);
    let mut bytes = fs::read(&file).unwrap();
    bytes[8192] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let output = run(&["verify", home.path()], "");
    assert_eq!(output.code, 1);
    assert!(output.stdout.starts_with(&format!("damage file={file:?} offset=8192 ")), "{output:?}");
    assert_eq!(entries(&run(&["dump", home.path()], "").stdout).len(), 3);
    assert_eq!(run(&["stat", home.path()], "").code, 1);

    let home = filled();
    let file = home.segment(3);
    let mut bytes = fs::read(&file).unwrap();
    let used = 1 + bytes.chunks(4096).rposition(|block| block.iter().any(|&byte| byte != 0)).unwrap();
    bytes[used * 4096..][..100].fill(0xee);
    fs::write(&file, &bytes).unwrap();
    let output = run(&["verify", home.path()], "");
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.starts_with(&format!("torn file={file:?} offset={} ", used * 4096)));
}

#[test]
fn sums_add_up() {
    let home = filled();
    let value: serde_json::Value =
        serde_json::from_str(&stdout(&["stat", home.path(), "--format", "json"])).unwrap();
    let number = |value: &serde_json::Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let sum = |list: &str, key: &str| {
        value[list].as_array().unwrap().iter().map(|item| number(&item[key])).sum::<u64>()
    };
    let totals = &value["totals"];
    for (key, lists) in [
        ("entries", &["segments", "streams"][..]),
        ("payload_bytes", &["segments", "streams"]),
        ("records", &["segments"]),
    ] {
        for list in lists {
            assert_eq!(sum(list, key), number(&totals[key]), "{key} of {list}");
        }
    }
    assert_eq!(number(&totals["entries"]), 8);
    let payload = LINES.replace('\n', "").len() + "ab".len() + "later".len();
    assert_eq!(number(&totals["payload_bytes"]), payload as u64);
    let files: u64 = (1..=3).map(|n| fs::metadata(home.segment(n)).unwrap().len()).sum();
    assert_eq!(number(&totals["file_bytes"]), files);
    assert_eq!(sum("segments", "size"), files);
    assert_eq!(sum("segments", "used"), number(&totals["used_bytes"]));
    assert_eq!(value["streams"][0]["last"], "6");

    let text = stdout(&["stat", home.path()]);
    assert!(text.contains(&format!("payload_bytes={payload} ")), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().take(3).eq(["1/7", "6", "6"])), "{text}");
}

#[test]
fn looking_changes_nothing() {
    let home = filled();
    let before = home.contents();
    for command in ["dump", "stat", "verify"] {
        stdout(&[command, home.path()]);
        assert_eq!(home.contents(), before, "{command}");
    }
}

#[test]
fn exit_codes_tell_usage_and_input_errors_apart() {
    for args in [
        &["dump"][..],
        &["nothing"],
        &["append", "/tmp/x"],
        &["append", "/tmp/x", "--stream", "1", "--class", "0"],
    ] {
        let Output { code, stderr, .. } = run(args, "");
        assert_eq!(code, 2, "{args:?}");
        assert!(stderr.contains("Usage") || stderr.contains("--help"), "{stderr}");
    }
    let home = Home::new();
    for command in ["dump", "stat", "verify"] {
        let output = run(&[command, home.path()], "");
        assert_eq!(output.code, 3, "{output:?}");
        assert!(output.stderr.starts_with("tidelog: open "), "{output:?}");
    }
    fs::create_dir(home.path()).unwrap();
    let output = run(&["verify", home.path()], "");
    assert_eq!((output.code, output.stdout.as_str()), (3, ""));
    assert_eq!(run(&["--version"], "").code, 0);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let home = Home::new();
    let lines = "x".repeat(200) + "\n";
    assert_eq!(run(&["append", home.path(), "--stream", "1"], &lines.repeat(2000)).code, 0);
    let (code, stderr) = common::run_closed(&["dump", home.path()]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}
