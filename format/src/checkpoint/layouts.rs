//! The fixed parts of a checkpoint.

layout! {
    HeadLayout, 48 {
        0 previous_sequence: u64,
        8 previous_end: u64,
        16 oldest: u64,
        24 stream_count: u32,
        28 namespace_count: u32,
        32 fence_count: u32,
        36 extent_count: u32,
        40 checksum: u32,
        44 reserved: u32,
    }
}

layout! {
    StreamLayout, 56 {
        0 id: u64,
        8 first: u64,
        16 last: u64,
        24 mark: u64,
        32 newest_segment: u64,
        40 class: u16,
        42 flags: u16,
        44 fence_count: u32,
        48 extent_count: u32,
        52 reserved: u32,
    }
}
pub(super) const STREAM_LEN: usize = 56;
pub(super) const HAS_FIRST: u16 = 1;
pub(super) const HAS_LAST: u16 = 2;
pub(super) const HAS_MARK: u16 = 4;

layout! {
    FenceLayout, 16 {
        0 lsn: u64,
        8 from: u64,
    }
}
pub(super) const FENCE_LEN: usize = 16;

layout! {
    ExtentLayout, 24 {
        0 first: u64,
        8 last: u64,
        16 segment: u64,
    }
}
pub(super) const EXTENT_LEN: usize = 24;

layout! {
    NamespaceLayout, 16 {
        0 id: u64,
        8 class: u16,
        10 reserved: [u8; 6],
    }
}
pub(super) const NAMESPACE_LEN: usize = 16;
