//! What only the ring does.

use std::fs::File;
use std::io::Read;

use super::*;

fn pipe() -> (Arc<dyn DiskFile>, File) {
    let (from, to) = rustix::pipe::pipe().unwrap();
    (Arc::new(FdFile(to)), from.into())
}

fn write_all(queue: &mut RingQueue, file: &Arc<dyn DiskFile>, len: usize) {
    let mut buf = Claimed::new(len, None).unwrap();
    fill(7, &mut buf);
    queue.write(WriteOp { token: 7, file: Arc::clone(file), offset: 0, buf, len, dsync: false });
    queue.submit().unwrap();
}

/// A pipe takes what it has room for, and so makes short writes.
#[test]
fn short_writes_go_on_with_the_rest() {
    let Some(mut queue) = ring_queue(2, &[], &Bell::new().unwrap()) else { return };
    let (file, mut from) = pipe();
    let len = 1 << 20;
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; len];
        from.read_exact(&mut all).unwrap();
        all
    });
    write_all(&mut queue, &file, len);
    let mut done = Vec::new();
    while done.is_empty() {
        queue.wait(None, &mut done).unwrap();
    }
    done.pop().unwrap().result.unwrap();
    assert!(reader.join().unwrap() == pattern(7, len)[..]);
}

#[test]
fn a_completion_of_an_earlier_use_is_not_believed() {
    let Some(mut queue) = ring_queue(1, &[], &Bell::new().unwrap()) else { return };
    let (file, mut from) = pipe();
    // Twice the room of a pipe: in flight until somebody reads.
    write_all(&mut queue, &file, 128 << 10);
    let mut done = Vec::new();
    queue.wait(Some(Duration::from_millis(20)), &mut done).unwrap();
    assert!(done.is_empty());
    queue.forge_stale_completion(0);
    queue.wait(Some(Duration::from_millis(20)), &mut done).unwrap();
    assert!(done.is_empty(), "{done:?}");
    assert_eq!(queue.in_flight(), 1);

    let reader = std::thread::spawn(move || from.read_exact(&mut vec![0; 128 << 10]));
    while done.is_empty() {
        queue.wait(None, &mut done).unwrap();
    }
    assert_eq!(done.pop().unwrap().token, 7);
    reader.join().unwrap().unwrap();
}

#[test]
fn dropping_the_queue_waits_for_what_is_in_flight() {
    let Scratch { disk, root: _root } = Scratch::new(true);
    let file = disk.create("a").unwrap();
    let Some(mut queue) = ring_queue(16, &[], &Bell::new().unwrap()) else { return };
    for token in 0..16u64 {
        let mut buf = Claimed::new(64 * BLOCK, None).unwrap();
        fill(token, &mut buf);
        let (file, len) = (Arc::clone(&file), buf.len());
        queue.write(WriteOp { token, file, offset: token * len as u64, buf, len, dsync: true });
    }
    queue.submit().unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&file), 1);
    for token in 0..16u64 {
        let mut back = vec![0; 64 * BLOCK];
        file.read_uncached(token * back.len() as u64, &mut back).unwrap();
        assert!(back == pattern(token, 64 * BLOCK)[..], "write {token}");
    }
}

#[test]
fn what_was_never_submitted_is_dropped_with_the_queue() {
    let Scratch { disk, root: _root } = Scratch::new(true);
    let file = disk.create("a").unwrap();
    let Some(mut queue) = ring_queue(1, &[], &Bell::new().unwrap()) else { return };
    for token in 0..3 {
        let (file, buf) = (Arc::clone(&file), Claimed::new(BLOCK, None).unwrap());
        queue.write(WriteOp { token, file, offset: 0, buf, len: BLOCK, dsync: false });
    }
    drop(queue);
    assert_eq!((Arc::strong_count(&file), file.len().unwrap()), (1, 0));
}
