//! Compares a JSON document with a schema: types, keys, entries, least numbers and digits.

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
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        found.push(format!("{at} is {value}, below {least}"));
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
        && !is_hexadecimal(text, pattern)
    {
        found.push(format!("{at} is {value}, not {pattern}"));
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

/// Returns true if a text has as many hexadecimal digits as such a pattern demands, and nothing
/// else. No schema here has other patterns.
fn is_hexadecimal(text: &str, pattern: &str) -> bool {
    let length = pattern.strip_prefix("^[0-9a-f]{").and_then(|rest| rest.strip_suffix("}$"));
    let is_digit = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
    length.is_some_and(|length| length.parse() == Ok(text.len())) && text.chars().all(is_digit)
}
