//! What is told of a directory, and what is not taken for damage.

use std::fs;
use std::os::unix::fs::FileExt;

use tidelog_format::{FRAME_HEADER_LEN, LogId, Lsn, Row, SegmentHeader, SegmentIdentity, What, payload_crc};

use super::testing::{A, B, BLOCK, Home, Image, SIZE, Seen, control, entry};
use super::{Item, Payload, ReadOnlyLog, SegmentState};
use crate::error::Error;
use crate::segment::name;

/// Three segments: one closed, one left by a crash, and the newest.
fn three() -> [Image; 3] {
    let mut first = Image::new(1, None, 1);
    first.push(&[entry(A, 1, b"one"), entry(B, 2, b"two")]);
    first.push(&[control(Row::obsolete(A, 1)), entry(B, 3, &[3; 9000])]);
    first.push(&[control(Row::segment_end(2))]);
    let mut second = Image::after(&first);
    second.push(&[entry(A, 4, b"four")]);
    let mut third = Image::after(&second);
    third.push(&[entry(A, 5, b"five")]);
    third.push(&[entry(A, 6, b"six")]);
    [first, second, third]
}

#[test]
fn everything_comes_in_order_with_its_place() {
    let [first, second, third] = three();
    let home = Home::new(&[&first, &second, &third]);
    let log = home.open();
    assert_eq!((log.oldest(), log.log_id()), (1, Some(LogId([7; 16]))));
    let infos = log.segments();
    assert_eq!(infos[0].end, Some(first.end()));
    assert_eq!(infos[1].used(), second.at);
    assert_eq!(infos[2].used(), third.at);
    assert_eq!(infos[2].checkpoint.unwrap().previous, Some((2, second.end())));

    let seen = Seen::of(&log);
    assert!(seen.is_clean());
    assert_eq!(seen.states, [SegmentState::Closed, SegmentState::Ended, SegmentState::Newest]);
    assert_eq!(seen.ids, [1, 2, 3, 4, 5, 6]);
    assert_eq!(seen.frames.len(), 9);
    assert!(seen.frames.is_sorted());

    let records = log.items().segments(1..=1).filter_map(|item| match item {
        Ok(Item::Record(record)) if record.row.entry_id == 2 => Some(record),
        _ => None,
    });
    let records: Vec<_> = records.collect();
    let place = records[0].offset() as usize;
    assert_eq!(&first.bytes[place..place + 3], b"two");
    assert_eq!(records[0].lsn, first.header.identity.lsn(records[0].frame));
    assert!(log.items().skip_payloads().all(|item| match item.unwrap() {
        Item::Record(record) => record.payload == Payload::Skipped,
        item => matches!(item, Item::Frame(_)),
    }));
}

/// What a segment holds that came into use since may lie behind frames that were not there yet when the one before it
/// was read.
#[test]
fn a_segment_that_came_into_use_since_is_not_shown() {
    let mut first = Image::new(1, None, 1);
    first.push(&[entry(A, 1, b"one")]);
    let home = Home::new(&[&first, &Image::void(2)]);
    let log = home.open();
    first.push(&[entry(A, 2, b"two")]);
    let mut second = Image::after(&first);
    second.push(&[entry(A, 3, b"three")]);
    fs::write(home.file(2), &second.bytes).unwrap();
    let seen = Seen::of(&log);
    assert!(seen.is_clean());
    assert_eq!(seen.ids, [1]);

    fs::write(home.file(1), &first.bytes).unwrap();
    assert_eq!(Seen::of(&log).ids, [1, 2]);
    assert_eq!(home.seen().ids, [1, 2, 3]);
}

#[test]
fn a_damaged_payload_hides_nothing_else() {
    let [mut first, second, third] = three();
    let at = 2 * u64::from(BLOCK) + FRAME_HEADER_LEN as u64 + 8;
    first.flip(at + 1);
    let seen = Home::new(&[&first, &second, &third]).seen();
    assert_eq!(seen.ids, [1, 3, 4, 5, 6]);
    let [(2, damage)] = &seen.damaged_payloads[..] else { panic!("{:?}", seen.damaged_payloads) };
    assert_eq!((damage.offset, damage.stream), (at, Some(B)));
    assert_eq!(damage.what, What::PayloadChecksum.to_string());
    assert!(seen.damage.is_empty() && seen.torn.is_empty());
}

