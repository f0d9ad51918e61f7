//! `[[builder]]`: one event builder, its filter and its sink.

use std::{path::PathBuf, time::Duration};

use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};

use super::{endpoint::Endpoint, input::path, section::Section, source::core};

/// One event builder.
#[derive(Clone, Debug, PartialEq)]
pub struct BuilderEntry {
    /// Id of the builder.
    pub id: BuilderId,
    /// Address at which it listens for sources.
    pub listen: Endpoint,
    /// Destination of its events.
    pub sink: SinkEntry,
    /// Selection of the events that go to the sink.
    pub filter: FilterEntry,
    /// Name of the switch port that it shares with others; `None`: the port of its host.
    pub port: Option<String>,
    /// Pace of each lane towards it, instead of that of `[shaping]`.
    pub rate: Option<Rate>,
    /// Its share of the port's budget: the buffer bytes that its sources together may have under
    /// way.
    pub budget: Bytes,
    /// Memory that it may use for events; `None`: its share of the machine's memory.
    pub memory: Option<Bytes>,
    /// Time for which a failing sink is retried after the end of the run was requested.
    pub give_up: Duration,
    /// Processor core that it runs on; `None`: any.
    pub core: Option<usize>,
    /// True if its thread runs ahead of other programs; `None`: true if its port empties quickly.
    pub precedence: Option<bool>,
}

impl BuilderEntry {
    /// Returns the name of its switch port. Builders with the same name share one port.
    pub fn port_name(&self) -> &str {
        self.port.as_deref().unwrap_or(&self.listen.host)
    }
}

/// The destination of built events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkEntry {
    /// Event files.
    File {
        /// Directory of the files, relative to the current one.
        path: PathBuf,
        /// Size at which the next file is begun.
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
    /// Never: what was written survives a killed process.
    None,
    /// Before an event counts as committed: it survives a power cut.
    Commit,
}

/// The events that a filter passes on to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterEntry {
    /// All events.
    AcceptAll,
    /// One event in `keep_every`.
    Prescale {
        /// Number of events of which one is kept.
        keep_every: u32,
    },
    /// Events without missing fragments.
    RequireComplete,
}

/// Default time for which a failing sink is retried after the end of the run was requested.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Default size at which event files rotate.
const ROTATE: Bytes = Bytes::mib(1024);
/// Smallest size at which files may rotate; smaller ones would hold too few events each.
const LEAST_ROTATE: Bytes = Bytes::kib(4);

pub(super) fn read(mut section: Section<'_>, id: u16) -> Option<BuilderEntry> {
    let listen = section.peer_endpoint("listen");
    let listen = section.need("listen", listen, "for example listen = \"127.0.0.1:7101\"");
    let given = section.kinded("sink");
    let sink = section
        .need("sink", given, "for example sink = { kind = \"file\", path = \"out\" }, or sink = \"null\"")
        .and_then(read_sink);
    let filter = section.kinded("filter").map_or(Some(FilterEntry::AcceptAll), read_filter);
    let port = section.text("port", "the name of a switch port");
    let rate = section.rate("rate");
    let memory = section.some_bytes("memory");
    let give_up = section.duration("give_up").unwrap_or(GIVE_UP);
    let core = core(&mut section);
    let precedence = section.flag("precedence");
    section.keep_place("listen");
    section.finish();
    let (listen, sink, filter) = (listen?, sink?, filter?);
    Some(BuilderEntry {
        id: BuilderId::new(id),
        listen,
        sink,
        filter,
        port,
        rate,
        budget: Bytes::ZERO,
        memory,
        give_up,
        core,
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
