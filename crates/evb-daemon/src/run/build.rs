//! Starts roles from the entries of the configuration.

mod pacing;
mod sink;
mod number;
mod supervisor;

use std::{net::IpAddr, sync::Arc, time::Duration};

use evb::{
    PresharedKey, Security,
    builder::{Builder, BuilderConfig},
    filter::{Filter, Prescale, ProcessError, RequireAligned, RequireComplete, RequireWhole},
    input::CheckContent,
    role::TurnCounters,
    run_control::Role,
    source::{BeforeStart, Source, SourceConfig},
};
use evb_config::{BuilderEntry, Config, FilterEntry, SecurityMode, SourceEntry};
use evb_core::{id::Peer, units::Rate};
use evb_net::{class::TrafficClass, lane::LaneOptions, pacing::Choice, security::KeyError};
use evb_shaper::longest_train;
use tracing::Instrument as _;

pub(super) use number::{next_number, state_dir};
pub(super) use supervisor::{is_urgent, supervisor};

use super::RunError;
use crate::{
    filters::Filters,
    hooks::Hooks,
    inputs::{self, InputError, Inputs},
    log,
    tap::Taps,
};

/// State that all roles of a process share, run after run.
#[derive(Clone, Default)]
pub(super) struct Shared {
    /// Executor that keeps paces; `None` if no lane is paced.
    pub(super) executor: Option<Arc<Choice>>,
    /// Time for which sources and builders poll before they sleep; `None`: they sleep at once.
    pub(super) busy_poll: Option<Duration>,
    /// Counters of the turns of the roles' event loops, for the watchdog.
    pub(super) turn_counters: TurnCounters,
    /// True under run control, where fragments from before the start of a run are discarded.
    pub(super) is_controlled: bool,
    /// The inputs of the sources in the last run.
    pub(super) inputs: Inputs,
    /// The programs that run when something happens.
    pub(super) hooks: Hooks,
    /// The text of the configuration, for the records of runs.
    pub(super) text: Arc<str>,
    /// The rule by which peers are admitted. It is read once for all roles of a run, because the
    /// key file may be replaced while they start.
    pub(super) security: Security,
    /// The taps of the builders, which stay from run to run.
    pub(super) taps: Taps,
    /// The filters of the builders that are processes, which stay from run to run.
    pub(super) filters: Filters,
}

impl Shared {
    /// Reads the key file, and tests that this host can do what the configuration requires of the
    /// hosted roles.
    pub(super) fn prove(self, config: &Config, hosted: &[Peer]) -> Result<Self, RunError> {
        Self { security: security(config)?, ..self }.prove_host(config, hosted)
    }

    /// Tests that this host can do what the configuration requires of the hosted roles.
    pub(super) fn prove_host(self, config: &Config, hosted: &[Peer]) -> Result<Self, RunError> {
        let executor = pacing::executor(config, hosted)?.map(Arc::new);
        let threads = hosted.iter().filter(|peer| **peer != Peer::Supervisor).count();
        let busy_poll = pacing::busy_poll(config.shaping.busy_poll, threads)?;
        self.hooks.configure(&config.hooks);
        Ok(Self { executor, busy_poll, ..self })
    }
}

/// Starts a source or builder and waits until it has joined the run. The lines that the role logs
/// begin with its id and its name.
pub(super) async fn join(config: &Config, shared: &Shared, peer: Peer) -> Result<Role, RunError> {
    start(config, shared, peer).instrument(log::role(peer, config.name_of(peer))).await
}

/// Starts a source or builder, and returns when it has joined a run.
async fn start(config: &Config, shared: &Shared, peer: Peer) -> Result<Role, RunError> {
    let missing = || {
        RunError::Operator(format!(
            "the configuration has no {peer}, so it does not start; add it, or host another role with --role"
        ))
    };
    match peer {
        Peer::Supervisor => Err(missing()),
        Peer::Source(id) => {
            let entry = config.sources.iter().find(|entry| entry.id == id).ok_or_else(missing)?;
            let role = SourceConfig {
                turn_counters: shared.turn_counters.clone(),
                busy_poll: shared.busy_poll,
                security: shared.security.clone(),
                ..source_config(config, shared.executor.as_deref(), entry)?
            };
            let before_start = if shared.is_controlled { BeforeStart::Discard } else { BeforeStart::Keep };
            let started = shared.inputs.start_source(entry, config.run.seed, before_start, role).await;
            if let Err(error) = &started
                && !matches!(error, InputError::Role(_))
            {
                decline(config, &shared.security, peer, error.to_string()).await;
            }
            started
                .map(|source| Role::Source(id, source))
                .map_err(|error| RunError::Input { named: named(config, peer), reason: error.to_string() })
        }
        Peer::Builder(id) => {
            let entry = config.builders.iter().find(|entry| entry.id == id).ok_or_else(missing)?;
            join_builder(config, shared, entry).await.map(|builder| Role::Builder(id, builder))
        }
    }
}

