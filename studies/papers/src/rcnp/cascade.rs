//! The cascade of the study: four sources, the supervisor and four builders at three switches in a
//! row, joined by links of 155 Mbit/s.
//!
//! In the study, a builder requests the fragments of an event from one source after the other. With
//! `k` outstanding events it has `k` requests under way; so here it has `k` slots and lets `k`
//! sources send at once. With one event, each source takes a round trip. The decision reaches the
//! sources, their announcements the builder, and the builder's report the supervisor in one more
//! round trip together, because the supervisor is in the middle, and half of a one-way path away
//! from both. [`predicted`] has the formula for all numbers. The cases `serial` have eight slots
//! and one request under way, which is evb's `sources_at_once = 1`.
//!
//! On this kernel, the round trip consists of processor time; under User-Mode Linux (option
//! `--rtt-ms`), netem delays packets, and the rates must agree with the formula.

use std::time::Duration;

use anyhow::{Result, bail};
use lab_base::{
    bench::Bench,
    interrupt,
    network::{Link, Network, Shape, Tree},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Transport, network_capacity},
};

use super::{
    super::traffic::Traffic,
    RcnpArgs, SIZES,
    table::{self, Row},
};

const SOURCES: u16 = 4;
const BUILDERS: u16 = 4;
/// Buffer of a port and of each end of a trunk.
const BUFFER: u64 = 128 * 1024;
/// Numbers of outstanding events per builder.
const SLOTS: [u32; 4] = [1, 2, 4, 8];
/// Numbers and sizes in the short version.
const SHORT_SLOTS: [u32; 2] = [1, 8];
const SHORT_SIZES: [u64; 3] = [16, 1_000, 64_000];
/// Sizes of events with a delay, in bytes: so small that the links are nearly idle.
const DELAYED_SIZES: [u64; 2] = [16, 1_000];
/// Largest number of runs with a delay.
pub(super) const RUNS: usize = 2 * (SLOTS.len() + 1) * DELAYED_SIZES.len();
/// Number of trunks on the way from a source to a builder and back.
const TRUNKS_OF_ROUND_TRIP: u32 = 4;
/// Time in ms after which a builder gives the turn of a source, of which nothing arrives, to
/// another source (`STALL` in evb-shaper). With a longer round trip, more requests than
/// `sources_at_once` are under way: at 100 ms, 1.4 to 2 times the predicted rate was measured.
const TURN_ENDS: f64 = 50.0;
/// Largest relative difference between the rate and that of the outstanding events.
const AGREEMENT: f64 = 0.2;
/// Least goodput of the largest events with eight outstanding, as a share of what the links carry.
const FULL: f64 = 0.9;
/// Time for which the round trip is measured, in seconds.
const ASKED: f64 = 1.0;

fn shape(mbit: u64) -> Shape {
    let rate = mbit * 1_000_000;
    let tree = Tree::Cascade(Link { rate, buffer: BUFFER });
    Shape { sources: SOURCES, builders: BUILDERS, rate, port_buffer: BUFFER, tree, ..Shape::PLAIN }
}

pub(super) fn run(bench: &Bench, args: &RcnpArgs) -> Result<Report> {
    let mut report = Report::new(if args.rtt_ms.is_some() { "rcnp-delay" } else { "rcnp-cascade" });
    let network = Network::up(shape(args.mbit))?;
    if let Some(round_trip) = args.rtt_ms {
        if !(round_trip > 0.0 && round_trip < TURN_ENDS) {
            bail!("--rtt-ms takes a time above 0 and below {TURN_ENDS} ms, at which builders stop waiting");
        }
        network.delay_trunks(Duration::from_secs_f64(round_trip / 1e3) / TRUNKS_OF_ROUND_TRIP)?;
    }
    let round_trip = round_trip(&network)?;
    report.note(format!("round trip of 64 B between builder and source, idle: {:.3} ms", round_trip * 1e3));
    let slots: &[u32] = if args.short { &SHORT_SLOTS } else { &SLOTS };
    let sizes: &[u64] = match args.rtt_ms {
        Some(_) => &DELAYED_SIZES,
        None if args.short => &SHORT_SIZES,
        None => &SIZES,
    };
    let mut rows: Vec<Row> = Vec::new();
    for transport in bench.transports {
        for (slots, at_once) in ways(slots) {
            for size in sizes {
                interrupt::check()?;
                let name = name(slots, at_once, *size, *transport);
                if bench.wants(&name) {
                    let system = System::new(Mode::Credit, size / 4).slots(slots).over(*transport);
                    let system = system.shaped(&format!("sources_at_once = {at_once}"));
                    let outcome = bench.run(&network, &name, system)?;
                    report.add(&outcome);
                    report.clean(&outcome);
                    rows.push(row(&outcome, *size, (slots, at_once)));
                }
            }
        }
    }
    if args.rtt_ms.is_some() {
        compare(&rows, round_trip, &mut report);
    } else {
        scale(&rows, &mut report);
    }
    table::publish(&rows, round_trip, args.rtt_ms.is_some(), &bench.out, &mut report)?;
    Ok(report)
}

