//! `tidelog bench`: the log and what the device gives without a log, in turns.

mod bare;
mod dataset;
mod html;
mod jsonl;
mod machine;
mod outcome;
mod place;
mod plan;
mod plot;
mod plots;
mod readers;
mod subject;
mod table;
mod timeline;
mod window;
mod writers;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use self::bare::{Bare, Loop};
use self::dataset::Dataset;
use self::machine::Machine;
use self::outcome::{Measured, Outcome, Turn};
use self::place::Place;
use self::plan::{Runner, Setting};
use self::readers::Readers;
use self::subject::Subject;
use self::writers::Writers;
use crate::args::{BenchArgs, BenchFormat};
use crate::bare::Device;
use crate::failure::{Failure, Verdict};
use crate::out::json;

const LOG: &str = "log";
const FLOOR: &str = "floor";
const READ: &str = "read";
/// What a run puts into its directory.
const DATA: [&str; 3] = [LOG, FLOOR, READ];

/// Measures.
pub(crate) fn bench(args: &BenchArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let place = Place::new(&args.dir, args.keep)?;
    // Before anything is measured, for a file that cannot be made.
    let page = match &args.html {
        Some(path) => Some((path, File::create(path).map_err(Failure::of_file(path))?)),
        None => None,
    };
    let machine = Machine::here(place.path());
    let (writes, reads): (Vec<_>, Vec<_>) = plan::settings(args).into_iter().partition(Setting::writes);
    let turns: usize = writes.iter().chain(&reads).map(|setting| setting.runners().len()).sum();
    let bar = progress(turns as u64 * u64::from(args.rounds));
    let mut bench = Bench { args, out, place: &place, machine: &machine, bar, done: Vec::new() };
    let begin = Instant::now();
    bench.write(&writes)?;
    bench.read(&reads)?;
    bench.bar.finish_and_clear();
    let Bench { done, out, .. } = bench;
    let took = begin.elapsed();
    if let BenchFormat::Table = args.format {
        table::print(out, args, &machine, &done, took).map_err(Failure::Output)?;
    }
    if let Some((path, mut file)) = page {
        let page = html::page(args, &machine, &done, took);
        file.write_all(page.as_bytes()).map_err(Failure::of_file(path))?;
    }
    Ok(Verdict::Clean)
}

struct Bench<'a> {
    args: &'a BenchArgs,
    out: &'a mut dyn Write,
    place: &'a Place,
    machine: &'a Machine,
    bar: ProgressBar,
    done: Vec<Measured>,
}

/// What takes its turn.
enum Work<'a> {
    Log(Writers),
    Bare(Bare),
    Loop(Loop),
    Read(Readers<'a>),
}

impl Work<'_> {
    fn turn(&mut self, subject: Option<&Subject>, length: Duration) -> Result<Turn, Failure> {
        match (self, subject) {
            (Self::Log(writers), Some(subject)) => writers.window(subject, length),
            (Self::Log(_), None) => unreachable!("those who write have a log"),
            (Self::Bare(bare), _) => bare.window(length).map(Turn::from),
            // Its figures vary least.
            (Self::Loop(packed), _) => packed.window(length / 2).map(Turn::from),
            (Self::Read(readers), _) => readers.window(length).map(Turn::from),
        }
    }
}

impl Bench<'_> {
    fn write(&mut self, settings: &[Setting]) -> Result<(), Failure> {
        let Some(room) = settings.iter().map(Setting::room).max() else { return Ok(()) };
        self.bar.set_message("preparing");
        let path = self.place.join(FLOOR);
        let bytes = self.args.segment.max(4 * room as u64);
        let device = Arc::new(Device::prepare(&path, bytes).map_err(Failure::of_file(&path))?);
        let mut subject = Subject::open(&self.place.join(LOG), self.args)?;
        for setting in settings {
            let writers = Writers::new(&mut subject, setting);
            let streams: Vec<_> = writers.streams().collect();
            let mut works = vec![(Outcome::new(Runner::Log, String::new()), Work::Log(writers))];
            for runner in &setting.runners()[1..] {
                let (work, backend) = if *runner == Runner::Loop {
                    (Work::Loop(Loop::new(&device, setting)), device.way(None))
                } else {
                    let bare = Bare::new(&device, setting, self.args.seconds / 40)?;
                    let backend = device.way(bare.depth());
                    (Work::Bare(bare), backend)
                };
                works.push((Outcome::new(*runner, backend), work));
            }
            self.run(setting, works, Some(&subject))?;
            subject.release(streams)?;
        }
        subject.log.close()?;
        drop(device);
        self.place.clear(LOG)?;
        self.place.clear(FLOOR)
    }

    fn read(&mut self, settings: &[Setting]) -> Result<(), Failure> {
        if settings.is_empty() {
            return Ok(());
        }
        self.bar.set_message("writing what is read");
        let data = Dataset::write(&self.place.join(READ), self.args)?;
        for setting in settings {
            data.warm()?;
            let mut works = Vec::new();
            for runner in setting.runners() {
                let readers = Readers::new(&data, setting.case, *runner);
                works.push((Outcome::new(*runner, readers.way()), Work::Read(readers)));
            }
            self.run(setting, works, None)?;
        }
        self.place.clear(READ)
    }

    /// Each runner once to warm up, then in turns.
    fn run(
        &mut self,
        setting: &Setting,
        mut works: Vec<(Outcome, Work<'_>)>,
        subject: Option<&Subject>,
    ) -> Result<(), Failure> {
        self.bar.set_message(table::label(setting));
        for (_, work) in &mut works {
            work.turn(subject, self.args.seconds / 20)?;
        }
        for _ in 0..self.args.rounds {
            for (outcome, work) in &mut works {
                outcome.add(work.turn(subject, self.args.seconds / self.args.rounds)?);
                self.bar.inc(1);
            }
        }
        let outcomes = works.into_iter().map(|(outcome, _)| outcome).collect();
        let measured = Measured { setting: setting.clone(), outcomes };
        if let BenchFormat::Jsonl = self.args.format {
            for value in jsonl::lines(self.args, self.machine, &measured) {
                json::line(self.out, &value).map_err(Failure::Output)?;
            }
        }
        self.done.push(measured);
        Ok(())
    }
}

/// A bar on standard error, if that is a terminal.
fn progress(turns: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(turns);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
