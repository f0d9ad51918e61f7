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
    /// Its id.
    pub id: BuilderId,
    /// Where it listens for sources.
    pub listen: Endpoint,
    /// Where its events go.
    pub sink: SinkEntry,
    /// Which events go there.
    pub filter: FilterEntry,
    /// The name of the switch port that it shares with others; `None`: with those of the same host.
    pub port: Option<String>,
    /// The pace of each lane towards it, in place of the general one.
    pub rate: Option<Rate>,
    /// Its share of the port's budget: what its sources together may have on the way to it, in buffer bytes.
    pub budget: Bytes,
    /// The memory that it may use for events; `None`: its share of the machine's.
    pub memory: Option<Bytes>,
    /// How long a sink that does not take events is tried on when the run is ending.
    pub give_up: Duration,
    /// The processor core that it runs on; `None`: any.
    pub core: Option<usize>,
    /// Whether it goes before other programs there; `None`: if its port empties quickly.
    pub precedence: Option<bool>,
}

impl BuilderEntry {
    /// What tells the switch ports apart: builders of one name share one port.
    pub fn port_name(&self) -> &str {
        self.port.as_deref().unwrap_or(&self.listen.host)
    }
}

/// Where built events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkEntry {
    /// Into event files.
    File {
        /// Their directory, relative to the current one.
        path: PathBuf,
        /// The size at which the next file is begun.
        rotate: Bytes,
        /// When the disk is waited for.
        fsync: Fsync,
    },
    /// Nowhere.
    Null,
}

/// When the disk is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Never: what is written survives a killed process.
    None,
    /// Before an event counts as committed: it survives a power cut.
    Commit,
}

/// Which events go to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterEntry {
    /// All.
    AcceptAll,
    /// One of so many.
    Prescale {
        /// Of this many events one is kept.
        keep_every: u32,
    },
    /// Those that miss no fragment.
    RequireComplete,
}

/// How long a full disk is waited for at the end of a run.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Where files rotate if nothing is said.
const ROTATE: Bytes = Bytes::mib(1024);
/// A file smaller than that is no use.
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
                format!("a file would end after {rotate}"),
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
