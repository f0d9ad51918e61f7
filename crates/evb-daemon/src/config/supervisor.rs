//! `[supervisor]`: triggers, assignment, and how long to wait for what.

use std::{path::PathBuf, time::Duration};

use evb::supervisor::JournalFsync;
use evb_core::units::parse_duration;

use super::{
    endpoint::Endpoint,
    section::Section,
    trigger::{self, TriggerConfig},
};

/// Two heartbeats.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// How the supervisor assigns events, and how long it waits for what.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Where it listens for sources and builders.
    pub listen: Endpoint,
    /// What makes events happen.
    pub trigger: TriggerConfig,
    /// Events outstanding per builder; `None`: [`Config::slots`](super::Config::slots) counts them.
    pub slots: Option<u32>,
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
    /// Where the run is written down, so that a new supervisor goes on with it.
    pub journal: Option<PathBuf>,
    /// What the journal is safe from.
    pub journal_fsync: JournalFsync,
    /// How long peers that have lost the supervisor try to reach it.
    pub patience: Duration,
    /// So long after an answered heartbeat a builder may write; twice as long after its last word its events go to others.
    pub lease: Duration,
    /// What becomes of events when a source goes away.
    pub on_source_loss: SourceLoss,
    /// How often sources and builders report so far; zero: only at the end.
    pub report_period: Duration,
}

/// What becomes of events when a source goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLoss {
    /// They go on without it.
    Incomplete,
    /// They wait for it.
    Wait,
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
    let slots = section.count("slots", 65_535);
    let deadline = section.duration("deadline").unwrap_or(Duration::from_secs(2));
    let start_timeout = section.duration("start_timeout").unwrap_or(Duration::from_secs(30));
    let orphan_timeout = section.duration("orphan_timeout").unwrap_or(Duration::from_secs(10));
    let policies =
        [("round-robin", AssignmentPolicy::RoundRobin), ("least-loaded", AssignmentPolicy::LeastLoaded)];
    let policy = section.choice("policy", &policies).unwrap_or(AssignmentPolicy::RoundRobin);
    let run_length = section.count("run_length", 65_535).unwrap_or(1);
    let journal = section.text("journal", "for example journal = \"run.journal\"").map(PathBuf::from);
    let fsyncs = [("none", JournalFsync::None), ("commit", JournalFsync::Commit)];
    let journal_fsync = section.choice("journal_fsync", &fsyncs);
    if journal.is_none() && journal_fsync.is_some() {
        section.refuse(
            "journal_fsync",
            "`journal_fsync` says how a journal is kept, and there is none".to_owned(),
            "name its file with `journal`, or remove `journal_fsync`",
        );
    }
    let patience = section.duration("patience").unwrap_or(Duration::from_secs(90));
    let lease = section.duration("lease").unwrap_or(Duration::from_secs(1));
    if lease < SHORTEST_LEASE {
        section.refuse(
            "lease",
            "a lease below 500 ms ends between two heartbeats".to_owned(),
            "give at least \"500 ms\"",
        );
    }
    let losses = [("incomplete", SourceLoss::Incomplete), ("wait", SourceLoss::Wait)];
    let on_source_loss = section.choice("on_source_loss", &losses).unwrap_or(SourceLoss::Incomplete);
    let report_period =
        section.quantity("report_period", "for example report_period = \"1 s\"", parse_duration);
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
        journal,
        journal_fsync: journal_fsync.unwrap_or_default(),
        patience,
        lease,
        on_source_loss,
        report_period: report_period.unwrap_or(Duration::from_secs(1)),
    })
}
