//! Who flushes, as the kernel sees it.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result};

use crate::args::Args;
use crate::case::{Case, Job};
use crate::child::Place;
use crate::report::{number, plain, right};

/// What a window is marked with: looking these names up is what shows in the trace.
const BEGIN: &str = "/tidelog-peers/window-begins";
const END: &str = "/tidelog-peers/window-ends";
const CALLS: &str = "trace=openat,statx,fsync,fdatasync,sync_file_range,msync,write,writev,pwrite64,pwritev,pwritev2,\
                     io_uring_enter";

const COLUMNS: [&str; 6] = [
    "fsync, fdatasync",
    "pwritev2 DSYNC",
    "writes, O_SYNC file",
    "msync",
    "sync_file_range",
    "ring submissions",
];

pub(crate) fn mark(begins: bool) {
    let _ = fs::metadata(if begins { BEGIN } else { END });
}

pub(crate) fn run(args: &Args, place: &Place) -> Result<()> {
    let threads = if args.threads.is_empty() { vec![1, 16] } else { args.threads.clone() };
    let mut header = vec!["", "who", "records"];
    header.extend(COLUMNS);
    let mut table = plain(args.format, &header);
    for threads in threads {
        for kind in args.kinds() {
            let job = Job { kind, threads, seconds: args.seconds, ..Job::new(Case::W1, 0) };
            let (records, counts) = trace(&job, place)?;
            let mut row = vec![job.label(), kind.name().into(), number(Some(records))];
            row.extend(counts.map(|count| number(Some(count as f64 / records))));
            table.add_row(row);
        }
    }
    right(&mut table, 2);
    println!("### W1 under strace: calls for each acknowledged record\n\n{table}");
    Ok(())
}

fn trace(job: &Job, place: &Place) -> Result<(f64, [u64; COLUMNS.len()])> {
    let path = place.path().join("trace");
    let output = path.to_str().context("the path is not text")?;
    let data = place.fresh()?;
    eprintln!("{}, {}", job.label(), job.kind.name());
    let figures =
        place.run(job, &data, false, &["strace", "-f", "-qq", "-s", "64", "-e", CALLS, "-o", output])?;
    let records = *figures.get("records").context("no records")?;
    // Names and payloads can be any bytes.
    Ok((records, count(&String::from_utf8_lossy(&fs::read(&path)?))))
}

/// Calls of a window, by column. A call that another thread interrupts takes two lines, and the first has its name.
fn count(trace: &str) -> [u64; COLUMNS.len()] {
    let (mut counts, mut within) = ([0; COLUMNS.len()], false);
    let mut synced: HashMap<&str, bool> = HashMap::new();
    for line in trace.lines() {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let file = arguments.split([',', ')']).next().unwrap_or_default();
        match name {
            "statx" if call.contains("window-begins") => within = true,
            "statx" if call.contains("window-ends") => within = false,
            "openat" => {
                if let Some((_, opened)) = call.rsplit_once(" = ") {
                    let flags = call.contains("O_SYNC") || call.contains("O_DSYNC");
                    synced.insert(opened.split(' ').next().unwrap_or_default(), flags);
                }
            }
            _ if !within => {}
            "fsync" | "fdatasync" => counts[0] += 1,
            "pwritev2" if call.contains("RWF_DSYNC") || call.contains("RWF_SYNC") => counts[1] += 1,
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                counts[2] += u64::from(synced.get(file).copied().unwrap_or_default());
            }
            "msync" => counts[3] += 1,
            "sync_file_range" => counts[4] += 1,
            "io_uring_enter" => {
                let submitted = arguments.split(", ").nth(1).and_then(|count| count.parse::<u64>().ok());
                counts[5] += submitted.unwrap_or_default();
            }
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_within_the_window_count() {
        let trace = "\
7 openat(AT_FDCWD, \"\"..., O_RDWR|O_CREAT|O_SYNC, 0666) = 5
7 openat(AT_FDCWD, \"\"..., O_RDWR, 0666) = 6
7 fsync(5) = 0
7 statx(AT_FDCWD, \"/tidelog-peers/window-begins\", 0) = -1 ENOENT
8 fdatasync(6 <unfinished ...>
7 pwrite64(5, \"\"..., 10, 0) = 10
7 pwrite64(6, \"\"..., 10, 0) = 10
8 <... fdatasync resumed>) = 0
7 pwritev2(6, [{iov_base=\"\"..., iov_len=4096}], 1, 0, RWF_DSYNC) = 4096
7 io_uring_enter(9, 3, 0, 0, NULL, 8) = 3
7 statx(AT_FDCWD, \"/tidelog-peers/window-ends\", 0) = -1 ENOENT
7 fsync(5) = 0
";
        assert_eq!(count(trace), [1, 1, 1, 0, 0, 3]);
    }
}