/// Tells the supervisor why a source or builder cannot take part, if the configuration tells how to
/// reach the supervisor.
pub(super) async fn decline(config: &Config, security: &Security, peer: Peer, reason: String) {
    let security = security.clone();
    match peer {
        Peer::Supervisor => {}
        Peer::Source(id) => {
            if let Some(entry) = config.sources.iter().find(|entry| entry.id == id)
                && let Ok(role) = source_config(config, None, entry)
            {
                Source::decline(SourceConfig { security, ..role }, reason).await;
            }
        }
        Peer::Builder(id) => {
            if let Some(entry) = config.builders.iter().find(|entry| entry.id == id) {
                let role = BuilderConfig { security, ..builder_config(config, entry) };
                Builder::decline(role, reason).await;
            }
        }
    }
}

/// Starts a builder and waits until it has joined the run.
async fn join_builder(config: &Config, shared: &Shared, entry: &BuilderEntry) -> Result<Builder, RunError> {
    let names = config.control.as_ref().map_or(&[][..], |control| &control.names);
    let role = BuilderConfig {
        security: shared.security.clone(),
        tap: entry.tap.as_ref().and_then(|tap| shared.taps.of(entry.id, tap, names)),
        turn_counters: shared.turn_counters.clone(),
        busy_poll: shared.busy_poll,
        ..builder_config(config, entry)
    };
    let filters = match filters(config, shared, entry) {
        Ok(filters) => filters,
        Err(error) => {
            let (named, reason) = (named(config, Peer::Builder(entry.id)), format!("its filter {error}"));
            Builder::decline(role, reason.clone()).await;
            return Err(RunError::Input { named, reason });
        }
    };
    let sink = sink::from_config(entry, &shared.hooks);
    let joined = Builder::connect_filtered(role, filters, sink).await;
    joined.map_err(|error| RunError::Role {
        named: named(config, Peer::Builder(entry.id)),
        error: Arc::new(error),
    })
}

/// Returns the id of a source or builder with its name.
pub(super) fn named(config: &Config, peer: Peer) -> String {
    peer.named(config.name_of(peer))
}

/// Returns the supervisor's address as `host:port`.
fn supervisor_address(config: &Config) -> String {
    config.supervisor.listen.to_string()
}

/// Returns the rule by which peers are admitted; reads the key file.
pub(super) fn security(config: &Config) -> Result<Security, RunError> {
    admission_rule(&config.security).map_err(|error| RunError::Operator(error.to_string()))
}

/// Returns the rule by which peers are admitted; reads the key file.
pub(super) fn admission_rule(mode: &SecurityMode) -> Result<Security, KeyError> {
    Ok(match mode {
        SecurityMode::LoopbackOnly | SecurityMode::None => Security::None,
        SecurityMode::Psk { key_file } => Security::Psk(PresharedKey::read(key_file)?),
    })
}

/// Returns the configuration of a source for the library.
fn source_config(
    config: &Config,
    executor: Option<&Choice>,
    entry: &SourceEntry,
) -> Result<SourceConfig, RunError> {
    let bind = entry.bind.as_ref().map(|text| {
        text.parse::<IpAddr>().map_err(|_| RunError::Input {
            named: named(config, Peer::Source(entry.id)),
            reason: format!("bind = \"{text}\" is not an IP address; write an address of this source's host"),
        })
    });
    let delays = config.builders.iter().zip(trunk_delays(config));
    let delays = delays.map(|(builder, trunks)| queue(config, builder, trunks));
    Ok(SourceConfig {
        bind: bind.transpose()?,
        max_fragment: entry.max_fragment,
        backlog: entry.backlog,
        start_timeout: config.supervisor.start_timeout,
        shaping: config.shaping(config.shaping.budget),
        pacing: pacing::pacing(config, entry, executor),
        mtu: mtu(config),
        keep_awake: config.shaping.keep_awake,
        queue_delay: delays.max().unwrap_or_default(),
        cell: config.shaping.cell,
        transport: config.network.transport,
        lane: lane_options(config, entry.link_rate),
        control: control_class(config),
        clock: entry.clock,
        cpu: entry.cpu,
        counter: entry.counter,
        ..SourceConfig::new(entry.id, supervisor_address(config))
    })
}

