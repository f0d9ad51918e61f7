use super::*;

fn outcome(summary: Value) -> Outcome {
    Outcome {
        shape: Shape { sources: 8, builders: 1, rate: 1_000_000_000, port_buffer: 131_072, ..Shape::PLAIN },
        ports: BTreeMap::from([
            ("b1".into(), PortCount { drops: 2, bytes: 1000 }),
            ("s1".into(), PortCount::default()),
        ]),
        ..Outcome::of_summary(summary)
    }
}

#[test]
fn complete_means_every_event_and_every_process() {
    let whole =
        json!({ "events": { "assigned": 5, "complete": 5, "incomplete": 0, "lost": 0, "written": 5 } });
    let mut outcome = outcome(whole);
    assert!(outcome.is_complete());
    outcome.codes.insert("s1".into(), 1);
    assert!(!outcome.is_complete());
    outcome.codes.insert("s1".into(), 0);
    for key in ["assigned", "complete", "written", "lost"] {
        let kept = outcome.summary.clone();
        outcome.summary["events"][key] = json!(4);
        assert!(!outcome.is_complete(), "{key}");
        outcome.summary = kept;
    }
}

#[test]
fn a_missing_number_is_nan_and_never_plausible() {
    let outcome = outcome(json!({}));
    assert!(outcome.goodput().is_nan() && !outcome.is_complete() && !outcome.is_plausible());
}

#[test]
fn payload_beyond_the_ports_is_not_believed() {
    let claims = |payload: u64, rate: f64| json!({ "bytes": { "payload": payload }, "rates": { "payload_bytes_per_s": rate }, "duration_s": 2.0 });
    assert!(outcome(claims(1000, 500.0)).is_plausible());
    assert!(!outcome(claims(1001, 500.0)).is_plausible());
    assert!(!outcome(claims(1000, 501.0)).is_plausible());
    // Triggers from outside may come in the last part of the run only, but carry no more either.
    let late = |payload| {
        let system = System::new(super::super::system::Mode::Credit, 1000).trigger(Trigger::Multicast);
        Outcome { system, ..outcome(claims(payload, 900.0)) }.is_plausible()
    };
    assert!(late(1000) && !late(1001));
}

#[test]
fn medians() {
    assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
    assert!(median([]).is_nan());
}
