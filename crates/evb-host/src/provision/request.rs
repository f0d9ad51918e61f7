//! Turns the configuration and the command line into a request for one device.

use std::{
    fs,
    net::{SocketAddr, ToSocketAddrs as _},
    str::FromStr,
};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evb_config::{BuilderEntry, Config, Endpoint};
use evb_core::{
    id::{BuilderId, Peer, SourceId},
    units::{Bytes, Rate, UnitError},
};
use evb_shaper::{ByteMeasure, Pace, cost::LINE_OVERHEAD};

use super::{
    filter::Match,
    plan::{Bucket, Destination, Request, least_burst},
    traffic::{ClassOption, Sharing},
};
use crate::here::Locations;

/// Returns the parser for `--bytes`, the byte measure of rates on the command line.
pub(crate) fn measure() -> impl TypedValueParser<Value = ByteMeasure> {
    let value = |measure: ByteMeasure| {
        PossibleValue::new(measure.word()).help(match measure {
            ByteMeasure::Line => "Bytes on the line with preamble and gap, as everywhere in evb; converted as if all packets were full",
            ByteMeasure::Buffer => "Bytes of L2 frames, as tc counts; used unchanged",
        })
    };
    PossibleValuesParser::new(ByteMeasure::ALL.map(value))
        .try_map(|word| ByteMeasure::from_word(&word).ok_or("line or buffer"))
}

/// A rate for one builder, given as `BUILDER=RATE` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuilderRate {
    builder: BuilderId,
    rate: Rate,
}

/// The reason why a text is not a valid `BUILDER=RATE`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuilderRateError {
    /// The text does not start with a builder's id and `=`.
    #[error("write BUILDER=RATE, for example 1=100Mbit/s")]
    Form,
    /// The text has no valid rate.
    #[error(transparent)]
    Rate(#[from] UnitError),
}

impl FromStr for BuilderRate {
    type Err = BuilderRateError;

    fn from_str(text: &str) -> Result<Self, BuilderRateError> {
        let (builder, rate) = text.split_once('=').ok_or(BuilderRateError::Form)?;
        let builder = builder.trim().parse().map_err(|_| BuilderRateError::Form)?;
        Ok(Self { builder, rate: rate.trim().parse()? })
    }
}

/// The settings on the command line, which supplement the configuration.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Wishes {
    /// The network device through which this host reaches the switch.
    #[arg(long, value_name = "DEV")]
    pub(crate) device: String,
    /// A source that runs on this host (repeatable). By default, these are the sources whose
    /// addresses or hosts in the configuration are this host.
    #[arg(long = "source", value_name = "N")]
    pub(crate) sources: Vec<u16>,
    /// The rate of the device's link. By default `[network] link_rate`, or else the speed that the
    /// driver reports.
    #[arg(long, value_name = "RATE")]
    pub(crate) link_rate: Option<Rate>,
    /// The rate at which this host may send to a builder (repeatable). By default the sum of the
    /// configured rates of the lanes from this host's sources.
    #[arg(long = "rate", value_name = "BUILDER=RATE")]
    pub(crate) rates: Vec<BuilderRate>,
    /// The largest number of bytes that leave towards a builder back to back. By default `[shaping]
    /// burst`, or else ten milliseconds of the rate, but at most the lanes' part of `port_buffer`.
    #[arg(long, value_name = "BYTES")]
    pub(crate) burst: Option<Bytes>,
    /// Change a traffic class (repeatable): `control`, `monitoring` or `other`, then any of
    /// `rate=`, `ceiling=`, `prio=`, `dscp=46+48`, `priority=` (the `SO_PRIORITY`), separated by
    /// commas.
    #[arg(long = "class", value_name = "CLASS")]
    pub(crate) classes: Vec<ClassOption>,
    /// The bytes that the rates on this command line count; rates in `line` bytes are converted to
    /// the L2 frames that tc counts.
    #[arg(long = "bytes", value_name = "BYTES", value_parser = measure(), default_value = "line")]
    pub(crate) counted: ByteMeasure,
    /// The mechanism that enforces a builder's rate.
    #[arg(long, value_enum, default_value = "htb")]
    pub(crate) bucket: Bucket,
}

