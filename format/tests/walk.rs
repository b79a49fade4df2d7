//! Where the frames of a segment end, and whether that is a torn tail or damage.

mod common;

use common::{Image, Outcome, any_records, borrowed, entry, finish, stream};
use proptest::prelude::*;
use tidelog_format::*;

/// A segment of four frames, each of which vouches for all before it but one.
fn lagging() -> (Image, Vec<usize>) {
    let mut image = Image::new();
    let mut offsets: Vec<usize> = Vec::new();
    for id in 0..4 {
        let before = id as usize;
        let watermark = if before < 2 { Lsn::ZERO } else { image.lsn(offsets[before - 1]) };
        offsets.push(image.push_entry(watermark, id, &[id as u8; 700]));
    }
    (image, offsets)
}

fn as_u64(offsets: &[usize]) -> Vec<u64> {
    offsets.iter().map(|offset| *offset as u64).collect()
}

fn is_corrupt(outcome: Outcome, what: What, offset: usize) -> bool {
    matches!(outcome, Outcome::Corrupt(fault) if (fault.what, fault.offset) == (what, offset as u64))
}

fn is_torn(outcome: Outcome, what: What, offset: usize) -> bool {
    matches!(outcome, Outcome::Torn(fault) if (fault.what, fault.offset) == (what, offset as u64))
}

#[test]
fn a_sound_segment_ends_where_nothing_was_written() {
    let (image, offsets) = lagging();
    let mut walk = image.walk(Lsn::ZERO);
    let (frames, outcome) = finish(&mut walk, &image.bytes);
    assert_eq!((frames, outcome), (as_u64(&offsets), Outcome::End(image.end as u64)));
    assert_eq!(walk.highest_watermark(), image.lsn(offsets[2]));
    assert_eq!(walk.closed(), None);
    // A finished walk stays so.
    assert_eq!(finish(&mut walk, &image.bytes), (vec![], Outcome::End(image.end as u64)));
    assert_eq!(walk.resume_after_damage(&mut image.bytes.as_slice()), Ok(None));
    assert_eq!(Image::new().outcome(Lsn::ZERO), (vec![], Outcome::End(512)));
}

#[test]
fn a_torn_last_frame_is_cut_off() {
    let (mut image, offsets) = lagging();
    image.bytes[offsets[3] + 20] ^= 1;
    let (frames, outcome) = image.outcome(Lsn::ZERO);
    assert_eq!(frames, as_u64(&offsets[..3]));
    assert!(is_torn(outcome, What::HeaderChecksum, offsets[3] + 4), "{outcome:?}");
}

#[test]
fn frames_behind_a_torn_one_do_not_prove_it_by_being_there() {
    // The last frame was written while the one before was in flight: its watermark does not cover it.
    let (mut image, offsets) = lagging();
    image.bytes[offsets[2] + 64 + 704] ^= 1;
    let (frames, outcome) = image.outcome(Lsn::ZERO);
    assert_eq!(frames, as_u64(&offsets[..2]));
    assert!(is_torn(outcome, What::TableChecksum, offsets[2] + 8), "{outcome:?}");
}

#[test]
fn a_watermark_behind_a_bad_frame_proves_damage() {
    let (mut image, offsets) = lagging();
    image.bytes[offsets[1] + 24] ^= 1;
    let (frames, outcome) = image.outcome(Lsn::ZERO);
    assert_eq!(frames, as_u64(&offsets[..1]));
    assert!(is_corrupt(outcome, What::HeaderChecksum, offsets[1] + 4), "{outcome:?}");
}

#[test]
fn a_header_is_proof_even_if_its_frame_is_torn() {
    let (mut image, offsets) = lagging();
    image.bytes[offsets[1] + 24] ^= 1;
    // Of the last frame, only the header's block was written.
    image.bytes[offsets[3] + 512..].fill(0);
    image.bytes[offsets[2]..offsets[3]].fill(0);
    let (_, outcome) = image.outcome(Lsn::ZERO);
    assert!(is_corrupt(outcome, What::HeaderChecksum, offsets[1] + 4), "{outcome:?}");
}

