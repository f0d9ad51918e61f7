//! `[supervisor]`: triggers, assignment and time limits.

use std::{path::PathBuf, time::Duration};

use evb_core::supervisor::JournalFsync;
use serde::Deserialize;

use super::{
    endpoint::Endpoint,
    forms::{Address, As, Positive, Quantity, Whole, Word, Words, one, seconds},
    section::Section,
    trigger::TriggerConfig,
};

/// The shortest permitted lease: two periods of heartbeats.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// The supervisor's rules for assigning events, and its time limits.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("dependencies" = { "journal_fsync": ["journal"] })))]
pub struct SupervisorConfig {
    /// The address at which sources and builders find the supervisor. Sources and builders connect
    /// to this address exactly as written, so `0.0.0.0` and port 0 are refused.
    #[serde(with = "As::<Address>")]
    pub listen: Endpoint,
    /// The kind of [trigger](#trigger).
    pub trigger: TriggerConfig,
    /// The number of events that a builder builds at the same time, 1 to 65535. More slots hide
    /// latency, and small events need many slots; each slot costs memory for the largest event.
    /// When no slot is free, triggers are inhibited, which is dead time. [How the default is
    /// computed](#default-slots).
    ///
    /// Default: computed from event size or trigger rate, 4 to 256; 16 if neither is known
    #[serde(default, with = "Whole::<1, 65_535>")]
    pub slots: Option<u32>,
    /// The time from the assignment, on the builder's clock, after which an event closes without
    /// the sources that have announced nothing, and names them.
    ///
    /// Default: `"2 s"`
    #[serde(default = "seconds::<2>", with = "As::<Positive<Duration>>")]
    pub deadline: Duration,
    /// The time within which all roles must register. After this time evb gives up the run and
    /// names the missing roles.
    ///
    /// Default: `"30 s"`
    #[serde(default = "seconds::<30>", with = "As::<Positive<Duration>>")]
    pub start_timeout: Duration,
    /// The time after which a fragment without a decision is dropped and counted as unexpected.
    ///
    /// Default: `"10 s"`
    #[serde(default = "seconds::<10>", with = "As::<Positive<Duration>>")]
    pub orphan_timeout: Duration,
    /// The rule by which the supervisor chooses the builder of the next event: `"round-robin"`
    /// among builders with a free slot, or `"least-loaded"`.
    ///
    /// Default: `"round-robin"`
    #[serde(default)]
    pub policy: AssignmentPolicy,
    /// The number of consecutive events that go to one builder. With a larger number, several
    /// events share a grant, which makes small events faster, but latency grows and the load of the
    /// builders becomes less even.
    ///
    /// Default: 1
    #[serde(default = "one", with = "Whole::<1, 65_535>")]
    pub run_length: u32,
    /// A file in which the supervisor records its decisions and what was built. A supervisor that
    /// starts with the journal of an unfinished run continues that run under the same run number;
    /// sources and builders wait for such a supervisor for `patience`. Without a journal, the run
    /// ends if the supervisor dies.
    ///
    /// Default: none
    pub journal: Option<PathBuf>,
    /// The directory in which the supervisor keeps one small file for each run that it has led:
    /// number, id, begin, end and outcome. Earlier runs appear in the status after a restart, and
    /// their numbers are not used again. If you delete the directory, evb forgets only what no
    /// builder knows.
    ///
    /// Default: `$STATE_DIRECTORY`; or `evb-state` beside the journal; or beside the first event
    /// files of this host; or none
    pub state: Option<PathBuf>,
    /// The number of records in the directory `state`, 1 to 1000000. When a run begins, the oldest
    /// records beyond this number are removed; never that of a run without an end.
    ///
    /// Default: none, so that all are kept
    #[serde(default, with = "Whole::<1, 1_000_000>")]
    pub keep_runs: Option<u32>,
    /// With `"none"`, the journal survives the death of the process. With `"commit"`, the journal
    /// survives a power cut as well, and each batch of decisions waits for the disk.
    ///
    /// Default: `"none"`
    #[serde(default, with = "As::<Word<JournalFsync>>")]
    pub journal_fsync: JournalFsync,
    /// The time for which sources and builders that have lost the supervisor keep their data and
    /// try to reach a supervisor.
    ///
    /// Default: `"90 s"`
    #[serde(default = "seconds::<90>", with = "As::<Positive<Duration>>")]
    pub patience: Duration,
    /// The time after an answered heartbeat for which a builder may give events to its sink, at
    /// least 500 ms. When a builder has been silent for two leases, its events go to other
    /// builders.
    ///
    /// Default: `"1 s"`
    #[serde(default = "seconds::<1>", with = "As::<Positive<Duration>>")]
    pub lease: Duration,
    /// The treatment of events while a source is down: with `"incomplete"`, events do not wait for
    /// the source: they are incomplete and name it as missing; with `"wait"`, events wait until the
    /// source is back. At the end of a run, events do not wait.
    ///
    /// Default: `"incomplete"`
    #[serde(default)]
    pub on_source_loss: SourceLoss,
    /// The interval at which sources and builders send the counters that status, web page and
    /// metrics show. With `"0 s"`, sources and builders send counters only at the end of the run.
    /// evb lengthens the interval if reports would take more than 1 % of the control class
    /// (`shaping.classes`) or of `link_rate`, and in a run with more than 256 sources, to up to 4
    /// s.
    ///
    /// Default: `"1 s"`
    #[serde(default = "seconds::<1>", with = "As::<Quantity<Duration>>")]
    pub report_period: Duration,
}

/// The treatment of events when a source is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SourceLoss {
    /// Events do not wait for the lost source, and are incomplete without it.
    #[default]
    Incomplete,
    /// Events wait for the return of the lost source.
    Wait,
}

/// The rule by which the supervisor chooses the builder of the next event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AssignmentPolicy {
    /// Builders take turns; builders without a free slot are skipped.
    #[default]
    RoundRobin,
    /// The builder with the most free slots.
    LeastLoaded,
}

impl Words for JournalFsync {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("none", Self::None), ("commit", Self::Commit)]
    }
}

/// Reads the section, and checks it.
pub(super) fn read(section: &Section<'_>) -> Option<SupervisorConfig> {
    let config: SupervisorConfig = section.read()?;
    section.allow_peer_address("listen", &config.listen);
    config.trigger.check(section);
    if config.journal.is_none() && section.is_good("journal_fsync") {
        let reason = "`journal_fsync` says how a journal is kept, but no journal is configured";
        section.refuse("journal_fsync", reason, "name its file with `journal`, or remove `journal_fsync`");
    }
    if config.lease < SHORTEST_LEASE {
        let reason = format!(
            "a lease of {:?} may end between two heartbeats, and a builder would not write events in the meantime",
            config.lease
        );
        section.refuse("lease", reason, "give at least \"500 ms\"");
    }
    section.finish(config)
}
