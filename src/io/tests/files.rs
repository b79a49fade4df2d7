use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::time::Instant;

use super::*;

#[test]
fn what_is_written_reads_back_both_ways() {
    for Scratch { disk, root: _root } in every_disk() {
        let file = disk.create("data").unwrap();
        let data = pattern(1, 5 * BLOCK);
        file.allocate(8 * BLOCK as u64).unwrap();
        file.write_at(BLOCK as u64, &data, false).unwrap();
        file.write_at(6 * BLOCK as u64, &data[..BLOCK], true).unwrap();
        file.sync().unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.len().unwrap(), 8 * BLOCK as u64);

        let (cached, uncached) = (&mut vec![1; 9 * BLOCK], &mut vec![2; 9 * BLOCK]);
        assert_eq!(file.read_at(0, cached).unwrap(), 8 * BLOCK);
        assert_eq!(file.read_uncached(0, uncached).unwrap(), 8 * BLOCK);
        assert_eq!(cached[..8 * BLOCK], uncached[..8 * BLOCK]);
        assert_eq!(&cached[BLOCK..6 * BLOCK], &data[..]);
        assert_eq!(&cached[..BLOCK], [0; BLOCK]);
    }
}

#[test]
fn reads_past_the_cache_take_any_alignment() {
    for Scratch { disk, root: _root } in every_disk() {
        let writer = disk.create("data").unwrap();
        let data = pattern(2, 600 * BLOCK);
        writer.write_at(0, &data, true).unwrap();
        let reader = disk.open("data", Access::Read).unwrap();
        for file in [&writer, &reader] {
            for (offset, len) in
                [(0, 10), (1, BLOCK), (4095, 2), (511, 700), (BLOCK, BLOCK), (77, 599 * BLOCK)]
            {
                let mut buf = vec![0; len];
                assert_eq!(file.read_uncached(offset as u64, &mut buf).unwrap(), len, "{disk:?}");
                assert!(buf == data[offset..offset + len], "{len} bytes at {offset} on {disk:?}");
            }
            let mut beyond = [0; 100];
            assert_eq!(file.read_uncached(data.len() as u64 - 30, &mut beyond).unwrap(), 30);
            assert_eq!(file.read_uncached(data.len() as u64 + 5 * BLOCK as u64, &mut beyond).unwrap(), 0);
            assert_eq!(file.read_at(data.len() as u64 + 1, &mut beyond).unwrap(), 0);
        }
        assert!(reader.read_at(u64::MAX - 2, &mut [0; 100]).is_err());
        assert!(reader.read_uncached(u64::MAX - 2, &mut [0; 100]).is_err());
    }
}

/// What is asked to be brought comes without being read, where the file system can tell.
#[test]
fn the_cache_alone_gives_all_of_it_or_nothing() {
    for Scratch { disk, root: _root } in every_disk() {
        let writer = disk.create("data").unwrap();
        let data = pattern(2, 40 * BLOCK);
        writer.write_at(0, &data, true).unwrap();
        drop(writer);
        let file = disk.open("data", Access::Read).unwrap();
        let (offset, mut buf) = (2 * BLOCK + 7, vec![0; 9 * BLOCK]);
        file.will_need(offset as u64, buf.len() as u64);
        let deadline = Instant::now() + Duration::from_secs(10);
        while file.read_cached(offset as u64, &mut buf).unwrap().is_none() {
            assert!(Instant::now() < deadline, "it comes");
            std::thread::yield_now();
        }
        assert!(buf == data[offset..offset + buf.len()]);
        file.read_at(0, &mut vec![0; 40 * BLOCK]).unwrap();
        assert_eq!(file.read_cached(39 * BLOCK as u64, &mut vec![0; BLOCK]).unwrap(), Some(()));
        for (offset, len) in [(39 * BLOCK, BLOCK + 1), (40 * BLOCK, 1), (50 * BLOCK, 9)] {
            assert_eq!(file.read_cached(offset as u64, &mut vec![0; len]).unwrap(), None, "{offset}");
        }
        file.will_need(50 * BLOCK as u64, u64::MAX);
        assert!(file.read_cached(u64::MAX - 2, &mut [0; 100]).is_err());
    }
}

