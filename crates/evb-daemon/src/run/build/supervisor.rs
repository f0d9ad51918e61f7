//! The supervisor's plan, made from the configuration.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use evb::supervisor::{JournalConfig, SupervisorConfig, TriggerInput};
use evb_config::{Alignment, Config, Need, SinkEntry, TriggerConfig, TriggerProtocol};
use evb_core::{
    alignment::GuardedClocks,
    id::{Peer, RunNumber},
    supervisor::{AssignmentPolicy, OnSlip, RunPlan, SourceLoss},
    trigger::TriggerKind,
    units::Bytes,
    wire::control::MAX_CHANGED,
};

use super::{
    RunError, Shared, builder_config, control_class,
    number::{self, Numbered},
    supervisor_address,
};
use crate::hooks;

/// Returns the configuration of the supervisor: its plan and its listening address. `hosted` are
/// the roles of this process, and `last` is the number of its last run.
pub(in crate::run) fn supervisor(
    config: &Config,
    shared: &Shared,
    hosted: &[Peer],
    last: Option<RunNumber>,
) -> Result<SupervisorConfig, RunError> {
    let state = number::state_dir(config, hosted);
    let Numbered { run, is_fixed } = number::next_number(config, state.as_ref(), last)?;
    let mut sources: Vec<_> = config.sources.iter().map(|source| source.id).collect();
    let mut builders: Vec<_> = config.builders.iter().map(|builder| builder.id).collect();
    sources.sort_unstable();
    builders.sort_unstable();
    let (trigger, trigger_input) = trigger(&config.supervisor.trigger);
    let epoch = SupervisorConfig::fresh_epoch();
    let usual = RunPlan::new(run, epoch, sources, builders);
    // Events that a failing sink holds may still be written until its builder gives up.
    let may_fail = config.builders.iter().filter(|builder| builder.sinks != [SinkEntry::Null]);
    let give_up = may_fail.map(|builder| builder.give_up).max().unwrap_or_default();
    let alignment = config.alignment();
    let plan = RunPlan {
        fixed_number: is_fixed,
        source_names: given(config.sources.iter().map(|entry| (entry.id, entry.name.clone()))),
        builder_names: given(config.builders.iter().map(|entry| (entry.id, entry.name.clone()))),
        clocks: guarded_clocks(config, &alignment),
        on_slip: match alignment.on_slip {
            evb_config::OnSlip::Report => OnSlip::Report,
            evb_config::OnSlip::Pause => OnSlip::Pause,
            evb_config::OnSlip::Stop => OnSlip::Stop,
        },
        trigger,
        drain_grace: usual.drain_grace + give_up,
        policy: match config.supervisor.policy {
            evb_config::AssignmentPolicy::RoundRobin => AssignmentPolicy::RoundRobin,
            evb_config::AssignmentPolicy::LeastLoaded => AssignmentPolicy::LeastLoaded,
        },
        run_length: config.supervisor.run_length,
        slots: config.slots(),
        deadline: config.supervisor.deadline,
        orphan_timeout: config.supervisor.orphan_timeout,
        start_timeout: config.supervisor.start_timeout,
        begin_timeout: usual.begin_timeout + longest_start(config),
        patience: config.supervisor.patience,
        lease: config.supervisor.lease,
        report_period: report_period(config),
        expendable: config
            .sources
            .iter()
            .filter(|entry| entry.need == Need::Expendable)
            .map(|entry| entry.id)
            .collect(),
        sporadic: given(config.sources.iter().map(|entry| (entry.id, entry.sporadic))),
        groups: config.groups.clone(),
        on_source_loss: match config.supervisor.on_source_loss {
            evb_config::SourceLoss::Incomplete => SourceLoss::Incomplete,
            evb_config::SourceLoss::Wait => SourceLoss::Wait,
        },
        events: config.run.events,
        duration: config.run.duration,
        ..usual
    };
    state.iter().for_each(|state| shared.hooks.note_in(state.notes()));
    Ok(SupervisorConfig {
        seed: config.run.seed,
        journal: journal(config),
        state: state.map(|state| {
            state.with_configuration(Arc::clone(&shared.text)).keeping(config.supervisor.keep_runs)
        }),
        gate: shared.hooks.gate(),
        trigger_input,
        control: control_class(config),
        security: shared.security.clone(),
        turn_counters: shared.turn_counters.clone(),
        ..SupervisorConfig::new(supervisor_address(config), plan)
    })
}

