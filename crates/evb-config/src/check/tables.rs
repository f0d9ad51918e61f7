//! Quantities that may be unknown, and tables, in a form for people.

use evb_core::{
    quantities::{self, size},
    units::{Bytes, Rate},
};

/// Returns a rate of the configuration as given, or a question mark if it is unknown.
pub(super) fn configured(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "?".to_owned(), |rate| rate.to_string())
}

/// Returns a computed rate, or a question mark if it is unknown.
pub(super) fn rate(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "?".to_owned(), quantities::rate)
}

pub(super) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "?".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

/// Formats a number of bytes with its part of a buffer, if the size of the buffer is known.
pub(super) fn of_buffer(bytes: Bytes, buffer: Option<Bytes>) -> String {
    let part = |buffer: Bytes| bytes.count() as f64 / buffer.count().max(1) as f64 * 100.0;
    buffer.map_or_else(|| size(bytes), |buffer| format!("{} ({:.0} %)", size(bytes), part(buffer)))
}

/// Joins names that share a row: the first and the last.
pub(super) fn first_to_last(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_owned(),
        [first, .., last] => format!("{first} … {last}"),
        [] => String::new(),
    }
}

pub(super) fn significant(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Formats a table whose columns are as wide as their widest cells.
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
