use super::*;

fn mark(seconds: u64, sent: u64, events: [u64; 5], causes: &[(&str, u64)]) -> Mark {
    let events: BTreeMap<_, _> = KINDS.into_iter().zip(events).collect();
    let cause = |(cause, inhibited): &(&str, u64)| json!({ "cause": cause, "inhibited": inhibited });
    let causes: Vec<Value> = causes.iter().map(cause).collect();
    let status = json!({ "survey": { "events": events, "dead_time_causes": causes } });
    let flows = Flows::from([
        ("s1".to_owned(), (sent, 0)),
        ("s2".to_owned(), (sent / 2, 0)),
        ("b1".to_owned(), (0, sent)),
        ("sup".to_owned(), (1, 1)),
    ]);
    Mark::new(Duration::from_secs(seconds), flows, sent, &status).unwrap()
}

#[test]
fn a_span_is_what_came_between() {
    let before = mark(10, 1000, [100, 10, 90, 0, 0], &[("source 1", 10)]);
    let after = mark(14, 3000, [200, 30, 140, 20, 0], &[("source 1", 15), ("sink of builder 2", 15)]);
    let span = Span::between(&before, &after);
    assert_eq!((span.seconds, span.disk_bytes), (4.0, 2000.0));
    assert_eq!((span.built_per_s(), span.dead_time()), (17.5, 0.2));
    assert_eq!((span.rate("s1"), span.rate("s2"), span.rate("b1")), (4000.0, 2000.0, 4000.0));
    assert_eq!((span.blamed(&["source 1"]), span.blamed(&["sink of builder 2", "source 1"])), (5.0, 20.0));
    assert!(span.rate("s9").is_nan());
}

#[test]
fn the_least_of_all_but_the_victim_counts() {
    let none = [0; 5];
    let calm = Span::between(&mark(0, 0, none, &[]), &mark(1, 1000, none, &[]));
    let mut slow = calm.clone();
    slow.flows.insert("s2".into(), (1000.0, 0.0));
    assert_eq!(slow.least_kept(&calm, 's', None), 0.25);
    assert_eq!(slow.least_kept(&calm, 's', Some("s2")), 1.0);
    assert_eq!(slow.least_kept(&calm, 'b', None), 1.0);
}

#[test]
fn a_status_without_its_numbers_is_refused() {
    let said =
        Mark::new(Duration::ZERO, Flows::new(), 0, &json!({ "survey": { "events": { "triggered": 1 } } }));
    assert!(said.unwrap_err().to_string().contains("inhibited"));
}
