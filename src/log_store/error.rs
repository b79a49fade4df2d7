//! Why a log store refuses a call, or fails in it.

use super::{EntryId, RegionId};
use crate::error::Error;

/// Why a call was refused or failed. A refused append leaves no trace: its ids can be used again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogStoreError {
    /// The store does not serve this kind of provider.
    #[error("provider {actual} where {expected} is served")]
    InvalidProvider {
        /// The kind that is served.
        expected: &'static str,
        /// The kind that was given.
        actual: &'static str,
    },
    /// The provider addresses another region.
    #[error("provider {provider_id} addresses region {}, not {region}", RegionId::from_u64(*.provider_id))]
    RegionMismatch {
        /// The provider's id.
        provider_id: u64,
        /// The region that was given with it.
        region: RegionId,
    },
    /// The id cannot name a namespace.
    #[error("{id} cannot be a namespace")]
    IllegalNamespace {
        /// The id.
        id: u64,
    },
    /// The entry lies below the first one that its region has.
    #[error("region {region}: entry {attempted} lies below the first one, {first}")]
    ObsoleteEntry {
        /// The region.
        region: RegionId,
        /// Its first live entry.
        first: EntryId,
        /// The id that was refused.
        attempted: EntryId,
    },
    /// The entry does not follow the one before it.
    #[error("region {region}: entry {attempted} does not follow {last}")]
    DiscontinuousEntry {
        /// The region.
        region: RegionId,
        /// Its last entry, or the one before in the same batch.
        last: EntryId,
        /// The id that was refused.
        attempted: EntryId,
    },
    /// The entry lacks its first or its last part.
    #[error("region {region}: entry {entry_id} lacks its first or its last part")]
    IncompleteEntry {
        /// The region.
        region: RegionId,
        /// The entry.
        entry_id: EntryId,
    },
    /// Reading ended early, for instance because the entry is damaged. Those before it were delivered.
    #[error("region {region}: entry {entry_id} cannot be read: {source}")]
    Unreadable {
        /// The region.
        region: RegionId,
        /// The first entry that was not delivered.
        entry_id: EntryId,
        /// What the log met.
        source: Error,
    },
    /// The store was stopped.
    #[error("the log store is stopped")]
    Stopped,
    /// The log refused or failed.
    #[error(transparent)]
    Log(Error),
}

impl LogStoreError {
    /// Whether the same call can succeed later on the same store.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Log(error) | Self::Unreadable { source: error, .. } => error.is_transient(),
            _ => false,
        }
    }
}

impl From<Error> for LogStoreError {
    /// A closed log serves no store: whoever closed it stopped this one too.
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Self::Stopped,
            error => Self::Log(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_values() {
        let region = RegionId::new(1, 1);
        let error = LogStoreError::RegionMismatch { provider_id: 1 << 32, region };
        assert_eq!(
            error.to_string(),
            "provider 4294967296 addresses region 4294967296(1, 0), not 4294967297(1, 1)"
        );
        let error = LogStoreError::DiscontinuousEntry { region, last: 4, attempted: 6 };
        assert_eq!(error.to_string(), "region 4294967297(1, 1): entry 6 does not follow 4");
    }

    #[test]
    fn only_what_passes_is_worth_a_retry() {
        assert!(LogStoreError::from(Error::NoSpace { needed: 1 }).is_retryable());
        assert!(!LogStoreError::from(Error::Poisoned { cause: "eio".into() }).is_retryable());
        assert!(!LogStoreError::Stopped.is_retryable());
        assert!(matches!(LogStoreError::from(Error::Closed), LogStoreError::Stopped));
    }
}
