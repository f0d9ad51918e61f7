//! Mixed traffic: event data at 80 % of a 100 Mbit/s port share the link of a host with a bulk
//! transfer and control messages. Runs with and without traffic classes in the host's kernel are
//! compared. Class-based queueing on such a host is the study of Yasu et al. (KEK); traffic of DAQ
//! and office on one network is that of Nomachi et al. (RCNP), which `trunk` repeats (`--trunk`).

mod trunk;

use anyhow::Result;
use clap::Args;
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Trigger},
};
use serde_json::Value;

use super::{
    provisioned::{Bucket, Provisioned},
    traffic::Traffic,
};

const LINK: u64 = 100_000_000;
const FRAGMENT: u64 = 64_000;
/// Load by event data as a share of the port's rate, counted in L2 frames.
const DATA: f64 = 0.8;
/// Guaranteed rates of the classes data, control, monitoring and other, in bit/s of L2 frames: data
/// get 80 % of the port's rate and a reserve for announcements and resends.
const GUARANTEED: [u64; 4] = [85_000_000, 5_000_000, 2_000_000, 1_000_000];
/// Largest allowed 99th percentile of the response time of control messages, in ms.
const CONTROL_MS: f64 = 5.0;
/// Share of the requested event rate that must be reached.
const KEPT: f64 = 0.99;

#[derive(Args)]
pub struct MixedArgs {
    /// Share a trunk between two switches with office traffic instead: a bulk transfer and many
    /// short connections.
    #[arg(long)]
    trunk: bool,
    /// Rate of the trunk, in Mbit/s; ports have four times this rate.
    #[arg(long, default_value_t = 100, requires = "trunk")]
    mbit: u64,
}

pub fn run(bench: &Bench, args: &MixedArgs) -> Result<Report> {
    if args.trunk {
        return trunk::run(bench, args.mbit);
    }
    let mut report = Report::new("mixed");
    let network =
        Network::up(Shape { sources: 1, builders: 1, rate: LINK, port_buffer: 128 * 1024, ..Shape::PLAIN })?;
    let system = || {
        let bare = System::new(Mode::Credit, FRAGMENT).classes(GUARANTEED);
        let events = DATA / bare.wire_time(network.shape());
        bare.trigger(Trigger::Periodic(events))
    };
    let idle = Traffic::start(&network, ("s1", "b1"), bench.seconds / 2.0, false)?.finish()?.1;
    let with = {
        let _provisioned = Provisioned::apply(&network, bench, &system(), Bucket::Htb)?;
        case(bench, &network, &mut report, "1x1 with classes", system())?
    };
    let without = case(bench, &network, &mut report, "1x1 without classes", system())?;
    let asked = DATA / system().wire_time(network.shape());
    report.yes("with classes: every event complete", with.outcome.is_complete());
    report.noisy("with classes: share of the asked event rate", with.rate / asked, Bound::AtLeast(KEPT));
    report.noisy("with classes: control p99, ms", with.control_ms, Bound::AtMost(CONTROL_MS));
    report.holds("with classes: control messages lost", with.lost, Bound::AtMost(0.0));
    let spoilt = without.control_ms > CONTROL_MS || without.rate / asked < KEPT;
    report.yes("without classes: control is late, or data is slower", spoilt);
    report.note(format!(
        "nothing else in the network: control p50 {:.2} p99 {:.2} ms, which is the machine",
        number(&idle, "p50_us") / 1e3,
        number(&idle, "p99_us") / 1e3
    ));
    for (name, case) in [("with", &with), ("without", &without)] {
        report.note(format!(
            "{name} classes: {:.1} of {asked:.1} events/s, control p50 {:.2} p99 {:.2} ms, bulk {:.2} Mbit/s",
            case.rate, case.control_p50_ms, case.control_ms, case.bulk_mbit
        ));
    }
    Ok(report)
}

struct Case {
    outcome: Outcome,
    rate: f64,
    control_ms: f64,
    control_p50_ms: f64,
    lost: f64,
    bulk_mbit: f64,
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

fn case(bench: &Bench, network: &Network, report: &mut Report, name: &str, system: System) -> Result<Case> {
    // Bulk and control traffic last longer than the run, so that event data always compete with
    // them.
    let traffic = Traffic::start(network, ("s1", "b1"), bench.seconds + 1.0, true)?;
    let outcome = bench.run(network, name, system)?;
    report.add(&outcome);
    let (bulk, control) = traffic.finish()?;
    Ok(Case {
        rate: outcome.number("rates.events_per_s"),
        outcome,
        control_ms: number(&control, "p99_us") / 1e3,
        control_p50_ms: number(&control, "p50_us") / 1e3,
        lost: number(&control, "lost"),
        bulk_mbit: number(&bulk, "bytes") * 8.0 / number(&bulk, "seconds") / 1e6,
    })
}