/// A request for a plan, with the sources and remarks for the output.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Request from which a plan is made.
    pub(crate) request: Request,
    /// Sources of this host whose traffic the plan shapes.
    pub(crate) sources: Vec<SourceId>,
    /// Remarks for the operator.
    pub(crate) notes: Vec<String>,
}

/// The reason why a request cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The rate of the device's link is unknown.
    #[error(
        "the rate of {0}'s link is not known: give --link-rate RATE, for example --link-rate 1Gbit/s, or write link_rate in [network]"
    )]
    NoLinkRate(String),
    /// No source of the configuration belongs to this host.
    #[error(
        "no [[source]] has an address of this host as `bind` or `host`: say which run here with --source N"
    )]
    NoSource,
    /// The command line names a source that the configuration does not have.
    #[error(
        "--source names source {0}, which the configuration does not have: give the id of one of its sources"
    )]
    UnknownSource(u16),
    /// The command line names a builder that the configuration does not have.
    #[error(
        "--rate names builder {0}, which the configuration does not have: give the id of one of its builders"
    )]
    UnknownBuilder(BuilderId),
    /// A host name cannot be resolved.
    #[error(
        "the address of {peer}, {endpoint}, is not known here: {reason}; give it an address in DNS or /etc/hosts, or write its IP address in the configuration"
    )]
    Unresolved {
        /// Role that listens at the address.
        peer: String,
        /// Address of the role in the configuration.
        endpoint: Endpoint,
        /// Error of the name resolution.
        reason: std::io::Error,
    },
}

/// Composes the request from the configuration and the command line. With `offload`, the network
/// card enforces the rates (HTB offload).
///
/// # Errors
/// [`RequestError`]: the link's rate, a source, a builder or an address is unknown.
pub(crate) fn request(config: &Config, wishes: &Wishes, offload: bool) -> Result<Wanted, RequestError> {
    let cost = config.cost();
    // tc counts L2 frames without preamble, check sequence and interframe gap.
    let in_frames = |rate: Rate, measure| cost.rate_in(rate, measure, ByteMeasure::Buffer);
    let convert = |rate: Rate| in_frames(rate, wishes.counted);
    let mut notes = Vec::new();
    let (given, origin) = link_rate(config, wishes)?;
    // The configuration and the driver give the link's rate in line bytes.
    let link = wishes.link_rate.map_or_else(|| in_frames(given, ByteMeasure::Line), convert);
    notes.push(format!(
        "tc counts L2 frames, but evb's rates count line bytes unless they say otherwise: tc is given these rates \
         without the {LINE_OVERHEAD} bytes that every full packet has only on the wire. The link ({origin}, {given}) \
         carries {link} of frames. Small packets take more of the wire than tc sees. Nothing needs to be done"
    ));
    let sources = sources(config, &wishes.sources)?;
    let frame = cost.packet_buffer();
    let unknown =
        wishes.rates.iter().find(|given| config.builders.iter().all(|builder| builder.id != given.builder));
    if let Some(given) = unknown {
        return Err(RequestError::UnknownBuilder(given.builder));
    }
    let rate = |builder: &BuilderEntry| {
        let wished =
            wishes.rates.iter().rev().find(|given| given.builder == builder.id).map(|given| given.rate);
        // The configuration gives the pace of one lane, and every source of this host has a lane to
        // the builder.
        let lanes = |pace: Pace| in_frames(pace.rate, pace.measure) * sources.len() as u64;
        wished.map(convert).or_else(|| config.lane_pace(builder).map(lanes))
    };
    let destinations = destinations(config, wishes, sources.len() as u64, frame, rate, &mut notes)?;
    let supervisor = resolve("the supervisor", &config.supervisor.listen)?;
    let control = supervisor
        .iter()
        .flat_map(|address| [Match::To(*address), Match::From(*address)])
        .chain(
            destinations
                .iter()
                .flat_map(|destination| destination.addresses.iter().copied().map(Match::From)),
        )
        .collect();
    let mut sharing = match &config.shaping.classes {
        Some(classes) => Sharing::of_config(classes, |rate| in_frames(rate, ByteMeasure::Line)),
        None => Sharing::of_link(link),
    };
    sharing.change(&wishes.classes, convert);
    let request = Request {
        device: wishes.device.clone(),
        link,
        frame,
        bucket: wishes.bucket,
        offload,
        destinations,
        data: sharing.data,
        classes: sharing.classes,
        control,
    };
    Ok(Wanted { request, sources, notes })
}

