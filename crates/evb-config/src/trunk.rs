//! `[[network.trunk]]` and `[[network.shared]]`: links between switches, and buffers that several
//! ports share.

use std::collections::BTreeSet;

use evb_core::units::{Bytes, Rate};
use toml::de::DeValue;

use super::section::{Notes, Section};

/// A link between switches, or a buffer that several switch ports share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Name of the trunk.
    pub name: String,
    /// Kind of the trunk.
    pub kind: TrunkKind,
    /// Rate of each direction, in line bytes; `None`: the trunk limits no rate.
    pub rate: Option<Rate>,
    /// Buffer of each direction, in buffer bytes; `None`: the trunk limits no bytes under way.
    pub buffer: Option<Bytes>,
    /// Hosts, addresses, ports, sources, builders and other trunks behind the trunk.
    pub members: Vec<String>,
}

/// The kind of a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrunkKind {
    /// `[[network.trunk]]`: a link with two directions, which sources and builders may be behind.
    Link,
    /// `[[network.shared]]`: a buffer that all data to the builders behind it pass, such as a
    /// switch's packet memory. Only builders are behind it.
    Buffer,
}

impl TrunkKind {
    /// Returns the path of the section in the configuration.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Link => "network.trunk",
            Self::Buffer => "network.shared",
        }
    }

    /// Returns the name of the kind in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Link => "trunk",
            Self::Buffer => "shared buffer",
        }
    }
}

impl Trunk {
    /// Notes a problem at the position of one of the trunk's keys.
    pub(super) fn refuse(&self, notes: &Notes, key: &str, reason: String, remedy: impl Into<String>) {
        let path = format!("{}.{key}", self.kind.path());
        let place = notes.keys.borrow().get(&place_of(&path, &self.name)).cloned();
        notes.error(&path, place.unwrap_or(0..0), reason, remedy);
    }
}

/// Returns the name under which the position of a trunk's key is stored.
fn place_of(path: &str, name: &str) -> String {
    format!("{path}#{name}")
}

/// Reads the trunks, then the shared buffers. Each name may occur once.
pub(super) fn read(network: &mut Section<'_>) -> Vec<Trunk> {
    let mut trunks = Vec::new();
    let mut names = BTreeSet::new();
    for (key, kind) in [("trunk", TrunkKind::Link), ("shared", TrunkKind::Buffer)] {
        let Some(given) = network.value(key) else { continue };
        let DeValue::Array(tables) = given.get_ref() else {
            let reason = format!("`{key}` is not a list of sections");
            network.refuse(key, reason, format!("write [[network.{key}]] with double brackets"));
            continue;
        };
        for table in tables.iter() {
            let DeValue::Table(entries) = table.get_ref() else {
                network.refuse(key, "this is not a section", format!("write [[network.{key}]] sections"));
                continue;
            };
            let section = Section::new(network.notes(), kind.path(), table.span(), Some(entries));
            let trunk = read_one(section, kind, &mut names);
            if let Some(trunk) = trunk {
                for key in ["name", "rate", "buffer", "members"] {
                    let span = entries.get(key).map_or_else(|| table.span(), |value| value.span());
                    let path = format!("{}.{key}", kind.path());
                    network.notes().keys.borrow_mut().insert(place_of(&path, &trunk.name), span);
                }
                trunks.push(trunk);
            }
        }
    }
    trunks
}

fn read_one(mut section: Section<'_>, kind: TrunkKind, names: &mut BTreeSet<String>) -> Option<Trunk> {
    let name = section.text("name", "name = \"core\"");
    let name = section.need("name", name, "name = \"core\"");
    let rate = if kind == TrunkKind::Link { section.rate("rate") } else { None };
    let buffer = section.some_bytes("buffer");
    let buffer = match kind {
        TrunkKind::Link => buffer,
        TrunkKind::Buffer => Some(section.need("buffer", buffer, "buffer = \"1 MiB\"")?),
    };
    if kind == TrunkKind::Link && !section.has("rate") && !section.has("buffer") {
        section.refuse(
            "rate",
            "a trunk without `rate` and `buffer` limits nothing",
            "add rate = \"10 Gbit/s\"",
        );
    }
    let members = section.texts("members", "members = [\"10.0.0.1\", \"10.0.0.2\"]");
    let members = section.need("members", members, "members, the names of hosts, ports or other trunks");
    if members.as_ref().is_some_and(Vec::is_empty) {
        let reason = format!("a {} without members carries nothing", kind.word());
        section.refuse("members", reason, "list hosts, ports or other trunks, or remove the section");
    }
    if let Some(name) = &name
        && !names.insert(name.clone())
    {
        let reason = format!("there is a trunk or shared buffer `{name}` already");
        section.refuse("name", reason, "give each its own name");
        return None;
    }
    section.finish();
    Some(Trunk { name: name?, kind, rate, buffer, members: members? })
}
