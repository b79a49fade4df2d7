//! What the tool shows of journals: in a dump, and as the state that they come to.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use tidelog::remote_log::{
    CustomMetadata, JOURNAL_CLASS, Journal, JournalOptions, LeaderEpoch, RemoteLogMetadataManager,
    RemoteLogSegmentDetails, RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState, RemotePartitionDeleteMetadata, RemotePartitionDeleteState,
    TideRemoteLogMetadataManager, TopicIdPartition, Uuid,
};
use tidelog::{BackendChoice, Batch, Log, Options, StreamId};

use common::{Home, Output, run, stdout};

const FINISHED: RemoteLogSegmentState = RemoteLogSegmentState::CopySegmentFinished;
const DELETING: RemoteLogSegmentState = RemoteLogSegmentState::DeleteSegmentStarted;
const DELETED: RemoteLogSegmentState = RemoteLogSegmentState::DeleteSegmentFinished;

fn options() -> Options {
    Options::new()
        .backend(BackendChoice::Std)
        .block_size(512)
        .first_segment_size(64 << 10)
        .segment_size(64 << 10)
        .frame_size(16 << 10)
}

fn orders() -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(1), "orders", 0)
}

fn id(tp: TopicIdPartition, number: u128) -> RemoteLogSegmentId {
    RemoteLogSegmentId::new(tp, Uuid::from_u128(number))
}

fn segment(
    tp: TopicIdPartition,
    number: u128,
    [start, end]: [i64; 2],
    of: &[(i32, i64)],
) -> RemoteLogSegmentMetadata {
    let epochs: BTreeMap<_, _> = of.iter().map(|(epoch, offset)| (LeaderEpoch(*epoch), *offset)).collect();
    let details = RemoteLogSegmentDetails::new(1000, RemoteLogSegmentState::CopySegmentStarted, epochs);
    RemoteLogSegmentMetadata::new(id(tp, number), start, end, 77, 3, 88, details).unwrap()
}

fn update(
    tp: TopicIdPartition,
    number: u128,
    state: RemoteLogSegmentState,
) -> RemoteLogSegmentMetadataUpdate {
    RemoteLogSegmentMetadataUpdate::new(id(tp, number), 99, None, state, 4)
}

fn manager(log: &Log, journal: u64) -> TideRemoteLogMetadataManager {
    let options = JournalOptions::new().checkpoint_after(None);
    TideRemoteLogMetadataManager::new(Journal::open(log, journal, options).unwrap())
}

/// Three segments of one partition, in three states, and another partition that is being deleted.
fn fill(manager: &TideRemoteLogMetadataManager) {
    for (number, range, of) in [
        (1, [0, 99], &[(0, 0), (1, 50)][..]),
        (2, [100, 199], &[(1, 100)]),
        (3, [200, 299], &[(1, 200), (i32::MAX, 250)]),
        (4, [300, 399], &[(1, 300)]),
    ] {
        let metadata = segment(orders(), number, range, of).with_custom_metadata(CustomMetadata(vec![1, 2]));
        manager.add_remote_log_segment_metadata(metadata).unwrap();
    }
    for (number, state) in [(1, FINISHED), (2, FINISHED), (2, DELETING), (4, FINISHED)] {
        manager.update_remote_log_segment_metadata(update(orders(), number, state)).unwrap();
    }
    let wild = TopicIdPartition::new(Uuid::from_u128(2), "pay\u{1b}[31m ments", 7);
    manager
        .add_remote_log_segment_metadata(segment(wild.clone(), 5, [i64::MIN, i64::MAX], &[(0, 0)]))
        .unwrap();
    let marked = RemotePartitionDeleteState::DeletePartitionMarked;
    let delete = RemotePartitionDeleteMetadata::new(wild, marked, 5, 6);
    manager.put_remote_partition_delete_metadata(delete).unwrap();
}

fn filled() -> Home {
    let home = Home::new();
    let log = Log::open(home.path(), options()).unwrap();
    let manager = manager(&log, 9);
    fill(&manager);
    manager.journal().checkpoint().unwrap();
    drop(manager);
    log.close().unwrap();
    home
}

fn lines(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn with<'a>(lines: &'a [Value], key: &str, value: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line[key] == value).collect()
}

