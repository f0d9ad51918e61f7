//! `[[network.shared]]`: buffers and links that several switch ports share.

use std::collections::BTreeSet;

use evb_core::units::Bytes;
use toml::de::DeValue;

use super::section::{Notes, Section};

/// A buffer that several switch ports share: a switch's packet memory, or a trunk between switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Name of the buffer.
    pub name: String,
    /// Size of the shared buffer, in buffer bytes.
    pub buffer: Bytes,
    /// Names of the ports and shared buffers whose traffic passes through this buffer.
    pub members: Vec<String>,
}

/// Notes a problem at the position of a shared buffer's `members`.
pub(super) fn refuse_members(
    notes: &Notes,
    shared: &SharedBuffer,
    reason: String,
    remedy: impl Into<String>,
) {
    let place = notes.keys.borrow().get(&members_of(&shared.name)).cloned();
    notes.error("network.shared.members", place.unwrap_or(0..0), reason, remedy);
}

/// Returns the name under which the position of a shared buffer's `members` is stored.
fn members_of(name: &str) -> String {
    format!("network.shared.{name}.members")
}

/// Reads the list of shared buffers. Each name may occur once, and each member in one list only.
pub(super) fn read(network: &mut Section<'_>) -> Vec<SharedBuffer> {
    const KEY: &str = "shared";
    let notes = network.notes();
    let Some(given) = network.value(KEY) else { return Vec::new() };
    let DeValue::Array(tables) = given.get_ref() else {
        network.refuse(
            KEY,
            "`shared` is not a list of sections",
            "write [[network.shared]] with double brackets",
        );
        return Vec::new();
    };
    let (mut found, mut names, mut placed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for table in tables.iter() {
        let DeValue::Table(entries) = table.get_ref() else {
            network.refuse(KEY, "this is not a section", "write [[network.shared]] sections");
            continue;
        };
        let mut section = Section::new(notes, "network.shared", table.span(), Some(entries));
        let name = section.text("name", "name = \"asic\"");
        let name = section.need("name", name, "name = \"asic\"");
        let buffer = section.some_bytes("buffer");
        let buffer = section.need("buffer", buffer, "buffer = \"1 MiB\"");
        let members = section.texts("members", "members = [\"10.0.0.1\", \"10.0.0.2\"]");
        let members = section.need("members", members, "members, the names of ports (or hosts)");
        if let Some(name) = &name
            && !names.insert(name.clone())
        {
            section.refuse(
                "name",
                format!("there is a shared buffer `{name}` already"),
                "give each its own name",
            );
        }
        for member in members.iter().flatten() {
            if !placed.insert(member.clone()) {
                let reason = format!("`{member}` is a member of two shared buffers");
                section.refuse("members", reason, "list it in the one that is nearest to it");
            }
        }
        section.finish();
        if let (Some(name), Some(buffer), Some(members)) = (name, buffer, members) {
            let place = entries.get("members").map_or_else(|| table.span(), |members| members.span());
            notes.keys.borrow_mut().insert(members_of(&name), place);
            found.push(SharedBuffer { name, buffer, members });
        }
    }
    found
}
