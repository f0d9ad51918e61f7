//! Quantities that may be unknown, and tables, in a form for people.

use evb_core::{units::Rate, words};

/// Returns a rate of the configuration as given, or a question mark if it is unknown.
pub(super) fn configured(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "?".to_owned(), |rate| rate.to_string())
}

/// Returns a computed rate, or a question mark if it is unknown.
pub(super) fn rate(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "?".to_owned(), words::rate)
}

pub(super) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "?".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

pub(super) fn significant(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

pub(super) fn table<const N: usize>(title: &str, head: &[&str; N], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: &[&str]| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("  {}\n", padded.join("  ").trim_end())
    };
    let mut page = format!("{title}\n{}", line(head));
    for row in rows {
        page += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    page
}
