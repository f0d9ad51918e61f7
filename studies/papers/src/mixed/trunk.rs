//! Event data and office traffic on one trunk, as at RCNP (Nomachi et al.). Two sources send to two
//! builders at another switch; a third host of the sources' switch sends a bulk transfer and many
//! short connections over the same trunk. Event data have the trunk alone; then share it with the
//! office; then share it while the switch gives event data and the supervisor's messages a class of
//! their own at the trunk's port, as a managed switch with priorities does. The hosts have no
//! classes.

use anyhow::Result;
use lab_base::{
    bench::Bench,
    network::{Link, Network, Shape, Tree},
    outcome::median,
    report::{Bound, Report},
    system::{Mode, System, Transport, Trigger},
};
use serde_json::json;

use super::{
    super::office::{Office, Served},
    KEPT,
};

const FRAGMENT: u64 = 16_000;
/// Sources that take part; the last host of the sources' switch is the office's.
const SOURCES: u16 = 2;
const OFFICE: &str = "s3";
/// Host to which the office's traffic goes. Its port is wide enough for the whole trunk.
const SERVER: &str = "b2";
const PORTS_OVER_TRUNK: u64 = 4;
const BUFFER: u64 = 128 * 1024;
/// Load by event data as a share of the trunk's rate.
const DATA: f64 = 0.6;
/// Largest 99th percentile of the build latency beside the office, relative to that without it.
const LATER: f64 = 1.5;
/// Time by which office traffic is longer than a run, in seconds: it starts before and ends after
/// the run.
const LONGER: f64 = 3.0;

fn shape(mbit: u64) -> Shape {
    let rate = mbit * 1_000_000;
    let tree = Tree::Two(Link { rate, buffer: BUFFER });
    let port = rate * PORTS_OVER_TRUNK;
    Shape { sources: SOURCES + 1, builders: 2, rate: port, port_buffer: BUFFER, tree, ..Shape::PLAIN }
}

/// Returns the event rate with which event data are `DATA` of the trunk's rate, headers included.
fn events_per_s(shape: Shape, transport: Transport) -> f64 {
    let plain = System::new(Mode::Credit, FRAGMENT).over(transport);
    let event_bits =
        plain.wire_time(shape) * shape.rate as f64 * f64::from(SOURCES) / f64::from(shape.sources);
    DATA * shape.carries() / event_bits
}

/// Company of event data on the trunk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Company {
    Alone,
    Office,
    OfficeWithClasses,
}

impl Company {
    const ALL: [Self; 3] = [Self::Alone, Self::Office, Self::OfficeWithClasses];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "trunk alone",
            Self::Office => "trunk with office",
            Self::OfficeWithClasses => "trunk with office and classes",
        }
    }
}

/// Medians of the runs of a case.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Event rate as a share of the asked rate.
    rate: f64,
    p99_ms: f64,
}

pub(super) fn run(bench: &Bench, mbit: u64) -> Result<Report> {
    let mut report = Report::new("mixed-trunk");
    let network = Network::up(shape(mbit))?;
    for transport in bench.transports {
        let mut alone = None;
        for company in Company::ALL {
            let name = Bench::name(company.name(), *transport);
            if bench.wants(&name) {
                let kept = case(bench, &network, &mut report, &name, company, *transport)?;
                match (company, alone) {
                    (Company::Alone, _) => alone = Some(kept),
                    (_, Some(alone)) => judge(&name, company, kept, alone, &mut report),
                    (_, None) => {}
                }
            }
        }
    }
    Ok(report)
}

/// Checks a case beside the office against event data alone.
fn judge(name: &str, company: Company, kept: Kept, alone: Kept, report: &mut Report) {
    let later = kept.p99_ms / alone.p99_ms;
    report.note(format!(
        "{name}: {:.1} % of the asked event rate, build latency p99 {:.2} ms, {later:.2} times that alone",
        kept.rate * 100.0,
        kept.p99_ms
    ));
    if company == Company::OfficeWithClasses {
        report.noisy(&format!("{name}: share of the asked event rate"), kept.rate, Bound::AtLeast(KEPT));
        report.noisy(&format!("{name}: p99 over that alone"), later, Bound::AtMost(LATER));
    }
}

fn case(
    bench: &Bench,
    network: &Network,
    report: &mut Report,
    name: &str,
    company: Company,
    transport: Transport,
) -> Result<Kept> {
    let asked = events_per_s(network.shape(), transport);
    let (mut rates, mut p99s) = (Vec::new(), Vec::new());
    for run in 1..=bench.runs.max(1) {
        let name = format!("{name} run {run}");
        if company == Company::OfficeWithClasses {
            network.classify(&["sup", "s1", "s2"])?;
        }
        let office = (company != Company::Alone)
            .then(|| Office::open(network, OFFICE, SERVER, bench.seconds + LONGER))
            .transpose()?;
        let system = System::new(Mode::Credit, FRAGMENT)
            .over(transport)
            .trigger(Trigger::Periodic(asked))
            .without_last_source();
        let outcome = bench.run(network, &name, system)?;
        let served = office.map(Office::close).transpose()?;
        let data_drops = match company {
            Company::Alone => Some(outcome.drops()),
            Company::Office => None,
            Company::OfficeWithClasses => Some(network.declassify()?),
        };
        report.add(&outcome);
        report.yes(&format!("{name}: every event complete"), outcome.is_complete());
        if let Some(drops) = data_drops {
            report.holds(&format!("{name}: packets of event data dropped"), drops as f64, Bound::AtMost(0.0));
        }
        let (rate, p99_ms) = (outcome.number("rates.events_per_s") / asked, outcome.latency_us("p99") / 1e3);
        publish(&name, (rate, p99_ms, data_drops), served.as_ref(), report);
        rates.push(rate);
        p99s.push(p99_ms);
    }
    Ok(Kept { rate: median(rates), p99_ms: median(p99s) })
}

/// Notes the results of a run and of the office beside it.
fn publish(
    name: &str,
    (rate, p99_ms, data_drops): (f64, f64, Option<u64>),
    served: Option<&Served>,
    report: &mut Report,
) {
    if let Some(served) = served {
        report.note(format!(
            "{name}: the office's bulk {:.1} Mbit/s, {:.0} short connections, {:.0} failed, p50 {:.1} and p99 {:.1} ms",
            served.bulk_mbit, served.connections, served.failed, served.p50_ms, served.p99_ms
        ));
    }
    let office = served.map(|served| {
        json!({
            "bulk_mbit_per_s": served.bulk_mbit,
            "connections": served.connections,
            "failed": served.failed,
            "p50_ms": served.p50_ms,
            "p99_ms": served.p99_ms,
        })
    });
    let value = json!({
        "share_of_asked_rate": rate,
        "build_latency_ms_p99": p99_ms,
        "data_packets_dropped": data_drops,
        "office": office,
    });
    report.attach(name, value);
}

#[cfg(test)]
mod tests;
