//! Tests that the schema for editors, `dist/evb.schema.json`, has exactly the keys for which the
//! reader asks, and describes them as the documentation does.

mod descriptions;

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;
use toml::de::DeTable;

use super::{
    super::{
        read_root,
        section::{Asked, Notes},
    },
    around,
    documents::{blocks, manual, repository},
};

/// Sections for keys that no block of the documentation makes the reader ask for.
const BESIDE_THE_DOCUMENTATION: [&str; 2] = [
    "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\nfilter = \"accept-all\"\n",
    "[[source]]\nid = 1\n[source.input]\nkind = \"replay\"\npath = \"a\"\nformat = \"evb\"\nrun = \"5eed\"\n\
     on = \"multicast\"\ntrigger_group = \"239.1.2.3:7002\"\ninterface = \"127.0.0.1\"\n",
];

fn path() -> PathBuf {
    repository().join("dist/evb.schema.json")
}

fn schema() -> Value {
    let text = fs::read_to_string(path()).expect("the schema is there");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Returns the keys for which the reader asks, recorded while it reads every block of the
/// documentation.
fn asked() -> BTreeSet<Asked> {
    let manual = manual();
    let sections = blocks(&manual).into_iter().chain(BESIDE_THE_DOCUMENTATION);
    let mut asked = BTreeSet::new();
    for sections in sections {
        let text = around(sections);
        let table = DeTable::parse(&text).expect("TOML");
        let notes = Notes::default();
        assert!(read_root(&notes, table.get_ref()).is_some(), "refused:\n{text}");
        asked.extend(notes.asked.into_inner());
    }
    asked
}

/// A key of the schema: the table that has the key, and the schema of the key's value.
struct Found<'s> {
    asked: Asked,
    value: &'s Value,
}

/// Collects the keys of the schema `node`, which describes the values at `table`.
fn walk<'s>(root: &'s Value, node: &'s Value, table: &str, found: &mut Vec<Found<'s>>) {
    if let Some(reference) = node["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("all references are within the file");
        walk(root, root.pointer(pointer).expect("the reference exists"), table, found);
    }
    for combined in ["allOf", "anyOf", "oneOf"] {
        for part in node[combined].as_array().into_iter().flatten() {
            walk(root, part, table, found);
        }
    }
    if let Some(items) = node.get("items") {
        walk(root, items, table, found);
    }
    let kind = node.pointer("/properties/kind/const").and_then(Value::as_str);
    for (key, value) in node["properties"].as_object().into_iter().flatten() {
        let asked = Asked { table: table.to_owned(), kind: kind.map(str::to_owned), key: key.clone() };
        found.push(Found { asked, value });
        let path = if table.is_empty() { key.clone() } else { format!("{table}.{key}") };
        walk(root, value, &path, found);
    }
}

fn found(schema: &Value) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    walk(schema, schema, "", &mut found);
    found
}

#[test]
fn the_schema_has_the_keys_that_the_reader_asks_for_and_no_others() {
    let schema = schema();
    let known: BTreeSet<Asked> = found(&schema).into_iter().map(|found| found.asked).collect();
    let asked = asked();
    assert!(asked.len() > 100, "only {asked:?}");
    let lacking: Vec<_> = asked.difference(&known).collect();
    assert!(lacking.is_empty(), "the schema lacks keys that the reader asks for: {lacking:#?}");
    let unread: Vec<_> = known.difference(&asked).collect();
    assert!(unread.is_empty(), "the schema has keys that no reader asks for: {unread:#?}");
}

/// A table of the schema without `additionalProperties: false` would accept every typo.
#[test]
fn every_table_of_the_schema_refuses_unknown_keys() {
    let schema = schema();
    let mut nodes = vec![("", &schema)];
    nodes.extend(
        schema["definitions"].as_object().into_iter().flatten().map(|(name, node)| (name.as_str(), node)),
    );
    let keys = found(&schema);
    nodes.extend(keys.iter().map(|found| (found.asked.key.as_str(), found.value)));
    let mut tables = 0;
    for (name, node) in nodes {
        let parts = node["anyOf"].as_array().into_iter().flatten().chain(node.get("items")).chain([node]);
        for table in parts.filter(|part| part["type"] == "object") {
            assert_eq!(table["additionalProperties"], false, "{name}");
            tables += 1;
        }
    }
    assert!(tables > 20, "only {tables} tables");
}
