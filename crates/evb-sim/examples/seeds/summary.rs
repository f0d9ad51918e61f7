//! Summary of the results of all seeds.

use std::{fmt::Write as _, time::Duration};

use evb_sim::system::{Counts, Outcome, Scenario};
use serde_json::json;

/// Summary of the results of all seeds so far.
pub(crate) struct Summary {
    from: u64,
    transport: &'static str,
    seeds: u64,
    last: u64,
    /// Combined hash of the traces of all seeds; it does not depend on the order in which the seeds
    /// ran.
    hash: u64,
    counts: Counts,
    pub(crate) failures: Vec<(u64, Outcome)>,
    pub(crate) lines: Vec<String>,
}

impl Summary {
    pub(crate) fn new(from: u64, transport: &'static str) -> Self {
        let (counts, failures) = (Counts::default(), Vec::new());
        Self { from, transport, seeds: 0, last: from, hash: 0, counts, failures, lines: Vec::new() }
    }

    pub(crate) fn add(&mut self, seed: u64, mut outcome: Outcome) {
        self.seeds += 1;
        self.last = self.last.max(seed);
        self.hash = self.hash.wrapping_add((outcome.hash ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        self.counts += &outcome.counts;
        self.lines.append(&mut outcome.lines);
        if outcome.failure.is_some() {
            self.failures.push((seed, outcome));
            self.failures.sort_by_key(|(seed, _)| *seed);
        }
    }

    /// Returns a line of text that reports the progress.
    pub(crate) fn progress(&self, took: Duration) -> String {
        let rate = self.seeds as f64 / took.as_secs_f64();
        let Self { seeds, last, .. } = self;
        format!("{seeds} seeds, up to {last}, {rate:.1} per second, {} failed", self.failures.len())
    }

    /// Formats the summary as text.
    pub(crate) fn show(&self, took: Duration) -> String {
        let counts = &self.counts;
        let mut text = String::new();
        let hours = counts.time.as_secs_f64() / 3600.0;
        let _ = writeln!(
            text,
            "seeds {} to {} over {}: {} in {:.1} s, {hours:.2} simulated hours, {} runs, {} turns; trace {:016x}",
            self.from,
            self.last,
            self.transport,
            self.seeds,
            took.as_secs_f64(),
            counts.runs,
            counts.turns,
            self.hash
        );
        let _ = writeln!(
            text,
            "events: {} triggered = {} inhibited + {} complete + {} incomplete + {} lost + {} rejected; {} further copies",
            counts.triggered,
            counts.inhibited,
            counts.complete,
            counts.incomplete,
            counts.lost,
            counts.rejected,
            counts.copies
        );
        let _ = writeln!(
            text,
            "processes {}, registrations {}, lanes {}, recoveries {}; datagrams {}, {} lost, {} ranges asked for again",
            counts.processes,
            counts.registrations,
            counts.lanes,
            counts.recoveries,
            counts.datagrams,
            counts.datagrams_lost,
            counts.resends
        );
        let faults: Vec<String> =
            counts.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let _ = writeln!(text, "faults: {}", faults.join(", "));
        let boards: Vec<String> =
            counts.boards.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let _ = writeln!(text, "boards: {}", boards.join(", "));
        let _ = writeln!(text, "failed: {}", self.failures.len());
        text
    }

    /// Formats the summary as JSON.
    pub(crate) fn json(&self, took: Duration) -> String {
        let counts = &self.counts;
        let failures: Vec<_> = self
            .failures
            .iter()
            .filter_map(|(seed, outcome)| {
                let failure = outcome.failure.as_ref()?;
                Some(json!({ "seed": seed, "check": failure.check.word(), "what": failure.what }))
            })
            .collect();
        let value = json!({
            "from": self.from,
            "last": self.last,
            "seeds": self.seeds,
            "transport": self.transport,
            "seconds": took.as_secs_f64(),
            "trace": format!("{:016x}", self.hash),
            "simulated_seconds": counts.time.as_secs_f64(),
            "runs": counts.runs,
            "turns": counts.turns,
            "events": {
                "triggered": counts.triggered,
                "inhibited": counts.inhibited,
                "complete": counts.complete,
                "incomplete": counts.incomplete,
                "lost": counts.lost,
                "rejected": counts.rejected,
                "copies": counts.copies,
            },
            "processes": counts.processes,
            "registrations": counts.registrations,
            "lanes": counts.lanes,
            "recoveries": counts.recoveries,
            "datagrams": counts.datagrams,
            "datagrams_lost": counts.datagrams_lost,
            "resends": counts.resends,
            "faults": counts.faults,
            "boards": counts.boards,
            "failures": failures,
        });
        format!("{value:#}\n")
    }
}

/// Describes a scenario, without its faults, in one line.
pub(crate) fn describe(scenario: &Scenario) -> String {
    let Scenario { sources, builders, spares, slots, .. } = scenario;
    format!(
        "{} · {sources} sources · boards {:?} · {builders} builders and {spares} spare · {slots} slots · {:?} (delay {:?}) · {:?} · {:?}, stopped after \
         {:?} · {} runs · deadline {:?} · {:?} · {:?} · {:?} · write {:?}, commit {:?} · journal {} · run control {}",
        scenario.transport.word(),
        scenario.boards,
        scenario.pushes,
        scenario.readout.delay,
        scenario.trigger,
        scenario.end,
        scenario.stop_after,
        scenario.runs,
        scenario.deadline,
        scenario.on_source_loss,
        scenario.shaping,
        scenario.weather,
        scenario.write,
        scenario.commit,
        scenario.has_journal,
        scenario.run_control.is_some()
    )
}