/// Returns every builder, with its rate in bytes of L2 frames, which tc counts. A configured depth
/// of the bucket is kept, even if a deeper bucket would keep the rate better. Without a configured
/// depth, the bucket compensates for as much lateness as evb's own pace, but is limited to the
/// lanes' part of the port's buffer.
fn destinations(
    config: &Config,
    wishes: &Wishes,
    lanes: u64,
    frame: Bytes,
    rate: impl Fn(&BuilderEntry) -> Option<Rate>,
    notes: &mut Vec<String>,
) -> Result<Vec<Destination>, RequestError> {
    let chosen = wishes.burst.or(config.shaping.burst);
    let mut destinations = Vec::new();
    for builder in &config.builders {
        let rate = rate(builder);
        let needed = rate.map(|rate| least_burst(rate, frame));
        if let (Some(asked), Some(needed)) = (chosen, needed)
            && asked < needed
        {
            notes.push(format!(
                "builder {}: a burst of {asked} may not hold the rate, because the kernel's timers are late: give --burst {needed} or more",
                builder.id
            ));
        }
        let usual = rate.map(|rate| {
            let lane = Rate::from_bits_per_second(rate.bits_per_second() / lanes.max(1));
            config.pace(lane).burst * lanes
        });
        let burst = chosen.filter(|_| rate.is_some()).or_else(|| needed.max(usual));
        let addresses = resolve(&format!("builder {}", builder.id), &builder.listen)?;
        destinations.push(Destination { builder: builder.id, addresses, rate, burst });
    }
    Ok(destinations)
}

/// Returns the link's rate, and who says so.
fn link_rate(config: &Config, wishes: &Wishes) -> Result<(Rate, &'static str), RequestError> {
    let device = &wishes.device;
    let driver = || {
        let speed = fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
        // The driver reports a speed of -1 if the device has no link.
        let megabits: u64 = speed.trim().parse().ok().filter(|speed| *speed > 0)?;
        Some((Rate::from_bits_per_second(megabits.saturating_mul(1_000_000)), "as its driver says"))
    };
    wishes
        .link_rate
        .map(|rate| (rate, "--link-rate"))
        .or_else(|| config.network.link_rate.map(|rate| (rate, "[network] link_rate")))
        .or_else(driver)
        .ok_or_else(|| RequestError::NoLinkRate(device.clone()))
}

/// Returns the asked sources, or else those of this host.
fn sources(config: &Config, asked: &[u16]) -> Result<Vec<SourceId>, RequestError> {
    let known = |id: &u16| config.sources.iter().any(|source| source.id == SourceId::new(*id));
    if let Some(unknown) = asked.iter().find(|id| !known(id)) {
        return Err(RequestError::UnknownSource(*unknown));
    }
    if !asked.is_empty() {
        return Ok(asked.iter().map(|id| SourceId::new(*id)).collect());
    }
    let here = Locations::of(config).here().into_iter().filter_map(|role| match role {
        Peer::Source(id) => Some(id),
        Peer::Supervisor | Peer::Builder(_) => None,
    });
    let here: Vec<SourceId> = here.collect();
    if here.is_empty() { Err(RequestError::NoSource) } else { Ok(here) }
}

/// Resolves the address of a peer.
fn resolve(peer: &str, endpoint: &Endpoint) -> Result<Vec<SocketAddr>, RequestError> {
    let found = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    found.map(Iterator::collect).map_err(|reason| RequestError::Unresolved {
        peer: peer.to_owned(),
        endpoint: endpoint.clone(),
        reason,
    })
}
