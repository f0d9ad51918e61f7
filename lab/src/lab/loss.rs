//! Goodput at full speed while packets towards the builder are lost at random, over UDP and TCP in
//! turn, and while bits are flipped.

use anyhow::Result;
use lab_base::{
    bench::Bench,
    network::Network,
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, Transport},
};

use super::{
    damage,
    incast::{self, FRAGMENT, SMALL},
};

/// Shares of the packets towards the builder that are lost, in percent, each tested in a run.
const LOSSES: [f64; 4] = [0.0, 0.1, 1.0, 5.0];
/// Share of the goodput without loss that UDP must keep at 1 % loss.
const KEPT: f64 = 0.8;

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("loss");
    {
        let network = Network::up(incast::shape(8))?;
        for fragment in [FRAGMENT, SMALL] {
            at_full_speed(bench, &network, &mut report, fragment)?;
        }
    }
    damage::run(bench, &mut report)?;
    Ok(report)
}

fn at_full_speed(bench: &Bench, network: &Network, report: &mut Report, fragment: u64) -> Result<()> {
    let small = if fragment == SMALL { " small" } else { "" };
    let mut without: [Option<Outcome>; 2] = [None, None];
    for percent in LOSSES {
        for (transport, without) in [Transport::Udp, Transport::Tcp].into_iter().zip(&mut without) {
            let name = Bench::name(&format!("8x1 {percent} % lost{small}"), transport);
            if !bench.wants(&name) {
                continue;
            }
            network.loss("b1", percent)?;
            let system = incast::full_speed(Mode::Credit, transport, fragment).checked();
            let outcome = bench.run(network, &name, system);
            network.loss("b1", 0.0)?;
            let outcome = outcome?;
            report.add(&outcome);
            report.yes(&format!("{name}: every event complete, every byte right"), outcome.is_exact());
            if transport == Transport::Udp {
                let drops = outcome.drops() as f64;
                report.holds(&format!("{name}: packets dropped by the switch"), drops, Bound::AtMost(0.0));
            }
            if percent == 0.0 {
                *without = Some(outcome);
            } else if let Some(without) = without {
                let kept = outcome.goodput() / without.goodput();
                let what = format!("{name}: of the goodput without loss");
                match transport {
                    Transport::Udp if percent == 1.0 => report.noisy(&what, kept, Bound::AtLeast(KEPT)),
                    _ => report.note(format!("{what}: {kept:.3}")),
                }
            }
        }
    }
    Ok(())
}
