//! `[supervisor]`: triggers, assignment, and how long to wait for what.

use std::time::Duration;

use super::{
    endpoint::Endpoint,
    section::Section,
    trigger::{self, TriggerConfig},
};

/// How the supervisor assigns events, and how long it waits for what.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Where it listens for sources and builders.
    pub listen: Endpoint,
    /// What makes events happen.
    pub trigger: TriggerConfig,
    /// Events outstanding per builder.
    pub slots: u32,
    /// From the assignment to closing an event without the sources that have announced nothing.
    pub deadline: Duration,
    /// How long all roles may take to register.
    pub start_timeout: Duration,
    /// After that a fragment without a decision counts as unexpected.
    pub orphan_timeout: Duration,
    /// Which builder gets the next event.
    pub policy: AssignmentPolicy,
    /// So many consecutive events go to one builder.
    pub run_length: u32,
}

/// Which builder gets the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentPolicy {
    /// One after the other, skipping those without a free slot.
    RoundRobin,
    /// The one with the most free slots.
    LeastLoaded,
}

pub(super) fn read(mut section: Section<'_>) -> Option<SupervisorConfig> {
    let listen = section.peer_endpoint("listen");
    let listen = section.need("listen", listen, "for example listen = \"127.0.0.1:7000\"");
    let given = section.kinded("trigger");
    let trigger = section
        .need("trigger", given, "for example trigger = { kind = \"periodic\", rate = \"2 kHz\" }")
        .and_then(trigger::read);
    let slots = section.count("slots", 65_535).unwrap_or(16);
    let deadline = section.duration("deadline").unwrap_or(Duration::from_secs(2));
    let start_timeout = section.duration("start_timeout").unwrap_or(Duration::from_secs(30));
    let orphan_timeout = section.duration("orphan_timeout").unwrap_or(Duration::from_secs(10));
    let policies =
        [("round-robin", AssignmentPolicy::RoundRobin), ("least-loaded", AssignmentPolicy::LeastLoaded)];
    let policy = section.choice("policy", &policies).unwrap_or(AssignmentPolicy::RoundRobin);
    let run_length = section.count("run_length", 65_535).unwrap_or(1);
    section.not_yet("journal", "remove it; until then the supervisor's death ends the run");
    section.finish();
    let (listen, trigger) = (listen?, trigger?);
    Some(SupervisorConfig {
        listen,
        trigger,
        slots,
        deadline,
        start_timeout,
        orphan_timeout,
        policy,
        run_length,
    })
}