#[test]
fn a_proof_far_behind_is_found() {
    let identity = common::identity();
    let header = SegmentHeader::new(identity, 512, 16 * FILE_SIZE_UNIT).unwrap();
    let mut bytes = vec![0; header.file_size as usize];
    for offset in [300_000 / 512 * 512, 16 * 65_536 - 512u64] {
        bytes[512..].fill(0);
        bytes[700] = 1;
        let watermark = identity.lsn(512 + 1);
        let frame = common::build_frame(&header, identity.lsn(offset), watermark, &[]);
        bytes[offset as usize..][..frame.len()].copy_from_slice(&frame);
        let mut walk = Walk::new(&header, header.file_size, Lsn::ZERO);
        let (_, outcome) = finish(&mut walk, &bytes);
        assert!(is_corrupt(outcome, What::FrameMagic, 512), "{outcome:?}");
    }
}

#[test]
fn a_hole_is_damage_where_something_proves_it_and_torn_where_nothing_does() {
    let (image, offsets) = lagging();
    let mut holed = image.clone();
    holed.bytes[offsets[1]..offsets[2]].fill(0);
    let (_, outcome) = holed.outcome(Lsn::ZERO);
    assert!(is_corrupt(outcome, What::FrameMagic, offsets[1]), "{outcome:?}");

    let mut holed = image.clone();
    holed.bytes[offsets[2]..offsets[3]].fill(0);
    let (_, outcome) = holed.outcome(Lsn::ZERO);
    assert!(is_torn(outcome, What::FrameMagic, offsets[2]), "{outcome:?}");
}

#[test]
fn what_is_proven_from_outside_counts() {
    let (mut image, offsets) = lagging();
    let end = image.lsn(image.end);
    assert_eq!(image.outcome(end).1, Outcome::End(image.end as u64));
    // Nothing written where something durable was.
    let (frames, outcome) = image.outcome(Lsn(end.0 + 1));
    assert_eq!(frames, as_u64(&offsets));
    assert!(is_corrupt(outcome, What::FrameMagic, image.end), "{outcome:?}");

    image.bytes[offsets[3]] ^= 1;
    let (_, outcome) = image.outcome(image.lsn(offsets[3]));
    assert!(is_torn(outcome, What::FrameMagic, offsets[3]), "{outcome:?}");
    let (_, outcome) = image.outcome(Lsn(image.lsn(offsets[3]).0 + 1));
    assert!(is_corrupt(outcome, What::FrameMagic, offsets[3]), "{outcome:?}");
}

#[test]
fn a_known_end_bounds_the_walk() {
    let (image, offsets) = lagging();
    let mut walk = Walk::new(&image.header, offsets[2] as u64, image.lsn(offsets[2]));
    let (frames, outcome) = finish(&mut walk, &image.bytes);
    assert_eq!((frames, outcome), (as_u64(&offsets[..2]), Outcome::End(offsets[2] as u64)));
    // An end that cuts a frame is no end.
    let mut walk = Walk::new(&image.header, offsets[2] as u64 + 512, image.lsn(offsets[2] + 512));
    let (_, outcome) = finish(&mut walk, &image.bytes);
    assert!(is_corrupt(outcome, What::Length, offsets[2]), "{outcome:?}");
}

#[test]
fn a_short_file_never_passes_for_a_whole_one() {
    let (image, offsets) = lagging();
    let proven = image.lsn(image.end);
    for len in 0..image.end {
        let mut walk = Walk::new(&image.header, len as u64, proven);
        let (frames, outcome) = finish(&mut walk, &image.bytes[..len]);
        assert!(matches!(outcome, Outcome::Corrupt(_)), "{len}: {outcome:?}");
        let whole = offsets
            .iter()
            .zip(&[&offsets[1..], &[image.end]].concat())
            .filter(|(_, end)| **end <= len)
            .count();
        assert_eq!(frames.len(), whole);
    }
    // The same where less is there than the length promised, as long as a header or table is missing.
    for len in 0..=image.end - 512 {
        let mut walk = Walk::new(&image.header, image.end as u64, proven);
        let (_, outcome) = finish(&mut walk, &image.bytes[..len]);
        assert!(matches!(outcome, Outcome::Corrupt(_)), "{len}: {outcome:?}");
    }
}

