//! `[[builder]]`: one event builder, its filter and its sink.

use std::{path::PathBuf, time::Duration};

use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};
use evb_shaper::BudgetGroup;

use serde::Deserialize;

use super::{
    endpoint::Endpoint,
    forms::{Address, As, DataRate, FilePath, Positive, Quantity, Whole, seconds},
    input::check_program,
    name::Name,
    section::Section,
    tap::{self, TapEntry},
};

/// The configuration of one event builder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BuilderEntry {
    /// Id of the builder.
    #[serde(skip)]
    pub id: BuilderId,
    /// The name of the builder for people, such as `"left rack"`. The rules are those of a source's
    /// `name`; a builder may have the name of a source.
    ///
    /// Default: none
    #[serde(default, with = "As::<Name>")]
    pub name: Option<String>,
    /// The address at which sources connect to the builder. evb refuses `0.0.0.0` and port 0,
    /// because sources connect to exactly this address.
    #[serde(with = "As::<Address>")]
    pub listen: Endpoint,
    /// The destination of the builder's events; see the table of sinks in this section.
    pub sink: SinkEntry,
    /// The rule by which events go to the sink; see the table of filters in this section.
    ///
    /// Default: accept all
    #[serde(default)]
    pub filter: FilterEntry,
    /// Events for onlookers while a run goes on; see the table of a tap in this section, and
    /// [taps](tap.md).
    ///
    /// Default: none
    pub tap: Option<TapEntry>,
    /// The name of the builder's switch port, if builders with different addresses share a port.
    /// Builders with the same port divide its `budget`.
    ///
    /// Default: the host of `listen`
    pub port: Option<String>,
    /// The rate of the builder's port, in line bytes. Builders at the same port have the same rate.
    ///
    /// Default: `link_rate` of `[network]`
    #[serde(default, with = "As::<DataRate>")]
    pub link_rate: Option<Rate>,
    /// The rate of each lane towards this builder.
    ///
    /// Default: `rate` of `[shaping]`
    #[serde(default, with = "As::<DataRate>")]
    pub rate: Option<Rate>,
    /// The builder's share of the port's budget: the buffer bytes that may be under way from all
    /// sources to this builder.
    #[serde(skip)]
    pub budget: Bytes,
    /// Limits for lanes that share a trunk with only some of the builder's lanes, in addition to
    /// the budget.
    #[serde(skip)]
    pub groups: Vec<BudgetGroup>,
    /// The memory that the builder may use for events. evb refuses a configuration with which the
    /// builder could need more memory.
    ///
    /// Default: 80 % of the machine's memory, divided by the number of its builders
    #[serde(default, with = "As::<Positive<Bytes>>")]
    pub memory: Option<Bytes>,
    /// The time for which evb keeps retrying a failing sink (full disk, I/O error) after the end of
    /// the run was requested. During the run, evb retries without limit. Events that the sink has
    /// not accepted after `give_up` are lost, and evb reports them with the cause.
    ///
    /// Default: `"30 s"`
    #[serde(default = "seconds::<30>", with = "As::<Positive<Duration>>")]
    pub give_up: Duration,
    /// The processor core on which it runs.
    ///
    /// Default: any
    #[serde(default, with = "Whole::<0, 4095>")]
    pub cpu: Option<usize>,
    /// If true, evbd raises the scheduling priority of the builder's thread, so that the builder
    /// sends grants before the port runs empty. The sink's thread keeps its priority. The
    /// supervisor of such builders raises its own priority too, if it has a process of its own
    /// (`--role supervisor`). evbd uses real-time priority (`SCHED_FIFO` 1) if it has the right to
    /// do so, as root or by `ulimit -r 1`, and if the kernel is 6.12 or newer. Linux 6.12 and newer
    /// keep 5 % of a core for other threads, while older kernels stop a real-time thread for 50 ms
    /// of each second even if no other thread waits. Otherwise evbd uses `nice` −10 (`ulimit -e
    /// 30`, or `LimitNICE=-10` in its systemd unit). If evbd may use neither, the log says so.
    ///
    /// Default: `true` where `link_rate` is given and the builder's port empties in less than 5 ms
    pub precedence: Option<bool>,
}

