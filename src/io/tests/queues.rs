//! Both queues pass the same tests.

use std::collections::HashSet;
use std::fs::File;
use std::time::Instant;

use super::*;

const FOREVER: Option<Duration> = None;

fn open(backend: Backend, depth: u32, buffers: &[Arc<FrameBuf>], bell: &Bell) -> Box<dyn WriteQueue> {
    let queue = open_queue(backend, depth, buffers, bell.clone()).unwrap();
    assert_eq!(queue.backend(), backend);
    queue
}

/// Runs `test` on each backend and each kind of directory.
fn each(test: impl Fn(&Scratch, &dyn Fn(u32, &[Arc<FrameBuf>]) -> (Box<dyn WriteQueue>, Bell))) {
    for backend in backends() {
        for scratch in every_disk() {
            test(&scratch, &|depth, buffers| {
                let bell = Bell::new().unwrap();
                (open(backend, depth, buffers, &bell), bell)
            });
        }
    }
}

fn filled(seed: u64, len: usize, slot: Option<u16>) -> Claimed {
    let mut buf = Claimed::new(len, slot).unwrap();
    fill(seed, &mut buf);
    buf
}

fn all_done(queue: &mut dyn WriteQueue) -> Vec<Completion> {
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(FOREVER, &mut done).unwrap();
    }
    done
}

#[test]
fn writes_land_where_they_belong_and_come_back_by_their_tokens() {
    each(|scratch, open| {
        let (mut queue, _bell) = open(4, &[]);
        let files = ["a", "b"].map(|name| scratch.disk.create(name).unwrap());
        // Far more than the depth.
        for token in 0..40u64 {
            let file = Arc::clone(&files[(token % 2) as usize]);
            let buf = filled(token, 3 * BLOCK, None);
            let offset = token / 2 * 2 * BLOCK as u64;
            queue.write(WriteOp { token, file, offset, buf, len: 2 * BLOCK, dsync: token % 3 == 0 });
        }
        assert_eq!(queue.in_flight(), 40);
        queue.submit().unwrap();
        assert_eq!(queue.in_flight(), 40);
        let done = all_done(&mut *queue);
        assert_eq!(done.iter().map(|c| c.token).collect::<HashSet<_>>(), (0..40).collect());
        assert_eq!(done.len(), 40);
        for Completion { token, result, buf } in done {
            result.unwrap();
            assert_eq!(
                buf.unwrap()[..],
                pattern(token, 3 * BLOCK)[..],
                "each write brings its own buffer back"
            );
            let mut back = vec![0; 2 * BLOCK];
            let offset = token / 2 * 2 * BLOCK as u64;
            files[(token % 2) as usize].read_uncached(offset, &mut back).unwrap();
            assert!(back == pattern(token, 3 * BLOCK)[..2 * BLOCK], "write {token}");
        }
    });
}

#[test]
fn flushes_complete_beside_writes() {
    each(|scratch, open| {
        let (mut queue, _bell) = open(8, &[]);
        let file = scratch.disk.create("a").unwrap();
        for round in 0..3 {
            let (token, file) = (round * 2, Arc::clone(&file));
            let (offset, buf) = (round * BLOCK as u64, filled(round, BLOCK, None));
            queue.write(WriteOp { token, file: Arc::clone(&file), offset, buf, len: BLOCK, dsync: false });
            queue.flush(token + 1, file);
            let done = all_done(&mut *queue);
            assert_eq!(
                done.iter().map(|c| c.token).collect::<HashSet<_>>(),
                HashSet::from([token, token + 1])
            );
            for completion in done {
                assert_eq!(completion.buf.is_some(), completion.token == token);
                completion.result.unwrap();
            }
        }
        assert_eq!(Arc::strong_count(&file), 1, "files are let go with their completions");
    });
}

#[test]
fn registered_buffers_are_used_again_and_again() {
    each(|scratch, open| {
        let mut pool: Vec<_> = (0..4).map(|slot| Claimed::new(4 * BLOCK, Some(slot)).unwrap()).collect();
        let shared: Vec<_> = pool.iter().map(|buf| Arc::clone(buf.shared())).collect();
        // The last one is left out: it is written like any other buffer.
        let (mut queue, _bell) = open(4, &shared[..3]);
        let file = scratch.disk.create("a").unwrap();
        for round in 0..3u64 {
            for mut buf in pool.drain(..) {
                let token = round * 10 + u64::from(buf.slot().unwrap());
                fill(token, &mut buf);
                let (file, offset) = (Arc::clone(&file), token * 4 * BLOCK as u64);
                queue.write(WriteOp { token, file, offset, buf, len: 4 * BLOCK, dsync: true });
            }
            for Completion { token, result, buf } in all_done(&mut *queue) {
                result.unwrap();
                let mut back = vec![0; 4 * BLOCK];
                file.read_uncached(token * 4 * BLOCK as u64, &mut back).unwrap();
                assert!(back == pattern(token, 4 * BLOCK)[..], "write {token}");
                pool.push(open_and_claim(buf.unwrap()));
            }
            assert_eq!(pool.len(), 4);
        }
    });
}

