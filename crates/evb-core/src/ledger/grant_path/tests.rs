use super::*;

fn builder(first_byte: &[u64], write: &[u64], wake: &[u64]) -> BuilderReport {
    BuilderReport {
        grant_first_byte_us: first_byte.to_vec(),
        grant_delay_us: first_byte.to_vec(),
        stages: Some(Box::new(GrantStages { wake_us: wake.to_vec(), write_us: write.to_vec() })),
        ..BuilderReport::default()
    }
}

fn source(wake: &[u64], answer: &[u64]) -> SourceReport {
    let stages = GrantStages { wake_us: wake.to_vec(), write_us: answer.to_vec() };
    SourceReport { stages: Some(Box::new(stages)), ..SourceReport::default() }
}

#[test]
fn the_rest_is_what_the_medians_of_all_stages_leave() {
    let builders = [builder(&[100, 3, 900, 1], &[5, 9], &[20, 9]), builder(&[100, 4], &[7, 1], &[])];
    let sources = [source(&[30, 9, 80, 1], &[10, 2]), source(&[30, 1], &[10, 2])];
    let path = RunPath::of(&builders, &sources);
    assert_eq!((path.first_byte.p50, path.first_byte.p99), (100, 900));
    assert_eq!(path.source_wake_up.unwrap().max, 80);
    assert_eq!(path.measured(), Some(5 + 30 + 10 + 20));
    assert_eq!(path.derived_rest, Some(DerivedRest { p50: 35 }));
}

#[test]
fn the_rest_is_never_negative() {
    let path = RunPath::of(&[builder(&[10, 1], &[5, 1], &[5, 1])], &[source(&[5, 1], &[5, 1])]);
    assert_eq!(path.derived_rest, Some(DerivedRest { p50: 0 }));
    let hostile = [builder(&[1, 1], &[u64::MAX, u64::MAX], &[u64::MAX, 7, 8])];
    let path = RunPath::of(&hostile, &[source(&[u64::MAX, u64::MAX], &[3, 0, 4, 1])]);
    assert_eq!((path.measured(), path.derived_rest), (Some(u64::MAX), Some(DerivedRest { p50: 0 })));
}

#[test]
fn a_stage_that_nobody_measured_is_absent_and_so_is_the_rest() {
    let path = RunPath::of(&[builder(&[100, 1], &[5, 1], &[20, 1])], &[source(&[], &[10, 1])]);
    assert_eq!((path.source_wake_up, path.measured(), path.derived_rest), (None, None, None));
    assert!(path.source_answer.is_some());
    let json = serde_json::to_value(path).unwrap();
    assert!(json["source_wake_up"].is_null() && json["derived_rest"].is_null(), "{json}");
    assert_eq!(RunPath::of([], []), RunPath::default());
}

#[test]
fn each_role_has_its_own_part() {
    let path = GrantPath::of(&builder(&[100, 1], &[5, 1], &[]));
    assert_eq!((path.builder_write.unwrap().p50, path.builder_wake_up), (5, None));
    let path = AnswerPath::of(&source(&[30, 1], &[]));
    assert_eq!((path.source_wake_up.unwrap().p50, path.source_answer), (30, None));
}

#[test]
fn a_peer_that_reports_no_stages_is_no_fault() {
    let (builder, source) = (BuilderReport::default(), SourceReport::default());
    assert_eq!(RunPath::of([&builder], [&source]), RunPath::default());
}
