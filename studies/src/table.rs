//! Markdown tables from the rows of a stored result.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    catalog::{Column, Table},
    kept::{Kept, Row},
    select,
};

/// Returns a table as Markdown.
///
/// # Errors
/// There are no rows, or a row lacks a value that a column needs.
pub(super) fn markdown(table: &Table, result: &Kept) -> Result<String> {
    let rows = result.rows(&table.rows);
    ensure!(
        !rows.is_empty(),
        "the result has no row {} {:?} {:?}",
        table.rows.at,
        table.rows.are,
        table.rows.have
    );
    let mut cells: Vec<Vec<String>> = Vec::new();
    for row in &rows {
        cells.push(table.columns.iter().map(|column| cell(column, row)).collect::<Result<_>>()?);
    }
    let is_number = |column: &Column| rows.iter().all(|row| row.get(&column.at).is_none_or(numeric));
    let head = table.columns.iter().map(|column| column.head.clone()).collect::<Vec<_>>();
    let rule = table.columns.iter().map(|column| if is_number(column) { "--:" } else { "---" });
    let mut text = format!("| {} |\n|{}|\n", head.join(" | "), rule.collect::<Vec<_>>().join("|"));
    for row in cells {
        text += &format!("| {} |\n", row.join(" | "));
    }
    Ok(text)
}

fn numeric(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(list) => list.iter().all(numeric),
        _ => false,
    }
}

fn cell(column: &Column, row: &Row) -> Result<String> {
    let value = match (row.get(&column.at), &column.missing) {
        (Some(value), _) => value,
        (None, Some(instead)) => return Ok(instead.clone()),
        (None, None) => {
            return None.with_context(|| format!("`{}`: a row has no {}", column.head, column.at));
        }
    };
    let text = shown(value, column).replace('|', "\\|");
    let Some(path) = &column.error else { return Ok(text) };
    let error = row.get(path).with_context(|| format!("`{}`: a row has no {path}", column.head))?;
    Ok(format!("{text} ± {}", shown(error, column)))
}

fn shown(value: &Value, column: &Column) -> String {
    match value {
        Value::Array(list) => list.iter().map(|value| shown(value, column)).collect::<Vec<_>>().join(", "),
        Value::Number(number) => match number.as_f64() {
            Some(number) => decimal(number / column.per.unwrap_or(1.0), column.digits),
            None => number.to_string(),
        },
        other => select::text(other),
    }
}

/// Returns a number with the given number of decimals, and with blanks between groups of three
/// digits from five digits on. A number that is rounded to zero has no sign.
pub(super) fn decimal(number: f64, digits: Option<usize>) -> String {
    let mut text = match digits {
        Some(digits) => format!("{number:.digits$}"),
        None => format!("{number}"),
    };
    if text.chars().all(|c| matches!(c, '-' | '0' | '.')) {
        text = text.replace('-', "");
    }
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |text| ("−", text));
    let (whole, rest) =
        text.split_once('.').map_or((text, String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    if whole.len() < 5 || !whole.chars().all(|c| c.is_ascii_digit()) {
        return format!("{sign}{whole}{rest}");
    }
    let grouped: Vec<String> =
        whole.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    format!("{sign}{}{rest}", grouped.join(" "))
}

#[cfg(test)]
mod tests;
