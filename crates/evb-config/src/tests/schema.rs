//! The schema for editors, `dist/evb.schema.json`, which is made from the structs that serde reads.
//! With `EVB_BLESS=1` in the environment, a test writes the file.

mod manual;
mod shown;

use std::{collections::BTreeSet, env, fs};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::documents::repository;
use crate::{
    AlignmentConfig, BuilderEntry, ControlConfig, HooksConfig, NetworkConfig, RunConfig, SupervisorConfig,
    entries::Ids,
    group, security, shaping, source,
    trunk::{LinkTable, SharedTable},
};

/// One event builder system: every source, every builder and the supervisor.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct File {
    /// The run's number, and the conditions that end it.
    run: Option<RunConfig>,
    /// Triggers, assignment of events to builders, and time limits.
    supervisor: SupervisorConfig,
    /// Access to run control over HTTP.
    control: Option<ControlConfig>,
    /// Programs of yours that run when something happens.
    hooks: Option<HooksConfig>,
    /// The network between sources and builders.
    network: Option<Network>,
    /// The rules by which sources may send.
    shaping: Option<shaping::GivenShaping>,
    /// The comparison of the timestamps of sources with a [clock](#clock).
    alignment: Option<AlignmentConfig>,
    /// The rules by which hosts trust each other.
    security: Option<security::GivenSecurity>,
    /// The readout sources.
    source: Vec<Entry<source::GivenSource>>,
    /// The groups of sources.
    group: Option<Vec<group::GroupTable>>,
    /// The event builders.
    builder: Vec<Entry<BuilderEntry>>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Network {
    #[schemars(flatten)]
    keys: NetworkConfig,
    /// The links between switches, in sections `[[network.trunk]]`; see *Trunks* after this table.
    ///
    /// Default: none
    trunk: Option<Vec<LinkTable>>,
    /// The buffers that several ports share, in sections `[[network.shared]]`; see *Shared buffers*
    /// after this table.
    ///
    /// Default: none
    shared: Option<Vec<SharedTable>>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Entry<T> {
    #[schemars(flatten)]
    ids: Ids,
    #[schemars(flatten)]
    keys: T,
}

/// Returns the schema whose descriptions are the doc comments, each in one line.
fn described() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<File>().to_value();
    visit(&mut schema, &mut finish);
    for section in ["source", "builder"] {
        let entry = &mut schema["properties"][section]["items"];
        let ids = ["id", "ids"].map(|key| (key, entry["properties"][key].clone()));
        visit(entry, &mut accept_templates);
        ids.into_iter().for_each(|(key, value)| entry["properties"][key] = value);
        entry["oneOf"] = json!([{ "required": ["id"] }, { "required": ["ids"] }]);
    }
    schema
}

/// Returns the schema for editors, whose descriptions are short.
fn schema() -> Value {
    let mut schema = described();
    visit(&mut schema, &mut |keys| {
        if let Some(Value::String(description)) = keys.get_mut("description") {
            *description = short(description);
        }
    });
    schema
}

/// Calls a function for every object of the schema, the inner ones first.
fn visit(node: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    match node {
        Value::Array(nodes) => nodes.iter_mut().for_each(|node| visit(node, change)),
        Value::Object(keys) => {
            keys.values_mut().for_each(|node| visit(node, change));
            change(keys);
        }
        _ => {}
    }
}

/// Closes tables, and removes what TOML does not know or descriptions say in words: nulls, formats
/// and defaults.
fn finish(keys: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = keys.get_mut("description") {
        *description = description.replace("\n\n", "\r").replace('\n', " ").replace('\r', "\n");
    }
    keys.retain(|key, value| {
        !(key == "default" || ["format", "title"].contains(&key.as_str()) && value.is_string())
    });
    if let Some(types) = keys.get_mut("type").filter(|types| types.is_array()) {
        *types = types[0].take();
    }
    if let Some(Value::Array(choices)) = keys.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if choices.len() == 1 {
            let mut only = choices.remove(0);
            keys.remove("anyOf");
            only.as_object_mut().into_iter().for_each(|only| {
                only.append(keys);
                keys.append(only);
            });
        }
    }
    if keys.get("oneOf").is_some_and(|kinds| kinds[0].pointer("/properties/kind/const").is_some()) {
        accept_short_kinds(keys);
    }
    if keys.get("properties").is_some_and(Value::is_object) && keys.get("type") == Some(&json!("object")) {
        keys.insert("additionalProperties".to_owned(), false.into());
    }
}

