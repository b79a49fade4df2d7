//! Shortening a history that breaks a promise.

use crate::history::History;
use crate::run::{Violation, run};
use crate::stats::Stats;

/// The shortest history that leaving steps out comes to, of those that still break something. At
/// most `tries` are run.
pub fn shrink(history: &History, mut tries: u32) -> (History, Violation) {
    let breaks = |history: &History| run(history, &mut Stats::default(), u64::MAX).err();
    let Some(mut violation) = breaks(history) else {
        unreachable!("a history does the same each time");
    };
    let mut best = history.clone();
    // Nothing after the step that showed it matters.
    best.steps.truncate(violation.step + 1);
    let mut piece = best.steps.len() / 2;
    while piece > 0 && tries > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < best.steps.len() && tries > 0 {
            let mut candidate = best.clone();
            candidate.steps.drain(at..(at + piece).min(best.steps.len()));
            tries -= 1;
            if let Some(found) = breaks(&candidate) {
                candidate.steps.truncate(found.step + 1);
                (best, violation, shorter) = (candidate, found, true);
            } else {
                at += piece;
            }
        }
        if !shorter || piece > 1 {
            piece /= 2;
        }
    }
    (best, violation)
}
