//! Selection of values from the JSON of a result, by paths.
//!
//! A path consists of steps behind slashes: the name of a field, the position in a list, `*` for
//! all elements of a list, or `@NAME` for the element of a list whose field `name` is `NAME`.

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Returns the values to which a path leads.
pub(super) fn all<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in path.split('/').filter(|step| !step.is_empty()) {
        found = found.into_iter().flat_map(|value| follow(value, step)).collect();
    }
    found
}

/// Returns the first value to which a path leads, unless it is null.
pub(super) fn first<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    all(value, path).into_iter().next().filter(|value| !value.is_null())
}

fn follow<'a>(value: &'a Value, step: &str) -> Vec<&'a Value> {
    match (value, step) {
        (Value::Array(list), "*") => list.iter().collect(),
        (Value::Array(list), _) => match step.strip_prefix('@') {
            Some(name) => list.iter().filter(|element| element["name"] == name).collect(),
            None => step.parse().ok().and_then(|at: usize| list.get(at)).into_iter().collect(),
        },
        (Value::Object(fields), _) => fields.get(step).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the lines from the first that begins with one text to the next that begins with another.
///
/// # Errors
/// No line begins so.
pub(super) fn between<'a>(lines: &'a [String], [from, to]: &[String; 2]) -> Result<&'a [String]> {
    let begin = lines.iter().position(|line| line.starts_with(from));
    let begin = begin.with_context(|| format!("the command printed no line \"{from}…\""))?;
    let length = lines[begin..].iter().position(|line| line.starts_with(to));
    let length = length.with_context(|| format!("the command printed no line \"{to}…\""))?;
    Ok(&lines[begin..=begin + length])
}

/// Returns a value as text, without the quotes of JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
