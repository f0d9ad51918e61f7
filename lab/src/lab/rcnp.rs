//! The event builder of RCNP and Saclay (Nomachi et al.): builders request data from one source at
//! a time, so that round trips determine the event rate. Prints a table of event rates by event
//! size and by the number of outstanding events per builder.

use anyhow::Result;

use super::{
    bench::Bench,
    network::{Network, Shape},
    report::Report,
    system::{Mode, System},
};

const SIZES: [u64; 7] = [16, 64, 256, 1_000, 4_000, 16_000, 64_000];

pub(crate) fn run(bench: &Bench) -> Result<Report> {
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
                // `size` is that of an event, of which each of four sources sends a quarter.
                let system = System::new(Mode::Sequential, size / 4).slots(slots);
                let outcome = bench.run(&network, &name, system)?;
                report.add(&outcome);
                report.clean(&outcome);
            }
        }
    }
    Ok(report)
}
