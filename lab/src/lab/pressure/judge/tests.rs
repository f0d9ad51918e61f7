use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use super::{
    super::stage::{ALL, HALF, Stage},
    *,
};
use crate::lab::{pressure::course::Mark, watch::Flows};

/// Number of triggers per second in the simulated run.
const TRIGGERS: f64 = 300.0;
/// Bytes per second from and to each host in an undisturbed stage.
const BYTES: f64 = 1e6;
const ALL_SINKS: [&str; 4] =
    ["sink of builder 1", "sink of builder 2", "sink of builder 3", "sink of builder 4"];

/// Conditions of a stage, per second.
#[derive(Clone)]
struct Second {
    inhibited: f64,
    causes: &'static [&'static str],
    /// Share of its normal rate that every host keeps.
    kept: f64,
    /// Share of the built events that name the frozen source as missing.
    named: f64,
}

/// Counters of the simulated run so far.
#[derive(Default)]
struct World {
    seconds: f64,
    inhibited: f64,
    incomplete: f64,
    on_disk: f64,
    bytes: f64,
    causes: BTreeMap<&'static str, f64>,
}

impl World {
    fn pass(&mut self, stage: &Stage, second: &Second, seconds: f64) -> Mark {
        self.seconds += seconds;
        self.inhibited += seconds * second.inhibited;
        self.bytes += seconds * second.kept * BYTES;
        self.on_disk +=
            seconds * (TRIGGERS - second.inhibited) * (FRAGMENT * u64::from(SHAPE.sources)) as f64;
        if stage.pressure == Pressure::FrozenSource {
            self.incomplete += seconds * (TRIGGERS - second.inhibited) * second.named;
        }
        for cause in second.causes {
            *self.causes.entry(cause).or_default() += seconds * second.inhibited / second.causes.len() as f64;
        }
        let flow = (self.bytes as u64, self.bytes as u64);
        let flows: Flows =
            (1..=8).flat_map(|id| [(format!("s{id}"), flow), (format!("b{id}"), flow)]).collect();
        let status = json!({ "survey": self.said() });
        Mark::new(Duration::from_secs_f64(self.seconds), flows, self.on_disk as u64, &status).unwrap()
    }

    /// Returns the counters in the form of evbd's status and run summary.
    fn said(&self) -> Value {
        let triggered = self.seconds * TRIGGERS;
        let cause = |(cause, count)| json!({ "cause": cause, "inhibited": count });
        let causes: Vec<Value> = self.causes.iter().map(cause).collect();
        let source = |id| {
            let by_cause = match id {
                8 => json!({ "down": self.incomplete - 1.0, "silent until the deadline": 1 }),
                _ => json!({}),
            };
            let missing = if id == 8 { self.incomplete } else { 0.0 };
            json!({ "id": id, "missing": missing, "missing_by_cause": by_cause })
        };
        json!({
            "events": {
                "triggered": triggered,
                "inhibited": self.inhibited,
                "complete": triggered - self.inhibited - self.incomplete,
                "incomplete": self.incomplete,
                "lost": 0,
            },
            "dead_time_causes": causes,
            "sources": (1..=8).map(source).collect::<Vec<_>>(),
        })
    }
}

/// Returns conditions of a stage under which all bounds hold.
fn well(stage: &Stage) -> Second {
    let (inhibited, causes): (f64, &'static [&'static str]) = match stage.pressure {
        Pressure::FrozenSource => (5.0, &["source 8"]),
        Pressure::SlowSource => (100.0, &["source 3"]),
        Pressure::SlowSink if stage.load > HALF => (100.0, &["sink of builder 4"]),
        Pressure::SlowSinks => (100.0, &ALL_SINKS),
        Pressure::Nothing | Pressure::SlowSink => (0.0, &[]),
    };
    Second { inhibited, causes, kept: 1.0, named: 1.0 }
}

/// Simulates all stages under the given conditions, and returns the bounds that fail.
fn failed(second: impl Fn(&Stage) -> Second) -> Vec<String> {
    let mut world = World::default();
    let played = ALL.map(|stage| {
        let second = second(&stage);
        let [begin, settled, end] = [0.0, 4.0, 6.0].map(|seconds| world.pass(&stage, &second, seconds));
        Played { stage, first: Span::between(&begin, &settled), steady: Span::between(&settled, &end) }
    });
    let mut report = Report::bare("pressure");
    Judge { name: "x", played: &played, blamed: 0.9, report: &mut report }.judge(&world.said());
    report.failed()
}

/// Simulates all stages, with changed conditions in the stages with this disturbance, and returns
/// the bounds that fail.
fn failed_in(pressure: Pressure, change: impl Fn(Second) -> Second) -> Vec<String> {
    failed(|stage| if stage.pressure == pressure { change(well(stage)) } else { well(stage) })
}

fn says(failed: &[String], words: &str) -> bool {
    failed.iter().any(|what| what.contains(words))
}

#[test]
fn what_is_well_passes() {
    assert_eq!(failed(well), [""; 0]);
}

#[test]
fn blame_that_goes_astray_fails() {
    for pressure in [Pressure::FrozenSource, Pressure::SlowSource, Pressure::SlowSink, Pressure::SlowSinks] {
        let failed = failed_in(pressure, |well| Second { causes: &["builders are busy"], ..well });
        assert!(says(&failed, "put down to"), "{pressure:?}: {failed:?}");
        // The summary still names the sink of builder 4, because another stage, with all sinks
        // slow, has this cause too.
        assert_eq!(says(&failed, "blames"), pressure != Pressure::SlowSink, "{failed:?}");
    }
    let one_for_all = failed_in(Pressure::SlowSinks, |well| Second { causes: &ALL_SINKS[3..], ..well });
    assert!(says(&one_for_all, "inhibited by the sink of builder 1"), "{one_for_all:?}");
    let nobody = failed_in(Pressure::SlowSinks, |well| Second { causes: &[], ..well });
    assert!(says(&nobody, "without a cause in the summary"), "{nobody:?}");
}

#[test]
fn complete_events_without_the_frozen_source_fail() {
    let failed = failed_in(Pressure::FrozenSource, |well| Second { named: 0.3, ..well });
    assert!(says(&failed, "complete without the frozen source"), "{failed:?}");
    assert!(says(&failed, "in the summary without source 8"), "{failed:?}");
}

#[test]
fn rates_that_collapse_fail() {
    for pressure in [Pressure::FrozenSource, Pressure::SlowSink] {
        let failed = failed_in(pressure, |well| Second { kept: 0.9, ..well });
        assert!(says(&failed, "least part of its rate"), "{pressure:?}: {failed:?}");
        let failed = failed_in(pressure, |well| Second { inhibited: 30.0, ..well });
        assert!(says(&failed, ": part of the event rate"), "{pressure:?}: {failed:?}");
    }
    let dead = failed_in(Pressure::Nothing, |well| Second { inhibited: 30.0, ..well });
    assert!(says(&dead, "after: dead time"), "{dead:?}");
}
