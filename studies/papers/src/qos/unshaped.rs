//! The runs without rates: the rate of each destination, and the processor time that the rates
//! cost.

use anyhow::Result;
use lab_base::{
    bench::Bench,
    network::Network,
    outcome::{Outcome, furthest, median},
    report::{Bound, Report},
    system::{Mode, System, Trigger},
};
use serde_json::{Value, json};

use super::{super::provisioned::Provisioned, FRAGMENT, lanes::measure, mechanism::Mechanism};

/// Least rate of each of three destinations without rates, as a share of the link's rate: Yasu et
/// al. report more than 200 Mbit/s of 1 Gbit/s, and nearly the same for each.
const LEAST: f64 = 0.2;
/// Largest relative difference of a destination's rate from their mean.
const EVEN: f64 = 0.1;
/// Number of events per builder that are under way.
const SLOTS: u32 = 16;
/// Load of the link while processor time is measured.
const LOAD: f64 = 0.5;
/// Event rate as a share of the rate that the lanes may have, so that runs with and without rates
/// build the same events.
const BELOW: f64 = 0.95;

/// Runs a system without rates at full speed, and returns its entry in the table of the report.
pub(super) fn baseline(bench: &Bench, network: &Network, report: &mut Report) -> Result<Option<Value>> {
    let shape = network.shape();
    let name = format!("{}x{} unshaped", shape.sources, shape.builders);
    if !bench.wants(&name) {
        return Ok(None);
    }
    let (outcome, got) =
        measure(bench, network, &name, System::new(Mode::None, FRAGMENT).slots(SLOTS).warn())?;
    report.add(&outcome);
    report.yes(&format!("{name}: every event complete"), outcome.is_complete());
    let mbit: Vec<f64> = got.iter().map(|rate| rate / 1e6).collect();
    report.note(format!("{name}: {mbit:.1?} Mbit/s, {} packets dropped", outcome.drops()));
    if shape.builders > 1 {
        let least = got.iter().copied().fold(f64::INFINITY, f64::min) / shape.rate as f64;
        report.noisy(&format!("{name}: least destination, of the link"), least, Bound::AtLeast(LEAST));
        report.noisy(
            &format!("{name}: furthest destination from the mean"),
            unevenness(&got),
            Bound::AtMost(EVEN),
        );
    }
    Ok(Some(json!({
        "system": format!("{}x{}", shape.sources, shape.builders),
        "got_bit_per_s": got,
        "drops": outcome.drops(),
    })))
}

/// Returns the largest relative difference of a rate from the mean of all.
fn unevenness(rates: &[f64]) -> f64 {
    furthest(rates, rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Processor time of one event, in µs: of evb's processes, and of the whole machine, which includes
/// the kernel's work for packets that it delays.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    processes: f64,
    machine: f64,
}

impl Cost {
    fn of(outcome: &Outcome) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let per_event = |seconds: f64| seconds / outcome.number("events.assigned") * 1e6;
        Self {
            processes: per_event(outcome.cpu_s),
            machine: per_event(outcome.machine_busy * outcome.wall_s * cores),
        }
    }
}

/// Measures the processor time that it costs to enforce rates: runs the same event rate without
/// rates and with each mechanism in turn, `bench.runs` times, and returns the mechanisms' entries
/// in the table of the report.
pub(super) fn cost(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    mechanisms: &[Mechanism],
) -> Result<Vec<Value>> {
    let shape = network.shape();
    let system = format!("{}x{}", shape.sources, shape.builders);
    let name = format!("{system} cpu");
    if !bench.wants(&name) {
        return Ok(Vec::new());
    }
    let rate = (shape.rate as f64 * LOAD) as u64 / u64::from(shape.sources.max(shape.builders));
    let plain = System::new(Mode::None, FRAGMENT);
    let fragment_bits = plain.wire_time(shape) * shape.rate as f64 / f64::from(shape.sources);
    let events = BELOW * rate as f64 * f64::from(shape.builders) / fragment_bits;
    let plain = plain.trigger(Trigger::Periodic(events)).warn();
    let rates = vec![rate; usize::from(shape.builders)];
    let mut rounds: Vec<Round> = Vec::new();
    for run in 1..=bench.runs.max(1) {
        let mut cost_of = |mechanism: Option<Mechanism>| -> Result<Cost> {
            let word = mechanism.map_or("unshaped", Mechanism::name);
            let system = match mechanism {
                Some(mechanism) => plain.clone().rates(&rates, mechanism.offload()),
                None => plain.clone(),
            };
            let _provisioned = match mechanism {
                Some(Mechanism::Kernel(bucket)) => Some(Provisioned::apply(network, bench, &system, bucket)?),
                _ => None,
            };
            let outcome = bench.run(network, &format!("{name} {word} run {run}"), system)?;
            report.add(&outcome);
            report.yes(&format!("{}: every event complete", outcome.name), outcome.is_complete());
            Ok(Cost::of(&outcome))
        };
        let unshaped = cost_of(None)?;
        let shaped = mechanisms.iter().map(|mechanism| cost_of(Some(*mechanism))).collect::<Result<_>>()?;
        rounds.push(Round { unshaped, shaped });
    }
    Ok(mechanisms
        .iter()
        .enumerate()
        .map(|(position, mechanism)| compared(&system, *mechanism, position, &rounds, report))
        .collect())
}

/// The costs of runs that followed each other: without rates, and then with the rates enforced by
/// each mechanism in turn.
struct Round {
    unshaped: Cost,
    shaped: Vec<Cost>,
}

/// Notes what the mechanism at this position of each round costs beside the run without rates in
/// the same round, and returns the mechanism's entry in the table of the report.
fn compared(
    system: &str,
    mechanism: Mechanism,
    position: usize,
    rounds: &[Round],
    report: &mut Report,
) -> Value {
    let shaped = |of: fn(&Cost) -> f64| median(rounds.iter().map(|round| of(&round.shaped[position])));
    let unshaped = |of: fn(&Cost) -> f64| median(rounds.iter().map(|round| of(&round.unshaped)));
    let ratios = |of: fn(&Cost) -> f64| -> Vec<f64> {
        rounds.iter().map(|round| of(&round.shaped[position]) / of(&round.unshaped)).collect()
    };
    let (processes, machine) = (ratios(|cost| cost.processes), ratios(|cost| cost.machine));
    report.note(format!(
        "{system} cpu {}: {:.0} µs of the processes per event, {:.0} unshaped ({:+.1} %); {:.0} µs of the whole machine, {:.0} unshaped ({:+.1} %); medians of {} rounds",
        mechanism.name(),
        shaped(|cost| cost.processes),
        unshaped(|cost| cost.processes),
        (median(processes.iter().copied()) - 1.0) * 100.0,
        shaped(|cost| cost.machine),
        unshaped(|cost| cost.machine),
        (median(machine.iter().copied()) - 1.0) * 100.0,
        rounds.len(),
    ));
    json!({
        "system": system,
        "means": mechanism.name(),
        "processes_us_per_event": shaped(|cost| cost.processes),
        "processes_us_per_event_unshaped": unshaped(|cost| cost.processes),
        "processes_ratio": processes,
        "machine_us_per_event": shaped(|cost| cost.machine),
        "machine_us_per_event_unshaped": unshaped(|cost| cost.machine),
        "machine_ratio": machine,
    })
}

#[cfg(test)]
mod tests;
