mod schema;

use std::sync::mpsc;

use evb_core::{
    id::{BuilderId, Peer, RunId, SourceId},
    ledger::RunReport,
    time::{Instant, Utc},
    wire::control::{Begin, Name},
};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    super::{LastRun, NotedProblem, record::FileCounts},
    keeper::WAITING,
    *,
};

fn report(run: u32, id: u128) -> RunReport {
    let mut report = RunReport { run, run_id: RunId::new(id << 96), ..RunReport::default() };
    report.verdict = "all complete".to_owned();
    report.events.triggered = 7;
    report
}

async fn keep(state: &StateDir, reports: &[RunReport]) {
    let mut keeper = StateKeeper::new(state.clone()).unwrap();
    reports.iter().for_each(|report| keeper.note_end(&Begin::default(), report));
    keeper.close().await;
}

#[tokio::test]
async fn runs_survive_and_their_numbers_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path().join("deep/state"));
    assert_eq!((state.highest().unwrap(), state.latest(5).unwrap()), (None, vec![]));
    keep(&state, &[report(9, 1), report(10, 2), report(1_234_567, 3)]).await;
    assert_eq!(state.highest().unwrap(), Some(RunNumber::new(1_234_567)));
    let latest = state.latest(2).unwrap();
    let ids: Vec<_> = latest.iter().map(|run| (run.run, run.run_id.short().to_string())).collect();
    assert_eq!(ids, [(1_234_567, "00000003".to_owned()), (10, "00000002".to_owned())]);
    assert_eq!((latest[1].verdict.as_str(), latest[1].events.triggered), ("all complete", 7));
    assert_eq!(state.ids_of(RunNumber::new(10)).unwrap().len(), 1);
    assert_eq!(state.ids_of(RunNumber::new(11)).unwrap(), []);
}

#[tokio::test]
async fn a_run_without_an_end_is_kept_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut keeper = StateKeeper::new(state.clone()).unwrap();
    let begin = Begin { run: 4, run_id: RunId::new(5), begun_utc_ns: 9_000_000_000, ..Begin::default() };
    keeper.note_begin(&begin);
    keeper.close().await;
    let latest = state.latest(1).unwrap();
    assert_eq!((latest[0].run, latest[0].begin.as_nanos(), latest[0].exit_code), (4, 9_000_000_000, 1));
    assert!(latest[0].verdict.contains("was not recorded"));
    fs::write(dir.path().join("run000005-00000000.json"), "{").unwrap();
    fs::write(dir.path().join("notes.json"), "{}").unwrap();
    assert_eq!(state.highest().unwrap(), Some(RunNumber::new(5)), "by its name");
    assert_eq!(state.latest(5).unwrap().len(), 1);
}

/// The thread of this keeper writes nothing, as with a disk that hangs.
#[tokio::test]
async fn runs_wait_for_a_disk_up_to_a_limit_and_then_are_not_kept() {
    let (revisions, to_keep) = mpsc::sync_channel(WAITING);
    let (_ends, ended) = oneshot::channel();
    let (path, next, notes) = ("hanging".into(), Instant::ZERO, RecordNotes::default());
    let mut keeper = StateKeeper {
        path,
        configuration: None,
        notes,
        software: std::collections::BTreeMap::new(),
        file_counts: FileCounts::default(),
        has_late_files: false,
        sentences: 0,
        next,
        revisions,
        ended,
    };
    (0..1000).for_each(|run| keeper.note_end(&Begin::default(), &report(run, 1)));
    let kept: Vec<_> = to_keep.try_iter().map(|revision| revision.record.run.run).collect();
    assert_eq!(kept, (0..WAITING as u32).collect::<Vec<_>>());
}

#[tokio::test]
async fn records_are_as_the_schema_says_at_begin_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path()).with_configuration("[run]\nnumber = 4\n");
    let names = vec![Name { id: 3, name: "tpc".to_owned() }];
    let begin =
        Begin { run: 4, run_id: RunId::new(1 << 96), begun_utc_ns: 9, sources: names, ..Begin::default() };
    for is_over in [false, true] {
        let mut keeper = StateKeeper::new(state.clone()).unwrap();
        keeper.note_software(Peer::Source(SourceId::new(3)), "evb 0.1.0\u{7}");
        keeper.note_begin(&begin);
        keeper.note_software(Peer::Builder(BuilderId::new(1)), "evb 0.1.1");
        if is_over {
            keeper.note_end(&begin, &report(4, 1));
        }
        keeper.close().await;
        let path = dir.path().join("run000004-00000001.json");
        let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(schema::disagreements("the record", &record, &schema::of_records()), [""; 0]);
        assert_eq!((&record["closed"], record["report"].is_object()), (&is_over.into(), is_over));
        let [read] = &state.records().unwrap()[..] else { panic!("one run") };
        assert_eq!(read.source_software[&3], "evb 0.1.0");
        assert_eq!(read.builder_software.get(&1).map(String::as_str), is_over.then_some("evb 0.1.1"));
        assert_eq!((read.version, read.closed, &read.source_names[&3][..]), (1, is_over, "tpc"));
        assert_eq!(read.configuration.as_ref().unwrap().text, "[run]\nnumber = 4\n");
        assert_eq!(serde_json::to_value(read).unwrap(), record);
    }
    fs::write(
        dir.path().join("run000005-00000002.json"),
        serde_json::to_vec(&LastRun::from(&report(5, 2))).unwrap(),
    )
    .unwrap();
    assert_eq!(state.records().unwrap()[0].version, 0, "of an earlier version");
}

