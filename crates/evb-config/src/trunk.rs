//! `[[network.trunk]]` and `[[network.shared]]`: links between switches, and buffers that several
//! ports share.

use std::collections::BTreeSet;

use evb_core::units::{Bytes, Rate};
use serde::Deserialize;

use super::{
    forms::{As, DataRate, Positive},
    section::{Notes, Section},
};

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

/// `[[network.trunk]]`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LinkTable {
    /// The name of the trunk.
    name: String,
    /// The rate of each direction, in line bytes.
    #[serde(default, with = "As::<DataRate>")]
    rate: Option<Rate>,
    /// The buffer of the switch port at each end, in buffer bytes.
    #[serde(default, with = "As::<Positive<Bytes>>")]
    buffer: Option<Bytes>,
    /// Hosts, addresses, ports, lists such as `sources 1-4`, and other trunks at the far end of the
    /// trunk.
    #[cfg_attr(test, schemars(length(min = 1)))]
    members: Vec<String>,
}

/// `[[network.shared]]`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SharedTable {
    /// The name of the shared buffer.
    name: String,
    /// The size of the shared buffer, in buffer bytes.
    #[serde(with = "As::<Positive<Bytes>>")]
    buffer: Bytes,
    /// Ports, by the name that `port` of a builder gives or by host, or other shared buffers.
    #[cfg_attr(test, schemars(length(min = 1)))]
    members: Vec<String>,
}

impl From<LinkTable> for Trunk {
    fn from(LinkTable { name, rate, buffer, members }: LinkTable) -> Self {
        Self { name, kind: TrunkKind::Link, rate, buffer, members }
    }
}

impl From<SharedTable> for Trunk {
    fn from(SharedTable { name, buffer, members }: SharedTable) -> Self {
        Self { name, kind: TrunkKind::Buffer, rate: None, buffer: Some(buffer), members }
    }
}

/// Reads the trunks, then the shared buffers. Each name may occur once.
pub(super) fn read(network: &Section<'_>) -> Vec<Trunk> {
    let mut names = BTreeSet::new();
    let link = |section: &Section<'_>| section.read::<LinkTable>().map(Trunk::from);
    let shared = |section: &Section<'_>| section.read::<SharedTable>().map(Trunk::from);
    let links = network.list("trunk").into_iter().map(|section| (link(&section), section));
    let buffers = network.list("shared").into_iter().map(|section| (shared(&section), section));
    links.chain(buffers).filter_map(|(trunk, section)| checked(trunk?, &section, &mut names)).collect()
}

/// Checks a trunk, and remembers where its keys are in the file.
fn checked(trunk: Trunk, section: &Section<'_>, names: &mut BTreeSet<String>) -> Option<Trunk> {
    let kind = trunk.kind;
    if kind == TrunkKind::Link && !section.has("rate") && !section.has("buffer") {
        let reason = "a trunk without `rate` and `buffer` limits nothing";
        section.refuse("rate", reason, "add for example rate = \"10 Gbit/s\"");
    }
    if section.is_good("members") && trunk.members.is_empty() {
        let reason = format!("a {} without members carries nothing", kind.word());
        let remedy = match kind {
            TrunkKind::Link => "list hosts, ports or other trunks, or remove the section",
            TrunkKind::Buffer => "list ports or other shared buffers, or remove the section",
        };
        section.refuse("members", reason, remedy);
    }
    if section.is_good("name") && !names.insert(trunk.name.clone()) {
        let reason = format!("there is a trunk or shared buffer `{}` already", trunk.name);
        section.refuse("name", reason, "give each its own name");
        return None;
    }
    let trunk = section.finish(trunk)?;
    for key in ["name", "rate", "buffer", "members"] {
        let span = section.value(key).map_or_else(|| section.span(), |value| value.span());
        let path = format!("{}.{key}", kind.path());
        section.notes().keys.borrow_mut().insert(place_of(&path, &trunk.name), span);
    }
    Some(trunk)
}
