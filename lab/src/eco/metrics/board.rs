//! The queries of the Grafana dashboard, as Grafana sends them to Prometheus.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::eco::prometheus::dist;

/// A Prometheus query, and the dashboard panel that it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) panel: String,
    pub(super) expression: String,
}

/// Values of Grafana's variables: the name of the scrape job, and intervals that suit one scrape a
/// second.
const VARIABLES: [(&str, &str); 4] =
    [("$job", "evb"), ("$__rate_interval", "5s"), ("$__interval", "1s"), ("$__range", "5m")];

/// Returns all queries of the dashboard: those of panels, variables and annotations.
pub(super) fn queries() -> Result<Vec<Query>> {
    let path = dist("grafana/evb.json");
    let board = serde_json::from_str(&fs::read_to_string(&path)?);
    let board = board.with_context(|| path.display().to_string())?;
    let mut found = Vec::new();
    collect(&board, "the board", &mut found);
    Ok(found)
}

fn collect(part: &Value, title: &str, found: &mut Vec<Query>) {
    match part {
        Value::Object(keys) => {
            let own = ["title", "name"].iter().find_map(|key| keys.get(*key)?.as_str()).unwrap_or(title);
            let expression = keys.get("expr").and_then(Value::as_str).map(ToOwned::to_owned);
            let labels = keys.get("definition").and_then(Value::as_str).and_then(series_of);
            found.extend(
                expression.or(labels).map(|text| Query { panel: own.to_owned(), expression: plain(&text) }),
            );
            keys.values().for_each(|part| collect(part, own, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, title, found)),
        _ => {}
    }
}

/// Returns a Prometheus query that is equivalent to Grafana's `label_values(a, b)`, the values of
/// label `b` of series `a`.
fn series_of(definition: &str) -> Option<String> {
    let (series, label) = definition.strip_prefix("label_values(")?.strip_suffix(')')?.rsplit_once(", ")?;
    Some(format!("count by ({label}) ({series})"))
}

fn plain(expression: &str) -> String {
    VARIABLES.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}

#[cfg(test)]
mod tests;
