//! `name`: the name of a source or builder, for people.

use std::collections::BTreeMap;

use evb_core::{id::Peer, wire::control::MAX_NAME};

use super::{
    forms::{Form, wrong},
    problem::place_of,
    section::Notes,
};

/// The name of an entry.
pub(super) struct Name;

impl Form for Name {
    type Value = String;
    const EXAMPLE: &'static str = "TPC crate 1";

    /// Accepts a short printable name that is not empty.
    fn parse(name: &str) -> Result<String, String> {
        if name.trim().is_empty() {
            Err(wrong("the name is empty", "write a name, or remove the key"))
        } else if name.len() > MAX_NAME {
            let reason = format!("the name has {} bytes", name.len());
            Err(wrong(reason, format_args!("use at most {MAX_NAME} bytes")))
        } else if name.contains(char::is_control) {
            Err(wrong("the name has a control character", "use printable characters on one line"))
        } else {
            Ok(name.to_owned())
        }
    }
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