#[test]
fn a_torn_frame_still_says_what_was_durable_before_it() {
    let (mut image, offsets) = lagging();
    let end = image.end;
    let torn = image.push_entry(image.lsn(end), 9, b"tail");
    image.bytes[torn + 64 + 8] ^= 1;
    let mut walk = image.walk(Lsn::ZERO);
    let (frames, outcome) = finish(&mut walk, &image.bytes);
    assert_eq!(frames, as_u64(&offsets));
    assert!(is_torn(outcome, What::TableChecksum, torn + 8), "{outcome:?}");
    assert_eq!(walk.highest_watermark(), image.lsn(torn));
}

#[test]
fn headers_behind_a_torn_frame_raise_the_watermark() {
    let (mut image, _) = lagging();
    let torn = image.push_entry(Lsn::ZERO, 8, b"torn");
    image.push_entry(image.lsn(torn), 9, b"behind");
    image.bytes[torn] ^= 1;
    let mut walk = image.walk(Lsn::ZERO);
    let (_, outcome) = finish(&mut walk, &image.bytes);
    assert!(is_torn(outcome, What::FrameMagic, torn), "{outcome:?}");
    assert_eq!(walk.highest_watermark(), image.lsn(torn));
}

#[test]
fn the_closing_frame_ends_the_walk() {
    let (mut image, mut offsets) = lagging();
    offsets.push(image.push(Lsn::ZERO, &[(Row::segment_end(8), &[])]));
    let end = image.end;
    image.bytes[end..].fill(0x5a);
    let mut walk = image.walk(Lsn::ZERO);
    let (frames, outcome) = finish(&mut walk, &image.bytes);
    assert_eq!((frames, outcome), (as_u64(&offsets), Outcome::End(end as u64)));
    assert_eq!(walk.closed(), Some(8));
}

#[test]
fn salvage_goes_on_behind_damage() {
    let (mut image, offsets) = lagging();
    image.bytes[offsets[1] + 24] ^= 1;
    let mut bytes = image.bytes.as_slice();
    let mut walk = image.walk(Lsn::ZERO);
    finish(&mut walk, bytes);
    assert_eq!(walk.resume_after_damage(&mut bytes), Ok(Some(offsets[2] as u64)));
    let (frames, outcome) = finish(&mut walk, bytes);
    assert_eq!((frames, outcome), (as_u64(&offsets[2..]), Outcome::End(image.end as u64)));
}

#[test]
fn an_error_of_the_source_leaves_the_walk_where_it_was() {
    struct Flaky<'a>(&'a [u8], bool);
    impl Source for Flaky<'_> {
        type Error = u64;
        fn read(&mut self, offset: u64, len: usize) -> Result<&[u8], u64> {
            self.1 = !self.1;
            if self.1 { Err(offset) } else { Ok(self.0.read(offset, len).unwrap()) }
        }
    }
    let (image, offsets) = lagging();
    let mut source = Flaky(&image.bytes, false);
    let mut walk = image.walk(Lsn::ZERO);
    // A frame of two blocks takes two reads, so it needs a block that holds its table to get past such a source.
    assert!(matches!(walk.next(&mut source), Err(512)));
    assert_eq!(walk.offset(), 512);
    let (frames, _) = finish(&mut walk, &image.bytes);
    assert_eq!(frames, as_u64(&offsets));
}

