//! The configuration of an event builder: one TOML file that describes the whole system. This crate
//! reads the file into validated values.
//!
//! [`read`] goes through the text once. [`read`] reports all problems of the text, each with its
//! line, reason and remedy. The values that it returns need no further checks: units are parsed,
//! defaults filled in, ids expanded and distinct.
//!
//! [`admission`] then compares the load with the links, buffers and memory, [`mod@check`] formats
//! the sums, and [`mod@plan`] turns a few numbers into a first configuration.

#[macro_use]
mod print;
mod similar;
mod role_lists;
mod problem;
mod template;
mod endpoint;
mod forms;
mod remedies;
mod section;
mod run;
mod trigger;
mod trunk;
mod network;
mod control;
mod entries;
mod fault;
mod frame;
mod input;
mod hooks;
mod security;
mod name;
mod clock;
mod counter;
mod source;
mod group;
mod alignment;
mod tap;
mod builder;
mod supervisor;
mod layout;
mod division;
mod classes;
mod shaping;
mod slots;
pub mod admission;
pub mod check;
pub mod plan;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Range, path::Path};

use evb_core::{
    alignment::DetectorClock,
    builder::slot_memory,
    id::{Peer, SourceId},
    set::MAX_SOURCES,
    supervisor::Group,
    units::{Bytes, Rate},
    wire::control::MAX_BUILDERS,
};
use evb_shaper::{ByteMeasure, Pace, Shaping, cost::PacketCost, out_of_order_memory};
use toml::de::DeTable;

pub use alignment::{Alignment, AlignmentConfig, GENERATED_INTERVAL, OnSlip};
pub use builder::{BuilderEntry, ConsumerAddress, FilterEntry, Fsync, OnFailure, SinkEntry};
pub use classes::{ClassEntry, ClassesConfig};
pub use control::{ControlConfig, ViewersEntry};
pub use division::nine_tenths;
pub use endpoint::{Endpoint, EndpointError, is_host, is_loopback, is_unspecified};
pub use evb_core::transport::Transport;
pub use fault::PlantedFault;
pub use hooks::HooksConfig;
pub use input::{
    Action, BoardPlace, ContentCheck, DatagramPlace, FragmentSize, Hook, Hooks, Input, MadeOn, ReplayFormat,
    Sender,
};
pub use layout::{Layout, Link, NodeKind};
pub use network::{Admission, NetworkConfig};
pub use print::Plain;
pub use problem::{Origin, Problem, Problems, Severity};
pub use role_lists::{ranges, roles_in_words};
pub use run::RunConfig;
pub use security::SecurityMode;
pub use shaping::{OffloadChoice, ShapingConfig, ShapingMode, Spin};
pub use source::{Need, SourceEntry};
pub use supervisor::{AssignmentPolicy, SourceLoss, SupervisorConfig};
pub use tap::{EventShare, TapEntry};
pub use trigger::{MulticastGroup, TriggerConfig, TriggerProtocol};
pub use trunk::{Trunk, TrunkKind};

use self::{
    entries::Placed,
    section::{Notes, Section},
};

/// The configuration of a whole system.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The run's number and the conditions that end it.
    pub run: RunConfig,
    /// Triggers, assignment and time limits.
    pub supervisor: SupervisorConfig,
    /// The transport of the lanes and the properties of the switch.
    pub network: NetworkConfig,
    /// Rules by which sources may send.
    pub shaping: ShapingConfig,
    /// The comparison of timestamps.
    pub alignment: AlignmentConfig,
    /// The rules by which hosts trust each other.
    pub security: SecurityMode,
    /// Access to run control; `None`: the process executes a single run and exits.
    pub control: Option<ControlConfig>,
    /// Programs that run when something happens.
    pub hooks: HooksConfig,
    /// All sources; ids are distinct.
    pub sources: Vec<SourceEntry>,
    /// Groups of sources; names are distinct.
    pub groups: Vec<Group>,
    /// All builders; ids and addresses are distinct.
    pub builders: Vec<BuilderEntry>,
}

impl Config {
    /// Returns the rule by which data are divided into packets with headers on the links of this
    /// system.
    pub fn cost(&self) -> PacketCost {
        shaping::packet_cost(&self.network, self.shaping.cell, self.security.is_protected())
    }

