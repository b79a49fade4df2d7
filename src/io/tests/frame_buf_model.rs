//! Every interleaving of the staging buffer's protocol, within bounds.
//!
//! The bytes themselves are out of the model's sight. Each row has a shadow beside it, read and
//! written without any order of its own: it is only what it must be where the protocol orders the bytes.

use std::sync::atomic::Ordering;

use loom::sync::Arc as Shared;
use loom::sync::atomic::{AtomicU8, AtomicUsize};
use loom::thread;

use super::*;

const ROW: usize = 8;
const CLEAN: u8 = 0;

struct Model {
    buf: Arc<FrameBuf>,
    shadows: [AtomicU8; 2],
    /// Who was told that the buffer is ready: he who closes it, or the last to finish.
    told: AtomicUsize,
    filled: AtomicUsize,
}

impl Model {
    fn new() -> Shared<Self> {
        Shared::new(Self {
            buf: Claimed::new(2 * ROW, None).unwrap().reopen(0),
            shadows: [AtomicU8::new(CLEAN), AtomicU8::new(CLEAN)],
            told: AtomicUsize::new(0),
            filled: AtomicUsize::new(0),
        })
    }

    /// Fills a row if there is room.
    fn append(&self, who: u8) -> bool {
        let Some(mut place) = self.buf.reserve(ROW) else { return false };
        let shadow = &self.shadows[place.offset() / ROW];
        assert_eq!(shadow.load(Ordering::Relaxed), CLEAN, "the bytes of an earlier use are behind");
        shadow.store(who, Ordering::Relaxed);
        place.write(&[who; ROW]);
        self.filled.fetch_add(1, Ordering::Relaxed);
        if place.finish() {
            self.told.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Checks a claimed buffer and clears it for its next use.
    fn take(&self, claimed: &mut Claimed) -> usize {
        // Before anything else: what follows orders memory too.
        let shadows = self.shadows.each_ref().map(|shadow| shadow.load(Ordering::Relaxed));
        let rows = claimed.used() / ROW;
        for (who, row) in shadows.into_iter().zip(claimed[..rows * ROW].chunks(ROW)) {
            assert!(who != CLEAN && row == [who; ROW], "what was finished is visible: {who} {row:?}");
        }
        self.shadows.iter().for_each(|shadow| shadow.store(CLEAN, Ordering::Relaxed));
        claimed.fill(0);
        rows
    }
}

/// Two fill it while a third closes it and claims it as soon as he can.
#[test]
fn model_what_is_finished_is_visible_to_whoever_claims() {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let model = Model::new();
        let appenders = [1, 2].map(|who| {
            let model = Shared::clone(&model);
            thread::spawn(move || model.append(who))
        });
        let ready = model.buf.close();
        assert!(model.buf.reserve(ROW).is_none(), "closed");
        let early = model.buf.claim();
        assert!(early.is_some() || !ready, "ready and not to be claimed");
        let seen = early.map(|mut claimed| model.take(&mut claimed));
        let appended =
            appenders.map(|appender| appender.join().unwrap()).into_iter().filter(|&done| done).count();
        // An appender that came after the end has no place, and one that had it was waited for.
        let told = model.told.load(Ordering::Relaxed) + usize::from(ready);
        assert_eq!(told, 1, "exactly one is told that the buffer is ready");
        let rows = seen.unwrap_or_else(|| model.take(&mut model.buf.claim().unwrap()));
        assert_eq!(rows, appended);
        assert!(model.buf.claim().is_none(), "claimed once");
    });
}

/// Two that were told of the same buffer want it: one gets it.
#[test]
fn model_one_claims() {
    loom::model(|| {
        let model = Model::new();
        assert!(model.append(1));
        model.buf.close();
        let other = {
            let model = Shared::clone(&model);
            thread::spawn(move || model.buf.claim().map(|mut claimed| model.take(&mut claimed)))
        };
        let own = model.buf.claim().map(|mut claimed| model.take(&mut claimed));
        assert_eq!([own, other.join().unwrap()].into_iter().flatten().collect::<Vec<_>>(), [1]);
    });
}

/// Once it is opened again, who fills it next comes after whoever had it.
#[test]
fn model_the_next_use_comes_after_the_last() {
    loom::model(|| {
        let model = Model::new();
        assert!(model.append(1));
        model.buf.close();
        let late = {
            let model = Shared::clone(&model);
            thread::spawn(move || model.append(2))
        };
        let mut claimed = model.buf.claim().unwrap();
        assert_eq!(model.take(&mut claimed), 1);
        let buf = claimed.reopen(0);
        let appended = late.join().unwrap();
        assert!(buf.close());
        let mut claimed = buf.claim().unwrap();
        assert_eq!(model.take(&mut claimed), usize::from(appended));
    });
}
