//! What the log takes of memory: nothing an entry on the way in, and nothing an entry afterwards.

use std::time::{Duration, Instant};

use tidelog::{Batch, Log, Lsn, Options, StreamId};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const STREAM: StreamId = StreamId::new(1, 1);

fn append(log: &Log, batch: &mut Batch<&'static [u8]>, ids: std::ops::Range<u64>) {
    for id in ids {
        batch.clear();
        log.append(batch.append(STREAM, id, [7; 100].as_slice())).unwrap();
    }
    log.wait_durable(Lsn(log.end_lsn().0 - 1)).unwrap();
}

/// Waits until the caches of all ended segments are written; a minute is what a broken keeper takes.
fn settle(log: &Log) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let caches = std::fs::read_dir(log.path()).unwrap();
        let caches =
            caches.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "idx"));
        if caches.count() as u64 + 1 >= log.stats().segments {
            return;
        }
        assert!(Instant::now() < deadline, "index caches are never written");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One test alone: the counts are those of the process.
#[test]
fn memory_does_not_grow_with_entries() {
    let dir = tempfile::tempdir().unwrap();
    let size = 1 << 20;
    let options = Options::new().first_segment_size(size).segment_size(size).frame_size(64 << 10);
    let log = Log::open(dir.path(), options).unwrap();
    let mut batch = Batch::new();
    // Everything that grows once has grown after this.
    append(&log, &mut batch, 1..50_000);
    settle(&log);

    let profiler = dhat::Profiler::builder().testing().build();
    let frames = log.stats().frames;
    append(&log, &mut batch, 50_000..60_000);
    let few = dhat::HeapStats::get();
    let frames = log.stats().frames - frames;
    // None an entry; some when a segment begins or ends.
    let most = frames / 4 + 200;
    assert!(
        few.total_blocks < most,
        "{} allocations for 10,000 entries in {frames} frames",
        few.total_blocks
    );
    append(&log, &mut batch, 60_000..160_000);
    settle(&log);
    let many = dhat::HeapStats::get();
    // Some kilobytes for each of a dozen segments, and what the open one takes; an index by entry
    // would come to more than four bytes for each of the hundred thousand.
    assert!(many.curr_bytes < few.curr_bytes + 400_000, "{few:?} {many:?}");
    drop(profiler);
    log.close().unwrap();
}