    /// Returns the name of a source or builder; empty if it has none.
    pub fn name_of(&self, peer: Peer) -> &str {
        let name = match peer {
            Peer::Supervisor => None,
            Peer::Source(id) => self.sources.iter().find(|entry| entry.id == id).map(|entry| &entry.name),
            Peer::Builder(id) => self.builders.iter().find(|entry| entry.id == id).map(|entry| &entry.name),
        };
        name.and_then(Option::as_deref).unwrap_or_default()
    }

    /// Returns the clocks of the sources that have one, in the order of their ids.
    pub fn clocks(&self) -> Vec<(SourceId, DetectorClock)> {
        alignment::clocks(self)
    }

    /// Returns the rules by which the timestamps of the sources with clocks are compared.
    pub fn alignment(&self) -> Alignment {
        alignment::rules(self)
    }

    /// Returns the number of events that may be outstanding per builder: the configured number, or
    /// a number computed from sizes, budgets and links.
    pub fn slots(&self) -> u32 {
        self.supervisor.slots.unwrap_or_else(|| slots::usual(self))
    }

    /// Returns the largest payload memory that a builder's slot can take.
    pub fn slot_memory(&self) -> Bytes {
        slot_memory(self.sources.iter().map(|source| source.max_fragment))
    }

    /// Returns the bytes that a builder may hold, in addition to its slots, for datagrams that
    /// arrive before earlier ones.
    pub fn out_of_order_memory(&self, builder: &BuilderEntry) -> Bytes {
        out_of_order_memory(self.network.transport, &self.shaping(builder.budget), self.sources.len())
    }

    /// Returns the tree of switches with the places of the sources and builders in it.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.network, &self.sources, &self.builders)
    }

    /// Returns the rules by which sources may send to this builder.
    pub fn builder_shaping(&self, builder: &BuilderEntry) -> Shaping {
        let mut shaping = self.shaping(builder.budget);
        if let Shaping::Credit { groups, .. } = &mut shaping {
            groups.clone_from(&builder.groups);
        }
        shaping
    }

    /// Returns the rules by which sources may send to a builder without limits for single lanes;
    /// `budget` is the builder's share of its port's budget.
    pub fn shaping(&self, budget: Bytes) -> Shaping {
        let shaping = &self.shaping;
        match shaping.mode {
            ShapingMode::Credit => Shaping::Credit {
                budget,
                groups: Vec::new(),
                chunk: shaping.chunk,
                sources_at_once: shaping.sources_at_once.map(|count| count as usize),
            },
            ShapingMode::Window => Shaping::Window { window: shaping.window },
            ShapingMode::TokenBucket => match shaping.rate {
                Some(rate) => Shaping::TokenBucket(self.pace(rate)),
                None => Shaping::None,
            },
            ShapingMode::None => Shaping::None,
        }
    }

    /// Returns a pace of this rate. The burst of the pace is the configured burst or else the
    /// default, limited to the lane's part of the port's buffer, because all lanes to a port may be
    /// late at the same time. With a single lane the port's buffer does not limit the burst: the
    /// source's link is no faster than the port.
    pub fn pace(&self, rate: Rate) -> Pace {
        let measure = self.shaping.counts;
        let lanes = self.sources.len() as u64;
        let port = self.network.port_buffer.filter(|_| lanes > 1).map(|buffer| nine_tenths(buffer) / lanes);
        let share = port.into_iter().chain(self.shaping.trunk_share).min();
        match self.shaping.burst {
            Some(burst) => Pace { rate, burst, measure },
            None => Pace::usual(rate, measure, &self.cost(), share),
        }
    }

    /// Returns the pace of the lanes to a builder: the builder's configured pace, or else that of
    /// `[shaping]`.
    pub fn lane_pace(&self, builder: &BuilderEntry) -> Option<Pace> {
        builder.rate.or(self.shaping.rate).map(|rate| self.pace(rate))
    }

    /// Returns the pace of the lanes to a builder in bytes of L2 frames, which the kernel counts.
    pub fn lane_frames(&self, builder: &BuilderEntry) -> Option<Rate> {
        let pace = self.lane_pace(builder)?;
        Some(self.cost().rate_in(pace.rate, pace.measure, ByteMeasure::Buffer))
    }

    /// Returns the sum of the paces of one source's lanes to `builders`, in line bytes; `None` if a
    /// lane has no pace.
    pub fn paced_line_rate<'a>(&self, builders: impl IntoIterator<Item = &'a BuilderEntry>) -> Option<Rate> {
        let line =
            |pace: Pace| self.cost().rate_in(pace.rate, pace.measure, ByteMeasure::Line).bits_per_second();
        let rates: Option<Vec<u64>> =
            builders.into_iter().map(|builder| self.lane_pace(builder).map(line)).collect();
        Some(Rate::from_bits_per_second(rates?.into_iter().fold(0, u64::saturating_add)))
    }

    /// Returns true if the configuration gives any lane a pace or any traffic class a rate.
    pub fn is_paced(&self) -> bool {
        self.shaping.classes.is_some()
            || self.builders.iter().any(|builder| self.lane_pace(builder).is_some())
    }
}

