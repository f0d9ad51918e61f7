use super::*;

fn row(slots: u32, rate: f64) -> Row {
    Row {
        name: "x".to_owned(),
        transport: Transport::Tcp,
        slots,
        at_once: slots,
        size: 16,
        rate,
        most: 500.0,
        busy: 0.5,
        drops: 0,
        latency_us: 1.0,
    }
}

#[test]
fn each_request_takes_a_round_trip_and_the_decision_one_more() {
    let per_round_trip = |slots, at_once| predicted(slots, at_once, 1.0) / f64::from(BUILDERS);
    assert_eq!(per_round_trip(1, 1), 1.0 / 5.0);
    // Two requests under way fetch half of an event in a round trip, and one a quarter.
    assert_eq!(per_round_trip(2, 2), 1.0 / 2.0);
    assert_eq!(per_round_trip(8, 1), 1.0 / 4.0);
    // Each of four sources has one request under way.
    assert_eq!((per_round_trip(4, 4), per_round_trip(8, 8)), (1.0, 1.0));
    assert_eq!(predicted(1, 1, 0.04), 20.0);
}

#[test]
fn a_rate_a_quarter_below_the_prediction_fails() {
    let failed = |rows: &[Row]| {
        let mut report = Report::bare("x");
        compare(rows, 0.04, &mut report);
        report.failed().len()
    };
    assert_eq!(failed(&[row(1, 20.0), row(2, 45.0), row(4, 110.0), row(8, 85.0)]), 0);
    assert_eq!(failed(&[row(1, 15.0), row(8, 75.0)]), 2);
    // The links carry no more than 50 events/s, whatever the outstanding events predict.
    assert_eq!(failed(&[Row { most: 50.0, ..row(8, 45.0) }]), 0);
}

#[test]
fn eight_slots_are_tested_with_one_request_too() {
    assert_eq!(ways(&[1, 8]), [(1, 1), (8, 8), (8, 1)]);
    assert_eq!(name(8, 1, 16, Transport::Udp), "cascade slots 8 size 16 serial udp");
    assert_eq!(name(1, 1, 16, Transport::Tcp), "cascade slots 1 size 16");
}

#[test]
fn both_trunks_are_the_bottleneck() {
    let shape = shape(155);
    assert_eq!(shape.carries(), 155e6);
    let names: Vec<_> = shape.trunks().iter().map(|trunk| trunk.name).collect();
    assert_eq!(names, ["sources", "builders"]);
}