/// Accepts the kinds that need no other key as text, in place of a table.
fn accept_short_kinds(keys: &mut Map<String, Value>) {
    let Some(Value::Array(mut tables)) = keys.remove("oneOf") else { return };
    for table in &mut tables {
        let kind = table["properties"]["kind"]["const"].take();
        table["properties"]["kind"] = json!({ "const": kind, "description": table["description"] });
    }
    let is_short = |table: &&Value| table["required"] == json!(["kind"]) && table.get("oneOf").is_none();
    let kinds: Vec<&Value> =
        tables.iter().filter(is_short).map(|table| &table["properties"]["kind"]["const"]).collect();
    if !kinds.is_empty() {
        let description = "The kind as text, for kinds that need no other key.";
        let short = json!({ "description": description, "enum": kinds });
        tables.insert(0, short);
    }
    keys.insert("anyOf".to_owned(), tables.into());
}

/// Accepts `{id}` in a value of an entry.
fn accept_templates(keys: &mut Map<String, Value>) {
    if let Some(Value::String(pattern)) = keys.get_mut("pattern") {
        *pattern = format!("^({}|.*\\{{.*)$", pattern.trim_matches(['^', '$']));
    }
    if keys.get("type") == Some(&json!("integer")) {
        let mut number = std::mem::take(keys);
        keys.extend(number.remove_entry("description"));
        let text = json!({ "type": "string", "pattern": "^([0-9]+|.*\\{.*)$" });
        keys.insert("anyOf".to_owned(), json!([number, text]));
    }
}

/// Divides a doc comment into the meaning of a key and, if it says so, the default: for what, and
/// which.
fn parts(description: &str) -> (&str, Option<(&str, &str)>) {
    match description.split_once("\nDefault") {
        Some((meaning, default)) => (meaning, default.split_once(": ")),
        None => (description, None),
    }
}

/// Returns the first sentence of a key's meaning, and its default. If the sentence is about one
/// value of the key, the others are about the other values, so all of them are returned.
fn short(description: &str) -> String {
    let (meaning, default) = parts(description);
    let meaning = plain(meaning);
    let end = if meaning.starts_with("With ") { None } else { meaning.split_once(". ") };
    let sentence = end.map_or_else(|| meaning.trim_end_matches('.'), |(first, _)| first);
    match default {
        Some((of, default)) if default != "none" && !default.contains("required") => {
            format!("{sentence}. Default{of}: {}.", plain(default))
        }
        _ => format!("{sentence}."),
    }
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

/// A key of the schema: its path without the kinds, and the schema of its value.
type Key<'s> = (String, &'s Value);

/// Collects the keys of the schema `node`, which describes the values at `path`.
fn walk<'s>(node: &'s Value, path: &str, keys: &mut Vec<Key<'s>>) {
    let parts = ["anyOf", "oneOf"].iter().filter_map(|key| node[key].as_array()).flatten();
    parts.chain(node.get("items")).for_each(|part| walk(part, path, keys));
    for (key, value) in node["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        keys.push((path.clone(), value));
        walk(value, &path, keys);
    }
}

fn keys(schema: &Value) -> Vec<Key<'_>> {
    let mut keys = Vec::new();
    walk(schema, "", &mut keys);
    keys
}

/// Returns the paths of all keys that a configuration may have.
pub(super) fn paths() -> BTreeSet<String> {
    keys(&schema()).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn the_schema_is_that_of_the_structs() {
    let path = repository().join("dist/evb.schema.json");
    let made = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(&path, &made).expect("writable");
    }
    let kept = fs::read_to_string(&path).expect("the schema is there");
    assert!(kept == made, "dist/evb.schema.json is out of date: EVB_BLESS=1 cargo test -p evb-config schema");
}

#[test]
fn every_key_of_the_schema_has_a_description() {
    let schema = schema();
    let keys = keys(&schema);
    assert!(keys.len() > 100, "only {} keys", keys.len());
    for (path, value) in keys {
        let text = value["description"].as_str().unwrap_or_default();
        assert!(text.ends_with('.') && text.len() > 5, "{path} has the description {text:?}");
    }
}

/// A table of the schema without `additionalProperties: false` would accept every typo.
#[test]
fn every_table_of_the_schema_refuses_unknown_keys() {
    let mut tables = 0;
    visit(&mut schema(), &mut |keys| {
        if keys.get("type") == Some(&json!("object")) {
            assert_eq!(keys["additionalProperties"], false, "{keys:?}");
            tables += 1;
        }
    });
    assert!(tables > 20, "only {tables} tables");
}
