//! `[[builder]]`: one event builder, its filter and its sink.

use std::{path::PathBuf, time::Duration};

use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};
use evb_shaper::BudgetGroup;

use super::{endpoint::Endpoint, input::path, name, section::Section, source::cpu};

/// The configuration of one event builder.
#[derive(Clone, Debug, PartialEq)]
pub struct BuilderEntry {
    /// Id of the builder.
    pub id: BuilderId,
    /// Name of the builder, for people; `None`: it has none.
    pub name: Option<String>,
    /// Address at which the builder listens for sources.
    pub listen: Endpoint,
    /// Destination of the events that the builder has built.
    pub sink: SinkEntry,
    /// Rule by which the builder selects the events that go to the sink.
    pub filter: FilterEntry,
    /// Name of the switch port that the builder shares with other builders; `None`: the port of the
    /// builder's host.
    pub port: Option<String>,
    /// Rate of the builder's port, in line bytes; `None`: that of all links.
    pub link_rate: Option<Rate>,
    /// Pace of each lane to this builder, instead of the pace in `[shaping]`.
    pub rate: Option<Rate>,
    /// The builder's share of the port's budget: the buffer bytes that may be under way from all
    /// sources to this builder.
    pub budget: Bytes,
    /// Limits for lanes that share a trunk with only some of the builder's lanes, in addition to
    /// the budget.
    pub groups: Vec<BudgetGroup>,
    /// Memory that the builder may use for events; `None`: its share of the machine's memory.
    pub memory: Option<Bytes>,
    /// Time for which a failing sink is retried after the end of the run was requested.
    pub give_up: Duration,
    /// Processor core on which the builder runs; `None`: any core.
    pub cpu: Option<usize>,
    /// True if the builder's thread gets a raised scheduling priority; `None`: true if the
    /// builder's port empties in a short time.
    pub precedence: Option<bool>,
}

impl BuilderEntry {
    /// Returns the name of the builder's switch port. Builders with the same name share one port.
    pub fn port_name(&self) -> &str {
        self.port.as_deref().unwrap_or(&self.listen.host)
    }
}

/// The destination of built events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkEntry {
    /// Event files.
    File {
        /// Directory of the event files, relative to the current directory.
        path: PathBuf,
        /// Size at which a new file is started.
        rotate: Bytes,
        /// Point at which events are forced to disk.
        fsync: Fsync,
    },
    /// No destination: events are discarded.
    Null,
}

/// The point at which events are forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Never: written events survive the end of the process, but not a power failure.
    None,
    /// Before an event counts as committed; committed events survive a power failure.
    Commit,
}

/// The rule by which a filter selects the events for the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterEntry {
    /// All events.
    AcceptAll,
    /// One event out of every `keep_every` events.
    Prescale {
        /// Number of events out of which one is kept.
        keep_every: u32,
    },
    /// Events without missing fragments.
    RequireComplete,
}

/// Default time for which a failing sink is retried after the end of the run was requested.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Default size at which event files rotate.
const ROTATE: Bytes = Bytes::mib(1024);
/// Smallest permitted size at which files rotate; smaller files would hold too few events each.
const LEAST_ROTATE: Bytes = Bytes::kib(4);

pub(super) fn read(mut section: Section<'_>, id: u16) -> Option<BuilderEntry> {
    let name = name::read(&mut section);
    let listen = section.peer_endpoint("listen");
    let listen = section.need("listen", listen, "for example listen = \"127.0.0.1:7101\"");
    let given = section.kinded("sink");
    let sink = section
        .need("sink", given, "for example sink = { kind = \"file\", path = \"out\" }, or sink = \"null\"")
        .and_then(read_sink);
    let filter = section.kinded("filter").map_or(Some(FilterEntry::AcceptAll), read_filter);
    let port = section.text("port", "the name of a switch port");
    let link_rate = section.rate("link_rate");
    let rate = section.rate("rate");
    let memory = section.some_bytes("memory");
    let give_up = section.duration("give_up").unwrap_or(GIVE_UP);
    let cpu = cpu(&mut section);
    let precedence = section.flag("precedence");
    section.keep_place("listen");
    section.keep_place("link_rate");
    section.finish();
    let (listen, sink, filter) = (listen?, sink?, filter?);
    Some(BuilderEntry {
        id: BuilderId::new(id),
        name,
        listen,
        sink,
        filter,
        port,
        link_rate,
        rate,
        budget: Bytes::ZERO,
        groups: Vec::new(),
        memory,
        give_up,
        cpu,
        precedence,
    })
}

fn read_sink(mut section: Section<'_>) -> Option<SinkEntry> {
    let file = section.choice("kind", &[("file", true), ("null", false)]);
    let file = section.need("kind", file, "kind = \"file\" or kind = \"null\"")?;
    let sink = if file {
        let path = path(&mut section);
        let rotate = section.bytes("rotate").unwrap_or(ROTATE);
        if rotate < LEAST_ROTATE {
            section.refuse(
                "rotate",
                format!("event files would end after only {rotate}"),
                format!("give at least {LEAST_ROTATE}"),
            );
        }
        let fsync = section.choice("fsync", &[("none", Fsync::None), ("commit", Fsync::Commit)]);
        path.map(|path| SinkEntry::File { path, rotate, fsync: fsync.unwrap_or(Fsync::None) })
    } else {
        Some(SinkEntry::Null)
    };
    section.finish();
    sink
}

fn read_filter(mut section: Section<'_>) -> Option<FilterEntry> {
    let kinds = [("accept-all", 0), ("prescale", 1), ("require-complete", 2)];
    let kind = section.choice("kind", &kinds);
    let kind = section.need("kind", kind, "for example kind = \"require-complete\"")?;
    let filter = match kind {
        0 => Some(FilterEntry::AcceptAll),
        1 => {
            let keep_every = section.count("keep_every", u32::MAX);
            section
                .need("keep_every", keep_every, "for example keep_every = 10")
                .map(|keep_every| FilterEntry::Prescale { keep_every })
        }
        _ => Some(FilterEntry::RequireComplete),
    };
    section.finish();
    filter
}
