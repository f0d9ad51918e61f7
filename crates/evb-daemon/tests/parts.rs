//! Reports on their run by processes without the supervisor.

mod fleet;

use std::time::Duration;

use fleet::{Plan, number};

#[test]
fn processes_without_the_supervisor_say_for_how_long_they_took_part() {
    let mut fleet = Plan { run: "duration = \"1500 ms\"", sources: 2, ..Plan::default() }.start();
    fleet.all_end(0, Duration::from_secs(20));
    let led = number(&fleet.summary("supervisor"), "/duration_s");
    for role in ["source:1", "source:2", "builder:1", "builder:2"] {
        let took_part = number(&fleet.summary(role), "/duration_s");
        assert!((took_part - led).abs() < 0.5, "{role} took part for {took_part} s of {led}");
    }
    let built = fleet.summary("builder:1");
    let expected = number(&built, "/events/complete") / number(&built, "/duration_s");
    assert!(
        expected > 0.0 && (number(&built, "/rates/events_per_s") / expected - 1.0).abs() < 1e-6,
        "{built:#}"
    );
    assert!(number(&built, "/rates/payload_bytes_per_s") > 0.0, "{built:#}");
    // A source does not know how many events were built.
    let alone = fleet.summary("source:1");
    assert_eq!(alone.get("rates"), None, "{alone:#}");
}
