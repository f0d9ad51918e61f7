//! The tables of `docs/reference/configuration.md`, whose rows are the doc comments of the structs
//! that serde reads. With `EVB_BLESS=1` in the environment, a test writes the rows.

use std::{collections::BTreeSet, env, fs};

use serde_json::Value;

use super::{super::documents::repository, described};

/// Returns the JSON pointer to the schema of a section, such as `shaping` or `[source]`.
fn pointer(section: &str) -> String {
    let name = section.trim_matches(['[', ']']);
    match section {
        "shaping.classes" => "/properties/shaping/properties/classes/properties/data".to_owned(),
        _ if name != section => format!("/properties/{name}/items"),
        _ => format!("/properties/{name}"),
    }
}

/// Returns the row of a key.
fn row(key: &str, table: &Value) -> String {
    let description = table["properties"][key]["description"].as_str().unwrap_or_default();
    let (meaning, default) = super::parts(description);
    let is_required = table["required"].as_array().is_some_and(|keys| keys.iter().any(|one| one == key));
    let default = default.map_or(if is_required { "required" } else { "–" }, |(_, default)| default);
    format!("| `{key}` | {default} | {meaning} |")
}

/// Returns the documentation with the rows of all keys. Rows of several keys, such as `id` and
/// `ids`, stay as they are, and new keys come last in their table.
fn with_rows(manual: &str, schema: &Value) -> String {
    let (mut lines, mut section, mut is_table) = (Vec::new(), None, false);
    let mut missing: BTreeSet<&str> = BTreeSet::new();
    for line in manual.lines() {
        if line.starts_with('#') {
            section = line.split_once("`[").and_then(|(_, rest)| rest.split_once("]`"));
        }
        let table = section.and_then(|(name, _)| schema.pointer(&pointer(name)));
        if !line.starts_with('|') && is_table {
            is_table = false;
            let table = table.expect("the section has a schema");
            lines.extend(std::mem::take(&mut missing).into_iter().map(|key| row(key, table)));
        }
        let first = line.trim_matches('|').split(" | ").next().unwrap_or_default().trim();
        if let Some(table) = table.filter(|_| first == "key" || first == "key of a class") {
            is_table = true;
            missing = table["properties"]
                .as_object()
                .into_iter()
                .flat_map(|keys| keys.keys())
                .map(String::as_str)
                .collect();
            ["id", "ids"].iter().for_each(|key| _ = missing.remove(key));
        }
        match table.filter(|_| is_table && missing.remove(first.trim_matches('`'))) {
            Some(table) => lines.push(row(first.trim_matches('`'), table)),
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_tables_of_the_documentation_are_the_doc_comments() {
    let path = repository().join("docs/reference/configuration.md");
    let kept = fs::read_to_string(&path).expect("the documentation is there");
    let made = with_rows(&kept, &described());
    if env::var_os("EVB_BLESS").is_some() && made != kept {
        // Other tests read the file at the same time.
        let new = path.with_extension("new");
        fs::write(&new, &made).and_then(|()| fs::rename(new, &path)).expect("writable");
        return;
    }
    for (kept, made) in kept.lines().zip(made.lines()) {
        assert_eq!(kept, made, "EVB_BLESS=1 cargo test -p evb-config schema");
    }
    assert_eq!(kept.lines().count(), made.lines().count(), "EVB_BLESS=1 cargo test -p evb-config schema");
}
