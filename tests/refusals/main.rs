//! What the log refuses: each time with an error that names what was wrong, and with everything as it was before.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod damage;
mod filled;
mod opening;

use std::fs;
use std::path::Path;
use std::time::Duration;

use tidelog::{BackendChoice, Log, Options, StreamId};

use common::{child, one, read, tiny};

pub(crate) const A: StreamId = StreamId::new(1, 1);
pub(crate) const B: StreamId = StreamId::new(1, 2);

pub(crate) fn std_options() -> Options {
    // A pause of the machine's must not put an empty frame among the others.
    tiny(BackendChoice::Std).idle_after(Duration::MAX)
}

/// What comes of opening the log in another process.
pub(crate) fn opened_elsewhere(dir: &Path) -> String {
    let outcome = tempfile::NamedTempFile::new().unwrap();
    let arguments = [child::text(dir), child::text(outcome.path())];
    assert!(child::command("opener", &arguments).status().unwrap().success());
    fs::read_to_string(outcome.path()).unwrap()
}

#[test]
#[ignore = "the body of another process"]
fn opener() {
    let Some(arguments) = child::arguments() else { return };
    let [dir, outcome] = arguments.as_slice() else { panic!("{arguments:?}") };
    let opened = Log::open(dir, std_options()).and_then(|log| {
        log.append_durable(&one(B, 1))?;
        log.close()
    });
    let text = opened.map_or_else(|error| format!("{error:?}"), |()| "opened".to_owned());
    fs::write(outcome, text).unwrap();
}
