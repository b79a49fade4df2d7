//! A measured window: callers that go on until it ends, and what each of their calls took.

use std::fs;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use super::timeline::{Bucket, Current, Timeline};
use crate::failure::Failure;

/// What a window gave.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) took: Duration,
    pub(crate) records: u64,
    /// Nanoseconds of each call.
    pub(crate) latency: Histogram<u64>,
    pub(crate) timeline: Vec<Bucket>,
    /// Each call's frame and nanoseconds, where the caller tells.
    pub(crate) commits: Vec<(u64, u64)>,
    /// Processor time of the whole process.
    pub(crate) cpu: Duration,
    /// Bytes that the process had written to the device, where the kernel tells.
    pub(crate) device_bytes: Option<u64>,
    /// What a caller did aside: how long, and its processor time.
    aside: (Duration, Duration),
}

/// Lets each caller work on a thread of its own for so long; the window ends when the last one is back.
pub(crate) fn measure<T: Send>(
    callers: &mut [T],
    length: Duration,
    work: impl Fn(&mut T, &mut Meter<'_>) -> Result<(), Failure> + Sync,
) -> Result<Window, Failure> {
    let (gate, stop, timeline) = (Barrier::new(callers.len() + 1), AtomicBool::new(false), Timeline::new());
    let run = |caller: &mut T| {
        let mut meter = Meter::new(&stop, &timeline);
        gate.wait();
        meter.begin = Instant::now();
        let outcome = work(caller, &mut meter);
        meter.time.finish(&timeline);
        outcome.map(|()| meter)
    };
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = callers.iter_mut().map(|caller| scope.spawn(move || run(caller))).collect();
        let (cpu, written) = (cpu_time(), device_bytes());
        gate.wait();
        let begin = Instant::now();
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        let mut window = Window::empty();
        let mut meters = Vec::with_capacity(threads.len());
        for thread in threads {
            meters.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        window.took = begin.elapsed();
        window.cpu = cpu_time().saturating_sub(cpu);
        window.device_bytes = device_bytes().zip(written).map(|(after, before)| after - before);
        for meter in meters {
            window.add(meter?);
        }
        window.took = window.took.saturating_sub(window.aside.0);
        window.cpu = window.cpu.saturating_sub(window.aside.1);
        window.timeline = timeline.buckets();
        Ok(window)
    })
}

impl Window {
    fn empty() -> Self {
        Self {
            took: Duration::ZERO,
            records: 0,
            latency: histogram(),
            timeline: Vec::new(),
            commits: Vec::new(),
            cpu: Duration::ZERO,
            device_bytes: None,
            aside: (Duration::ZERO, Duration::ZERO),
        }
    }

    fn add(&mut self, meter: Meter<'_>) {
        self.records += meter.records;
        merge(&mut self.latency, &meter.latency);
        self.commits.extend(meter.commits);
        self.aside.0 += meter.aside.0;
        self.aside.1 += meter.aside.1;
    }

    /// Records a second.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn rate(&self) -> f64 {
        self.records as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// What one caller notes.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    stop: &'a AtomicBool,
    timeline: &'a Timeline,
    begin: Instant,
    time: Current,
    latency: Histogram<u64>,
    records: u64,
    commits: Vec<(u64, u64)>,
    aside: (Duration, Duration),
}

impl<'a> Meter<'a> {
    fn new(stop: &'a AtomicBool, timeline: &'a Timeline) -> Self {
        Self {
            stop,
            timeline,
            begin: Instant::now(),
            time: Current::default(),
            latency: histogram(),
            records: 0,
            commits: Vec::new(),
            aside: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Does something that the window's figures leave out. For the only caller of a window.
    pub(crate) fn aside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (begun, cpu) = (Instant::now(), cpu_time());
        let done = work();
        self.aside.0 += begun.elapsed();
        self.aside.1 += cpu_time().saturating_sub(cpu);
        done
    }

    /// Whether the window goes on.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Notes so many calls that began then and have ended now, and gives their nanoseconds.
    pub(crate) fn note(&mut self, begun: Instant, calls: u64, records: u64) -> u64 {
        let now = Instant::now();
        let nanos = u64::try_from((now - begun).as_nanos()).unwrap_or(u64::MAX);
        self.records += records;
        // A histogram that resizes itself takes any value.
        let _ = self.latency.record_n(nanos, calls);
        self.time.note(self.timeline, now - self.begin, nanos, calls);
        nanos
    }

    /// Notes a call, and the frame that carries what it appended.
    pub(crate) fn note_commit(&mut self, begun: Instant, records: u64, frame: u64) {
        let nanos = self.note(begun, 1, records);
        self.commits.push((frame, nanos));
    }
}

/// Three significant digits, any value.
pub(crate) fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1 << 30, 3).expect("the bounds are valid");
    histogram.auto(true);
    histogram
}

/// Adds to a histogram that resizes itself, which cannot fail.
pub(crate) fn merge(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    let _ = into.add(from);
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn device_bytes() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_calls_of_all_callers() {
        let mut callers = [0_u64; 3];
        let window = measure(&mut callers, Duration::from_millis(5), |calls, meter| {
            while meter.goes_on() || *calls == 0 {
                let begun = Instant::now();
                thread::sleep(Duration::from_micros(100));
                *calls += 1;
                meter.note_commit(begun, 2, *calls);
            }
            Ok(())
        })
        .unwrap();
        let calls: u64 = callers.iter().sum();
        assert_eq!((window.latency.len(), window.records), (calls, 2 * calls));
        assert_eq!(window.commits.len() as u64, calls);
        assert!(window.latency.min() >= 99_000 && window.rate() > 0.0);
        assert!(!window.timeline.is_empty());
    }

    #[test]
    fn a_failure_of_a_caller_is_that_of_the_window() {
        let failed = measure(&mut [0, 1], Duration::from_millis(1), |caller, _| match *caller {
            0 => Ok(()),
            _ => Err(Failure::Input(std::io::Error::other("no"))),
        });
        assert!(matches!(failed, Err(Failure::Input(_))));
    }
}
