//! The simulator's twin of a lab network: the same switches, trunks, rates and buffers, so that the
//! figures of the lab and of the simulator can be compared.

use std::{path::Path, time::Duration};

use anyhow::{Result, anyhow};
use evb_core::{
    id::{BuilderId, Peer, SourceId},
    units::{Bytes, Rate},
};
use evb_sim::{Flow, NetworkModel, RawFlows, Scenario, Service, SimReport, Trunk};
use lab_base::network::{self, Shape};

/// Bytes by which a frame on an Ethernet line is longer than the L2 frame that the lab counts:
/// preamble, checksum and gap.
const LINE_ONLY: f64 = 24.0;
/// Token bucket of the lab's ports and hosts without trains, which the simulator imitates.
const BUCKET: Bytes = Bytes::kib(16);
/// Number of events of a simulated run.
const EVENTS: u64 = 1500;
/// Simulated time before raw streams are measured, and of their measurement.
const WARM_UP: Duration = Duration::from_secs(5);
const SPAN: Duration = Duration::from_secs(20);
const SEED: u64 = 1;

fn source(id: u16) -> Peer {
    Peer::Source(SourceId::new(id))
}

fn builder(id: u16) -> Peer {
    Peer::Builder(BuilderId::new(id))
}

/// Returns the line rate at which as many full packets pass as in the lab at this L2 rate.
fn line(shape: Shape, rate: u64) -> Rate {
    let bits = rate as f64 * (shape.frame() + LINE_ONLY) / shape.frame();
    Rate::from_bits_per_second(bits.round() as u64)
}

/// Returns the buffer with which the simulator has a queue of this size in bytes, behind the token
/// bucket: the simulator counts the bucket as a part of the buffer, and the lab does not.
fn queue(bytes: u64) -> Bytes {
    Bytes::new(bytes) + BUCKET
}

/// Returns the network of a shape.
fn model(shape: Shape) -> NetworkModel {
    let trunk = |trunk: &network::Trunk| Trunk {
        name: trunk.name.to_owned(),
        rate: line(shape, trunk.link.rate),
        buffer: queue(trunk.link.buffer),
        above: trunk.above,
        members: trunk.sources.clone().map(source).chain(trunk.builders.clone().map(builder)).collect(),
    };
    let rate = line(shape, shape.rate);
    NetworkModel {
        link_rate: rate,
        host_rate: rate,
        port_buffer: queue(shape.port_buffer),
        trunks: shape.trunks().iter().map(trunk).collect(),
        service: if shape.has_turns() { Service::Turns } else { Service::Arrivals },
        mtu: shape.mtu as u32,
        bucket: BUCKET,
        ..NetworkModel::default()
    }
}

/// Simulates a system with the configuration in a file on the network of a shape.
pub fn system(config: &Path, shape: Shape) -> Result<SimReport> {
    let configured =
        evb_bench::modes::configured_scenario(config, EVENTS, SEED).map_err(|error| anyhow!("{error}"))?;
    let scenario = Scenario { network: model(shape), ..configured };
    scenario.run().map_err(|error| anyhow!("the simulation of {}: {error}", config.display()))
}

/// Simulates `each` raw streams from each source to each builder. Returns the rates of the streams
/// of each pair in Mbit/s.
pub fn streams(shape: Shape, each: usize) -> Result<Vec<f64>> {
    let flow = |(from, to)| Flow { from: source(from), to: builder(to) };
    let flows = pairs(shape).into_iter().flat_map(|pair| vec![flow(pair); each]).collect();
    let raw = RawFlows { network: model(shape), flows, warm_up: WARM_UP, span: SPAN, seed: SEED };
    let report = raw.run().map_err(|error| anyhow!("the simulation of raw streams: {error}"))?;
    Ok(megabits(&report.rates).chunks(each).map(|of_pair| of_pair.iter().sum()).collect())
}

/// Returns all pairs of a source and a builder.
pub fn pairs(shape: Shape) -> Vec<(u16, u16)> {
    (1..=shape.sources).flat_map(|i| (1..=shape.builders).map(move |j| (i, j))).collect()
}

/// Returns rates in Mbit/s.
pub fn megabits(rates: &[Rate]) -> Vec<f64> {
    rates.iter().map(|rate| rate.bits_per_second() as f64 / 1e6).collect()
}

#[cfg(test)]
mod tests;
