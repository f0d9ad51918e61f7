//! `name`: the name of a source or builder, for people.

use std::collections::BTreeMap;

use evb_core::{id::Peer, wire::control::MAX_NAME};

use super::{
    problem::place_of,
    section::{Notes, Section},
};

/// Reads the name of an entry; `None` if it has no name, or an impossible one.
pub(super) fn read(section: &mut Section<'_>) -> Option<String> {
    let name = section.text("name", "for example name = \"TPC crate 1\"")?;
    let (reason, remedy) = if name.trim().is_empty() {
        ("the name is empty".to_owned(), "write a name, or remove the key".to_owned())
    } else if name.len() > MAX_NAME {
        (format!("the name has {} bytes", name.len()), format!("use at most {MAX_NAME} bytes"))
    } else if name.contains(char::is_control) {
        ("the name has a control character".to_owned(), "use printable characters on one line".to_owned())
    } else {
        section.keep_place("name");
        return Some(name);
    };
    section.refuse("name", reason, remedy);
    None
}

/// Refuses equal names of the sources, or of the builders; `key` is the path of their `name`.
pub(super) fn refuse_equal<'a>(
    notes: &Notes,
    key: &str,
    named: impl Iterator<Item = (Peer, u16, Option<&'a String>)>,
) {
    let mut taken: BTreeMap<&str, Peer> = BTreeMap::new();
    for (peer, id, name) in named {
        let Some(name) = name else { continue };
        if let Some(other) = taken.insert(name, peer) {
            let span = notes.keys.borrow().get(&place_of(key, id)).cloned().unwrap_or(0..0);
            let reason = format!("{other} and {peer} both have the name `{name}`");
            notes.error(
                key,
                span,
                reason,
                "give each its own name; with `ids`, write for example \"crate {id}\"",
            );
            break; // The other ids of the entry would give the same message.
        }
    }
}
