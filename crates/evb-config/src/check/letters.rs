//! Quantities and tables in a form for people.

use evb_core::units::{Bytes, Rate};

/// Formats a size in decimal units with four digits; sums are seldom round numbers in any unit.
pub(super) fn size(bytes: Bytes) -> String {
    let count = bytes.count() as f64;
    let (value, unit) = match bytes.count() {
        1_000_000_000.. => (count / 1e9, "GB"),
        1_000_000.. => (count / 1e6, "MB"),
        10_000.. => (count / 1e3, "kB"),
        _ => return format!("{} B", bytes.count()),
    };
    let digits = if value >= 1000.0 {
        0
    } else if value >= 100.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

pub(super) fn rate(rate: Option<Rate>) -> String {
    rate.map_or_else(
        || "?".to_owned(),
        |rate| {
            // Four digits are enough for a rate that is a sum of mean values.
            let bits = rate.bits_per_second();
            let step = 10_u64.pow(bits.checked_ilog10().unwrap_or(0).saturating_sub(3));
            Rate::from_bits_per_second(bits / step * step).to_string()
        },
    )
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