/// Returns the longest time that `on_start` of a source or `run_starts` may take.
fn longest_start(config: &Config) -> Duration {
    let times = config.sources.iter().filter_map(|source| Some(source.hooks.on_start.as_ref()?.timeout));
    times.chain([hooks::longest_start(&config.hooks)]).max().unwrap_or_default()
}

/// Returns the values that are given, by id.
fn given<I: Ord, T>(entries: impl Iterator<Item = (I, Option<T>)>) -> BTreeMap<I, T> {
    entries.filter_map(|(id, value)| Some((id, value?))).collect()
}

/// Returns the clocks of all sources that have one, and how to compare them.
fn guarded_clocks(config: &Config, rules: &Alignment) -> GuardedClocks {
    let clocks = GuardedClocks { clocks: config.clocks(), lead: None, host_times: rules.uses_host_times };
    GuardedClocks { lead: rules.lead.and_then(|lead| clocks.index(lead)), ..clocks }
}

/// Returns the time between peers' reports: as configured, but long enough that reports take at
/// most a hundredth of the control class, or of the link if no classes are configured.
fn report_period(config: &Config) -> Duration {
    /// Approximate size of a report on the wire, in bytes.
    const REPORT: u64 = 500;
    /// Additional bytes of a builder's report for each lane that has changed.
    const LANE: u64 = 20;
    let (sources, builders) = (config.sources.len() as u64, config.builders.len() as u64);
    let bytes = Bytes::new(sources * REPORT + builders * (REPORT + sources.min(MAX_CHANGED as u64) * LANE));
    let class = config.shaping.classes.as_ref().map(|classes| classes.control.guaranteed);
    let rate = class.or(config.network.link_rate);
    match (config.supervisor.report_period, rate) {
        (Duration::ZERO, _) => Duration::ZERO,
        (period, Some(rate)) => period.max(bytes / rate * 100),
        (period, None) => period,
    }
}

/// Returns true if any builder of the run takes precedence on its core: late decisions of the
/// supervisor would leave that builder's port idle.
pub(in crate::run) fn is_urgent(config: &Config) -> bool {
    config.builders.iter().any(|entry| builder_config(config, entry).is_urgent())
}

fn journal(config: &Config) -> Option<JournalConfig> {
    let fsync = config.supervisor.journal_fsync;
    config.supervisor.journal.clone().map(|path| JournalConfig { path, fsync })
}

/// Returns the kind of the trigger, and the port at which external triggers arrive.
fn trigger(config: &TriggerConfig) -> (TriggerKind, Option<TriggerInput>) {
    match config {
        TriggerConfig::Periodic { rate } => (TriggerKind::Periodic { rate: *rate }, None),
        TriggerConfig::Poisson { rate } => (TriggerKind::Poisson { rate: *rate }, None),
        TriggerConfig::AsFastAsPossible => (TriggerKind::AsFastAsPossible, None),
        TriggerConfig::External { listen, protocol } => {
            let address = listen.to_string();
            let input = match protocol {
                TriggerProtocol::Tcp => TriggerInput::Tcp(address),
                TriggerProtocol::Udp => TriggerInput::Udp(address),
            };
            (TriggerKind::External, Some(input))
        }
        TriggerConfig::Multicast(group) => {
            let input = TriggerInput::Multicast { group: group.group, interface: group.interface.clone() };
            (TriggerKind::External, Some(input))
        }
    }
}