#[test]
fn a_damaged_frame_of_an_older_segment_is_skipped_and_told() {
    for (segment, offset, lost) in [(0, 2, vec![1, 2]), (0, 3, vec![3]), (1, 2, vec![4]), (1, 1, vec![])] {
        let mut images = three();
        let at = offset * u64::from(BLOCK);
        images[segment].flip(at + 1);
        let [first, second, third] = images;
        let seen = Home::new(&[&first, &second, &third]).seen();
        let kept: Vec<u64> = (1..=6).filter(|id| !lost.contains(id)).collect();
        assert_eq!(seen.ids, kept, "segment {segment} offset {at}");
        assert_eq!(seen.damage.len(), 1);
        assert_eq!(seen.damage[0].offset, at);
        assert_eq!(seen.damage[0].what, What::FrameMagic.to_string());
    }
}

#[test]
fn an_end_that_is_known_must_be_reached_and_what_lies_behind_is_nothing() {
    let [first, mut second, third] = three();
    let end = second.at;
    second.push(&[entry(A, 99, b"a crash left this")]);
    let home = Home::new(&[&first, &second, &third]);
    let seen = home.seen();
    assert!(seen.is_clean() && !seen.ids.contains(&99));

    // The last frame of the segment is as if never written.
    let last = 2 * BLOCK as usize..end as usize;
    second.bytes[last].fill(0);
    second.bytes[end as usize..].fill(0);
    let seen = Home::new(&[&first, &second, &third]).seen();
    assert_eq!(seen.damage.len(), 1);
    assert_eq!(seen.damage[0].offset, 2 * u64::from(BLOCK));
}

#[test]
fn a_torn_tail_is_no_damage_until_something_proves_it() {
    let [first, second, mut third] = three();
    let torn_at = third.at;
    let payload = torn_at + FRAME_HEADER_LEN as u64;
    third.push(&[entry(A, 7, b"seven"), entry(A, 8, b"eight")]);
    let whole = third.bytes.clone();

    // A bad header, and a bad payload: the frame as a whole is cut.
    for (flipped, offset) in [(torn_at + 1, torn_at), (payload, payload)] {
        third.bytes.clone_from(&whole);
        third.flip(flipped);
        let seen = Home::new(&[&first, &second, &third]).seen();
        assert_eq!(seen.ids, [1, 2, 3, 4, 5, 6]);
        assert_eq!(seen.torn.len(), 1);
        assert_eq!(seen.torn[0].offset, offset);
        assert!(seen.damage.is_empty() && seen.damaged_payloads.is_empty());
    }

    // A later frame that does not vouch for it changes nothing; one that does makes it damage.
    third.bytes.clone_from(&whole);
    third.flip(payload);
    third.push(&[entry(A, 9, b"nine")]);
    let seen = Home::new(&[&first, &second, &third]).seen();
    assert_eq!((seen.ids.last(), seen.torn.len()), (Some(&6), 1));
    third.watermark = third.end();
    third.push(&[entry(A, 10, b"ten")]);
    let seen = Home::new(&[&first, &second, &third]).seen();
    assert_eq!(seen.ids, [1, 2, 3, 4, 5, 6, 8, 9, 10]);
    assert_eq!(seen.damaged_payloads[0].0, 7);
    assert!(seen.torn.is_empty());
    third.flip(torn_at + 1);
    let seen = Home::new(&[&first, &second, &third]).seen();
    assert_eq!(seen.ids, [1, 2, 3, 4, 5, 6, 9, 10]);
    assert_eq!((seen.damage.len(), seen.damage[0].offset), (1, torn_at));
}

#[test]
fn void_segments_are_fine_and_a_torn_first_frame_is_void() {
    let [first, second, _] = three();
    let mut fourth = Image::new(4, Some((2, second.end())), 1);
    fourth.push(&[entry(A, 5, b"five")]);
    let mut torn = Image::after(&fourth);
    torn.flip(torn.header.first_frame() + 1);
    let seen = Home::new(&[&first, &second, &Image::void(3), &fourth, &torn, &Image::void(6)]).seen();
    assert_eq!(seen.ids, [1, 2, 3, 4, 5]);
    assert!(seen.damage.is_empty());
    assert_eq!(seen.torn.len(), 1);
    let void = SegmentState::Void;
    assert_eq!(
        seen.states,
        [SegmentState::Closed, SegmentState::Ended, void, SegmentState::Newest, void, void]
    );
}

