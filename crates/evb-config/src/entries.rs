//! `[[source]]` and `[[builder]]`: entries for one id or for many.

use std::{collections::BTreeSet, ops::Range};

use toml::de::DeValue;

use super::{section::Section, template::parse_ids};

/// A finished entry and its position in the configuration file.
pub(super) struct Placed<T> {
    pub(super) entry: T,
    pub(super) span: Range<usize>,
}

/// Reads every entry under `key`, with at most `most` ids together; an entry with several ids is
/// read once for each id.
pub(super) fn read<'t, T>(
    root: &mut Section<'t>,
    key: &'static str,
    most: usize,
    read_one: impl Fn(Section<'t>, u16) -> Option<T>,
) -> Vec<Placed<T>> {
    let notes = root.notes();
    let mut placed: Vec<Placed<T>> = Vec::new();
    let given = root.value(key);
    let Some(given) = root.need(key, given, &format!("at least one [[{key}]] section")) else {
        return placed;
    };
    let DeValue::Array(tables) = given.get_ref() else {
        root.refuse(
            key,
            format!("`{key}` is not a list of sections"),
            format!("write [[{key}]] with double brackets"),
        );
        return placed;
    };
    let mut taken = BTreeSet::new();
    for table in tables.iter() {
        let DeValue::Table(entries) = table.get_ref() else {
            notes.error(
                key,
                table.span(),
                format!("this {key} is not a section"),
                format!("write [[{key}]] sections"),
            );
            continue;
        };
        let section = || Section::new(notes, key, table.span(), Some(entries));
        let mut first = section();
        let ids = ids_of(&mut first);
        let place = if first.has("id") { "id" } else { "ids" };
        if taken.len() + ids.len() > most {
            first.refuse(
                place,
                format!("there are more than {most} {key}s, the most that a run can have"),
                "give fewer ids",
            );
            break;
        }
        if let Some(id) = ids.iter().find(|id| taken.contains(*id)) {
            first.refuse(place, format!("there is a {key} {id} already"), "give every one its own id");
        }
        taken.extend(ids.iter().copied());
        let before = notes.count();
        for id in ids {
            let mut section = section();
            // These keys are known, and were read above, once for all ids.
            ["id", "ids"].into_iter().for_each(|key| {
                section.value(key);
            });
            if let Some(entry) = read_one(section.for_id(id), id) {
                placed.push(Placed { entry, span: table.span() });
            }
            if notes.count() > before {
                break; // The other ids of this entry would give the same message.
            }
        }
    }
    placed
}

/// Returns the ids of one entry. If the ids are invalid, notes a problem and returns no ids.
fn ids_of(section: &mut Section<'_>) -> Vec<u16> {
    let one = section.whole("id", 0..=u64::from(u16::MAX));
    let many = section.text("ids", "ids = \"1-22\"");
    if section.has("id") && section.has("ids") {
        section.refuse("ids", "both `id` and `ids`", "keep one of them");
        return Vec::new();
    }
    if let Some(id) = one {
        return u16::try_from(id).into_iter().collect();
    }
    let Some(many) = many else {
        if !section.has("id") && !section.has("ids") {
            section.refuse("id", "this entry has no `id`", "add for example id = 1, or ids = \"1-22\"");
        }
        return Vec::new();
    };
    parse_ids(&many).unwrap_or_else(|error| {
        section.refuse("ids", error.to_string(), "write for example ids = \"1-22\" or ids = \"1-4, 7\"");
        Vec::new()
    })
}
