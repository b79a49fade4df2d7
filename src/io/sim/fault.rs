//! Faults that a simulated disk can be told to have.

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// A write gives EIO; some of its sectors may be written.
    Write,
    /// A write stops in the middle.
    ShortWrite,
    /// A flush of a file gives EIO; what it should have made durable may be gone, stuck, or in the page cache only.
    Flush,
    /// The flush of the directory gives EIO.
    FlushDirectory,
    /// A read gives EIO.
    Read,
    /// A map cannot be faulted in.
    Map,
    /// There is no room, whatever the capacity.
    NoSpace,
    /// A write is acknowledged and never carried out.
    LostWrite,
    /// A write is acknowledged and carried out elsewhere.
    MisdirectedWrite,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Write,
        Self::ShortWrite,
        Self::Flush,
        Self::FlushDirectory,
        Self::Read,
        Self::Map,
        Self::NoSpace,
        Self::LostWrite,
        Self::MisdirectedWrite,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "EIO on write",
            Self::ShortWrite => "short write",
            Self::Flush => "EIO on flush",
            Self::FlushDirectory => "EIO on directory flush",
            Self::Read => "EIO on read",
            Self::Map => "map not populated",
            Self::NoSpace => "no space",
            Self::LostWrite => "lost write",
            Self::MisdirectedWrite => "misdirected write",
        }
    }
}

/// When which fault comes: after so many operations of its kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    due: [Option<u32>; FaultKind::ALL.len()],
    pub(super) fired: [u64; FaultKind::ALL.len()],
}

impl Schedule {
    /// After `after` more operations that could have this fault, one has it.
    pub(super) fn plan(&mut self, kind: FaultKind, after: u32) {
        self.due[kind as usize] = Some(after);
    }

    /// Nothing goes wrong any more.
    pub(super) fn clear(&mut self) {
        self.due = Default::default();
    }

    /// An operation that could have this fault: whether it has.
    pub(super) fn strikes(&mut self, kind: FaultKind) -> bool {
        let due = &mut self.due[kind as usize];
        match due {
            None => false,
            Some(0) => {
                *due = None;
                self.fired[kind as usize] += 1;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }
}