#[test]
fn a_dump_tells_events_and_checkpoints() {
    let home = filled();
    let text = stdout(&["dump", home.path(), "--class", "2", "--kind", "entry"]);
    let rows: Vec<&str> = text.lines().collect();
    let event = |row: &str| row.split(" event=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let expected =
        [&["add"; 4][..], &["update"; 4], &["add", "delete-partition", "begin"], &["state"; 6], &["end"]]
            .concat();
    assert_eq!(rows.iter().map(|row| event(row)).collect::<Vec<_>>(), expected);
    let topic_id = Uuid::from_u128(1);
    let add = format!(
        " event=add topic=orders topic_id={topic_id} partition=0 segment_id={} start=0 end=99 epochs=0:0,1:50 \
         state=copy-started size=1000 broker=3 event_time_ms=88 max_time_ms=77 custom_len=2 txn_index_empty=false",
        Uuid::from_u128(1)
    );
    assert!(rows[0].ends_with(&add), "{}", rows[0]);
    assert!(rows[4].ends_with(" state=copy-finished broker=4 event_time_ms=99"), "{}", rows[4]);
    assert!(rows[8].contains(r#" topic="pay\u{1b}[31m ments" "#), "{}", rows[8]);
    assert!(rows[8].contains(&format!(" start={} end={} ", i64::MIN, i64::MAX)), "{}", rows[8]);
    assert!(rows[9].ends_with(" partition=7 state=marked broker=6 event_time_ms=5"), "{}", rows[9]);
    assert!(rows[10].ends_with(" event=begin checkpoint=1"), "{}", rows[10]);
    assert!(rows[11].contains(" event=state checkpoint=1 position="), "{}", rows[11]);
    assert!(rows[17].ends_with(" event=end checkpoint=1 count=6"), "{}", rows[17]);
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_dump_in_json_has_the_same_fields() {
    let home = filled();
    let text = stdout(&["dump", home.path(), "--class", "2", "--kind", "entry", "--format", "jsonl"]);
    let rows = lines(&text);
    assert!(rows.iter().all(|row| row["type"] == "record" && row.get("payload").is_none()));
    let add = &rows[0]["journal"];
    let epochs = json!([{ "epoch": 0, "offset": "0" }, { "epoch": 1, "offset": "50" }]);
    assert_eq!((&add["event"], &add["epochs"], &add["end"]), (&"add".into(), &epochs, &"99".into()));
    assert_eq!(add["custom_len"], 2);
    assert_eq!(rows[4]["journal"]["custom_len"], Value::Null);
    assert_eq!(rows[8]["journal"]["topic"], "pay\u{1b}[31m ments");
    assert_eq!(rows[10]["journal"], json!({ "event": "begin", "checkpoint": "1" }));
    let state =
        rows[11..17].iter().find(|row| row["journal"]["segment_id"] == Uuid::from_u128(2).to_string());
    let state = &state.unwrap()["journal"];
    // The third event on the second segment: that its deletion began.
    assert_eq!((&state["position"], &state["state"]), (&"7".into(), &"delete-started".into()));
    assert_eq!(rows[17]["journal"], json!({ "event": "end", "checkpoint": "1", "count": "6" }));
}

#[test]
fn other_forms_show_the_bytes() {
    let home = filled();
    let first =
        |form: &str| stdout(&["dump", home.path(), "--class", "2", "--payload", form, "--limit", "1"]);
    // Frame version 1, kind 0, version 0, and the topic's name.
    assert!(first("hex").contains(" payload=010000076f7264657273"), "{}", first("hex"));
    assert!(first("base64").contains(" payload=AQAAB29yZGVycw"), "{}", first("base64"));
    for form in ["none", "len"] {
        assert!(!first(form).contains(" payload=") && !first(form).contains(" event="), "{}", first(form));
    }
}

#[test]
fn a_journal_shows_its_partitions() {
    let home = filled();
    let text = stdout(&["journal", home.path()]);
    let row = text.lines().find(|line| line.starts_with("orders-0")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    let id = Uuid::from_u128(1).to_string();
    assert_eq!(words, ["orders-0", &id, "-", "4", "1", "2", "1", "2000", "0", "399", "3"]);
    assert!(text.contains(r"pay\u{1b}[31m ments-7"), "{text}");
    let last = text.lines().last().unwrap();
    assert_eq!(last, "journal=2/9 partitions=2 segments=5 entries=8 live=6 last_checkpoint=1 refused=0");

    let rows = lines(&stdout(&["journal", home.path(), "--journal", "9", "--format", "jsonl"]));
    assert_eq!((&rows[0]["type"], &rows[0]["partitions"]), (&"journal".into(), &2.into()));
    assert_eq!((&rows[1]["finished"], &rows[1]["bytes"]), (&2.into(), &"2000".into()));
    assert_eq!(rows[2]["deletion"], json!({ "state": "marked", "broker": 6, "event_time_ms": "5" }));
    assert_eq!(rows[2]["last"], Value::Null);
}

#[test]
fn a_partition_shows_segments_and_epochs() {
    let home = filled();
    let by_id = format!("{}-0", Uuid::from_u128(1));
    let text = stdout(&["journal", home.path(), "--partition", "orders-0"]);
    assert_eq!(stdout(&["journal", home.path(), "--partition", &by_id]), text);
    let words = |start: &str| {
        let row = text.lines().find(|line| line.starts_with(start));
        row.unwrap_or_else(|| panic!("{start}: {text}")).split_whitespace().collect::<Vec<_>>()
    };
    let second = Uuid::from_u128(2).to_string();
    let expected =
        [second.as_str(), "delete-started", "1:100", "100", "199", "1000", "4", "99", "77", "2", "-"];
    assert_eq!(words(&second), expected);
    let epoch = |number: &str| {
        let rows = text.lines().skip_while(|line| !line.trim_start().starts_with("epoch "));
        let mut rows = rows.map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.find(|words| words[0] == number).unwrap()
    };
    assert_eq!(epoch("0"), ["0", "99", "1", "1", "0..49"]);
    assert_eq!(epoch("1"), ["1", "399", "4", "2", "50..99", "300..399"]);
    assert_eq!(epoch("2147483647"), ["2147483647", "-", "1", "0", "-"]);

    let rows = lines(&stdout(&["journal", home.path(), "--partition", "orders-0", "--format", "jsonl"]));
    assert_eq!((&rows[0]["type"], &rows[0]["segments"]), (&"partition".into(), &4.into()));
    let segments = with(&rows, "type", "segment");
    assert_eq!(segments.len(), 4);
    assert_eq!((&segments[1]["state"], &segments[1]["broker"]), (&"delete-started".into(), &4.into()));
    let epochs = with(&rows, "type", "epoch");
    assert_eq!(epochs[1]["spans"], json!([["50", "99"], ["300", "399"]]));
    assert_eq!((&epochs[1]["highest"], &epochs[2]["highest"]), (&"399".into(), &Value::Null));
    assert!(rows.iter().all(|row| row["schema_version"] == 1));
}

#[test]
fn what_is_not_there_or_not_one_is_told_by_the_status() {
    let home = Home::new();
    let log = Log::open(home.path(), options()).unwrap();
    let code = |args: &[&str]| {
        let Output { code, stdout, stderr } = run(&[&["journal", home.path()], args].concat(), "");
        assert_eq!(stdout, "", "{args:?}");
        (code, stderr)
    };
    log.append_durable(Batch::<Vec<u8>>::new().append(StreamId::new(1, 1), 1, vec![1])).unwrap();
    assert_eq!(code(&[]), (3, "tidelog: the log has no journal\n".into()));
    for journal in [3, 4] {
        let manager = manager(&log, journal);
        fill(&manager);
        let again = TopicIdPartition::new(Uuid::from_u128(8), "orders", 0);
        manager.add_remote_log_segment_metadata(segment(again, 1, [0, 9], &[(0, 0)])).unwrap();
    }
    assert_eq!(code(&[]), (2, "tidelog: --journal is needed: the log has 3, 4\n".into()));
    assert_eq!(code(&["--journal", "5"]), (3, "tidelog: the log has no journal 5\n".into()));
    assert_eq!(code(&["--journal", "3", "--partition", "orders-1"]).0, 3);
    let (status, message) = code(&["--journal", "3", "--partition", "orders-0"]);
    assert_eq!(status, 2);
    assert!(message.contains(&Uuid::from_u128(8).to_string()), "{message}");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tool needs no lock, and sees a state that the journal was in, though segments of the log retire under it.
#[test]
fn a_journal_that_is_being_written() {
    let home = Home::new();
    let log = Log::open(home.path(), options()).unwrap();
    let options = JournalOptions::new().checkpoint_after(Some(50));
    let manager = TideRemoteLogMetadataManager::new(Journal::open(&log, 1, options).unwrap());
    let done = AtomicBool::new(false);
    let kept = 20;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                let metadata = segment(orders(), number, [0, i64::try_from(number).unwrap()], &[(0, 0)]);
                manager.add_remote_log_segment_metadata(metadata).unwrap();
                for (back, state) in [(1, FINISHED), (kept, DELETING), (kept + 1, DELETED)] {
                    if let Some(number) = number.checked_sub(back) {
                        manager.update_remote_log_segment_metadata(update(orders(), number, state)).unwrap();
                    }
                }
                number += 1;
            }
            number
        });
        // Also where an assertion fails: the scope waits for the writer.
        let stop = SetOnDrop(&done);
        let mut highest = 0;
        while highest < 200 {
            let output = run(&["journal", home.path(), "--partition", "orders-0", "--format", "jsonl"], "");
            if output.code != 0 {
                // Nothing may be recorded yet.
                assert!(highest == 0 && output.code == 3, "{output:?}");
                continue;
            }
            let rows = lines(&output.stdout);
            let segments = with(&rows, "type", "segment");
            let ends: Vec<u128> =
                segments.iter().map(|row| row["end"].as_str().unwrap().parse().unwrap()).collect();
            let mut sorted = ends.clone();
            sorted.sort_unstable();
            let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
            assert!(sorted.iter().copied().eq(first..=last), "{ends:?}");
            assert!(ends.len() <= kept as usize + 2, "{ends:?}");
            assert!(last >= highest, "{last} after {highest}");
            // The newest one is being copied; the oldest one may be on its way out.
            let finished = with(&rows, "state", "copy-finished").len();
            assert!(ends.len() - finished <= 4, "{finished} of {}", ends.len());
            highest = last;
        }
        drop(stop);
        assert!(writer.join().unwrap() > highest);
    });
    assert!(manager.journal().stats().last_checkpoint > 0);
    assert!(log.stats().retired > 0, "{:?}", log.stats());
    let rows = lines(&stdout(&["journal", home.path(), "--partition", "orders-0", "--format", "jsonl"]));
    let ids: Vec<String> = with(&rows, "type", "segment")
        .iter()
        .map(|row| row["segment_id"].as_str().unwrap().to_owned())
        .collect();
    let list = manager.list_remote_log_segments(&orders()).unwrap();
    assert!(list.iter().map(|metadata| metadata.remote_log_segment_id().id.to_string()).eq(ids));
}

/// Entries that no journal wrote.
#[test]
fn an_entry_that_is_no_record_is_told() {
    let home = Home::new();
    let log = Log::open(home.path(), options()).unwrap();
    let mut state = 1_u64;
    let mut batch: Batch<Vec<u8>> = Batch::new();
    for entry in 1..=300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes: Vec<u8> = state.to_le_bytes().repeat(1 + entry % 9);
        // Most begin as a record does.
        bytes[..3]
            .copy_from_slice(&[[1, (state >> 40) as u8 % 4, 0], [0, (state >> 48) as u8 % 5, 0]][entry % 2]);
        batch.append(StreamId::new(JOURNAL_CLASS, 1), entry as u64, bytes);
    }
    batch.append(StreamId::new(JOURNAL_CLASS, 1), 301, vec![]);
    log.append_durable(&batch).unwrap();
    let text = stdout(&["dump", home.path(), "--class", "2"]);
    assert!(text.contains(" event=undecodable error=\"") && text.contains(" payload=\""), "{text}");
    let rows = lines(&stdout(&["dump", home.path(), "--class", "2", "--format", "jsonl"]));
    assert_eq!(rows.len(), 301);
    let strange = rows.iter().filter(|row| row["journal"]["event"] == "undecodable").collect::<Vec<_>>();
    assert!(strange.len() > 200, "{}", strange.len());
    assert!(strange.iter().all(|row| row["payload"].is_string() && row["journal"]["error"].is_string()));
    let output = run(&["journal", home.path()], "");
    assert_eq!((output.code, output.stdout.as_str()), (1, ""));
    assert!(output.stderr.starts_with("tidelog: entry "), "{output:?}");
}

#[test]
fn damage_is_told_and_no_wrong_state_is_shown() {
    let home = filled();
    let sound = stdout(&["journal", home.path()]);
    let file = home.segment(1);
    let bytes = fs::read(&file).unwrap();
    let used = 512 * (1 + bytes.chunks(512).rposition(|block| block.iter().any(|&byte| byte != 0)).unwrap());
    let mut seen = [0; 4];
    for at in (0..used).step_by(307) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&file, &damaged).unwrap();
        let output = run(&["journal", home.path()], "");
        let verified = run(&["verify", home.path()], "");
        assert!(!output.stderr.contains("panicked"), "{at}: {output:?}");
        if output.code != 0 {
            assert_eq!(output.code, verified.code, "{at}: {output:?}");
        } else if !verified.stdout.contains(" torn=1 ") {
            // What is damaged, if anything, is obsolete.
            assert_eq!(output.stdout, sound, "{at}");
        }
        seen[usize::try_from(output.code).unwrap()] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
