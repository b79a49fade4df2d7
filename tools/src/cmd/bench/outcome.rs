//! What a case came to: figures over all rounds, and how they compare.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::plan::{Runner, Setting};
use super::subject::Counted;
use super::timeline::{BUCKET, Bucket};
use super::window::{Window, histogram, merge};

/// What a runner did in a round.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) window: Window,
    /// Of the log.
    pub(crate) counted: Option<Counted>,
    /// Where segments begin that the log went on to.
    pub(crate) rotations: Vec<u64>,
}

impl From<Window> for Turn {
    fn from(window: Window) -> Self {
        Self { window, counted: None, rotations: Vec::new() }
    }
}

/// A runner's figures under a setting.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) runner: Runner,
    /// Records a second, by round.
    pub(crate) rates: Vec<f64>,
    pub(crate) took: Duration,
    pub(crate) records: u64,
    pub(crate) latency: Histogram<u64>,
    /// The rounds one behind the other.
    pub(crate) timeline: Vec<Bucket>,
    pub(crate) cpu: Duration,
    pub(crate) device_bytes: Option<u64>,
    pub(crate) counted: Option<Counted>,
    pub(crate) rotations: Spans,
    /// The way that writes go.
    pub(crate) backend: String,
}

/// The commits that were the first ones of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) commits: u64,
    /// Nanoseconds of each append that rode in one.
    latency: Vec<u64>,
}

impl Spans {
    /// `bases`: where segments begin; `commits`: each append's frame, and its nanoseconds.
    fn find(mut bases: Vec<u64>, commits: &[(u64, u64)]) -> Self {
        bases.sort_unstable();
        let mut firsts: Vec<(u64, Vec<u64>)> = vec![(u64::MAX, Vec::new()); bases.len()];
        for (frame, nanos) in commits {
            let Some(segment) = bases.partition_point(|base| base <= frame).checked_sub(1) else { continue };
            let (first, latency) = &mut firsts[segment];
            if frame < first {
                *first = *frame;
                latency.clear();
            }
            if frame == first {
                latency.push(*nanos);
            }
        }
        let commits = firsts.iter().filter(|(_, latency)| !latency.is_empty()).count() as u64;
        Self { commits, latency: firsts.into_iter().flat_map(|(_, latency)| latency).collect() }
    }

    fn add(&mut self, more: Self) {
        self.commits += more.commits;
        self.latency.extend(more.latency);
    }

    /// Median and worst, where there were any.
    pub(crate) fn latency(&self) -> Option<(u64, u64)> {
        let mut sorted = self.latency.clone();
        sorted.sort_unstable();
        Some((*sorted.get(sorted.len() / 2)?, *sorted.last()?))
    }
}

impl Outcome {
    pub(crate) fn new(runner: Runner, backend: String) -> Self {
        Self {
            runner,
            rates: Vec::new(),
            took: Duration::ZERO,
            records: 0,
            latency: histogram(),
            timeline: Vec::new(),
            cpu: Duration::ZERO,
            device_bytes: None,
            counted: None,
            rotations: Spans::default(),
            backend,
        }
    }

    pub(crate) fn add(&mut self, turn: Turn) {
        let Turn { window, counted, rotations } = turn;
        self.rates.push(window.rate());
        let behind = self.timeline.last().map_or(Duration::ZERO, |bucket| bucket.at + BUCKET);
        self.timeline
            .extend(window.timeline.iter().map(|bucket| Bucket { at: bucket.at + behind, ..*bucket }));
        self.took += window.took;
        self.records += window.records;
        merge(&mut self.latency, &window.latency);
        self.cpu += window.cpu;
        self.device_bytes = match (self.device_bytes, window.device_bytes) {
            (None, bytes) => bytes,
            (Some(sum), bytes) => bytes.map(|bytes| sum + bytes),
        };
        if let Some(counted) = counted {
            self.backend.clone_from(&counted.backend);
            self.counted.get_or_insert_default().add(counted);
        }
        self.rotations.add(Spans::find(rotations, &window.commits));
    }

    /// Records a second: the median of the rounds.
    pub(crate) fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    /// From the slowest round to the fastest, in parts of the median.
    pub(crate) fn spread(&self) -> f64 {
        let (low, high) = self
            .rates
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        ratio(high - low, self.rate())
    }

    /// Nanoseconds at a quantile of the calls.
    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        self.latency.value_at_quantile(quantile).min(self.latency.max())
    }

    /// Microseconds of processor time a record.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn cpu_micros(&self) -> f64 {
        ratio(self.cpu.as_secs_f64() * 1e6, self.records as f64)
    }

    /// Bytes that went to the device for each payload byte.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn device_share(&self, setting: &Setting) -> Option<f64> {
        let payload = (self.records * setting.payload) as f64;
        self.device_bytes.filter(|_| setting.writes() && payload > 0.0).map(|bytes| bytes as f64 / payload)
    }

    /// Bytes of frames for each payload byte, what prepares segments apart.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn frame_share(&self) -> Option<f64> {
        let counted = self.counted.as_ref().filter(|counted| counted.payload_bytes > 0)?;
        Some(counted.frame_bytes as f64 / counted.payload_bytes as f64)
    }
}

/// A setting's figures, the log's first.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) setting: Setting,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Measured {
    pub(crate) fn of(&self, runner: Runner) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.runner == runner)
    }

    /// The rate of an outcome in parts of another runner's: the median of the rounds, each by itself.
    pub(crate) fn rate_to(&self, outcome: &Outcome, runner: Runner) -> Option<f64> {
        let other = self.of(runner).filter(|other| other.runner != outcome.runner)?;
        Some(median(outcome.rates.iter().zip(&other.rates).map(|(own, other)| ratio(*own, *other)).collect()))
    }

    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn p99_to_floor(&self, outcome: &Outcome) -> Option<f64> {
        let floor = self.of(Runner::Floor).filter(|floor| floor.runner != outcome.runner)?;
        Some(ratio(outcome.quantile(0.99) as f64, floor.quantile(0.99) as f64))
    }

    pub(crate) fn cpu_to_floor(&self, outcome: &Outcome) -> Option<f64> {
        let floor = self.of(Runner::Floor).filter(|floor| floor.runner != outcome.runner)?;
        Some(ratio(outcome.cpu_micros(), floor.cpu_micros()))
    }
}

/// 0 of nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let of = |values: &[f64]| median(values.to_vec());
        assert!((of(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((of(&[4.0, 1.0, 2.0, 100.0]) - 3.0).abs() < f64::EPSILON);
        assert!(of(&[]).abs() < f64::EPSILON && ratio(1.0, 0.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_first_commit_behind_each_base_spans_a_rotation() {
        let commits =
            [(150, 9), (90, 1), (104, 5), (120, 2), (104, 7), (108, 3), (260, 40), (250, 50), (10, 4)];
        let spans = Spans::find(vec![200, 100, 300], &commits);
        assert_eq!(spans, Spans { commits: 2, latency: vec![5, 7, 50] });
        assert_eq!(spans.latency(), Some((7, 50)));
        assert_eq!(Spans::find(Vec::new(), &commits).latency(), None);
    }
}
