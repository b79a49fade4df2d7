//! The log against a plain model of it: whatever is asked of it, in whatever order, over closings and crashes of
//! the process, it knows and holds what the model does.

#[path = "../common/mod.rs"]
mod common;
mod expected;
mod operations;
mod run;

use std::time::Duration;

use proptest::test_runner::{Config, TestRunner};
use proptest::{collection, sample};
use tidelog::{BackendChoice, IdRule};

use common::{backends, tiny};
use operations::op;
use run::Run;

fn check(backend: BackendChoice, rule: IdRule) {
    if !backends().contains(&backend) {
        return;
    }
    let config = Config { cases: 32, max_shrink_iters: 400, failure_persistence: None, ..Config::default() };
    let input = (collection::vec(op(), 1..60), sample::select(vec![2_u64, 1000]));
    let outcome = TestRunner::new(config).run(&input, |(ops, flush)| {
        let dir = tempfile::tempdir().unwrap();
        let options = tiny(backend).id_rule(rule).flush_interval(Duration::from_millis(flush));
        let mut run = Run::new(dir.path(), options, rule);
        for (number, op) in ops.iter().enumerate() {
            run.op(number as u64, op);
        }
        run.reopen(true);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn contiguous_ids_on_the_ring() {
    check(BackendChoice::Ring, IdRule::Contiguous);
}

#[test]
fn contiguous_ids_without_the_ring() {
    check(BackendChoice::Std, IdRule::Contiguous);
}

#[test]
fn increasing_ids_on_the_ring() {
    check(BackendChoice::Ring, IdRule::Increasing);
}

#[test]
fn increasing_ids_without_the_ring() {
    check(BackendChoice::Std, IdRule::Increasing);
}
