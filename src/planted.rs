//! Faults planted on purpose: each takes one rule of the engine away, so that a test of the crash
//! explorer shows that it would notice. Builds without the simulated disk have none of it.

macro_rules! faults {
    ($($name:ident: $text:literal,)*) => {
        /// A rule that the engine breaks while this is planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        #[cfg_attr(not(any(test, feature = "sim")), expect(unreachable_pub, dead_code))]
        pub enum Planted {
            $(#[doc = $text] $name,)*
        }

        #[cfg(any(test, feature = "sim"))]
        impl Planted {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What the engine does wrong, in a few words.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    // What durable means.
    SkipFlush: "a flush is reported and not carried out",
    CompletionIsDurable: "a completed write counts as durable",
    PlainBelowDsync: "a plain write below a durable one counts as durable",
    FlushOneForTwo: "one file is flushed for two",
    SkipBarrier: "a segment takes frames before the one before it is durable",
    AcknowledgeOutOfOrder: "a durable frame is acknowledged before those below it",
    FlushCoversLater: "a flush covers what completed after its submission",
    FlushCoversSubmitted: "a flush covers what was submitted and had not completed",
    DsyncDroppedDirect: "the caller's own write is not a durable one",
    DsyncDroppedQueued: "the committer's durable write is a plain one",
    IdleVouchesUnflushed: "the idle frame vouches for what is unflushed",
    WatermarkTooHigh: "a frame's watermark covers what is in flight",
    // Failures.
    SwallowWriteError: "a failed write counts as written",
    SwallowFlushError: "a failed flush counts as one",
    RetryFlush: "a failed flush is tried again",
    SwallowDirectError: "a caller's failed write poisons nothing",
    AcknowledgeAtPoison: "a poisoned log acknowledges what was written",
    IgnoreDirectoryError: "a failed directory fsync poisons nothing",
    // Files.
    SkipDirectorySync: "no directory fsync after the rename of a prepared file",
    SkipPreparedSync: "a prepared file is renamed without an fsync",
    ReuseLeftOver: "a left-over temporary file is used as it is",
    SpareHeaderUnsynced: "the reserve becomes a segment without an fsync of its header",
    SpareNameUnsynced: "the reserve becomes a segment without a directory fsync",
    ContinueUnused: "an opening goes on in a named, unused successor",
    // Checkpoints.
    CaptureLate: "the checkpoint is captured after the first appends behind it",
    DropFences: "a checkpoint has no fences",
    PruneFencesEarly: "fences go one segment too early",
    PruneReleases: "a release's fence goes with the next checkpoint",
    CheckpointLacksNamespaces: "a checkpoint has no namespaces",
    CheckpointLacksMark: "a checkpoint has no marks",
    CheckpointLacksLast: "a checkpoint has no last ids",
    CheckpointLacksNewest: "a checkpoint does not name the streams' newest segments",
    ForgetMark: "a mark is forgotten outside a checkpoint, in memory alone",
    // Batches.
    FenceInFrame: "a truncation shares the frame of what it voids",
    SplitBatch: "a batch is split over two frames",
    SkipIdCheckReopened: "ids are not checked after reopening",
    // Retirement.
    RetireEarly: "segments go before the record of it is durable",
    UnlinkFirst: "segments go before the record of it is staged",
    RetireOneMore: "one segment too many retires",
    RetireByNewestRow: "a segment retires by its newest rows alone",
    // Recovery.
    ReleaseById: "recovery applies a release by id, not by position",
    TruncateLosesLast: "recovery does not restore the last id of a truncation",
    IgnoreNamespaceDelete: "recovery does not apply the deletion of namespaces",
    TrustTornPayload: "recovery does not verify payloads that nothing vouches for",
    VerifyThroughCache: "recovery verifies through the page cache",
    FirstFrameThroughCache: "recovery takes the first frame from the page cache",
    SkipAdopting: "recovery does not write again what nothing vouches for",
    AdoptWithoutFlush: "recovery writes again and does not flush",
    CleanBeforeAdopting: "recovery removes dead files before it adopts the record of it",
    // Damage.
    BadHeaderIsUnused: "a bad header counts as an unused file",
    DamageIsTail: "damage counts as the end of the log",
    DamagedFirstIsVoid: "a damaged first frame counts as a void segment",
    OwnLsnUnchecked: "a frame's own LSN is not checked",
    OmitClosing: "segments have no closing frame",
    NameVoidSuccessor: "a closing frame names the next number, not the successor",
    IgnoreSuccessor: "a closed segment's successor may be missing",
    IgnoreMissing: "a segment between others may be missing",
    PayloadUnchecked: "a payload is handed out unverified",
}

#[cfg(any(test, feature = "sim"))]
mod here {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Plants a fault in what this thread does from now on, or takes it out.
    pub fn plant(fault: Option<Planted>) {
        PLANTED.set(fault);
    }

    /// Whether the rule is to be broken here.
    pub(crate) fn planted(fault: Planted) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(any(test, feature = "sim"))]
pub use here::plant;
#[cfg(any(test, feature = "sim"))]
pub(crate) use here::planted;

/// Whether the rule is to be broken here: never.
#[cfg(not(any(test, feature = "sim")))]
#[inline]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}
