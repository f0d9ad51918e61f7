//! Compares a JSON document with a schema: types, keys and entries.

use std::{fs, path::Path};

use serde_json::Value;

/// Returns the schema of the records of runs.
pub(crate) fn of_records() -> Value {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut found = tree.map(|dir| dir.join("dist/evb-run-record.schema.json"));
    serde_json::from_slice(&fs::read(found.find(|path| path.exists()).unwrap()).unwrap()).unwrap()
}

/// Returns how a value disagrees with its schema.
pub(crate) fn disagreements(at: &str, value: &Value, schema: &Value) -> Vec<String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = &schema["type"];
    let fits = |named: &Value| named == kind || (named == "number" && kind == "integer");
    let is_one = kinds.is_null() || kinds.as_array().map_or_else(|| fits(kinds), |all| all.iter().any(fits));
    let mut found: Vec<_> = (!is_one).then(|| format!("{at} is {value}, not {kinds}")).into_iter().collect();
    if let Some(words) = schema["enum"].as_array() {
        found.extend((!words.contains(value)).then(|| format!("{at} is {value}, none of {words:?}")));
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        found.push(format!("{at} is {value}, not {}", schema["const"]));
    }
    for (place, entry) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(disagreements(&format!("{at}[{place}]"), entry, &schema["items"]));
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        found.extend((value.is_object() && value.get(key).is_none()).then(|| format!("{at} has no {key}")));
    }
    for (key, entry) in value.as_object().into_iter().flatten() {
        let (at, more) = (format!("{at}.{key}"), &schema["additionalProperties"]);
        match schema["properties"].get(key) {
            Some(schema) => found.extend(disagreements(&at, entry, schema)),
            None if *more == false => found.push(format!("{at} is not in the schema")),
            None => found.extend(disagreements(&at, entry, more)),
        }
    }
    found
}
