//! Compares built events with the KM3NeT timeslices that were replayed into them, byte for byte.
//!
//!     cargo run --release -p evb-daemon -- run examples/km3net.toml
//!     cargo run --release --features km3net --example km3net_rebuild -- \
//!         examples/data/km3net_l1_timeslices.dat out/km3net

use std::{path::Path, process::ExitCode};

use evb::input::km3net::{Timeslices, rebuild_timeslice};
use evb_file::{EventFile, files_at};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let original = arguments.next().ok_or("usage: km3net_rebuild TIMESLICES EVENTS…")?;
    let bytes = std::fs::read(&original)?;
    let slices = Timeslices::parse(&bytes)?;
    let mut seen = vec![0_u64; slices.len()];
    let mut different = 0_u64;
    for path in arguments {
        for file in files_at(Path::new(&path))? {
            for event in EventFile::open(&file)?.events() {
                let event = event?;
                if rebuild_timeslice(&event).as_deref() == Ok(slices.of_event(event.id)) {
                    seen[slices.place_of(event.id)] += 1;
                } else {
                    different += 1;
                    println!("{}: event {} is not the timeslice that was replayed", file.display(), event.id);
                }
            }
        }
    }
    let (events, rebuilt) = (seen.iter().sum::<u64>(), seen.iter().filter(|count| **count > 0).count());
    println!("{events} events equal their timeslices byte for byte, {different} do not");
    println!("{rebuilt} of the {} timeslices of {original} were rebuilt", slices.len());
    Ok(if different == 0 && rebuilt == slices.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
