use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn survey(run: u32, triggered: u64, inhibited: u64, bytes: u64, micros: &[u64]) -> Survey {
    let mut latencies = Latencies::new();
    micros.iter().for_each(|micros| latencies.record(*micros));
    Survey {
        run,
        running_s: 1.0,
        events: EventCounts {
            triggered,
            inhibited,
            complete: triggered - inhibited,
            ..EventCounts::default()
        },
        dead_time: vec![DeadTimeCause { cause: "sink of builder 1".to_owned(), inhibited }],
        payload_bytes: bytes,
        latencies,
        ..Survey::default()
    }
}

#[test]
fn samples_are_differences() {
    let mut history = History::default();
    history.take(at(0), State::Running, Some(1), Some(&survey(1, 100, 0, 0, &[])));
    history.take(at(1000), State::Running, Some(1), Some(&survey(1, 1100, 10, 5000, &[100])));
    history.take(at(2000), State::Running, Some(1), Some(&survey(1, 2100, 110, 15_000, &[100, 900])));
    let all = history.after(0);
    assert_eq!(all.iter().map(|sample| sample.n).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((all[0].triggers_per_s, all[0].p50_us), (0.0, None), "nothing to compare with");
    let last = &history.after(2)[0];
    assert_eq!((last.triggers_per_s, last.events_per_s, last.bytes_per_s), (1000.0, 900.0, 7500.0));
    assert!((last.dead_time_fraction - 0.1).abs() < 1e-9);
    assert_eq!(last.dead_time[0].cause, "sink of builder 1");
    assert!(last.p50_us >= Some(100) && last.p99_us >= Some(900));
    assert!(history.after(3).is_empty());
}

#[test]
fn a_new_run_is_not_compared_with_the_one_before() {
    let mut history = History::default();
    history.take(at(0), State::Running, Some(1), Some(&survey(1, 100, 0, 100, &[])));
    history.take(at(1000), State::Running, Some(2), Some(&survey(2, 5, 0, 0, &[])));
    assert_eq!(history.after(1)[0].triggers_per_s, 0.0);
    history.take(at(2000), State::Configured, Some(3), None);
    assert_eq!(history.after(2)[0].events_per_s, 0.0);
}

#[test]
fn an_hour_is_kept() {
    let mut history = History::default();
    for second in 0..4000 {
        history.take(at(1000 * second), State::Unconfigured, None, None);
    }
    let all = history.after(0);
    assert_eq!((all.len(), all[0].n, all[KEPT - 1].n), (KEPT, 401, 4000));
}
