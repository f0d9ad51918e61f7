//! Paces, classes and the executor that section `[shaping]` requires, tested on this host.

use std::{
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use evb::source::PacingConfig;
use evb_config::{BuilderEntry, Config, OffloadChoice, SourceEntry, Spin};
use evb_core::{id::Peer, quantities::split_remedy, units::Rate};
use evb_net::{
    host::route::route,
    pacing::{
        Choice, Offload, POLL_TIME, Software, Transport, Trial, choose, cores, prove_polling, spin_allowed,
    },
};
use evb_shaper::{ByteMeasure, LinkPlan, Pace};

use super::super::RunError;

/// Chooses the executor that keeps the paces of the hosted sources; `None` if no lane is paced. The
/// test of executors sends packets, for less than a second.
pub(super) fn executor(config: &Config, hosted: &[Peer]) -> Result<Option<Choice>, RunError> {
    let is_hosted = |source: &&SourceEntry| hosted.contains(&Peer::Source(source.id));
    let sources: Vec<&SourceEntry> = config.sources.iter().filter(is_hosted).collect();
    if sources.is_empty() || !config.is_paced() {
        return Ok(None);
    }
    let software = software(config.shaping.spin)?;
    let requested = match config.shaping.offload {
        OffloadChoice::Auto => None,
        OffloadChoice::Only(offload) => Some(offload),
    };
    // Kernel pacing of single sockets cannot keep the classes of the whole link.
    let requested = requested.or_else(|| config.shaping.classes.is_some().then_some(Offload::Software));
    choose(requested, software, &trials(config, &sources))
        .map(Some)
        .map_err(|error| unmet("shaping.offload", &error))
}

/// Returns the error for a key of the configuration that this host cannot fulfil.
fn unmet(key: &'static str, error: &impl std::fmt::Display) -> RunError {
    let text = error.to_string();
    let (reason, remedy) = split_remedy(&text);
    let look = "`evbd doctor` shows what this host can do";
    let remedy = remedy.map_or_else(|| look.to_owned(), |remedy| format!("{remedy} ({look})"));
    RunError::Unmet { key, reason: reason.to_owned(), remedy }
}

/// Returns the software executor, which spins if that is asked and enough cores are there.
fn software(spin: Spin) -> Result<Software, RunError> {
    if spin == Spin::Off {
        return Ok(Software::timer());
    }
    spin_allowed(spin == Spin::Force, cores())
        .map(|()| Software::spinning())
        .map_err(|error| unmet("shaping.spin", &error))
}

/// Returns the time for which `threads` roles of this process poll before they sleep, if the
/// configuration asks for polling. Unless polling is forced, it must pass a test on this host.
pub(super) fn busy_poll(asked: Spin, threads: usize) -> Result<Option<Duration>, RunError> {
    if asked == Spin::Off || threads == 0 {
        return Ok(None);
    }
    if asked == Spin::On {
        prove_polling(threads, cores()).map_err(|error| unmet("shaping.busy_poll", &error))?;
    }
    Ok(Some(POLL_TIME))
}

/// Returns the paths from the sources to all builders, as far as names and routes determine them.
/// Sources may share addresses, so each path is listed only once.
fn trials(config: &Config, sources: &[&SourceEntry]) -> Vec<Trial> {
    let ends: Vec<LaneAddresses<'_>> =
        config.builders.iter().filter_map(|builder| LaneAddresses::of(config, builder)).collect();
    let mut trials = Vec::new();
    for source in sources {
        let bound = source.bind.as_ref().and_then(|text| text.parse().ok());
        for ends in &ends {
            let trial = ends.trial(config.network.transport, bound);
            trials.extend(trial.filter(|trial| !trials.contains(trial)));
        }
    }
    trials
}

/// Destination address of the lanes to a builder, and their usual source address.
struct LaneAddresses<'a> {
    builder: &'a BuilderEntry,
    to: IpAddr,
    /// Address from which the kernel would send by default.
    usual: Option<IpAddr>,
    rate: Option<Rate>,
}

impl<'a> LaneAddresses<'a> {
    fn of(config: &Config, builder: &'a BuilderEntry) -> Option<Self> {
        let to = (builder.listen.host.as_str(), builder.listen.port).to_socket_addrs().ok()?.next()?.ip();
        let usual = route(to, None).ok().and_then(|route| route.from);
        Some(Self { builder, to, usual, rate: config.lane_frames(builder) })
    }

    /// Returns the path of a source that sends from `bound`, if that address is of the right
    /// family, or else from the address that the kernel would choose.
    fn trial(&self, transport: Transport, bound: Option<IpAddr>) -> Option<Trial> {
        let from = bound.filter(|from| from.is_ipv4() == self.to.is_ipv4()).or(self.usual)?;
        let port = Some(self.builder.listen.port);
        Some(Trial { port, rate: self.rate, ..Trial::new(transport, from, self.to) })
    }
}

/// Returns the paces and the link of one source's lanes, and the executor that keeps the paces.
pub(super) fn pacing(config: &Config, source: &SourceEntry, executor: Option<&Choice>) -> PacingConfig {
    let pace_of = |builder: &BuilderEntry| Some((builder.id, config.pace(builder.rate?)));
    let usual = PacingConfig::default();
    PacingConfig {
        lane: config.shaping.rate.map(|rate| config.pace(rate)),
        builders: config.builders.iter().filter_map(pace_of).collect(),
        link: link(config, source),
        executor: executor.map_or(usual.executor, |choice| Arc::clone(&choice.executor)),
    }
}

/// Returns the limits of a source's link, if traffic classes share it. Sources that send from the
/// same address have equal parts of the link.
fn link(config: &Config, source: &SourceEntry) -> LinkPlan {
    let rate = source.link_rate.or(config.network.link_rate);
    let (Some(classes), Some(rate)) = (&config.shaping.classes, rate) else {
        return LinkPlan::unlimited();
    };
    let sharing = config.sources.iter().filter(|other| other.bind == source.bind && source.bind.is_some());
    let parts = sharing.count().max(1) as u64;
    let part = |rate: Rate| Rate::from_bits_per_second(rate.bits_per_second() / parts);
    let link = Pace::usual(part(rate), ByteMeasure::Line, &config.cost(), None);
    LinkPlan::new(link).with_ceiling(part(classes.data.ceiling))
}

#[cfg(test)]
mod tests;
