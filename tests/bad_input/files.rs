//! Directories that are no sound log.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidelog::{BackendChoice, Corruption, Create, Error, Log, Options, ReadOptions};
use tidelog_format::{SEGMENT_HEADER_LEN, SegmentHeader};

use crate::common::{backends, files, snapshot};
use crate::{A, copy, ids, one, options, segment};

/// A closed log: segments with frames, and above them one that was prepared and holds none.
struct Sound {
    home: TempDir,
    backend: BackendChoice,
    last: u64,
    newest: u64,
    void: u64,
}

fn header(file: &Path) -> SegmentHeader {
    SegmentHeader::decode(&fs::read(file).unwrap()[..SEGMENT_HEADER_LEN]).unwrap()
}

impl Sound {
    fn new(backend: BackendChoice) -> Self {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        let mut id = 0;
        let highest = loop {
            id += 1;
            let lsn = log.append_durable(&one(A, id)).unwrap();
            let (highest, path) = files::segments(home.path()).pop_last().unwrap();
            if id >= 100 && header(&path).identity.base > lsn {
                break highest;
            }
            assert!(id < 2000, "no segment is prepared ahead");
        };
        // As a crash leaves it: closing removes the segment that was prepared and not used.
        let home = {
            let crashed = copy(home.path());
            log.close().unwrap();
            crashed
        };
        let log = Log::open(home.path(), options(backend)).unwrap();
        let (newest, void) = (log.recovery().newest.unwrap(), log.recovery().void_segments);
        log.close().unwrap();
        assert_eq!((newest, void), (highest - 1, 1));
        assert!(newest >= 4);
        Self { home, backend, last: id, newest, void: highest }
    }

    fn open(&self, dir: &Path) -> Result<Log, Error> {
        Log::open(dir, options(self.backend))
    }

    /// A copy, spoilt: opening it is refused and changes nothing.
    fn refuses(&self, what: &str, spoil: impl FnOnce(&Path), right: impl FnOnce(&Path, Error) -> bool) {
        let home = copy(self.home.path());
        spoil(home.path());
        let before = snapshot(home.path());
        let error = self.open(home.path()).map(drop).expect_err(what);
        assert!(before == snapshot(home.path()), "{what}: the refusal changed something: {error}");
        let text = format!("{:?}: {what}: {error:?}", self.backend);
        assert!(right(home.path(), error), "{text}");
    }
}

/// Changes a header and makes its checksum fit.
fn reheader(file: &Path, at: usize, bytes: &[u8]) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut header = [0; SEGMENT_HEADER_LEN];
    file.read_exact_at(&mut header, 0).unwrap();
    header[at..at + bytes.len()].copy_from_slice(bytes);
    let checksum = crc32fast::hash(&header[..60]);
    header[60..].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&header, 0).unwrap();
}

