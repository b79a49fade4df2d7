//! `tidelog append`.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tidelog::{Batch, Log, Lsn, Options, StreamId};
use tidelog_format::{FRAME_LEN_MAX, ROW_LEN, payload_room};

use crate::args::AppendArgs;
use crate::failure::{Failure, Verdict};
use crate::out::warn;

/// Bytes appended before their durability is waited for.
const WINDOW: u64 = 16 << 20;

/// Appends the lines of standard input.
pub(crate) fn append(args: &AppendArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let log = Log::open(&args.dir, Options::new().backend(args.backend.into()))?;
    let stream = StreamId::new(args.class, args.stream);
    let mut appender = Appender::new(&log, stream, args.batch);
    let result = appender.append_lines(BufReader::with_capacity(1 << 20, io::stdin().lock()));
    appender.bar.finish_and_clear();
    if result.is_err() {
        warn(&format!("{} entries are durable, those behind them may be", appender.durable));
    }
    result?;
    let (entries, bytes, took) = (appender.entries, appender.bytes, appender.begin.elapsed());
    log.close()?;
    let seconds = took.as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = bytes as f64 / 1e6 / seconds.max(1e-9);
    writeln!(out, "entries={entries} bytes={bytes} seconds={seconds:.3} mb_per_s={rate:.1}")
        .map_err(Failure::Output)?;
    Ok(Verdict::Clean)
}

struct Appender<'a> {
    log: &'a Log,
    stream: StreamId,
    next: Option<u64>,
    batch: Batch<Vec<u8>>,
    /// What the batch takes in the log.
    batch_room: u64,
    batch_max: u64,
    /// What is appended and not waited for yet.
    pending: Option<Lsn>,
    pending_bytes: u64,
    /// Entries appended, and those of them known to be durable.
    entries: u64,
    durable: u64,
    bytes: u64,
    begin: Instant,
    bar: ProgressBar,
}

impl<'a> Appender<'a> {
    fn new(log: &'a Log, stream: StreamId, batch_max: u64) -> Self {
        let last = log.stream(stream).and_then(|info| info.last.max(info.mark));
        Self {
            log,
            stream,
            next: last.map_or(Some(1), |last| last.checked_add(1)),
            batch: Batch::new(),
            batch_room: 0,
            batch_max,
            pending: None,
            pending_bytes: 0,
            entries: 0,
            durable: 0,
            bytes: 0,
            begin: Instant::now(),
            bar: progress(),
        }
    }

    fn append_lines<R: Read>(&mut self, mut input: BufReader<R>) -> Result<(), Failure> {
        while let Some(line) = read_line(&mut input).map_err(Failure::Input)? {
            self.add(line)?;
            // Whoever writes slowly shall not wait for a full batch.
            if input.buffer().is_empty() {
                self.submit()?;
            }
        }
        self.submit()?;
        self.settle()
    }

    fn add(&mut self, line: Vec<u8>) -> Result<(), Failure> {
        let room = payload_room(line.len() as u32) + ROW_LEN as u64;
        if self.batch_room + room > self.batch_max {
            self.submit()?;
        }
        let Some(id) = self.next else {
            return Err(Failure::Input(io::Error::other("the stream has used the highest id")));
        };
        self.bytes += line.len() as u64;
        self.batch.append(self.stream, id, line);
        self.batch_room += room;
        self.next = id.checked_add(1);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.pending = Some(self.log.append(&self.batch)?);
        self.entries += self.batch.len() as u64;
        self.pending_bytes += self.batch_room;
        self.batch.clear();
        self.batch_room = 0;
        self.bar.set_position(self.bytes);
        if self.pending_bytes >= WINDOW { self.settle() } else { Ok(()) }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if let Some(lsn) = self.pending.take() {
            self.log.wait_durable(lsn)?;
        }
        self.durable = self.entries;
        self.pending_bytes = 0;
        Ok(())
    }
}

/// The next line without its newline, of at most a frame's length.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let max = u64::from(FRAME_LEN_MAX);
    let mut line = Vec::new();
    if input.take(max).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 == max {
        return Err(io::Error::other(format!("a line is longer than {max} bytes")));
    }
    Ok(Some(line))
}

/// A spinner on standard error, if that is a terminal.
fn progress() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {bytes} {bytes_per_sec} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
