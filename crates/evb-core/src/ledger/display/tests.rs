use super::*;
use crate::{
    id::RunId,
    ledger::{ByteCounts, DeadTimeCause, Rates},
};

fn report() -> RunReport {
    let events =
        EventCounts { triggered: 10_000, assigned: 10_000, complete: 10_000, ..EventCounts::default() };
    RunReport {
        run: 1,
        run_id: RunId::new(0x0c25_0bad << 96),
        duration_s: 5.8604,
        events,
        bytes: ByteCounts { payload: 320_000_000 },
        rates: Rates { events_per_s: 1706.37, payload_bytes_per_s: 54_610_900.0 },
        ..RunReport::default()
    }
}

#[test]
fn a_good_run_takes_three_lines() {
    assert_eq!(
        report().to_string(),
        "run 1 (id 0c250bad): 10000 of 10000 assigned events complete\n  \
         10000 triggers = 10000 complete + 0 incomplete + 0 lost + 0 rejected + 0 inhibited\n  \
         1706 events/s, 437 Mbit/s of payload; 320 MB in 5.86 s"
    );
}

#[test]
fn dead_time_is_explained_and_problems_are_listed_once() {
    let mut report = report();
    (report.events.triggered, report.events.inhibited) = (11_716, 1716);
    (report.dead_time_fraction, report.busy_fraction) = (0.146_47, 0.159);
    let causes = [("no fragment from source 3", 1000), ("sink of builder 2", 700), ("a", 10), ("b", 6)];
    report.dead_time =
        causes.map(|(cause, inhibited)| DeadTimeCause { cause: cause.to_owned(), inhibited }).to_vec();
    report.problems.push("source 3 was down".to_owned());
    let text = report.to_string();
    let expected = "\n  dead time: 14.6 % of the triggers were inhibited; no builder had a free slot for 932 ms\n    \
                    1000 triggers: no fragment from source 3\n    700 triggers: sink of builder 2\n    \
                    10 triggers: a\n    1 more cause\n  problem: source 3 was down";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_run_that_never_began_shows_no_zeros() {
    let problems = vec!["builder 1 cannot take part: the disk is full".to_owned()];
    let text = RunReport { problems, ..RunReport::default() }.to_string();
    assert_eq!(text, "run 0 (id 00000000): failed\n  problem: builder 1 cannot take part: the disk is full");
}