fn flip(file: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn corrupt(error: Error, right: impl FnOnce(Corruption) -> bool) -> bool {
    let Error::Corrupt(found) = error else { return false };
    right(*found)
}

#[test]
fn versions_and_logs_that_are_not_its_own_are_refused() {
    for backend in backends() {
        let log = Sound::new(backend);
        for (sequence, version) in [(2, 0), (2, u32::MAX), (log.newest, 2), (log.void, 2)] {
            log.refuses(
                "another version",
                |dir| reheader(&segment(dir, sequence), 8, &version.to_le_bytes()),
                |dir, error| {
                    let Error::UnsupportedVersion { file, found, supported } = error else { return false };
                    (file, found, supported) == (segment(dir, sequence), version, tidelog_format::VERSION)
                },
            );
        }
        // The highest file says whose log it is.
        for (sequence, named) in [(1, 1), (log.newest, log.newest), (log.void, log.newest)] {
            log.refuses(
                "a file of another log",
                |dir| reheader(&segment(dir, sequence), 24, b"another log's id"),
                |dir, error| {
                    let Error::ForeignLog { file, expected, found } = error else { return false };
                    file == segment(dir, named) && expected != found
                },
            );
        }
    }
}

#[test]
fn files_that_are_missing_or_short_or_in_the_place_of_others_are_damage() {
    for backend in backends() {
        let log = Sound::new(backend);
        log.refuses(
            "a gap",
            |dir| fs::remove_file(segment(dir, 2)).unwrap(),
            |dir, error| {
                corrupt(error, |it| it.file == segment(dir, 2) && (it.expected, it.actual) == (1, 0))
            },
        );
        log.refuses(
            "no successor of a closed segment",
            |dir| {
                fs::remove_file(segment(dir, log.void)).unwrap();
                fs::remove_file(segment(dir, log.newest)).unwrap();
            },
            |dir, error| {
                corrupt(error, |it| it.file == segment(dir, log.newest) && it.what.contains("successor"))
            },
        );
        for sequence in [log.newest, log.void] {
            log.refuses(
                "an empty file",
                |dir| drop(File::create(segment(dir, sequence)).unwrap()),
                |dir, error| {
                    corrupt(error, |it| {
                        let found = (it.file, it.expected, it.actual);
                        found == (segment(dir, sequence), SEGMENT_HEADER_LEN as u64, 0)
                    })
                },
            );
            log.refuses(
                "a header of zeros",
                |dir| {
                    let file = File::options().write(true).open(segment(dir, sequence)).unwrap();
                    file.write_all_at(&[0; SEGMENT_HEADER_LEN], 0).unwrap();
                },
                |dir, error| {
                    corrupt(error, |it| {
                        it.file == segment(dir, sequence) && it.actual == 0 && it.expected != 0
                    })
                },
            );
            log.refuses(
                "a file that lost its end",
                |dir| {
                    let file = File::options().write(true).open(segment(dir, sequence)).unwrap();
                    file.set_len(file.metadata().unwrap().len() - 512).unwrap();
                },
                |dir, error| {
                    corrupt(error, |it| it.file == segment(dir, sequence) && it.expected == it.actual + 512)
                },
            );
        }
        log.refuses(
            "a file under the name of another",
            |dir| {
                fs::copy(segment(dir, log.newest), segment(dir, log.void)).unwrap();
            },
            |dir, error| {
                corrupt(error, |it| {
                    (it.file, it.expected, it.actual) == (segment(dir, log.void), log.void, log.newest)
                })
            },
        );
    }
}

#[test]
fn damage_below_the_watermark_is_no_end_of_the_log() {
    for backend in backends() {
        let log = Sound::new(backend);
        let newest = segment(log.home.path(), log.newest);
        let frames = files::frames(&newest);
        let (first, (middle, rows)) = (frames[0].0.start, &frames[frames.len() / 2]);
        assert!(middle.start > first && !rows.is_empty());
        let table = middle.start + u64::from((rows[0].offset + rows[0].length).next_multiple_of(8));
        let places =
            [20, first + 8, first + 64 + 8, first + 64 + 40, middle.start, middle.start + 30, table + 9];
        for at in places {
            log.refuses(
                &format!("a bit at {at}"),
                |dir| flip(&segment(dir, log.newest), at),
                |dir, error| {
                    corrupt(error, |it| {
                        it.file == segment(dir, log.newest)
                            && it.offset.abs_diff(at) < 4096
                            && it.expected != it.actual
                    })
                },
            );
        }
        log.refuses(
            "a frame of zeros",
            |dir| {
                let file = File::options().write(true).open(segment(dir, log.newest)).unwrap();
                file.write_all_at(&vec![0; (middle.end - middle.start) as usize], middle.start).unwrap();
            },
            |_, error| corrupt(error, |it| it.offset == middle.start && it.actual == 0),
        );
    }
}

#[test]
fn a_damaged_header_of_an_old_segment_is_the_error_of_who_reads_it() {
    for backend in backends() {
        let log = Sound::new(backend);
        let home = copy(log.home.path());
        flip(&segment(home.path(), 2), 20);
        let opened = log.open(home.path()).unwrap();
        let rows = files::frames(&segment(log.home.path(), 3));
        let above = rows.iter().flat_map(|(_, rows)| rows).find(|row| row.is_entry()).unwrap().entry_id;
        let sound = opened.read(A, above.., ReadOptions::new()).unwrap();
        assert!(sound.map(|entry| entry.unwrap().id).eq(above..=log.last));
        let error = opened.read(A, .., ReadOptions::new()).unwrap().find_map(Result::err).unwrap();
        assert!(corrupt(error, |it| it.file == segment(home.path(), 2) && it.expected != it.actual));
        opened.append_durable(&one(A, log.last + 1)).unwrap();
        assert!(opened.failure().is_none());
        assert!(segment(home.path(), 2).exists(), "it pins itself");
    }
}

#[test]
fn the_remains_of_a_torn_write_are_cut_off_and_reported() {
    for backend in backends() {
        let log = Sound::new(backend);
        let end = files::frames(&segment(log.home.path(), log.newest)).last().unwrap().0.end;
        for (bytes, at) in [(b"remains!".as_slice(), end), (b"TLFR".as_slice(), end + 1000)] {
            let home = copy(log.home.path());
            let file = File::options().write(true).open(segment(home.path(), log.newest)).unwrap();
            file.write_all_at(bytes, at).unwrap();
            let opened = log.open(home.path()).unwrap();
            let torn = opened.recovery().torn_tail.clone().unwrap();
            assert_eq!((torn.file, torn.offset), (segment(home.path(), log.newest), end));
            assert!(!torn.reason.is_empty());
            opened.append_durable(&one(A, log.last + 1)).unwrap();
            opened.close().unwrap();
            let opened = log.open(home.path()).unwrap();
            assert_eq!(opened.recovery().torn_tail, None);
            assert_eq!(ids(&opened, A), (1..=log.last + 1).collect::<Vec<_>>());
        }
    }
}

type Make = fn(&Path);

#[test]
fn the_logs_names_are_for_regular_files() {
    for backend in backends() {
        let log = Sound::new(backend);
        let named = |dir: &Path, error, name: &str| match error {
            Error::NotALog { path, reason } => {
                path == dir && reason.contains(dir.join(name).to_str().unwrap())
            }
            _ => false,
        };
        for name in ["3.log", "3.idx", "77.idx", "77.spare", "77.log.new", "77.spare.new"] {
            let (number, suffix) = name.split_once('.').unwrap();
            let name = format!("{number:0>20}.{suffix}");
            let kinds: [(&str, Make); 4] = [
                ("a directory", |place| fs::create_dir(place).unwrap()),
                ("a link to nothing", |place| symlink("nowhere", place).unwrap()),
                ("a socket", |place| drop(UnixListener::bind(place).unwrap())),
                // Whoever opened it would wait for the other end.
                ("a pipe", |place| {
                    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                    let kind = rustix::fs::FileType::Fifo;
                    rustix::fs::mknodat(rustix::fs::CWD, place, kind, mode, 0).unwrap();
                }),
            ];
            for (kind, make) in kinds {
                let spoil = |dir: &Path| {
                    let place = dir.join(&name);
                    let _ = fs::remove_file(&place);
                    make(&place);
                };
                log.refuses(&format!("{kind} as {name}"), spoil, |dir, error| named(dir, error, &name));
            }
        }
    }
}

#[test]
fn what_is_left_over_is_removed_and_told() {
    for backend in backends() {
        let log = Sound::new(backend);
        let home = copy(log.home.path());
        let spare = |number: u64| home.path().join(format!("{number:020}.spare"));
        let mut left: Vec<_> =
            ["00000000000000000099.log.new", "00000000000000000099.idx.new", "00000000000000000098.idx"]
                .map(|name| home.path().join(name))
                .to_vec();
        for path in &left {
            fs::write(path, b"half").unwrap();
        }
        // The largest reserve is kept.
        fs::write(spare(500), vec![1; 1 << 20]).unwrap();
        fs::write(spare(501), b"small").unwrap();
        left.extend(
            snapshot(home.path())
                .keys()
                .filter(|name| name.contains(".spare"))
                .map(|name| home.path().join(name)),
        );
        left.retain(|path| *path != spare(500));
        let opened = log.open(home.path()).unwrap();
        let mut removed = opened.recovery().removed.clone();
        removed.sort();
        left.sort();
        assert_eq!(removed, left);
        assert!(left.iter().all(|path| !path.exists()) && spare(500).exists());
        assert_eq!(ids(&opened, A), (1..=log.last).collect::<Vec<_>>());
    }
}

#[test]
fn what_lies_below_the_oldest_segment_is_not_looked_into() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        for id in 1..=60 {
            log.append_durable(&one(A, id)).unwrap();
        }
        log.obsolete(A, 60).unwrap();
        log.append_durable(&one(A, 61)).unwrap();
        let begun = Instant::now();
        while segment(home.path(), 1).exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the dead segment stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        log.close().unwrap();
        fs::write(segment(home.path(), 1), b"no header at all").unwrap();
        let log = Log::open(home.path(), options(backend)).unwrap();
        assert_eq!(log.recovery().removed, [segment(home.path(), 1)]);
        assert_eq!((ids(&log, A), segment(home.path(), 1).exists()), (vec![61], false));
    }
}

