use evb_core::wire::control::Name;
use serde_json::Value;

use super::*;

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
    let (runs, to_keep) = mpsc::sync_channel::<RunRecord>(WAITING);
    let (_ends, ended) = oneshot::channel();
    let (path, next) = ("hanging".into(), Instant::ZERO);
    let mut keeper = StateKeeper { path, configuration: None, record: None, next, runs, ended };
    (0..1000).for_each(|run| keeper.note_end(&Begin::default(), &report(run, 1)));
    let kept: Vec<_> = to_keep.try_iter().map(|record| record.run.run).collect();
    assert_eq!(kept, (0..WAITING as u32).collect::<Vec<_>>());
}

/// Returns how a record disagrees with the schema: keys that one of them lacks, and other types.
fn disagreements(record: &Value, schema: &Value) -> Vec<String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let keys = schema["properties"].as_object().unwrap();
    let strange = record.as_object().unwrap().keys().filter(|key| !keys.contains_key(*key));
    let mut found: Vec<_> = strange.map(|key| format!("{key} is not in the schema")).collect();
    for key in schema["required"].as_array().unwrap().iter().filter_map(Value::as_str) {
        let (value, kinds) = (&record[key], &keys[key]["type"]);
        let fits = |named: &Value| named == kind(value) || (named == "number" && kind(value) == "integer");
        let is_one_of = kinds.as_array().map_or_else(|| fits(kinds), |kinds| kinds.iter().any(fits));
        if record.get(key).is_none() || !is_one_of {
            found.push(format!("{key} is {value}, not {kinds}"));
        }
    }
    found
}

#[tokio::test]
async fn records_are_as_the_schema_says_at_begin_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path()).with_configuration("[run]\nnumber = 4\n");
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist/evb-run-record.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    let names = vec![Name { id: 3, name: "tpc".to_owned() }];
    let begin =
        Begin { run: 4, run_id: RunId::new(1 << 96), begun_utc_ns: 9, sources: names, ..Begin::default() };
    for is_over in [false, true] {
        let mut keeper = StateKeeper::new(state.clone()).unwrap();
        keeper.note_begin(&begin);
        if is_over {
            keeper.note_end(&begin, &report(4, 1));
        }
        keeper.close().await;
        let path = dir.path().join("run000004-00000001.json");
        let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(disagreements(&record, &schema), [""; 0]);
        assert_eq!((&record["closed"], record["report"].is_object()), (&is_over.into(), is_over));
        let [read] = &state.records().unwrap()[..] else { panic!("one run") };
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