#[test]
fn a_damaged_first_frame_that_is_proven_is_damage() {
    let [first, second, mut third] = three();
    third.watermark = third.end();
    third.push(&[entry(A, 7, b"seven")]);
    third.flip(third.header.first_frame() + 1);
    let seen = Home::new(&[&first, &second, &third]).seen();
    assert_eq!(seen.ids, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((seen.damage.len(), seen.damage[0].offset), (1, third.header.first_frame()));
    assert_eq!(seen.states[2], SegmentState::Damaged);
}

#[test]
fn missing_files_are_damage_unless_they_have_retired() {
    let [first, second, third] = three();
    let seen = Home::new(&[&first, &third]).seen();
    assert_eq!(seen.ids, [1, 2, 3, 5, 6]);
    assert_eq!(seen.damage.len(), 1);
    assert!(seen.damage[0].file.ends_with(name::segment(2)));

    // The successor of a closed segment.
    let seen = Home::new(&[&first]).seen();
    assert!(seen.damage[0].file.ends_with(name::segment(2)), "{:?}", seen.damage);

    // An `oldest` record in the newest segment says what may be gone, and what is left over.
    let mut moved_on = third;
    moved_on.push(&[control(Row::oldest(2))]);
    assert!(Home::new(&[&second, &moved_on]).seen().is_clean());
    let mut left = first;
    left.flip(1);
    left.flip(2 * u64::from(BLOCK));
    let seen = Home::new(&[&left, &second, &moved_on]).seen();
    assert!(seen.is_clean());
    assert_eq!((seen.ids[0], seen.states[0]), (4, SegmentState::LeftOver));
}

#[test]
fn damaged_headers_name_the_file() {
    let damage_of = |first: &Image, second: &Image, third: &Image| {
        let home = Home::new(&[first, second, third]);
        let (seen, log) = (home.seen(), home.open());
        assert_eq!(seen.damage.len(), 1, "{:?}", seen.damage);
        assert_eq!(log.damaged_files().count(), 1);
        assert!(seen.damage[0].file.ends_with(name::segment(2)));
        assert_eq!(log.segments()[1].state, SegmentState::Damaged);
        (seen.damage[0].clone(), seen.ids)
    };
    let [first, second, third] = three();
    let mut bad = three();
    bad[1].flip(20);
    let (damage, ids) = damage_of(&first, &bad[1], &third);
    assert_eq!((damage.what, ids), (What::SegmentChecksum.to_string(), vec![1, 2, 3, 5, 6]));

    let foreign = Image::of_log(LogId([8; 16]), 2);
    assert_eq!(damage_of(&first, &foreign, &third).0.what, "log id");

    let mut low = Image::void(2);
    let identity = SegmentIdentity { base: Lsn(SIZE + 1), ..low.header.identity };
    low.header = SegmentHeader::new(identity, BLOCK, SIZE).unwrap();
    low.bytes[..64].copy_from_slice(&low.header.encode());
    let damage = damage_of(&first, &low, &third).0;
    assert_eq!((damage.what, damage.expected, damage.actual), ("base LSN".into(), 2 * SIZE, SIZE + 1));

    let home = Home::new(&[&first, &second, &third]);
    fs::copy(home.file(3), home.file(2)).unwrap();
    let damage = home.seen().damage;
    assert_eq!((damage[0].offset, damage[0].expected, damage[0].actual), (40, 2, 3));
}

#[test]
fn a_file_that_was_cut_off_is_read_as_far_as_it_goes() {
    let [first, second, third] = three();
    let home = Home::new(&[&first, &second, &third]);
    let file = fs::OpenOptions::new().write(true).open(home.file(1)).unwrap();
    file.set_len(3 * u64::from(BLOCK)).unwrap();
    let seen = home.seen();
    assert_eq!(seen.ids, [1, 2, 4, 5, 6]);
    assert_eq!((seen.damage[0].expected, seen.damage[0].actual), (SIZE, 3 * u64::from(BLOCK)));
    assert_eq!(seen.damage[1].offset, 3 * u64::from(BLOCK));
}

#[test]
fn files_that_vanish_have_retired_or_are_damage() {
    let [first, second, third] = three();
    let home = Home::new(&[&first, &second, &third]);
    let log = home.open();
    let mut items = log.items();
    fs::remove_file(home.file(1)).unwrap();
    assert!(matches!(items.next(), Some(Ok(Item::Damage(damage))) if damage.file == home.file(1)));

    let mut moved_on = Image { bytes: third.bytes.clone(), ..third };
    moved_on.push(&[control(Row::oldest(2))]);
    fs::write(home.file(3), &moved_on.bytes).unwrap();
    let items: Vec<Item> = log.items().map(Result::unwrap).collect();
    assert_eq!(items[0], Item::Retired { segment: 1 });
    assert!(!items.iter().any(|item| matches!(item, Item::Damage(_) | Item::Torn(_))));
}

#[test]
fn a_file_that_is_used_anew_under_a_reader_is_not_damage() {
    let mut first = Image::new(1, None, 1);
    // More than a reader looks ahead.
    first.push(&[entry(A, 1, &vec![1; 300 << 10])]);
    first.push(&[entry(A, 2, b"two")]);
    let second = Image::after(&first);
    let mut third = Image::after(&second);
    let home = Home::new(&[&first, &second, &third]);
    let mut items = home.open().items();
    assert!(matches!(items.next(), Some(Ok(Item::Frame(_)))));
    // The first segment retires and its file becomes the fourth, zeros at first.
    third.push(&[control(Row::oldest(2))]);
    fs::write(home.file(3), &third.bytes).unwrap();
    fs::rename(home.file(1), home.file(4)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(home.file(4)).unwrap();
    file.write_all_at(&vec![0; (SIZE - u64::from(BLOCK)) as usize], BLOCK.into()).unwrap();
    file.write_all_at(&Image::void(4).bytes[..64], 0).unwrap();
    file.sync_all().unwrap();
    let rest: Vec<Item> = items.map(Result::unwrap).collect();
    assert!(rest.contains(&Item::Retired { segment: 1 }));
    assert!(!rest.iter().any(|item| matches!(item, Item::Damage(_) | Item::Torn(_))));
    let damaged =
        |item: &Item| matches!(item, Item::Record(record) if matches!(record.payload, Payload::Damaged(_)));
    assert!(!rest.iter().any(damaged));
    assert!(matches!(rest.last(), Some(Item::Record(record)) if record.segment == 3));
}

/// The newest one too, once others have followed it, and where a recycled file shows no more than other frames.
#[test]
fn a_newest_file_that_is_used_anew_under_a_reader_does_not_end_early() {
    let mut first = Image::new(1, None, 1);
    first.header = first.header.with_recycled(true);
    first.bytes[..64].copy_from_slice(&first.header.encode());
    first.push(&[entry(A, 1, &vec![1; 300 << 10])]);
    first.push(&[entry(A, 2, b"two")]);
    let home = Home::new(&[&first]);
    let mut items = home.open().items();
    assert!(matches!(items.next(), Some(Ok(Item::Frame(_)))));
    let second = Image::after(&first);
    let mut third = Image::after(&second);
    third.push(&[control(Row::oldest(2))]);
    // Its file is the fourth now, with as many frames as it had.
    let mut fourth = Image::new(4, Some((3, third.end())), 2);
    fourth.push(&[entry(A, 3, &vec![3; 300 << 10])]);
    fourth.push(&[entry(A, 4, b"four")]);
    for image in [&second, &third] {
        fs::write(home.file(image.header.identity.sequence), &image.bytes).unwrap();
    }
    fs::rename(home.file(1), home.file(4)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(home.file(4)).unwrap();
    file.write_all_at(&fourth.bytes, 0).unwrap();
    file.sync_all().unwrap();
    let rest: Vec<Item> = items.map(Result::unwrap).collect();
    assert_eq!(rest.last(), Some(&Item::Retired { segment: 1 }), "{}", rest.len());
}

#[test]
fn what_is_not_a_log_is_refused() {
    let home = Home::new(&[]);
    fs::write(home.dir.path().join("notes.txt"), "x").unwrap();
    assert!(matches!(ReadOnlyLog::open(home.dir.path()), Err(Error::NotALog { .. })));
    let missing = ReadOnlyLog::open(home.dir.path().join("nowhere"));
    assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");

    let mut newer = Image::void(1);
    newer.bytes[8] = 9;
    let crc = payload_crc(&newer.bytes[..60]);
    newer.bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let home = Home::new(&[&newer]);
    assert!(matches!(ReadOnlyLog::open(home.dir.path()), Err(Error::UnsupportedVersion { found: 9, .. })));
}

#[test]
fn bytes_of_any_kind_are_told_and_never_panic() {
    let images = three();
    for seed in 1..60u64 {
        let home = Home::new(&[&images[0], &images[1], &images[2]]);
        let mut state = seed;
        let mut next = || {
            // xorshift: any spread will do.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..=next() % 4 {
            let file = fs::OpenOptions::new().write(true).open(home.file(1 + next() % 3)).unwrap();
            let place = next() % (7 * u64::from(BLOCK));
            file.write_all_at(&next().to_le_bytes(), place).unwrap();
        }
        // Whatever was hit, what comes out is what was put in.
        assert!(home.seen().ids.iter().all(|id| (1..=6).contains(id)));
    }
}