#[test]
fn a_length_that_is_no_multiple_of_the_alignment_ends_a_direct_read() {
    let scratch = Scratch::new(true);
    fs::write(scratch.path("odd"), &pattern(3, 2 * BLOCK)[..5000]).unwrap();
    let file = scratch.disk.open("odd", Access::Read).unwrap();
    let mut buf = pattern(0, 2 * BLOCK);
    assert_eq!(file.read_uncached(0, &mut buf).unwrap(), 5000);
    assert_eq!(buf[..5000], pattern(3, 2 * BLOCK)[..5000]);
}

#[test]
fn direct_mode_is_in_use_where_the_kernel_states_an_alignment() {
    let scratch = Scratch::new(true);
    let align = scratch.disk.dio_align().unwrap();
    assert!(align.is_power_of_two() && align <= 65536);
    let file = scratch.disk.create("a").unwrap();
    assert_eq!(file.is_direct(), align > 1);
    if align > 1 {
        // The kernel is what refuses memory that is not aligned: the descriptor is direct indeed.
        assert!(file.write_at(1, &pattern(0, BLOCK), false).is_err());
    }
    let buffered = Scratch::new(false);
    assert_eq!(buffered.disk.dio_align().unwrap(), 1);
    let file = buffered.disk.create("a").unwrap();
    assert!(!file.is_direct());
    file.write_at(1, &pattern(4, BLOCK)[7..99], true).unwrap();
    assert_eq!(file.len().unwrap(), 93);
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    // The umask belongs to the whole process. Without any bits it cannot disturb other tests, which need none of them.
    let old = rustix::process::umask(rustix::fs::Mode::empty());
    let root = TempDir::new().unwrap();
    let path = root.path().join("a/b/c");
    let disk = RealDisk::open(&path, OPTIONS).unwrap();
    disk.create("file").unwrap();
    rustix::process::umask(old);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path.join("file")), 0o600);
    for dir in [root.path().join("a"), root.path().join("a/b"), path] {
        assert_eq!(mode(&dir), 0o700, "{}", dir.display());
    }
}

#[test]
fn a_missing_directory_is_only_made_on_request() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("none");
    let error = RealDisk::open(&path, DirOptions { create: false, ..OPTIONS }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(!path.exists());
    fs::write(&path, b"in the way").unwrap();
    assert_eq!(RealDisk::open(&path, OPTIONS).unwrap_err().kind(), io::ErrorKind::NotADirectory);
}

