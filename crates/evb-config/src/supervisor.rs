//! `[supervisor]`: triggers, assignment and time limits.

use std::{path::PathBuf, time::Duration};

use evb_core::{supervisor::JournalFsync, units::parse_duration};

use super::{
    endpoint::Endpoint,
    section::Section,
    trigger::{self, TriggerConfig},
};

/// The shortest permitted lease: two periods of heartbeats.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// The supervisor's rules for assigning events, and its time limits.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Address at which the supervisor listens for sources and builders.
    pub listen: Endpoint,
    /// Origin of triggers.
    pub trigger: TriggerConfig,
    /// Number of events that may be outstanding per builder; `None`:
    /// [`Config::slots`](super::Config::slots) computes the number.
    pub slots: Option<u32>,
    /// Time from an event's assignment after which the builder closes the event without the sources
    /// that have not announced a fragment.
    pub deadline: Duration,
    /// Time within which all roles must register.
    pub start_timeout: Duration,
    /// Time after which a source drops a fragment for which it has received no decision, and counts
    /// it as unexpected.
    pub orphan_timeout: Duration,
    /// Rule by which the supervisor chooses the builder of the next event.
    pub policy: AssignmentPolicy,
    /// Number of consecutive events that go to one builder.
    pub run_length: u32,
    /// File in which the supervisor records the run, so that a new supervisor can continue it.
    pub journal: Option<PathBuf>,
    /// Directory in which the supervisor keeps the runs that it has led.
    pub state: Option<PathBuf>,
    /// Failures that the journal's content survives.
    pub journal_fsync: JournalFsync,
    /// Time for which sources and builders that have lost the supervisor try to reach it.
    pub patience: Duration,
    /// Time after an answered heartbeat for which a builder may write events. After two leases
    /// without heartbeats the builder's events go to other builders.
    pub lease: Duration,
    /// Treatment of events when a source is lost.
    pub on_source_loss: SourceLoss,
    /// Time between the reports that sources and builders send; zero: they report only at the end.
    pub report_period: Duration,
}

/// The treatment of events when a source is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLoss {
    /// Events do not wait for the lost source, and are incomplete without it.
    Incomplete,
    /// Events wait for the return of the lost source.
    Wait,
}

/// The rule by which the supervisor chooses the builder of the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentPolicy {
    /// Builders take turns; builders without a free slot are skipped.
    RoundRobin,
    /// The builder with the most free slots.
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
    let state = section.text("state", "for example state = \"evb-state\"").map(PathBuf::from);
    let fsyncs = [("none", JournalFsync::None), ("commit", JournalFsync::Commit)];
    let journal_fsync = section.choice("journal_fsync", &fsyncs);
    if journal.is_none() && journal_fsync.is_some() {
        section.refuse(
            "journal_fsync",
            "`journal_fsync` says how a journal is kept, but no journal is configured".to_owned(),
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
        state,
        journal_fsync: journal_fsync.unwrap_or_default(),
        patience,
        lease,
        on_source_loss,
        report_period: report_period.unwrap_or(Duration::from_secs(1)),
    })
}
