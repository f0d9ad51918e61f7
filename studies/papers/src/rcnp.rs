//! The event builder of RCNP and Saclay (Nomachi et al.): builders request data from one source at
//! a time, so that round trips determine the event rate. Prints a table of event rates by event
//! size and by the number of outstanding events per builder, at one switch, or at three switches in
//! a row as in the study (`--cascade`).

mod table;
mod cascade;

use anyhow::Result;
use clap::Args;
use lab_base::{
    bench::Bench,
    network::{Network, Shape},
    report::Report,
    system::{Mode, System, Transport},
};

/// Sizes of events in bytes; each of four sources sends a quarter.
const SIZES: [u64; 7] = [16, 64, 256, 1_000, 4_000, 16_000, 64_000];

#[derive(Args)]
pub struct RcnpArgs {
    /// Put sources, supervisor and builders at three switches in a row, with TCP and UDP and with 1
    /// to 8 outstanding events per builder.
    #[arg(long)]
    cascade: bool,
    /// Rate of the links of the cascade, in Mbit/s.
    #[arg(long, default_value_t = 155, requires = "cascade")]
    mbit: u64,
    /// Round trip between a source and a builder of the cascade, in ms, which the netem of
    /// User-Mode Linux adds. It must be below 50 ms, the time after which a builder gives the turn
    /// of a silent source to another.
    #[arg(long, requires = "cascade")]
    rtt_ms: Option<f64>,
    /// Test three event sizes, and 1 and 8 outstanding events.
    #[arg(long, requires = "cascade")]
    short: bool,
    /// Used internally: run on the current kernel instead of starting User-Mode Linux.
    #[arg(long, hide = true)]
    here: bool,
}

impl RcnpArgs {
    /// Returns true if the scenario runs under User-Mode Linux, which has not been started.
    pub fn is_elsewhere(&self) -> bool {
        self.rtt_ms.is_some() && !self.here
    }
}

/// Returns the words of the command that runs the scenario under User-Mode Linux, and its time
/// limit in seconds.
pub fn elsewhere(rcnp: &RcnpArgs, transports: &[Transport], seconds: f64) -> (Vec<String>, f64) {
    let transport = if let [one] = transports { one.word() } else { "both" };
    let (rtt, mbit) = (rcnp.rtt_ms.unwrap_or_default().to_string(), rcnp.mbit.to_string());
    let words = ["rcnp", "--cascade", "--rtt-ms", &rtt, "--mbit", &mbit, "--transport", transport];
    let words = words.into_iter().chain(rcnp.short.then_some("--short"));
    // Besides its duration, a run needs time for start and drain, and for a timeout if it fails.
    (words.map(ToOwned::to_owned).collect(), 120.0 + cascade::RUNS as f64 * (2.0 * seconds + 15.0))
}

pub fn run(bench: &Bench, args: &RcnpArgs) -> Result<Report> {
    if args.cascade {
        return cascade::run(bench, args);
    }
    let mut report = Report::new("rcnp");
    let network = Network::up(Shape {
        sources: 4,
        builders: 4,
        rate: 1_000_000_000,
        port_buffer: 128 * 1024,
        ..Shape::PLAIN
    })?;
    for slots in [1, 8] {
        for size in SIZES {
            let name = format!("4x4 slots {slots} size {size}");
            if bench.wants(&name) {
                let system = System::new(Mode::Sequential, size / 4).slots(slots);
                let outcome = bench.run(&network, &name, system)?;
                report.add(&outcome);
                report.clean(&outcome);
            }
        }
    }
    Ok(report)
}
