//! `tidelog bench` as a process, on data so small that the figures mean nothing.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{run, stdout};
use serde_json::Value;
use tempfile::TempDir;

const CASES: [&str; 10] =
    ["durable", "think", "batch", "staged", "wait", "replay", "scan", "replay-cold", "scan-cold", "reopen"];
const SMALL: [&str; 6] = ["--seconds", "0.05", "--segment", "1m", "--data", "1m"];

struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn args<'a>(dir: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
        [&["bench", dir.to_str().unwrap()], &SMALL[..], more].concat()
    }

    /// The output of a run that succeeds.
    fn bench(&self, more: &[&str]) -> String {
        stdout(&Self::args(&self.dir(), more))
    }

    fn refused(&self, more: &[&str]) -> (i32, String) {
        let output = run(&Self::args(&self.dir(), more), "");
        assert_eq!(output.stdout, "");
        (output.code, output.stderr)
    }
}

fn json(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(line: &Value, path: &str) -> f64 {
    line.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {line}"))
}

#[test]
fn the_table_has_every_case_and_the_page_is_well_formed() {
    let place = Place::new();
    let page = place.root.path().join("page.html");
    let output = place.bench(&[
        "--rounds",
        "2",
        "--threads",
        "1,3",
        "--payload",
        "100,5000",
        "--outstanding",
        "5",
        "--html",
        page.to_str().unwrap(),
    ]);
    for case in CASES {
        let of_case = |line: &&str| line.split([' ']).next() == Some(case) && line.contains("tidelog");
        let rows = output.lines().filter(of_case).count();
        let expected = match case {
            "replay" | "scan" | "replay-cold" | "scan-cold" | "reopen" => 1,
            "wait" => 2,
            _ => 4,
        };
        assert_eq!(rows, expected, "{case}:\n{output}");
    }
    assert!(!place.dir().exists(), "nothing is left");
    let page = fs::read_to_string(page).unwrap();
    let text = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let document = roxmltree::Document::parse(text).unwrap();
    let count = |name: &str| document.descendants().filter(|node| node.tag_name().name() == name).count();
    // Two plots for each of two payloads and two numbers of threads, and one over time for each setting that writes.
    assert_eq!(count("svg"), 8 + 18);
    assert_eq!(count("h2"), 4);
    assert!(count("circle") > 0 && count("td") > 0);
    for bad in ["NaN", "inf", "http://", "https://"] {
        assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(bad), "{bad}");
    }
}

#[test]
fn the_lines_are_objects_with_every_figure() {
    let place = Place::new();
    fs::create_dir(place.dir()).unwrap();
    let lines = json(&place.bench(&["--threads", "2", "--format", "jsonl", "--rounds", "3"]));
    let mut runners = BTreeMap::<&str, Vec<&str>>::new();
    for line in &lines {
        let of = |key: &str| line[key].as_str().unwrap();
        assert_eq!((line["schema_version"].as_u64(), of("type")), (Some(1), "bench"));
        runners.entry(of("case")).or_default().push(of("runner"));
        assert_eq!(line["rates"].as_array().unwrap().len(), 3);
        assert!(number(line, "/rate") > 0.0 && number(line, "/cpu_us") > 0.0, "{line}");
        let latency = |name: &str| number(line, &format!("/latency_ns/{name}"));
        assert!(0.0 < latency("p50") && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
        // Of a cold case most of the time is spent aside, at emptying the cache.
        let least = if of("case").ends_with("-cold") { 0.0 } else { 0.02 };
        assert!(number(line, "/seconds") > least && number(line, "/machine/cores") >= 1.0);
        let is_log = of("runner") == "tidelog";
        assert_eq!(
            line["rate_to_floor"].is_null(),
            of("runner") == "floor" || of("case") == "wait",
            "{line}"
        );
        let writes = !["replay", "scan", "replay-cold", "scan-cold", "reopen"].contains(&of("case"));
        assert_eq!(line["log"].is_object(), is_log && writes);
        if is_log && writes {
            assert!(number(line, "/frame_bytes_per_byte") > 1.0);
            assert!(number(line, "/log/payload_bytes") > 0.0);
            assert!(!line["timeline"].as_array().unwrap().is_empty());
        }
    }
    let two = vec!["tidelog", "floor"];
    for case in CASES {
        let expected = match case {
            "durable" => vec!["tidelog", "floor", "loop"],
            "wait" => vec!["tidelog", "loop", "tidelog", "loop"],
            _ => two.clone(),
        };
        assert_eq!(runners[case], expected, "{case}");
    }
    assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 0, "the directory was there, so it stays");
}