/// Returns the configuration of a builder for the library.
fn builder_config(config: &Config, entry: &BuilderEntry) -> BuilderConfig {
    let position = config.builders.iter().position(|other| other.id == entry.id).unwrap_or(0);
    // Builders begin their rotations at different sources, to spread the load.
    let rotation = position * config.sources.len() / config.builders.len().max(1);
    let trunks = trunk_delays(config).get(position).copied().unwrap_or_default();
    BuilderConfig {
        listen: entry.listen.to_string(),
        start_timeout: config.supervisor.start_timeout,
        shaping: config.builder_shaping(entry),
        rotation,
        mtu: mtu(config),
        queue_delay: queue(config, entry, trunks),
        cell: config.shaping.cell,
        memory: entry.memory,
        transport: config.network.transport,
        lane: lane_options(config, entry.link_rate),
        control: control_class(config),
        give_up: entry.give_up,
        cpu: entry.cpu,
        precedence: entry.precedence,
        keep_awake: config.shaping.keep_awake,
        ..BuilderConfig::new(entry.id, supervisor_address(config))
    }
}

/// Returns the longest time that data may wait in queues on the way to the given builder, of which
/// `trunks` is the time in trunks. If the configuration does not state the port's buffer, the
/// budget bounds the data on the way.
fn queue(config: &Config, entry: &BuilderEntry, trunks: Duration) -> Duration {
    let Some(link) = entry.link_rate.or(config.network.link_rate) else { return Duration::ZERO };
    let held = config.network.port_buffer.unwrap_or(entry.budget);
    let port = config.shaping(entry.budget).longest_queue(held, link, config.builders.len());
    port.saturating_add(trunks)
}

/// Returns the longest time that data may wait in trunks on the way to each builder.
fn trunk_delays(config: &Config) -> Vec<Duration> {
    match config.network.trunks.is_empty() {
        true => vec![Duration::ZERO; config.builders.len()],
        false => config.layout().trunk_delays(),
    }
}

/// Returns the options of a role's lanes; `link` is the rate of the role's own link, if stated.
fn lane_options(config: &Config, link: Option<Rate>) -> LaneOptions {
    let network = &config.network;
    LaneOptions {
        nodelay: network.nodelay,
        congestion_control: network.congestion_control.clone(),
        send_buffer: network.send_buffer,
        receive_buffer: network.receive_buffer,
        dscp: network.dscp.or_else(|| config.shaping.classes.as_ref()?.data.dscp),
        priority: config.shaping.classes.as_ref().and_then(|classes| classes.data.socket_priority),
        train: link.or(network.link_rate).map(longest_train),
    }
}

/// Returns the traffic class of the supervisor's connections.
fn control_class(config: &Config) -> TrafficClass {
    let class = config.shaping.classes.as_ref().map(|classes| classes.control);
    class.map_or_else(TrafficClass::default, |class| TrafficClass {
        dscp: class.dscp,
        priority: class.socket_priority,
    })
}

fn mtu(config: &Config) -> u32 {
    u32::try_from(config.network.mtu.count()).unwrap_or(u32::MAX)
}

/// Returns the filters in front of the sink: the content check of generated fragments, then the
/// configured filter.
fn filters(
    config: &Config,
    shared: &Shared,
    entry: &BuilderEntry,
) -> Result<Vec<Box<dyn Filter>>, ProcessError> {
    let mut filters: Vec<Box<dyn Filter>> = Vec::new();
    let generated = inputs::generated(&config.sources);
    if !generated.is_empty() {
        filters.push(Box::new(CheckContent::new(generated)));
    }
    match &entry.filter {
        FilterEntry::AcceptAll => {}
        FilterEntry::Prescale { keep_every } => filters.push(Box::new(Prescale::new((*keep_every).into()))),
        FilterEntry::RequireComplete => filters.push(Box::new(RequireComplete)),
        FilterEntry::RequireWhole => filters.push(Box::new(RequireWhole)),
        FilterEntry::RequireAligned => filters.push(Box::new(RequireAligned)),
        FilterEntry::Process { .. } => {}
    }
    let process = shared.filters.of(entry.id, &entry.filter)?;
    filters.extend(process.map(|process| -> Box<dyn Filter> { Box::new(process) }));
    Ok(filters)
}