fn open_and_claim(buf: Claimed) -> Claimed {
    let buf = buf.reopen(64);
    assert!(buf.close());
    buf.claim().unwrap()
}

#[test]
fn errors_belong_to_their_operation_alone() {
    each(|scratch, open| {
        let (mut queue, _bell) = open(8, &[]);
        let good = scratch.disk.create("good").unwrap();
        let full: Arc<dyn DiskFile> =
            Arc::new(FdFile(File::options().write(true).open("/dev/full").unwrap().into()));
        let readonly = scratch.disk.open("good", Access::Read).unwrap();
        let locked = scratch.disk.open("good", Access::Write).unwrap();
        let op = |token, file: &Arc<dyn DiskFile>, len| {
            let (file, buf) = (Arc::clone(file), filled(token, BLOCK, None));
            WriteOp { token, file, offset: 0, buf, len, dsync: true }
        };
        queue.write(op(1, &full, BLOCK));
        queue.write(op(2, &readonly, BLOCK));
        queue.write(op(3, &locked, BLOCK));
        queue.write(op(4, &good, 2 * BLOCK));
        queue.write(op(5, &good, BLOCK));
        let mut done = all_done(&mut *queue);
        done.sort_by_key(|completion| completion.token);
        assert!(done.iter().all(|completion| completion.buf.is_some()));
        let errors: Vec<_> = done.into_iter().map(|c| c.result.err().map(|error| error.kind())).collect();
        assert_eq!(errors[0], Some(io::ErrorKind::StorageFull));
        assert!(errors[1..4].iter().all(Option::is_some), "{errors:?}");
        assert_eq!(errors[4], None);
    });
}

#[test]
fn a_wait_ends_with_its_time() {
    each(|_, open| {
        let (mut queue, _bell) = open(2, &[]);
        for limit in [0, 30] {
            let limit = Duration::from_millis(limit);
            let (begin, mut done) = (Instant::now(), Vec::new());
            queue.wait(Some(limit), &mut done).unwrap();
            assert!(done.is_empty());
            assert!(begin.elapsed() >= limit && begin.elapsed() < Duration::from_secs(20));
        }
    });
}

#[test]
fn a_bell_rung_before_or_during_the_wait_ends_it() {
    each(|_, open| {
        let (mut queue, bell) = open(2, &[]);
        let mut done = Vec::new();
        for _ in 0..3 {
            bell.ring();
            bell.ring();
            queue.wait(FOREVER, &mut done).unwrap();
            let sleeper = bell.clone();
            let ringer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(10));
                sleeper.ring();
            });
            queue.wait(FOREVER, &mut done).unwrap();
            ringer.join().unwrap();
        }
        // Nothing of it is left over: at most one wake-up was in the descriptor.
        let limit = Duration::from_millis(20);
        queue.wait(Some(limit), &mut done).unwrap();
        let begin = Instant::now();
        queue.wait(Some(limit), &mut done).unwrap();
        assert!(begin.elapsed() >= limit);
        assert!(done.is_empty());
    });
}

/// Every ring is answered: a lost wake-up would block this for good.
#[test]
fn no_wake_up_is_lost() {
    use std::sync::atomic::{AtomicU32, Ordering};
    each(|_, open| {
        let (mut queue, bell) = open(2, &[]);
        let (asked, answered) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 1..=500 {
                    asked.store(turn, Ordering::Relaxed);
                    bell.ring();
                    while answered.load(Ordering::Acquire) != turn {
                        std::thread::yield_now();
                    }
                }
            });
            let mut done = Vec::new();
            while answered.load(Ordering::Relaxed) < 500 {
                queue.wait(FOREVER, &mut done).unwrap();
                answered.store(asked.load(Ordering::Relaxed), Ordering::Release);
            }
        });
    });
}

#[test]
fn the_ring_is_probed_with_a_real_write() {
    if !backends().contains(&Backend::Ring) {
        return;
    }
    for scratch in every_disk() {
        probe_ring(&*scratch.disk).unwrap();
        assert_eq!(scratch.disk.list().unwrap(), []);
    }
}
