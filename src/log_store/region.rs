//! The name of a region.

use std::fmt;

/// Id of a table.
pub type TableId = u32;
/// Number of a region in its table: a group and a sequence.
pub type RegionNumber = u32;
/// The upper 8 bits of a region number.
pub type RegionGroup = u8;
/// The lower 24 bits of a region number.
pub type RegionSeq = u32;

const SEQ_BITS: u32 = 24;

/// The highest sequence that a region number holds.
pub const MAX_REGION_SEQ: RegionSeq = (1 << SEQ_BITS) - 1;

/// A region: the table in the upper, the region number in the lower 32 bits.
///
/// ```
/// use tidelog::log_store::RegionId;
///
/// let region = RegionId::new(1234, 5);
/// assert_eq!(region.as_u64(), 5_299_989_643_269);
/// assert_eq!(region.to_string(), "5299989643269(1234, 5)");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u64);

impl RegionId {
    /// The region `region_number` of the table.
    pub const fn new(table_id: TableId, region_number: RegionNumber) -> Self {
        Self(((table_id as u64) << 32) | region_number as u64)
    }

    /// The region of the table whose number is made of `group` and the lower 24 bits of `seq`.
    pub const fn with_group_and_seq(table_id: TableId, group: RegionGroup, seq: RegionSeq) -> Self {
        Self::new(table_id, ((group as u32) << SEQ_BITS) | (seq & MAX_REGION_SEQ))
    }

    /// The region with this id.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as a number.
    pub const fn as_u64(&self) -> u64 {
        self.0
    }

    /// The table.
    pub const fn table_id(&self) -> TableId {
        (self.0 >> 32) as TableId
    }

    /// The region's number in its table.
    pub const fn region_number(&self) -> RegionNumber {
        (self.0 & u32::MAX as u64) as RegionNumber
    }

    /// The group in the region's number.
    pub const fn region_group(&self) -> RegionGroup {
        (self.region_number() >> SEQ_BITS) as RegionGroup
    }

    /// The sequence in the region's number.
    pub const fn region_sequence(&self) -> RegionSeq {
        self.region_number() & MAX_REGION_SEQ
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}, {})", self.0, self.table_id(), self.region_number())
    }
}

impl fmt::Debug for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<u64> for RegionId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl From<RegionId> for u64 {
    fn from(region: RegionId) -> Self {
        region.0
    }
}

impl PartialEq<u64> for RegionId {
    fn eq(&self, other: &u64) -> bool {
        self.0 == *other
    }
}

impl PartialEq<RegionId> for u64 {
    fn eq(&self, other: &RegionId) -> bool {
        *self == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_number_make_the_id() {
        let ids = [
            (0, 1, 1),
            (1, 0, 4_294_967_296),
            (1, 1, 4_294_967_297),
            (2, 10, 8_589_934_602),
            (u32::MAX, 10, 18_446_744_069_414_584_330),
        ];
        for (table, number, id) in ids {
            let region = RegionId::new(table, number);
            assert_eq!(region, id);
            assert_eq!(id, region);
            assert_eq!((region.table_id(), region.region_number()), (table, number));
            assert_eq!(RegionId::from_u64(id), region);
            assert_eq!(u64::from(RegionId::from(id)), id);
        }
        assert!(RegionId::new(1, u32::MAX) < RegionId::new(2, 0));
    }

    #[test]
    fn group_and_sequence_share_the_number() {
        let region = RegionId::with_group_and_seq(111, 222, 333);
        assert_eq!((region.table_id(), region.region_group(), region.region_sequence()), (111, 222, 333));
        assert_eq!(region, RegionId::new(111, (222 << 24) + 333));
        let masked = RegionId::with_group_and_seq(1, 2, MAX_REGION_SEQ + 4);
        assert_eq!((masked.region_group(), masked.region_sequence()), (2, 3));
    }

    #[test]
    fn both_formats_show_the_parts() {
        let region = RegionId::new(1234, 5);
        assert_eq!(region.to_string(), "5299989643269(1234, 5)");
        assert_eq!(format!("{region:?}"), "5299989643269(1234, 5)");
    }
}