#[test]
fn segments_come_from_retired_files_unless_fresh_ones_are_asked_for() {
    let place = Place::new();
    let dir = place.dir();
    let batches = |more: &[&str]| {
        let args =
            ["bench", dir.to_str().unwrap(), "--cases", "batch", "--threads", "2", "--format", "jsonl"];
        let args = [&args, ["--segment", "1m", "--seconds", "1", "--rounds", "1"].as_slice(), more].concat();
        json(&stdout(&args)).remove(0)
    };
    let line = batches(&["--backend", "std"]);
    assert_eq!(line["log"]["backend"], "std");
    assert!(number(&line, "/log/rotations") > 0.0 && number(&line, "/log/recycled") > 0.0, "{line}");
    assert!(number(&line, "/rotation/commits") > 0.0, "{line}");
    assert!(number(&line, "/rotation/median_ns") <= number(&line, "/rotation/max_ns"));
    let fresh = batches(&["--fresh"]);
    assert_eq!(fresh["settings"]["fresh"], true);
    assert!(number(&fresh, "/log/recycled") < 1.0 && number(&fresh, "/log/prepared_bytes") > 0.0, "{fresh}");
}

#[test]
fn what_is_kept_is_a_sound_log() {
    let place = Place::new();
    place.bench(&["--keep", "--cases", "durable,scan", "--threads", "2", "--payload", "700"]);
    for log in ["log", "read"] {
        let output = stdout(&["verify", place.dir().join(log).to_str().unwrap()]);
        assert!(!output.contains("damage "), "{output}");
    }
    assert!(place.dir().join("floor").is_file());
}

#[test]
fn a_directory_in_use_is_refused_and_left_alone() {
    let place = Place::new();
    fs::create_dir(place.dir()).unwrap();
    fs::write(place.dir().join("log"), "mine").unwrap();
    let (code, message) = place.refused(&[]);
    assert_eq!(code, 3);
    assert!(message.contains("not empty"), "{message}");
    assert_eq!(fs::read_to_string(place.dir().join("log")).unwrap(), "mine");
    let file = place.root.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(run(&["bench", file.to_str().unwrap()], "").code, 3);
}

#[test]
fn a_page_that_cannot_be_written_is_told_before_anything_is_measured() {
    let place = Place::new();
    let nowhere = place.root.path().join("no/page.html");
    let (code, message) = place.refused(&["--html", nowhere.to_str().unwrap()]);
    assert_eq!(code, 3);
    assert!(message.contains("page.html"), "{message}");
    assert!(!place.dir().exists());
}

#[test]
fn bad_numbers_are_wrong_usage() {
    let place = Place::new();
    for args in [
        ["--seconds", "0"],
        ["--seconds", "nan"],
        ["--rounds", "0"],
        ["--threads", "1,0"],
        ["--threads", "2000"],
        ["--payload", "0"],
        ["--payload", "1x"],
        ["--payload", "2m"],
        ["--outstanding", "0"],
        ["--think", "0"],
        ["--data", "1k"],
        ["--cases", "none"],
        ["--format", "xml"],
    ] {
        let output = run(&["bench", place.dir().to_str().unwrap(), args[0], args[1]], "");
        assert_eq!(output.code, 2, "{args:?}: {output:?}");
        assert!(output.stderr.contains(args[0]), "{output:?}");
    }
    assert!(!place.dir().exists());
}
