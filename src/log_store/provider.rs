//! What addresses a log: the provider of a region's entries.

use std::fmt;
use std::sync::Arc;

use super::{EntryId, LogStore, RegionId};

/// A local log, addressed by the id of its one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaftEngineProvider {
    /// The region's id.
    pub id: u64,
}

impl RaftEngineProvider {
    /// The provider of the region with this id.
    pub fn new(id: u64) -> Self {
        Self { id }
    }

    /// The name of the kind.
    pub fn type_name() -> &'static str {
        "RaftEngineProvider"
    }
}

/// A topic of a remote log, shared by many regions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KafkaProvider {
    /// The topic's name.
    pub topic: String,
}

impl KafkaProvider {
    /// The provider of all regions of the topic.
    pub fn new(topic: String) -> Self {
        Self { topic }
    }

    /// The name of the kind.
    pub fn type_name() -> &'static str {
        "KafkaProvider"
    }
}

impl fmt::Display for KafkaProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.topic)
    }
}

/// Where a region's entries are kept. Equality and hash go by content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// A local log with one region a provider: the kind that [`TideLogStore`](super::TideLogStore) serves.
    RaftEngine(RaftEngineProvider),
    /// A topic of a remote log.
    Kafka(Arc<KafkaProvider>),
    /// No log at all.
    Noop,
}

impl Provider {
    /// The local log of the region with this id.
    pub fn raft_engine_provider(id: u64) -> Self {
        Self::RaftEngine(RaftEngineProvider::new(id))
    }

    /// The topic of a remote log.
    pub fn kafka_provider(topic: String) -> Self {
        Self::Kafka(Arc::new(KafkaProvider::new(topic)))
    }

    /// No log.
    pub fn noop_provider() -> Self {
        Self::Noop
    }

    /// The provider of a local log, if it is one.
    pub fn as_raft_engine_provider(&self) -> Option<&RaftEngineProvider> {
        match self {
            Self::RaftEngine(provider) => Some(provider),
            _ => None,
        }
    }

    /// The provider of a topic, if it is one.
    pub fn as_kafka_provider(&self) -> Option<&Arc<KafkaProvider>> {
        match self {
            Self::Kafka(provider) => Some(provider),
            _ => None,
        }
    }

    /// The name of the kind.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::RaftEngine(_) => RaftEngineProvider::type_name(),
            Self::Kafka(_) => KafkaProvider::type_name(),
            Self::Noop => "Noop",
        }
    }

    /// Whether the entries are kept elsewhere.
    pub fn is_remote_wal(&self) -> bool {
        matches!(self, Self::Kafka(_))
    }

    /// What counts as flushed when a region is created: all that a remote log holds already,
    /// nothing of a local one.
    pub fn initial_flushed_entry_id<S: LogStore>(&self, store: &S) -> EntryId {
        if self.is_remote_wal() { store.latest_entry_id(self).unwrap_or(0) } else { 0 }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RaftEngine(provider) => write!(f, "RaftEngine(region={})", RegionId::from_u64(provider.id)),
            Self::Kafka(provider) => write!(f, "Kafka(topic={provider})"),
            Self::Noop => f.write_str("Noop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_kind_shows_what_it_addresses() {
        let local = Provider::raft_engine_provider(RegionId::new(1234, 5).as_u64());
        let topic = Provider::kafka_provider("my_topic".into());
        assert_eq!(local.to_string(), "RaftEngine(region=5299989643269(1234, 5))");
        assert_eq!(topic.to_string(), "Kafka(topic=my_topic)");
        assert_eq!(Provider::noop_provider().to_string(), "Noop");
        assert_eq!(topic.as_kafka_provider().unwrap().to_string(), "my_topic");
    }

    #[test]
    fn kinds_are_named_and_told_apart() {
        let local = Provider::raft_engine_provider(7);
        let topic = Provider::kafka_provider("a".into());
        assert_eq!(local.type_name(), "RaftEngineProvider");
        assert_eq!(topic.type_name(), "KafkaProvider");
        assert_eq!(Provider::Noop.type_name(), "Noop");
        assert_eq!(local.as_raft_engine_provider(), Some(&RaftEngineProvider { id: 7 }));
        assert_eq!((local.as_kafka_provider(), topic.as_raft_engine_provider()), (None, None));
        assert!(topic.is_remote_wal() && !local.is_remote_wal() && !Provider::Noop.is_remote_wal());
    }

    #[test]
    fn providers_are_equal_by_content() {
        let topics: HashSet<_> =
            ["a", "b", "a"].map(|topic| Provider::kafka_provider(topic.into())).into_iter().collect();
        assert_eq!(topics.len(), 2);
        assert_ne!(Provider::raft_engine_provider(1), Provider::raft_engine_provider(2));
    }
}
