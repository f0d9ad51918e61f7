use super::*;

#[test]
fn a_series_has_the_whole_run_in_a_limited_number_of_points() {
    let mut series = RunSeries::default();
    for update in 0..10_000_u64 {
        series.add(RunPoint { at_s: 10.0 * update as f64, events: update, ..RunPoint::default() }, 10.0);
        let points = &series.points;
        assert!(points.len() <= MAX_POINTS && points.is_sorted_by(|a, b| a.at_s < b.at_s), "{points:?}");
        let last = points[points.len() - 1].events;
        assert!(
            (points[0].events, last) == (0, update) || points.len() * 2 > MAX_POINTS,
            "{last} of {update}"
        );
    }
    assert!(series.points.len() > MAX_POINTS / 4 && series.every == 64, "{}", series.every);
    let steps: Vec<_> = series.points.windows(2).map(|pair| pair[1].events - pair[0].events).collect();
    assert!(steps[..steps.len() - 1].iter().all(|step| *step == 64), "{steps:?}");
}

#[test]
fn no_count_falls_when_another_supervisor_goes_on() {
    let mut series = RunSeries::default();
    let point = |seconds: u32, events, payload_bytes| RunPoint {
        at_s: seconds.into(),
        events,
        payload_bytes,
        ..RunPoint::default()
    };
    for point in [point(0, 0, 0), point(10, 70, 7000), point(20, 69, 0), point(30, 200, 9000)] {
        series.add(point, 10.0);
    }
    let found: Vec<_> = series.points.iter().map(|point| (point.events, point.payload_bytes)).collect();
    assert_eq!(found, [(0, 0), (70, 7000), (70, 7000), (200, 9000)]);
}