#[test]
fn a_directory_is_locked_once_also_in_one_process() {
    let root = TempDir::new().unwrap();
    let first = RealDisk::open(root.path(), OPTIONS).unwrap();
    assert_eq!(RealDisk::open(root.path(), OPTIONS).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let bystander = RealDisk::open(root.path(), DirOptions { lock: false, ..OPTIONS }).unwrap();
    drop(bystander);
    assert_eq!(RealDisk::open(root.path(), OPTIONS).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(first);
    RealDisk::open(root.path(), OPTIONS).unwrap();
}

#[test]
fn a_file_has_one_writer_at_a_time() {
    let Scratch { disk, root: _root } = Scratch::new(true);
    let first = disk.create("a").unwrap();
    let block = pattern(0, BLOCK);
    first.write_at(0, &block, false).unwrap();

    let second = disk.open("a", Access::Write).unwrap();
    assert!(second.write_fd().is_none());
    assert_eq!(second.write_at(0, &block, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let reader = disk.open("a", Access::Read).unwrap();
    for waiting in [&second, &reader] {
        assert_eq!(waiting.lock(Duration::from_millis(20)).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        drop(first);
    });
    reader.lock(Duration::from_secs(20)).unwrap();
    second.lock(Duration::from_secs(20)).unwrap();
    release.join().unwrap();
    second.write_at(0, &block, true).unwrap();
    assert!(second.write_fd().is_some());
    assert_eq!(reader.write_at(0, &block, false).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert!(reader.write_fd().is_none());
}

#[test]
fn only_regular_files_inside_the_directory_are_opened() {
    let scratch = Scratch::new(true);
    let disk = &scratch.disk;
    fs::write(scratch.path("target"), b"x").unwrap();
    symlink("target", scratch.path("link")).unwrap();
    fs::create_dir(scratch.path("dir")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(fs::metadata(scratch.path("pipe")).unwrap().file_type().is_fifo());
    for access in [Access::Read, Access::Write] {
        for name in ["link", "dir", "pipe", "none", "../log/target", "/etc/passwd", "", ".", "..", "a\0b"] {
            assert!(disk.open(name, access).is_err(), "{name:?}");
        }
        disk.open("target", access).unwrap();
    }
    for name in ["../x", "a/b", "", "."] {
        assert_eq!(disk.create(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(disk.unlink(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(disk.rename("target", name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    // A link in the way of a new file is not followed either.
    symlink("elsewhere", scratch.path("dangling")).unwrap();
    assert_eq!(disk.create("dangling").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(!scratch.path("elsewhere").exists());

    let mut listed: Vec<_> = disk.list().unwrap().into_iter().map(|l| (l.name, l.kind, l.len)).collect();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    let kinds: Vec<_> = listed.iter().map(|(name, kind, _)| (name.to_str().unwrap(), *kind)).collect();
    let expected = [
        ("dangling", FileKind::Symlink),
        ("dir", FileKind::Directory),
        ("link", FileKind::Symlink),
        ("pipe", FileKind::Other),
        ("target", FileKind::Regular),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(listed[4].2, 1);
    // The position of one listing is no part of the next.
    assert_eq!(disk.list().unwrap().len(), 5);
}

#[test]
fn renaming_never_replaces() {
    for Scratch { disk, root: _root } in every_disk() {
        disk.create("a").unwrap().write_at(0, &pattern(1, BLOCK), false).unwrap();
        disk.create("b").unwrap();
        assert_eq!(disk.rename("a", "b").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(disk.open("b", Access::Read).unwrap().len().unwrap(), 0);
        disk.rename("a", "c").unwrap();
        assert_eq!(disk.rename("a", "d").unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = disk.open("c", Access::Read).unwrap();
        assert_eq!((file.len().unwrap(), file.links().unwrap()), (BLOCK as u64, 1));
        disk.unlink("c").unwrap();
        assert_eq!(file.links().unwrap(), 0);
        // An open file outlives its name, also for reads past the cache.
        let mut back = vec![0; BLOCK];
        assert_eq!(file.read_uncached(0, &mut back).unwrap(), BLOCK);
        assert_eq!(back[..], pattern(1, BLOCK)[..]);
        disk.sync().unwrap();
    }
}

#[test]
fn creating_never_touches_an_existing_file() {
    let Scratch { disk, root: _root } = Scratch::new(true);
    disk.create("a").unwrap().write_at(0, &pattern(1, BLOCK), false).unwrap();
    assert_eq!(disk.create("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(disk.open("a", Access::Read).unwrap().len().unwrap(), BLOCK as u64);
}

#[test]
fn scratch_files_leave_no_name() {
    for Scratch { disk, root: _root } in every_disk() {
        let file = disk.scratch().unwrap();
        file.write_at(0, &pattern(9, BLOCK), true).unwrap();
        let mut back = vec![0; BLOCK];
        assert_eq!(file.read_uncached(0, &mut back).unwrap(), BLOCK);
        assert_eq!(back[..], pattern(9, BLOCK)[..]);
        assert_eq!(disk.list().unwrap(), []);
    }
}
