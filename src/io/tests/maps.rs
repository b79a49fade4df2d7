use std::fs::{File, OpenOptions};

use super::*;

fn mapped(scratch: &Scratch, blocks: usize) -> (Arc<dyn DiskFile>, Arc<dyn Mapping>) {
    let writer = scratch.disk.create("data").unwrap();
    writer.write_at(0, &pattern(1, blocks * BLOCK), true).unwrap();
    drop(writer);
    let file = scratch.disk.open("data", Access::Read).unwrap();
    let map = file.map((blocks * BLOCK) as u64).unwrap();
    (file, map)
}

fn shorten(scratch: &Scratch, len: u64) {
    OpenOptions::new().write(true).open(scratch.path("data")).unwrap().set_len(len).unwrap();
}

#[test]
fn bytes_share_the_map_and_keep_it() {
    for scratch in every_disk() {
        let (file, map) = mapped(&scratch, 4);
        let data = pattern(1, 4 * BLOCK);
        assert_eq!((map.len(), file.maps()), (4 * BLOCK, 1));
        let (a, b) = (map.bytes(10..5000).unwrap(), map.bytes(0..4 * BLOCK).unwrap());
        assert_eq!(a[..], data[10..5000]);
        assert_eq!(b[..], data[..]);
        assert_eq!(a.as_ptr(), b[10..].as_ptr(), "no copy");
        let mut seen = Vec::new();
        map.with(BLOCK..BLOCK + 3, &mut |bytes| seen.extend_from_slice(bytes)).unwrap();
        assert_eq!(seen, data[BLOCK..BLOCK + 3]);

        drop((map, b));
        assert_eq!(file.maps(), 1, "handed-out bytes keep the map");
        assert_eq!(a[..], data[10..5000]);
        drop(a);
        assert_eq!(file.maps(), 0);
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    for scratch in every_disk() {
        let (file, map) = mapped(&scratch, 4);
        shorten(&scratch, BLOCK as u64 + 100);
        for range in [0..4 * BLOCK, 2 * BLOCK..2 * BLOCK + 1, BLOCK..BLOCK + 101] {
            assert_eq!(map.bytes(range.clone()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            let error = map.with(range, &mut |_| panic!("shown")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(map.bytes(0..BLOCK + 100).unwrap()[..], pattern(1, 2 * BLOCK)[..BLOCK + 100]);
        assert_eq!(file.map(2 * BLOCK as u64).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn ranges_outside_the_map_are_refused() {
    let scratch = Scratch::new(true);
    let (_file, map) = mapped(&scratch, 1);
    // The file may grow behind the map: the map does not.
    shorten(&scratch, 4 * BLOCK as u64);
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..BLOCK + 1, BLOCK + 1..BLOCK + 2, 5..4, 0..usize::MAX] {
        assert_eq!(map.bytes(range).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    assert_eq!(map.bytes(BLOCK..BLOCK).unwrap().len(), 0);
}

#[test]
fn a_map_of_nothing_is_empty() {
    let scratch = Scratch::new(true);
    scratch.disk.create("empty").unwrap();
    let file = scratch.disk.open("empty", Access::Read).unwrap();
    assert_eq!(file.map(0).unwrap().bytes(0..0).unwrap().len(), 0);
    assert!(file.map(1).is_err());
    assert!(file.map(u64::MAX).is_err());
}

/// A file that is open for reading, here or elsewhere, is not to be written again, however the name has changed.
#[test]
fn who_has_a_file_open_keeps_it_from_being_written_again() {
    for scratch in every_disk() {
        let (file, map) = mapped(&scratch, 2);
        let bytes = map.bytes(0..BLOCK).unwrap();
        scratch.disk.rename("data", "kept").unwrap();
        let other = RealDisk::open(scratch.disk.path(), DirOptions { create: false, lock: false, ..OPTIONS })
            .unwrap();
        let writer = other.open("kept", Access::Write).unwrap();
        let refused = || writer.exclude_readers().unwrap_err().kind();
        assert_eq!(refused(), io::ErrorKind::WouldBlock);
        drop((file, map));
        assert_eq!(refused(), io::ErrorKind::WouldBlock, "handed-out bytes keep it");
        assert!(writer.map(1).is_err(), "of a file that is written no map is made");
        drop(bytes);
        writer.exclude_readers().unwrap();

        let late = scratch.disk.open("kept", Access::Read).unwrap();
        assert!(late.map(1).is_err(), "who comes meanwhile does not count");
        assert_eq!(late.read_at(0, &mut [0; 8]).unwrap(), 8);
        drop(late);
        writer.admit_readers().unwrap();
        let reader = scratch.disk.open("kept", Access::Read).unwrap();
        reader.map(1).unwrap();
        assert_eq!(refused(), io::ErrorKind::WouldBlock);
        writer.write_at(0, &pattern(2, BLOCK), true).unwrap();
    }
}

/// What stands in for population on kernels without it, and gives the cause where population fails.
#[test]
fn reading_stands_in_for_population() {
    let scratch = Scratch::new(true);
    mapped(&scratch, 40);
    let file = Arc::new(File::open(scratch.path("data")).unwrap());
    let map = map::RealMap::new(&file, 40 * BLOCK as u64, &Arc::default()).unwrap();
    let errors = [libc::EINVAL, libc::EFAULT];
    for error in errors.map(io::Error::from_raw_os_error) {
        map.explain(&(5..40 * BLOCK), &error).unwrap();
    }
    shorten(&scratch, 30 * BLOCK as u64);
    for error in errors.map(io::Error::from_raw_os_error) {
        assert_eq!(map.explain(&(5..40 * BLOCK), &error).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