#[test]
fn paths_that_lead_to_no_directory_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| home.path().join(name);
    fs::write(place("file"), b"mine").unwrap();
    symlink("nowhere", place("dangling")).unwrap();
    symlink("loop", place("loop")).unwrap();
    let before = snapshot(home.path());
    let nul = Path::new(std::ffi::OsStr::from_bytes(b"a\0b"));
    let long = place(&"x".repeat(300));
    for backend in backends() {
        for path in [
            &place("file"),
            &place("file/below"),
            &place("dangling"),
            &place("loop"),
            nul,
            &long,
            Path::new(""),
        ] {
            match Log::open(path, options(backend)) {
                Err(Error::NotALog { path: named, .. } | Error::Io { path: named, .. }) => {
                    assert_eq!(named, path);
                }
                other => panic!("{}: {other:?}", path.display()),
            }
        }
    }
    assert!(before == snapshot(home.path()));
}

#[test]
fn a_directory_with_left_overs_alone_is_an_empty_one() {
    for backend in backends() {
        let home = tempfile::tempdir().unwrap();
        let left = home.path().join("00000000000000000001.log.new");
        fs::write(&left, b"half").unwrap();
        let before = snapshot(home.path());
        let refused = Log::open(home.path(), options(backend).create(Create::Never));
        assert!(matches!(refused, Err(Error::NotALog { path, .. }) if path == home.path()));
        assert!(before == snapshot(home.path()));
        let log = Log::open(home.path(), options(backend).create(Create::Empty)).unwrap();
        assert_eq!(log.recovery().removed, [left]);
        log.append_durable(&one(A, 1)).unwrap();
    }
}

type Set = fn(Options) -> Options;

#[test]
fn bad_options_make_no_directory_and_touch_no_log() {
    for backend in backends() {
        let log = Sound::new(backend);
        let missing = log.home.path().join("sub/log");
        let bad: [(Set, &str, u64); 6] = [
            (|it| it.block_size(0), "block_size", 0),
            (|it| it.block_size(u32::MAX), "block_size", u32::MAX.into()),
            (|it| it.frame_size(4096).block_size(8192), "frame_size", 4096),
            (|it| it.first_segment_size(u64::MAX - 65_535), "first_segment_size", u64::MAX - 65_535),
            (|it| it.staging_buffers(usize::MAX), "staging_buffers", u64::MAX),
            (|it| it.prepare_rate(0), "prepare_rate", 0),
        ];
        let before = snapshot(log.home.path());
        for (set, option, bad) in bad {
            for path in [log.home.path(), &missing] {
                match Log::open(path, set(options(backend))) {
                    Err(Error::InvalidOption { name, value, .. }) => assert_eq!((name, value), (option, bad)),
                    other => panic!("{option} = {bad}: {other:?}"),
                }
            }
        }
        assert!(before == snapshot(log.home.path()));
    }
}
