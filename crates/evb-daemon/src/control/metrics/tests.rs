use evb_core::supervisor::BuilderLive;

use super::*;

fn status() -> Status {
    let mut latencies = Latencies::new();
    [5, 100, 30_000_000].iter().for_each(|micros| latencies.record(*micros));
    let builder = BuilderSurvey {
        id: 3,
        presence: Presence::Up,
        incarnation: 1,
        listen: String::new(),
        slots: 16,
        outstanding: 5,
        at_sink: 2,
        complete: 9,
        incomplete: 0,
        lost: 0,
        live: Some(BuilderLive { latencies, ..BuilderLive::default() }),
    };
    let mut status = Status {
        state: State::Running,
        survey: Some(Survey { builders: vec![builder], ..Survey::default() }),
        ..Status::default()
    };
    status.totals.events.complete = 9;
    status.totals.dead_time.insert("sink of \"b\" \\ 1\n".to_owned(), 7);
    status
}

#[test]
fn counters_gauges_and_histograms_are_there() {
    let text = render(status());
    for line in [
        "# TYPE evb_events counter",
        "evb_events_total{outcome=\"complete\"} 9",
        "evb_run_state{state=\"running\"} 1.0",
        "evb_run_state{state=\"paused\"} 0.0",
        "evb_builder_busy_slots{builder=\"3\",state=\"building\"} 3.0",
        "evb_build_latency_seconds_count{builder=\"3\"} 3",
        "evb_build_latency_seconds_bucket{le=\"0.000007\",builder=\"3\"} 1",
        "evb_build_latency_seconds_bucket{le=\"+Inf\",builder=\"3\"} 3",
        "evb_dead_time_triggers_total{cause=\"sink of \\\"b\\\" \\\\ 1\\n\"} 7",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_older_format_names_counters_by_their_total() {
    let text = in_plain_text(&render(status()));
    assert!(text.contains("# TYPE evb_events_total counter\nevb_events_total{outcome="), "{text}");
    assert!(text.contains("# TYPE evb_run_state gauge\n") && !text.contains("EOF"));
}
