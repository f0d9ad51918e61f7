//! `[[source]]` and `[[builder]]`: one entry for one id or for many.

use std::ops::Range;

use toml::de::DeValue;

use super::{section::Section, template::parse_ids};

/// More than any such system has, and few enough to expand.
const MOST: usize = 4096;

/// An id's finished entry, and where it stands.
pub(super) struct Placed<T> {
    pub(super) entry: T,
    pub(super) id: u16,
    pub(super) span: Range<usize>,
}

/// Reads every entry under `key`, once for each of its ids.
pub(super) fn read<'t, T>(
    root: &mut Section<'t>,
    key: &'static str,
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
    for table in tables.iter() {
        let DeValue::Table(entries) = table.get_ref() else {
            notes.error(
                key,
                table.span(),
                format!("this {key} is no section"),
                format!("write [[{key}]] sections"),
            );
            continue;
        };
        let section = || {
            let mut section = Section::new(notes, key, table.span(), Some(entries));
            let ids = ids_of(&mut section);
            (section, ids)
        };
        let (first, ids) = section();
        if placed.len() + ids.len() > MOST {
            first.refuse("ids", format!("more than {MOST} entries of `{key}`"), "give fewer ids");
            break;
        }
        let before = notes.count();
        for id in ids {
            if placed.iter().any(|other| other.id == id) {
                duplicate(&first, key, id);
            }
            let (section, _) = section();
            if let Some(entry) = read_one(section.for_id(id), id) {
                placed.push(Placed { entry, id, span: table.span() });
            }
            if notes.count() > before {
                break; // The other ids would say the same.
            }
        }
    }
    placed
}

fn duplicate(section: &Section<'_>, key: &str, id: u16) {
    let place = if section.has("id") { "id" } else { "ids" };
    section.refuse(place, format!("there are two of {key} {id}"), "give every one its own id");
}

/// The ids of one entry; empty if they are wrong, which has then been noted.
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
