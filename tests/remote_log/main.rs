//! The remote log metadata in memory: what it answers, and what it refuses.
//!
//! `kafka_*` and `crabka_*` follow the test suites of the stores of those names, with their values.
//! Left out are the cases for what the interface does not have: the size of an epoch in bytes, the
//! next segment with a transaction index, leadership changes, and whether a topic exists.

mod cases_crabka;
mod cases_kafka;
mod encoding;
mod faults;
mod model;
mod states;
mod support;
