//! `[[builder]]`: one event builder, its filter and its sink.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};
use evb_shaper::BudgetGroup;

use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{
    endpoint::Endpoint,
    forms::{Address, As, DataRate, FilePath, Form, Positive, Quantity, Whole, seconds, wrong, yes},
    input::{LONGEST_SOCKET, check_program},
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
    /// The destination of the builder's events, or [several](hand-over.md#several-sinks) in a list;
    /// see the table of sinks in this section.
    #[serde(rename = "sink", deserialize_with = "apart")]
    #[cfg_attr(test, schemars(with = "OneOrMore"))]
    pub sinks: Vec<SinkEntry>,
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
        /// Only in a list: if false, the sink never holds an event, and misses those that it does
        /// not accept at once.
        ///
        /// Default: `true`
        #[serde(default = "yes")]
        required: bool,
    },
    /// A sink that [hands events over](hand-over.md) to another program, which acknowledges each.
    Socket {
        /// The address at which the program listens, or the path of its Unix socket, which has a
        /// `/`.
        #[serde(with = "As::<Consumer>")]
        address: ConsumerAddress,
        /// The time for which the program may take and acknowledge nothing while events wait. After
        /// it, evb closes the connection, and connects again.
        ///
        /// Default: `"10 s"`
        #[serde(default = "seconds::<10>", with = "As::<Positive<Duration>>")]
        timeout: Duration,
        /// Only in a list: if false, the sink never holds an event, and misses those that it does
        /// not accept at once.
        ///
        /// Default: `true`
        #[serde(default = "yes")]
        required: bool,
    },
    /// A sink that discards all events.
    Null,
}

impl SinkEntry {
    /// Returns true if an event needs this sink to be accepted.
    pub fn is_required(&self) -> bool {
        match self {
            Self::File { required, .. } | Self::Socket { required, .. } => *required,
            Self::Null => true,
        }
    }

    /// Returns the directory of event files; `None` for another kind of sink.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Socket { .. } | Self::Null => None,
        }
    }
}

/// The sinks as the configuration gives them, for the schema.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneOrMore {
    One(SinkEntry),
    More(#[schemars(length(min = 1))] Vec<SinkEntry>),
}

/// Leaves the sinks to [`read_sinks`], which reads each of a list.
fn apart<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SinkEntry>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| Vec::new())
}

/// The address of a program that takes events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerAddress {
    /// A port of a host.
    Tcp(Endpoint),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The form of a [`ConsumerAddress`].
pub(super) struct Consumer;

impl Form for Consumer {
    type Value = ConsumerAddress;
    const EXAMPLE: &'static str = "127.0.0.1:7401";

    /// Parses an address, or a path, which is recognised by its slash.
    fn parse(text: &str) -> Result<ConsumerAddress, String> {
        if !text.contains('/') {
            let remedy = "write \"host:port\", as \"127.0.0.1:7401\", or the path of a Unix socket with a `/`, as \"./consumer\"";
            let parsed = text
                .parse()
                .map_err(|error| wrong(format_args!("`{text}` is not an address: {error}"), remedy));
            return parsed.map(ConsumerAddress::Tcp);
        }
        if text.len() > LONGEST_SOCKET {
            let reason = format!(
                "the path of a socket has at most {LONGEST_SOCKET} bytes, and this one {}",
                text.len()
            );
            return Err(wrong(reason, "use a shorter path"));
        }
        FilePath::parse(text).map(ConsumerAddress::Unix)
    }
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

/// Reads the section of a builder, and checks it.
pub(super) fn read(section: &Section<'_>, id: u16) -> Option<BuilderEntry> {
    let mut entry = BuilderEntry { id: BuilderId::new(id), ..section.read()? };
    section.allow_peer_address("listen", &entry.listen);
    entry.tap.iter().for_each(|entry| tap::check(entry, section));
    if let FilterEntry::Process { command, .. } = &entry.filter {
        check_program(section, "filter.command", command, "command = [\"python3\", \"/opt/daq/l1.py\"]");
    }
    entry.sinks = read_sinks(section)?;
    section.finish(entry)
}

/// One of the sinks.
#[derive(Deserialize)]
struct GivenSink {
    sink: SinkEntry,
}

/// Reads the sink of a builder, or each in a list; `None` if one of them has a problem.
fn read_sinks(builder: &Section<'_>) -> Option<Vec<SinkEntry>> {
    let sections = builder.each("sink");
    let read =
        |section: &Section<'_>| section.read::<GivenSink>().and_then(|given| section.finish(given.sink));
    let sinks = sections.iter().map(|section| read(section).inspect(|sink| check_sink(sink, section)));
    let sinks = sinks.collect::<Vec<_>>().into_iter().collect::<Option<Vec<SinkEntry>>>()?;
    let mut directories = BTreeSet::new();
    let double = sinks.iter().filter_map(SinkEntry::directory).find(|path| !directories.insert(*path));
    if let Some(path) = double {
        let path = path.display();
        let reason = format!("two sinks of this builder would write into the same directory, `{path}`");
        builder.refuse("sink", reason, "give each a `path` of its own, or remove one of them");
    } else if sections.is_empty() && builder.has("sink") {
        let remedy = "write at least one, such as { kind = \"file\", path = \"out\" }";
        builder.refuse("sink", "the list of sinks is empty", remedy);
    } else if builder.has("sink") && !sinks.iter().any(SinkEntry::is_required) {
        let reason = "the builder has no required sink, so that nothing would hold an event until it is safe";
        builder.refuse("sink", reason, "remove required = false from a sink that must have every event");
    }
    Some(sinks)
}

/// Refuses a sink with too small files, or an address that is not permitted.
fn check_sink(sink: &SinkEntry, section: &Section<'_>) {
    match sink {
        SinkEntry::File { rotate, .. } if *rotate < LEAST_ROTATE => {
            let reason = format!("event files would end after only {rotate}");
            section.refuse("sink.rotate", reason, format!("give at least {LEAST_ROTATE}"));
        }
        SinkEntry::Socket { address: ConsumerAddress::Tcp(address), .. } => {
            section.allow_peer_address("sink.address", address);
        }
        _ => {}
    }
}