/// A configuration, with an index into its text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Values that the text contains.
    pub config: Config,
    /// Index that maps keys to lines of the text.
    pub origin: Origin,
}

/// The reason why a configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error(
        "error: cannot read the configuration `{file}`: {source}; nothing was started\n = help: give the path of a TOML file that this user may read, such as examples/quickstart.toml"
    )]
    Unreadable {
        /// Name of the file.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file does not describe a valid system.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Size in bytes above which a configuration file is refused.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Reads the configuration from a file.
pub fn load(path: &Path) -> Result<Loaded, ConfigError> {
    use std::io::{Error, ErrorKind, Read};

    let file = path.display().to_string();
    let unreadable = |source| ConfigError::Unreadable { file: file.clone(), source };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path).map_err(unreadable)?;
    opened.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        return Err(unreadable(Error::new(ErrorKind::FileTooLarge, "the file has more than 4 MiB")));
    }
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(&file, &error))?;
    Ok(read(&text, &file)?)
}

fn not_utf8(file: &str, error: &std::string::FromUtf8Error) -> Problems {
    let offset = error.utf8_error().valid_up_to();
    let notes = Notes::default();
    notes.error("", offset..offset, "the file is not UTF-8 text from here on", "save the file as UTF-8");
    problems(file, &String::from_utf8_lossy(error.as_bytes()), notes)
}

/// Reads a configuration from `text`; `file` is the name that messages show.
pub fn read(text: &str, file: &str) -> Result<Loaded, Problems> {
    let notes = Notes::default();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        notes.error(
            "",
            span,
            format!("this is not TOML: {}", error.message()),
            "fix the syntax here; see https://toml.io",
        );
    }
    let config = if errors.is_empty() { read_root(&notes, table.get_ref()) } else { None };
    match config {
        Some(config) if notes.count() == 0 => {
            Ok(Loaded { config, origin: Origin::new(file, text, notes.keys.into_inner()) })
        }
        _ => Err(problems(file, text, notes)),
    }
}

fn problems(file: &str, text: &str, notes: Notes) -> Problems {
    Problems::new(Origin::new(file, text, notes.keys.into_inner()), notes.problems.into_inner())
}

/// The sections of the file, in the order in which they are read.
const SECTIONS: [&str; 11] = [
    "security",
    "run",
    "supervisor",
    "network",
    "shaping",
    "control",
    "hooks",
    "alignment",
    "source",
    "group",
    "builder",
];

