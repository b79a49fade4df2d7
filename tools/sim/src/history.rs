//! What is done to a log, step by step.

use fastrand::Rng;

/// What a history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Theme {
    /// Power cuts, also in recovery.
    Power,
    /// The same, and deaths of the process alone.
    Kill,
    /// The same, with writes, flushes and reads that fail.
    Faults,
    /// The same, with writes through the page cache.
    CachedFaults,
    /// Power cuts on a disk that is full now and then.
    Full,
    /// Damage to a log that was closed.
    Damage,
    /// A disk that loses writes, misdirects them, or damages what it holds.
    Lies,
}

impl Theme {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Power, Self::Kill, Self::Faults, Self::CachedFaults, Self::Full, Self::Damage, Self::Lies];

    /// Its name, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Kill => "kill",
            Self::Faults => "faults",
            Self::CachedFaults => "cached-faults",
            Self::Full => "full",
            Self::Damage => "damage",
            Self::Lies => "lies",
        }
    }

    pub(crate) fn is_direct(self, setup: &mut Rng) -> bool {
        match self {
            Self::CachedFaults => false,
            Self::Faults => true,
            _ => setup.u8(..4) > 0,
        }
    }

    pub(crate) fn has_faults(self) -> bool {
        matches!(self, Self::Faults | Self::CachedFaults)
    }

    pub(crate) fn kills(self) -> bool {
        self.has_faults() || self == Self::Kill
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A batch is staged.
    Append,
    /// Somebody of the pipeline has a turn.
    Turn,
    /// An id that was taken is tried again.
    Repeat,
    /// Time passes, or somebody asks for what was staged to become durable.
    Wait,
    /// Everything staged is let go.
    DropAll,
    /// All come to rest.
    Settle,
    /// The live log is read.
    Read,
    /// A fault is to come.
    Fault,
    /// The log is closed and opened again.
    Reopen,
    /// The power is cut: now, or at an earlier moment of this life.
    PowerCut,
    /// The process dies.
    Kill,
    /// Copies of the disk are damaged.
    Damage,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Append,
        Self::Turn,
        Self::Repeat,
        Self::Wait,
        Self::DropAll,
        Self::Settle,
        Self::Read,
        Self::Fault,
        Self::Reopen,
        Self::PowerCut,
        Self::Kill,
        Self::Damage,
    ];
}

/// A step with the seed of all that is left open in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub kind: Kind,
    /// Of its choices.
    pub seed: u64,
}

/// What is done to one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What it is about.
    pub theme: Theme,
    /// What all of it was drawn from.
    pub seed: u64,
    /// Of the options and the disk.
    pub setup: u64,
    /// In order; the log is opened before the first.
    pub steps: Vec<Step>,
}

impl History {
    /// The history of a seed.
    pub fn draw(theme: Theme, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let setup = rng.u64(..);
        let mut steps = Vec::new();
        for _ in 0..4 {
            for _ in 0..rng.usize(40..250) {
                let kind = Self::kind(theme, &mut rng);
                steps.push(Step { kind, seed: rng.u64(..) });
            }
            let end = match theme {
                Theme::Damage | Theme::Lies if rng.bool() => Kind::Damage,
                _ if theme.kills() && rng.bool() => Kind::Kill,
                _ => Kind::PowerCut,
            };
            steps.push(Step { kind: end, seed: rng.u64(..) });
        }
        Self { theme, seed, setup, steps }
    }

    fn kind(theme: Theme, rng: &mut Rng) -> Kind {
        match rng.u16(..400) {
            0..160 => Kind::Append,
            340..350 => Kind::Repeat,
            350..380 => Kind::Wait,
            380..384 => Kind::Settle,
            384 if theme == Theme::Full => Kind::DropAll,
            385..389 => Kind::Read,
            389..396 if theme.has_faults() || theme == Theme::Lies => Kind::Fault,
            396 => Kind::Reopen,
            _ => Kind::Turn,
        }
    }
}
