//! `[[source]]` and `[[builder]]`: entries for one id or for many.

use std::{collections::BTreeSet, ops::Range};

use serde::Deserialize;

use super::{
    forms::{As, Form, KEY, Whole, wrong},
    section::Section,
    template::parse_ids,
};

/// A finished entry and its position in the configuration file.
pub(super) struct Placed<T> {
    pub(super) entry: T,
    pub(super) span: Range<usize>,
}

/// The ids of an entry.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Ids {
    /// The number, 0 to 65535.
    #[serde(default, with = "Whole::<0, 65_535>")]
    id: Option<u16>,
    /// The numbers of many: ids and ranges of ids.
    #[serde(default, with = "As::<IdList>")]
    ids: Option<Vec<u16>>,
}

/// Ids and ranges of ids.
pub(super) struct IdList;

impl Form for IdList {
    type Value = Vec<u16>;
    const EXAMPLE: &'static str = "1-22";

    fn parse(text: &str) -> Result<Vec<u16>, String> {
        let remedy = format!("write for example {KEY} = \"1-22\" or {KEY} = \"1-4, 7\"");
        parse_ids(text).map_err(|error| wrong(error, remedy))
    }

    fn hint() -> String {
        format!("{KEY} = \"1-22\"")
    }
}

/// Reads every entry under `key`, with at most `most` ids together; an entry with several ids is
/// read once for each id.
pub(super) fn read<'t, T>(
    root: &Section<'t>,
    key: &'static str,
    most: usize,
    read_one: impl Fn(&Section<'t>, u16) -> Option<T>,
) -> Vec<Placed<T>> {
    if !root.has(key) {
        root.refuse_lack(key);
    }
    let mut placed: Vec<Placed<T>> = Vec::new();
    let mut taken = BTreeSet::new();
    for mut section in root.list(key) {
        let ids = ids_of(&section);
        let place = if section.has("id") { "id" } else { "ids" };
        let count = taken.len() + ids.len();
        if count > most {
            let reason = format!(
                "the file has more than {most} {key}s, the most that a run can have: it has {count} up to this entry"
            );
            section.refuse(place, reason, format!("give at most {most} ids to all {key}s together"));
            break;
        }
        if let Some(id) = ids.iter().find(|id| taken.contains(*id)) {
            section.refuse(
                place,
                format!("there is a {key} {id} already"),
                format!("give every {key} an id of its own"),
            );
        }
        taken.extend(ids.iter().copied());
        let before = root.notes().count();
        for id in ids {
            section = section.apart(&["id", "ids"]).for_id(id);
            if let Some(entry) = read_one(&section, id) {
                placed.push(Placed { entry, span: section.span() });
            }
            if root.notes().count() > before {
                break; // The other ids of this entry would give the same message.
            }
        }
    }
    placed
}

/// Returns the ids of one entry. If the ids are invalid, notes a problem and returns no ids.
fn ids_of(section: &Section<'_>) -> Vec<u16> {
    match (section.has("id"), section.has("ids")) {
        (true, true) => section.refuse(
            "ids",
            "this entry has both `id` and `ids`",
            "keep `id` for a single entry, or `ids` for many, and remove the other",
        ),
        (false, false) => {
            section.refuse("id", "this entry has no `id`", "add for example id = 1, or ids = \"1-22\"");
        }
        _ => {
            let given = section.read_part::<Ids>();
            return given.and_then(|given| given.id.map(|id| vec![id]).or(given.ids)).unwrap_or_default();
        }
    }
    Vec::new()
}