/// Measures the round trip of a small datagram from a builder to a source and back while nothing
/// else is in the network, in seconds.
fn round_trip(network: &Network) -> Result<f64> {
    let answers = Traffic::start(network, ("b1", "s1"), ASKED, false)?.finish()?.1;
    match answers["p50_us"].as_f64() {
        Some(us) => Ok(us / 1e6),
        None => bail!("no answer from source to builder: {answers}"),
    }
}

/// Returns the numbers of slots to test, each with the number of requests under way.
fn ways(slots: &[u32]) -> Vec<(u32, u32)> {
    let serial = slots.last().map(|most| (*most, 1));
    slots.iter().map(|slots| (*slots, *slots)).chain(serial).collect()
}

fn name(slots: u32, at_once: u32, size: u64, transport: Transport) -> String {
    let serial = if at_once < slots { " serial" } else { "" };
    Bench::name(&format!("cascade slots {slots} size {size}{serial}"), transport)
}

fn row(outcome: &Outcome, size: u64, (slots, at_once): (u32, u32)) -> Row {
    let system = &outcome.system;
    let carried = network_capacity(outcome.shape, system.transport, system.fragment);
    Row {
        name: outcome.name.clone(),
        transport: system.transport,
        slots,
        at_once,
        size,
        rate: outcome.number("rates.events_per_s"),
        most: carried / (size as f64 * 8.0),
        busy: outcome.machine_busy,
        drops: outcome.drops(),
        latency_us: outcome.latency_us("p50"),
    }
}

/// Returns the event rate that outstanding events and requests predict from the round trip in
/// seconds. An event takes one round trip for its decision, and one for each request that does not
/// run at the same time as another. A builder has at most one request under way to each source, and
/// each request fetches one fragment in a round trip.
fn predicted(slots: u32, at_once: u32, round_trip: f64) -> f64 {
    let part = f64::from(at_once).min(f64::from(SOURCES)) / f64::from(SOURCES);
    let by_events = f64::from(slots) / (1.0 + 1.0 / part);
    f64::from(BUILDERS) * by_events.min(part) / round_trip
}

/// Checks that rates are those that the outstanding events predict from the measured round trip.
fn compare(rows: &[Row], round_trip: f64, report: &mut Report) {
    for row in rows {
        let expected = predicted(row.slots, row.at_once, round_trip).min(row.most);
        let off = (row.rate / expected - 1.0).abs();
        report.note(format!(
            "{}: {:.1} events/s, {expected:.1} predicted by round trips of {:.2} ms",
            row.name,
            row.rate,
            round_trip * 1e3
        ));
        report.noisy(&format!("{}: difference to the prediction", row.name), off, Bound::AtMost(AGREEMENT));
    }
}

/// Notes how rates grow with the number of outstanding events, and checks that large events fill
/// the links.
fn scale(rows: &[Row], report: &mut Report) {
    for row in rows {
        let single =
            rows.iter().find(|one| one.slots == 1 && (one.size, one.transport) == (row.size, row.transport));
        if let Some(single) = single {
            report.note(format!(
                "{}: {:.0} events/s, {:.2} times that of one outstanding event; links carry {:.0}; machine busy {:.0} %",
                row.name,
                row.rate,
                row.rate / single.rate,
                row.most,
                row.busy * 100.0
            ));
        }
        if row.size == SIZES[SIZES.len() - 1] && row.slots == SLOTS[SLOTS.len() - 1] {
            report.noisy(
                &format!("{}: share of what the links carry", row.name),
                row.rate / row.most,
                Bound::AtLeast(FULL),
            );
        }
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        for slots in SLOTS {
            let of = rows
                .iter()
                .filter(|row| row.transport == transport && (row.slots, row.at_once) == (slots, slots));
            let rates: Vec<f64> = of.map(|row| row.rate / 1e3).collect();
            if !rates.is_empty() {
                report.note(format!(
                    "over {}, {slots} outstanding: {rates:.2?} kHz by size; the study: 3 to 4 kHz with one, 11 to 12 kHz with more",
                    transport.word()
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
