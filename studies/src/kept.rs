//! [`Kept`]: what the repository keeps of a study's result, as CSV.
//!
//! Comment lines at the top have the command, the version of evbd, the machine and the verdict, and
//! the notes and printed lines that the pages show. The table has a row for each row of the result
//! that the catalog selects: the list to which it belongs, and the values that the catalog names,
//! under their paths. A cell is text, or JSON for everything else; an empty cell has no value.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    catalog::{Rows, Study},
    select,
};

/// Heading of the column with the name of the list to which a row belongs.
const LIST: &str = "list";
/// Words of the comment lines that say how a result was measured, each with its path in the JSON of
/// a run.
const ABOUT: [(&str, &str); 7] = [
    ("study", "/study"),
    ("command", "/command"),
    ("evbd", "/evbd"),
    ("kernel", "/machine/kernel"),
    ("processor", "/machine/processor"),
    ("cores", "/machine/cores"),
    ("load", "/machine/load"),
];

/// The part of a result that the repository keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Word and text of each comment line.
    about: Vec<(String, String)>,
    /// Paths of the values, in the order of the columns.
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// A row of a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    list: String,
    /// The values by their paths.
    values: BTreeMap<String, Value>,
}

impl Row {
    /// Returns the value under a path, if the row has one.
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.values.get(path)
    }

    fn holds(&self, wanted: &Rows) -> bool {
        let text_at = |path: &String| self.get(path).map(select::text).unwrap_or_default();
        self.list == list(&wanted.at)
            && wanted.are.iter().all(|(path, text)| text_at(path) == *text)
            && wanted.have.iter().all(|(path, text)| text_at(path).contains(text))
    }
}

impl Kept {
    /// Selects from the JSON of a run what the blocks of a study need.
    ///
    /// # Errors
    /// A value cannot be kept as a cell of CSV.
    pub(super) fn of_run(study: &Study, run: &Value) -> Result<Self> {
        let result = &run["result"];
        let text_at = |path: &str| select::first(run, path).map(select::text);
        let mut about: Vec<(&str, String)> =
            ABOUT.iter().filter_map(|(word, path)| Some((*word, text_at(path)?))).collect();
        about.push(("verdict", verdict(result)));
        about.extend(notes(study, result).into_iter().map(|note| ("note", note)));
        about.extend(printed(study, result).into_iter().map(|line| ("printed", line)));
        let (mut columns, mut rows) = (Vec::new(), Vec::new());
        for (at, paths) in study.selected() {
            for row in select::all(result, at) {
                let value = |path: &&str| Some(((*path).to_owned(), select::first(row, path)?.clone()));
                rows.push(Row {
                    list: list(at).to_owned(),
                    values: paths.iter().filter_map(value).collect(),
                });
            }
            for path in paths {
                if !columns.iter().any(|known| known == path) {
                    columns.push(path.to_owned());
                }
            }
        }
        let about =
            about.into_iter().map(|(word, text)| (word.to_owned(), text.trim_end().to_owned())).collect();
        let kept = Self { about, columns, rows };
        ensure!(
            Self::read(&kept.csv()?)? == kept,
            "{}: CSV cannot keep a value of the result: the command wrote an empty text, one that reads as a number, or \
             a note of several lines",
            study.name
        );
        Ok(kept)
    }

    /// Reads the CSV of a stored result.
    ///
    /// # Errors
    /// A comment line has no word, or the table is not CSV.
    pub fn read(text: &str) -> Result<Self> {
        let mut about = Vec::new();
        for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
            let (word, said) = line.split_once(':').with_context(|| format!("`# {line}` has no `word:`"))?;
            about.push((word.to_owned(), said.strip_prefix(' ').unwrap_or(said).to_owned()));
        }
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let columns: Vec<String> = reader.headers()?.iter().skip(1).map(|head| format!("/{head}")).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record?;
            let cells = columns.iter().zip(record.iter().skip(1));
            let values = cells.filter_map(|(path, cell)| Some((path.clone(), value(cell)?))).collect();
            rows.push(Row { list: record.get(0).unwrap_or_default().to_owned(), values });
        }
        Ok(Self { about, columns, rows })
    }

    /// Returns the CSV of this result.
    pub(super) fn csv(&self) -> Result<String> {
        let mut text = String::new();
        for (word, said) in &self.about {
            text += format!("# {word}: {said}").trim_end();
            text += "\n";
        }
        if self.columns.is_empty() {
            return Ok(text);
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        let heads = self.columns.iter().map(|path| path.trim_start_matches('/').to_owned());
        writer.write_record([LIST.to_owned()].into_iter().chain(heads))?;
        for row in &self.rows {
            let cells = self.columns.iter().map(|path| row.get(path).map(cell).unwrap_or_default());
            writer.write_record([row.list.clone()].into_iter().chain(cells))?;
        }
        Ok(text + &String::from_utf8(writer.into_inner()?)?)
    }

    /// Returns the text of the first comment line with this word.
    pub fn about(&self, word: &str) -> Option<&str> {
        self.all_about(word).next()
    }

    /// Returns the texts of all comment lines with this word.
    pub(super) fn all_about(&self, word: &str) -> impl Iterator<Item = &str> {
        self.about.iter().filter(move |(of, _)| of == word).map(|(_, said)| said.as_str())
    }

    /// Returns the selected rows.
    pub(super) fn rows(&self, wanted: &Rows) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.holds(wanted)).collect()
    }
}

/// Returns the name of the list to which a path leads: the step that selects an element by its
/// name, or the first step.
fn list(path: &str) -> &str {
    let mut steps = path.split('/').filter(|step| !step.is_empty());
    steps.clone().find_map(|step| step.strip_prefix('@')).or_else(|| steps.next()).unwrap_or_default()
}

/// Returns a sentence about the bounds of a study.
fn verdict(result: &Value) -> String {
    let all = select::all(result, "/verdicts/*/holds");
    let hold = all.iter().filter(|holds| holds.as_bool() == Some(true)).count();
    match (all.len(), result["holds"].as_bool()) {
        (0, Some(true)) => "the bounds hold".to_owned(),
        (0, Some(false)) => "a bound does not hold".to_owned(),
        (0, None) => "no bounds".to_owned(),
        (count, _) => format!("{hold} of {count} bounds hold"),
    }
}

/// Returns the notes that a block of the study shows, without the path of the picture, which is one
/// of this machine.
fn notes(study: &Study, result: &Value) -> Vec<String> {
    let wanted: Vec<&String> = study.blocks.iter().filter_map(|block| block.notes.as_ref()).collect();
    let is_shown = |note: &String| {
        !note.starts_with("figure: ") && wanted.iter().any(|wanted| note.contains(wanted.as_str()))
    };
    select::all(result, "/notes/*").into_iter().map(select::text).filter(is_shown).collect()
}

/// Returns the lines of the command's output that a block of the study shows.
fn printed(study: &Study, result: &Value) -> Vec<String> {
    let lines: Vec<String> = select::all(result, "/printed/*").into_iter().map(select::text).collect();
    let shown = study.blocks.iter().filter_map(|block| block.printed.as_ref());
    shown.flat_map(|ends| select::between(&lines, ends).unwrap_or_default().to_vec()).collect()
}

/// Returns the cell for a value.
fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns the value of a cell, unless it is empty.
fn value(cell: &str) -> Option<Value> {
    if cell.is_empty() {
        return None;
    }
    Some(serde_json::from_str(cell).unwrap_or_else(|_| cell.into()))
}

#[cfg(test)]
mod tests;
