//! Compares the descriptions in the schema with the tables of the documentation. With `EVB_BLESS=1`
//! in the environment, the test writes the descriptions instead.

use std::{env, fs};

use serde_json::Value;

use super::{super::documents::manual, found, path, schema};

/// A key in a table of the documentation: a JSON pointer to its schema, and its description.
struct Row {
    pointer: String,
    description: String,
}

/// Returns the rows of all tables that have a column "key" as the first one, and are in the part of
/// the documentation about one section of the file.
fn rows(manual: &str, schema: &Value) -> Vec<Row> {
    let (mut table, mut default, mut rows) = (None, "", Vec::new());
    for line in manual.lines() {
        if line.starts_with('#') {
            table = line.split_once("`[").and_then(|(_, rest)| rest.split_once("]`"));
        }
        if !line.starts_with('|') {
            default = "";
        }
        let Some((name, _)) = table else { continue };
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [keys, given, meaning] = cells[..] else { continue };
        if keys == "key" || keys == "key of a class" {
            default = given;
        } else if keys.starts_with('`') && !default.is_empty() {
            let description = description(meaning, default, given);
            rows.extend(keys.split(", ").map(|key| Row {
                pointer: format!("{}/properties/{}", pointer(name, schema), key.trim_matches('`')),
                description: description.clone(),
            }));
        }
    }
    rows
}

/// Returns the JSON pointer to the schema of a section, such as `shaping` or `[source]`.
fn pointer(section: &str, schema: &Value) -> String {
    if section == "shaping.classes" {
        return "/definitions/class".to_owned();
    }
    let table = format!("/properties/{}", section.trim_matches(['[', ']']));
    let items = format!("{table}/items");
    if schema.pointer(&items).is_some() { items } else { table }
}

/// Returns the first sentence of a key's meaning, and its default. If the sentence is about one
/// value of the key, the others are about the other values, so all of them are returned.
fn description(meaning: &str, default: &str, given: &str) -> String {
    let meaning = plain(meaning);
    let end = if meaning.starts_with("With ") { None } else { meaning.split_once(". ") };
    let sentence = end.map_or_else(|| meaning.trim_end_matches('.'), |(first, _)| first);
    let given = plain(given);
    if ["–", "none"].contains(&given.as_str()) || given.contains("required") {
        return format!("{sentence}.");
    }
    let mut default = default.to_owned();
    default.replace_range(..1, "D");
    format!("{sentence}. {default}: {given}.")
}

/// Replaces Markdown's links by their texts.
fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("](") {
        let (outside, link) = before.rsplit_once('[').unwrap_or((before, ""));
        plain.push_str(outside);
        plain.push_str(link);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[test]
fn the_schema_describes_the_keys_as_the_documentation_does() {
    let mut schema = schema();
    let rows = rows(&manual(), &schema);
    assert!(rows.len() > 60, "only {} rows", rows.len());
    let bless = env::var_os("EVB_BLESS").is_some();
    for row in rows {
        let node = schema.pointer_mut(&row.pointer).unwrap_or_else(|| panic!("no {}", row.pointer));
        if bless {
            node["description"] = Value::String(row.description.clone());
        }
        assert_eq!(node["description"], row.description.as_str(), "{}; bless with EVB_BLESS=1", row.pointer);
    }
    if bless {
        let text = serde_json::to_string_pretty(&schema).expect("JSON");
        // The other tests read the file at the same time.
        let new = path().with_extension("new");
        fs::write(&new, text + "\n").and_then(|()| fs::rename(new, path())).expect("writable");
    }
}

#[test]
fn every_key_of_the_schema_has_a_description() {
    let schema = schema();
    for found in found(&schema) {
        let text = found.value["description"].as_str().unwrap_or_default();
        assert!(text.ends_with('.'), "{:?} has the description {text:?}", found.asked);
    }
}