#[test]
fn a_table_as_large_as_its_frame_is_read_whole() {
    let mut image = Image::new();
    let records: Vec<(Row, &[u8])> = (0..1000).map(|id| (entry(stream(1), id, b""), &b""[..])).collect();
    image.push(Lsn::ZERO, &records);
    let mut walk = image.walk(Lsn::ZERO);
    let Ok(Step::Frame(frame)) = walk.next(&mut image.bytes.as_slice()) else { panic!("no frame") };
    assert_eq!(frame.table.rows().map(|row| row.entry_id).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
    assert_eq!(frame.end(), image.end as u64);
}

/// Walks and salvages to the end, and uses all that the walk hands out.
fn exhaust(image: &Image, proven: Lsn) {
    let mut bytes = image.bytes.as_slice();
    let mut walk = image.walk(proven);
    let mut offset = 0;
    loop {
        match walk.next(&mut bytes).unwrap() {
            Step::Frame(frame) => {
                assert!(frame.offset > offset, "a walk goes forward");
                offset = frame.offset;
                let whole = &image.bytes[offset as usize..frame.end() as usize];
                assert_eq!(frame.table.rows().count(), frame.header.row_count as usize);
                let _ = verify_payloads(whole, &frame.table, offset);
                for row in frame.table.rows() {
                    assert_eq!(
                        frame.table.range(frame.table.find(row.stream)).next().unwrap().stream,
                        row.stream
                    );
                    if let Ok(payload) = row.payload_in(whole, offset)
                        && let Ok(Record::Checkpoint(bytes)) = Record::decode(&row, payload, offset)
                    {
                        let _ = Checkpoint::decode(bytes, image.header.identity.seed(), offset);
                    }
                }
                assert!(frame.table.runs().count() <= frame.table.len());
            }
            Step::Torn(_) | Step::Corrupt(_) | Step::End { .. } => {
                if walk.resume_after_damage(&mut bytes).unwrap().is_none() {
                    return;
                }
            }
        }
    }
}

fn written(frames: &[Vec<(Row, Vec<u8>)>]) -> (Image, Vec<usize>) {
    let mut image = Image::new();
    let checkpoint = Checkpoint::default().encode(image.header.identity.seed());
    let mut offsets = vec![image.push(Lsn::ZERO, &[(Row::checkpoint(&checkpoint), &checkpoint)])];
    for records in frames {
        let watermark = image.lsn(*offsets.last().unwrap());
        offsets.push(image.push(watermark, &borrowed(records)));
    }
    (image, offsets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_bytes_can_be_walked(bytes in prop::collection::vec(any::<u8>(), 0..5000), limit: u64, proven: u64) {
        let mut walk = Walk::new(&common::header(), limit, Lsn(proven));
        let (frames, outcome) = finish(&mut walk, &bytes);
        prop_assert_eq!(frames, Vec::<u64>::new());
        if proven > common::identity().lsn(512).0 {
            prop_assert!(matches!(outcome, Outcome::Corrupt(_)));
        }
    }

    #[test]
    fn written_frames_are_all_met(frames in prop::collection::vec(any_records(), 0..8)) {
        let (image, offsets) = written(&frames);
        prop_assert_eq!(image.outcome(Lsn::ZERO), (as_u64(&offsets), Outcome::End(image.end as u64)));
        exhaust(&image, Lsn::ZERO);
    }

    #[test]
    fn mutated_segments_can_be_walked(
        frames in prop::collection::vec(any_records(), 1..8),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        proven: u64,
    ) {
        let (mut image, _) = written(&frames);
        for (place, byte) in edits {
            let place = 512 + place.index(image.end - 512);
            image.bytes[place] = byte;
        }
        exhaust(&image, Lsn::ZERO);
        exhaust(&image, Lsn(proven));
    }

    /// Headers and tables with good checksums and any content.
    #[test]
    fn forged_frames_can_be_walked(
        frames in prop::collection::vec(any_records(), 1..8),
        header_edits in prop::collection::vec((any::<prop::sample::Index>(), 8..64usize, any::<u8>()), 0..4),
        row_edits in prop::collection::vec((any::<prop::sample::Index>(), 0..96usize, any::<u8>()), 0..8),
    ) {
        let (mut image, offsets) = written(&frames);
        for (frame, place, byte) in row_edits {
            let frame = offsets[frame.index(offsets.len())];
            let table = u32::from_le_bytes(image.bytes[frame + 20..frame + 24].try_into().unwrap()) as usize;
            if let Some(place) = image.bytes.get_mut(frame + table + place) {
                *place = byte;
            }
        }
        for (frame, place, byte) in header_edits {
            let frame = offsets[frame.index(offsets.len())];
            image.bytes[frame + place] = byte;
        }
        for frame in offsets {
            image.fix_up(frame);
        }
        exhaust(&image, Lsn::ZERO);
    }

    /// Whatever is damaged, durable frames are met or their loss is an error.
    #[test]
    fn durable_frames_never_vanish(
        frames in prop::collection::vec(any_records(), 2..8),
        bad in any::<prop::sample::Index>(),
        place in 0..64usize,
        zeroed: bool,
    ) {
        let (mut image, offsets) = written(&frames);
        // The last frame vouches for all before the one before it.
        let durable = offsets.len() - 2;
        let index = bad.index(offsets.len());
        if zeroed {
            image.bytes[offsets[index]..offsets[index] + 512].fill(0);
        } else {
            image.bytes[offsets[index] + place] ^= 0x10;
        }
        let (met, outcome) = image.outcome(Lsn::ZERO);
        prop_assert_eq!(met, as_u64(&offsets[..index]));
        prop_assert_eq!(matches!(outcome, Outcome::Corrupt(_)), index < durable, "{:?}", outcome);
    }
}

/// A segment that another one's frames lie under.
fn recycled() -> (Image, Vec<usize>) {
    let old = SegmentIdentity { sequence: 3, base: Lsn(0x0008_0000), ..common::identity() };
    let old = SegmentHeader::new(old, common::BLOCK, FILE_SIZE_UNIT).unwrap();
    let mut image = Image::new();
    image.header = image.header.with_recycled(true);
    image.bytes[..SEGMENT_HEADER_LEN].copy_from_slice(&image.header.encode());
    let payload = [9; 1700];
    let mut offset = image.end;
    loop {
        let lsn = old.identity.lsn(offset as u64);
        let frame = common::build_frame(&old, lsn, lsn, &[(entry(stream(1), 7, &payload), &payload)]);
        let Some(place) = image.bytes.get_mut(offset..offset + frame.len()) else { break };
        place.copy_from_slice(&frame);
        offset += frame.len();
    }
    let offsets = (0..3).map(|id| image.push_entry(Lsn::ZERO, id, &[id as u8; 700])).collect();
    (image, offsets)
}

#[test]
fn what_an_earlier_segment_left_is_no_torn_write() {
    let (image, offsets) = recycled();
    assert_eq!(image.outcome(Lsn::ZERO), (as_u64(&offsets), Outcome::End(image.end as u64)));
    assert_eq!(SegmentHeader::decode(&image.bytes), Ok(image.header));
    // Nothing of it is taken for a frame, wherever the frames end.
    for end in (512..image.bytes.len()).step_by(512) {
        let mut walk = Walk::new(&image.header, image.bytes.len() as u64, Lsn::ZERO);
        let mut bytes = image.bytes.clone();
        let old = &recycled().0.bytes[image.end..];
        let shift = old.len().min(bytes.len() - end);
        bytes[512..end].fill(0);
        bytes[end..end + shift].copy_from_slice(&old[..shift]);
        assert_eq!(finish(&mut walk, &bytes), (vec![], Outcome::End(512)));
    }
}

#[test]
fn a_torn_write_into_a_used_file_is_told_and_damage_there_is_found() {
    let (mut image, offsets) = recycled();
    image.bytes[offsets[2] + 20] ^= 1;
    let (frames, outcome) = image.outcome(Lsn::ZERO);
    assert_eq!(frames, as_u64(&offsets[..2]));
    assert!(is_torn(outcome, What::HeaderChecksum, offsets[2] + 4), "{outcome:?}");
    // Its first sector never came: a frame behind it tells.
    let (mut image, offsets) = recycled();
    let (old, _) = recycled();
    image.bytes[offsets[1]..offsets[1] + 512].copy_from_slice(&old.bytes[8192..8704]);
    let (frames, outcome) = image.outcome(Lsn::ZERO);
    assert_eq!(frames, as_u64(&offsets[..1]));
    assert!(matches!(outcome, Outcome::Torn(_)), "{outcome:?}");
    let proof = image.lsn(offsets[2]);
    image.push_entry(proof, 3, &[1; 100]);
    assert!(matches!(image.outcome(Lsn::ZERO).1, Outcome::Corrupt(_)));
}