/// Reads all sections. `None` means that a section could not be read, which is noted.
fn read_root<'t>(notes: &'t Notes, table: &'t DeTable<'t>) -> Option<Config> {
    let root = Section::new(notes, "", 0..0, Some(table));
    let security = security::read(root.table("security"));
    notes.open.set(security != SecurityMode::LoopbackOnly);

    let run: Option<RunConfig> = root.table_or_empty("run").read();
    if !root.has("supervisor") {
        root.refuse_lack("supervisor");
    }
    let supervisor = root.table("supervisor").and_then(|section| supervisor::read(&section));
    let group = supervisor.as_ref().and_then(|supervisor| match &supervisor.trigger {
        TriggerConfig::Multicast(group) => Some(group),
        _ => None,
    });
    let network = network::read(root.table_or_empty("network"))?;
    let shaping_section = root.table_or_empty("shaping");
    let shaping = shaping::read(&shaping_section, network.transport)?;
    let control = root.table("control").and_then(|section| control::read(&section));
    let hooks = hooks::read(&root.table_or_empty("hooks"));
    let before = notes.count();
    let sources = entries::read(&root, "source", MAX_SOURCES, |section, id| source::read(section, id, group));
    let all = (notes.count() == before).then_some(&sources[..]);
    let alignment = alignment::read(&root.table_or_empty("alignment"), all);
    let groups = group::read(&root, all);
    let builders = entries::read(&root, "builder", MAX_BUILDERS, builder::read);
    root.refuse_unknown(&SECTIONS);
    name::refuse_equal(
        notes,
        "source.name",
        sources
            .iter()
            .map(|Placed { entry, .. }| (Peer::Source(entry.id), entry.id.number(), entry.name.as_ref())),
    );
    name::refuse_equal(
        notes,
        "builder.name",
        builders
            .iter()
            .map(|Placed { entry, .. }| (Peer::Builder(entry.id), entry.id.number(), entry.name.as_ref())),
    );
    source::refuse_if_none_is_essential(notes, &sources);
    refuse_shared_addresses(notes, (supervisor.as_ref(), control.as_ref()), &sources, &builders);

    let sources: Vec<SourceEntry> = sources.into_iter().map(|placed| placed.entry).collect();
    let mut builders: Vec<BuilderEntry> = builders.into_iter().map(|placed| placed.entry).collect();
    let layout = Layout::checked(notes, &network, &sources, &builders);
    let shaping =
        shaping.resolve(&shaping_section, &network, security.is_protected(), &layout, &mut builders);
    Some(Config {
        run: run?,
        supervisor: supervisor?,
        network,
        shaping,
        alignment: alignment?,
        security,
        control,
        hooks: hooks?,
        sources,
        groups,
        builders,
    })
}

/// Refuses configurations in which two roles listen at the same address.
fn refuse_shared_addresses(
    notes: &Notes,
    (supervisor, control): (Option<&SupervisorConfig>, Option<&ControlConfig>),
    sources: &[Placed<SourceEntry>],
    builders: &[Placed<BuilderEntry>],
) {
    let mut taken: BTreeMap<&Endpoint, String> = BTreeMap::new();
    let mut take = |listen, who: &dyn std::fmt::Display, span: Range<usize>, key: &str| {
        if let Some(other) = taken.insert(listen, who.to_string()) {
            let reason = format!("{who} and {other} both listen at {listen}");
            let remedy = "give each its own port; with `ids`, write for example \"127.0.0.1:{7100+id}\"";
            notes.error(key, span, reason, remedy);
        }
    };
    if let Some(supervisor) = supervisor {
        take(&supervisor.listen, &Peer::Supervisor, 0..0, "supervisor.listen");
        if let TriggerConfig::External { listen, protocol: TriggerProtocol::Tcp } = &supervisor.trigger {
            let span = notes.keys.borrow().get("supervisor.trigger").cloned().unwrap_or(0..0);
            take(listen, &"the trigger input of the supervisor", span, "supervisor.trigger.listen");
        }
    }
    if let Some(control) = control {
        let span = notes.keys.borrow().get("control").cloned().unwrap_or(0..0);
        take(&control.listen, &"run control", span, "control.listen");
    }
    for placed in sources {
        if let Input::Tcp { listen, .. } = &placed.entry.input {
            take(listen, &Peer::Source(placed.entry.id), placed.span.clone(), "source.input.listen");
        }
    }
    for placed in builders {
        take(&placed.entry.listen, &Peer::Builder(placed.entry.id), placed.span.clone(), "builder.listen");
        if let Some(tap) = &placed.entry.tap {
            let who = format!("the tap of {}", Peer::Builder(placed.entry.id));
            take(&tap.listen, &who, placed.span.clone(), "builder.tap.listen");
        }
    }
}
