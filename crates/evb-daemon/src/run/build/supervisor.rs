//! The supervisor's plan by configuration.

use evb::supervisor::{SupervisorConfig, TriggerInput};
use evb_core::{
    id::RunNumber,
    supervisor::{AssignmentPolicy, RunPlan},
    trigger::TriggerKind,
};

use super::{FIRST_RUN, control_class, supervisor_address};
use crate::config::{self, Config, TriggerConfig, TriggerProtocol};

/// What the supervisor is to do, and where it listens.
pub(in crate::run) fn supervisor(config: &Config, number: Option<RunNumber>) -> SupervisorConfig {
    let mut sources: Vec<_> = config.sources.iter().map(|source| source.id).collect();
    let mut builders: Vec<_> = config.builders.iter().map(|builder| builder.id).collect();
    sources.sort_unstable();
    builders.sort_unstable();
    let (trigger, trigger_input) = trigger(&config.supervisor.trigger);
    let epoch = SupervisorConfig::fresh_epoch();
    let plan = RunPlan {
        trigger,
        policy: match config.supervisor.policy {
            config::AssignmentPolicy::RoundRobin => AssignmentPolicy::RoundRobin,
            config::AssignmentPolicy::LeastLoaded => AssignmentPolicy::LeastLoaded,
        },
        run_length: config.supervisor.run_length,
        slots: config.supervisor.slots,
        deadline: config.supervisor.deadline,
        orphan_timeout: config.supervisor.orphan_timeout,
        start_timeout: config.supervisor.start_timeout,
        events: config.run.events,
        duration: config.run.duration,
        ..RunPlan::new(number.unwrap_or(FIRST_RUN), epoch, sources, builders)
    };
    SupervisorConfig {
        seed: config.run.seed,
        trigger_input,
        control: control_class(config),
        ..SupervisorConfig::new(supervisor_address(config), plan)
    }
}

fn trigger(config: &TriggerConfig) -> (TriggerKind, Option<TriggerInput>) {
    match config {
        TriggerConfig::Periodic { rate } => (TriggerKind::Periodic { rate: *rate }, None),
        TriggerConfig::Poisson { rate } => (TriggerKind::Poisson { rate: *rate }, None),
        TriggerConfig::Gaussian { rate, sigma } => {
            (TriggerKind::Gaussian { rate: *rate, sigma: *sigma }, None)
        }
        TriggerConfig::Burst { rate, count } => (TriggerKind::Burst { rate: *rate, count: *count }, None),
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
