use serde_json::json;

use super::*;

fn point(filter_ms: f64, dead: f64) -> Point {
    Point { threads: 1, filter_ms, dead, rate: 1000.0, busy: 0.5 }
}

#[test]
fn dead_time_begins_at_the_first_run_that_has_some() {
    let points = [point(3.0, 0.0), point(6.0, 0.001), point(7.5, 0.04), point(8.0, 0.0)];
    let points: Vec<&Point> = points.iter().collect();
    assert_eq!(begins(&points), "between 6.00 ms and 7.50 ms");
    assert_eq!(begins(&points[2..]), "below 7.50 ms");
    assert_eq!(begins(&points[..2]), "above all tested times");
    // A run without events proves nothing.
    assert_eq!(
        begins(&[&point(3.0, 0.0), &Point { rate: f64::NAN, ..point(6.0, 0.0) }]),
        "between 3.00 ms and 6.00 ms"
    );
}

#[test]
fn events_are_written_or_rejected_one_in_twenty() {
    let failed = |written: u64, rejected: u64, inhibited: u64| {
        let events =
            json!({ "assigned": 400, "written": written, "rejected": rejected, "inhibited": inhibited });
        let mut report = Report::bare("x");
        built(&Outcome::of_summary(json!({ "events": events })), &mut report);
        report.failed().len()
    };
    assert_eq!(failed(20, 380, 0), 0);
    assert_eq!(failed(20, 379, 0), 1);
    assert_eq!(failed(30, 370, 0), 1);
    // Inhibited triggers use up event ids, so that the part of written events may differ.
    assert_eq!(failed(30, 370, 50), 0);
}

#[test]
fn threads_share_the_time_of_a_builder() {
    let case = |threads, share| Case { threads, share, each_s: 0.0075 };
    assert_eq!(case(1, 0.8).name(), "4x15 filter 6.00 ms");
    assert_eq!(case(2, 0.8).name(), "4x15 filter 12.00 ms on 2 threads");
    let places = SHORT_CASES.map(|place| CASES[place]);
    assert_eq!(places, [(1, 0.5), (1, 1.4), (2, 0.8)]);
}
