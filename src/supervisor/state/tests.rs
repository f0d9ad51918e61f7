use super::*;

fn report(run: u32, id: u128) -> RunReport {
    let mut report = RunReport { run, run_id: RunId::new(id << 96), ..RunReport::default() };
    report.verdict = "all complete".to_owned();
    report.events.triggered = 7;
    report
}

async fn keep(state: &StateDir, reports: &[RunReport]) {
    let keeper = StateKeeper::new(state.clone()).unwrap();
    reports.iter().for_each(|report| keeper.note_end(report));
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
    let keeper = StateKeeper::new(state.clone()).unwrap();
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
    let (runs, to_keep) = mpsc::sync_channel::<LastRun>(WAITING);
    let (_ends, ended) = oneshot::channel();
    let keeper = StateKeeper { path: "hanging".into(), runs, ended };
    (0..1000).for_each(|run| keeper.note_end(&report(run, 1)));
    let kept: Vec<_> = to_keep.try_iter().map(|run| run.run).collect();
    assert_eq!(kept, (0..WAITING as u32).collect::<Vec<_>>());
}