impl BuilderEntry {
    /// Returns the name of the builder's switch port. Builders with the same name share one port.
    pub fn port_name(&self) -> &str {
        self.port.as_deref().unwrap_or(&self.listen.host)
    }
}

/// The destination of built events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(tag = "kind"))]
#[serde(rename = "kind", rename_all = "kebab-case")]
pub enum SinkEntry {
    /// A sink that writes event files.
    File {
        /// The directory of the event files. Builders may share one.
        #[serde(with = "As::<FilePath>")]
        path: PathBuf,
        /// The size of a file at which the builder begins the next file.
        ///
        /// Default: `"1 GiB"`
        #[serde(default = "usual_rotation", with = "As::<Quantity<Bytes>>")]
        rotate: Bytes,
        /// With `"none"`, files survive the death of the process; with `"commit"`, also a power
        /// cut.
        ///
        /// Default: `"none"`
        #[serde(default)]
        fsync: Fsync,
    },
    /// A sink that discards all events.
    Null,
}

/// The point at which events are forced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fsync {
    /// Never: written events survive the end of the process, but not a power failure.
    #[default]
    None,
    /// Before an event counts as committed; committed events survive a power failure.
    Commit,
}

/// The rule by which a filter selects the events for the sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(tag = "kind"))]
#[serde(rename = "kind", rename_all = "kebab-case")]
pub enum FilterEntry {
    /// A filter that keeps every event.
    #[default]
    AcceptAll,
    /// A filter that keeps events whose id is a multiple of a number.
    Prescale {
        /// The number whose multiples are kept.
        #[serde(with = "Whole::<1, 4_294_967_295>")]
        keep_every: u32,
    },
    /// A filter that keeps only events with a fragment of every source that owes them one.
    RequireComplete,
    /// A filter that keeps only events with a fragment of every source of the run.
    RequireWhole,
    /// A filter that rejects events with a fragment that belongs to another event.
    RequireAligned,
    /// A filter that asks processes of a program about each event; see
    /// [filters as processes](filter.md).
    Process {
        /// The program and its arguments.
        command: Vec<String>,
        /// The number of its processes, 1 to 1000.
        ///
        /// Default: 1
        #[serde(default = "usual_workers", with = "Whole::<1, 1000>")]
        workers: u16,
        /// The time in which a process must judge an event. One that takes longer is killed.
        ///
        /// Default: `"2 s"`
        #[serde(default = "seconds::<2>", with = "As::<Positive<Duration>>")]
        timeout: Duration,
        /// The fate of an event on which no process gives a verdict.
        ///
        /// Default: `"keep"`
        #[serde(default)]
        on_failure: OnFailure,
    },
}

/// The fate of an event on which no process gives a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The event goes to the sink.
    #[default]
    Keep,
    /// The event counts as rejected.
    Drop,
}

fn usual_workers() -> u16 {
    1
}

/// Default size at which event files rotate.
fn usual_rotation() -> Bytes {
    Bytes::mib(1024)
}

/// Smallest permitted size at which files rotate; smaller files would hold too few events each.
const LEAST_ROTATE: Bytes = Bytes::kib(4);

pub(super) fn read(section: &Section<'_>, id: u16) -> Option<BuilderEntry> {
    let entry = BuilderEntry { id: BuilderId::new(id), ..section.read()? };
    section.allow_peer_address("listen", &entry.listen);
    entry.tap.iter().for_each(|entry| tap::check(entry, section));
    if let SinkEntry::File { rotate, .. } = entry.sink
        && rotate < LEAST_ROTATE
    {
        let reason = format!("event files would end after only {rotate}");
        section.refuse("sink.rotate", reason, format!("give at least {LEAST_ROTATE}"));
    }
    if let FilterEntry::Process { command, .. } = &entry.filter {
        check_program(section, "filter.command", command, "command = [\"python3\", \"/opt/daq/l1.py\"]");
    }
    section.finish(entry)
}
