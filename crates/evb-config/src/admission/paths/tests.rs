use serde_json::json;

use super::*;

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn of(value: &Value) -> Result<MeasuredPath, PathError> {
    MeasuredPath::of("run.json".to_owned(), value)
}

fn whole() -> Value {
    json!({
        "first_byte": { "p50": 100, "p99": 400.5 },
        "builder_write": { "p50": 5, "p99": 9 },
        "source_wake_up": { "p50": 40, "p99": 90 },
        "source_answer": null,
        "derived_rest": { "p50": 35 },
    })
}

#[test]
fn a_path_is_read_by_stage() {
    let path = of(&whole()).unwrap();
    assert_eq!((path.p50, path.p99), (us(100), Duration::from_nanos(400_500)));
    let stages: Vec<_> = path.stages.iter().map(|stage| (stage.key, stage.p50, stage.p99)).collect();
    let wanted = [
        ("builder_write", us(5), Some(us(9))),
        ("source_wake_up", us(40), Some(us(90))),
        ("derived_rest", us(35), None),
    ];
    assert_eq!(stages, wanted, "a stage that is null or absent was not measured");
    assert_eq!(path.slowest().unwrap().key, "source_wake_up");
}

#[test]
fn what_a_run_wrote_is_read() {
    let report = evb_core::ledger::RunReport {
        grant_path_us: evb_core::ledger::RunPath::of(
            &[evb_core::wire::control::BuilderReport {
                grant_first_byte_us: vec![70, 9],
                stages: Some(Box::new(evb_core::wire::control::GrantStages {
                    wake_us: vec![20, 2],
                    ..Default::default()
                })),
                ..Default::default()
            }],
            [],
        ),
        ..Default::default()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serde_json::to_string(&report).unwrap()).unwrap();
    let paths = GrantPaths::of(Some(file.path()), &[]).unwrap();
    assert_eq!((paths.times(), paths.word()), (&[us(70), us(70)][..], "measured"));
    assert_eq!(paths.measured().unwrap().stages.len(), 1);
}

#[test]
fn what_is_no_path_is_refused_with_the_reason() {
    let garbled = |key: &str, value: Value| {
        let mut path = whole();
        path[key] = value;
        of(&path).unwrap_err().to_string()
    };
    for (key, value) in [
        ("first_byte", json!({ "p50": -1, "p99": 3 })),
        ("first_byte", json!({ "p50": 1, "p99": 3.7e9 })),
        ("first_byte", json!({ "p50": 1 })),
        ("first_byte", json!("long")),
        ("builder_write", json!({ "p50": "5", "p99": 9 })),
        ("source_wake_up", json!({ "p50": 5, "p99": [] })),
        ("derived_rest", json!(7)),
    ] {
        let said = garbled(key, value);
        assert!(said.contains(&format!("run.json: grant_path_us.{key}.p")), "{said}");
        assert!(said.contains("evbd run --summary FILE"), "{said}");
    }
    assert!(garbled("first_byte", json!({ "p50": 0, "p99": 0 })).contains("nothing was measured"));
    assert!(garbled("with_network", json!(false)).contains("evbd doctor --peer ADDRESS"));
    assert!(of(&Value::Null).unwrap_err().to_string().contains("no object grant_path_us"));
}

#[test]
fn a_file_that_is_none_is_refused_with_the_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for (text, why) in [("", "not JSON"), ("[1, 2]", "no object"), ("{\"run\": 1}", "no object")] {
        std::fs::write(file.path(), text).unwrap();
        let said = GrantPaths::of(Some(file.path()), &[]).unwrap_err().to_string();
        assert!(said.contains(why), "{text:?}: {said}");
    }
    let said = GrantPaths::of(Some(Path::new("/nowhere/at.all")), &[]).unwrap_err().to_string();
    assert!(said.contains("--path /nowhere/at.all: No such file"), "{said}");
}

#[test]
fn without_a_file_paths_are_stated_or_assumed() {
    let paths = GrantPaths::of(None, &[us(7), us(3)]).unwrap();
    assert_eq!((paths.times(), paths.longest(), paths.word()), (&[us(7), us(3)][..], us(7), "stated"));
    let paths = GrantPaths::of(None, &[]).unwrap();
    assert_eq!((paths.longest(), paths.word(), paths.times().len()), (us(200), "assumed", 3));
}

proptest::proptest! {
    /// A summary with one changed byte gives a path with plausible times, or is refused.
    #[test]
    fn garbled_summaries_are_paths_or_refused(at in 0usize..400, byte in 32u8..127) {
        let mut text = whole().to_string().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let text = format!("{{\"grant_path_us\": {}}}", String::from_utf8_lossy(&text));
        if let Ok(path) = MeasuredPath::parse("run.json".to_owned(), &text) {
            proptest::prop_assert!(path.p50 <= path.p99 && path.p99 <= Duration::from_secs(3600), "{:?}", path);
            proptest::prop_assert!(path.stages.iter().all(|stage| stage.p50 <= Duration::from_secs(3600)));
        }
    }
}