/// Reads the only record of a directory.
fn only(state: &StateDir) -> RunRecord {
    let [record] = &state.records().unwrap()[..] else { panic!("one record") };
    record.clone()
}

fn problem(subject: &str, text: &str) -> NotedProblem {
    let [severity, subject, text, remedy] = ["bad", subject, text, "start it"].map(str::to_owned);
    NotedProblem { severity, subject, text, remedy, ..NotedProblem::default() }
}

#[tokio::test]
async fn problems_have_the_time_at_which_they_were_first_seen() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let (notes, now) = (state.notes(), evb_net::clock::now());
    let run_id = RunId::new(1 << 96);
    let begin = Begin { run: 4, run_id, begun_utc_ns: 5 << 60, begun_ns: now.as_nanos(), ..Begin::default() };
    assert!(!notes.note_problem(run_id, problem("source 1", "early")), "no record yet");
    let mut keeper = StateKeeper::new(state.clone()).unwrap();
    keeper.note_begin(&begin);
    assert!(notes.note_problem(run_id, problem("source 1", "silent; 4 events")));
    assert!(notes.note_problem(run_id, problem("source 1", "silent; 9 events\u{1b}")));
    assert!(!notes.note_problem(RunId::new(3), problem("source 1", "of another run")));
    let end = Utc::from_nanos((5 << 60) + 7_000_000_000);
    let problems = vec!["2 events lost".to_owned()];
    keeper.note_end(&begin, &RunReport { end, problems, ..report(4, 1) });
    keeper.close().await;
    let of = |record: &RunRecord| {
        let entry = |noted: &NotedProblem| (noted.text.clone(), noted.count);
        record.noted_problems.iter().map(entry).collect::<Vec<_>>()
    };
    let record = only(&state);
    assert_eq!(of(&record), [("silent; 4 events".to_owned(), 2), ("2 events lost".to_owned(), 1)]);
    let times = [0, 1].map(|place| record.noted_problems[place].first);
    assert!((begin.began().utc..end).contains(&times[0]) && times[1] == end, "{times:?}");
    // What comes after the end is written at once, up to a limit.
    for source in 0..300 {
        notes.note_problem(run_id, problem(&format!("source {source}"), "late"));
    }
    let record = only(&state);
    assert_eq!((record.closed, record.noted_problems.len(), record.problems_left_out), (true, 200, 101));
    // A supervisor that goes on with the run keeps what is known.
    let mut keeper = StateKeeper::new(StateDir::new(dir.path())).unwrap();
    keeper.go_on(&begin);
    keeper.note_end(&begin, &report(4, 1));
    keeper.close().await;
    assert_eq!(only(&state).noted_problems, record.noted_problems);
}

#[tokio::test]
async fn the_oldest_closed_records_beyond_a_number_are_removed_when_a_run_begins() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let begin = |run| Begin { run, run_id: RunId::new(u128::from(run) << 96), ..Begin::default() };
    let runs = || state.records().unwrap().iter().map(|record| record.run.run).collect::<Vec<_>>();
    for run in 1..=6 {
        let mut keeper = StateKeeper::new(StateDir::new(dir.path())).unwrap();
        keeper.note_begin(&begin(run));
        if run != 2 {
            keeper.note_end(&begin(run), &report(run, run.into()));
        }
        keeper.close().await;
    }
    assert_eq!(runs(), [6, 5, 4, 3, 2, 1], "all are kept by default");
    fs::write(dir.path().join("run000000-00000000.json"), "no record").unwrap();
    let mut keeper = StateKeeper::new(StateDir::new(dir.path()).keeping(Some(3))).unwrap();
    keeper.note_begin(&begin(7));
    keeper.close().await;
    assert_eq!(runs(), [7, 6, 5, 2], "run 2 has no end");
    assert!(dir.path().join("run000000-00000000.json").exists(), "only records are removed");
}
