//! The generated parts of the pages: a block has the command, the picture and the table of a study.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{
    catalog::{Block, Catalog, Figure, Status, Study},
    select, table,
};

/// Name of the block with the table of all figures.
const FIGURES: &str = "figures";
/// Name of the block with the number of figures of each status.
const COUNTS: &str = "counts";
/// Text in place of a result that does not exist yet.
const NOT_YET: &str = "*Not measured yet.*";

/// Returns a page with all its blocks filled. `result_of` returns the stored result of a study.
///
/// # Errors
/// A block is unknown, has no end, or needs something that the result lacks.
pub(crate) fn filled(
    page: &str,
    catalog: &Catalog,
    result_of: &dyn Fn(&str) -> Option<Value>,
) -> Result<String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let Some(name) = name_of(line) else { continue };
        let end = format!("<!-- end: {name} -->");
        if !lines.any(|line| line == end) {
            bail!("the block `{name}` has no line `{end}`");
        }
        let content = content(name, catalog, result_of).with_context(|| format!("the block `{name}`"))?;
        text += &format!("\n{}\n\n{end}\n", content.trim_end());
    }
    Ok(text)
}

/// Returns the name of the block that begins with this line.
pub(crate) fn name_of(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- begin: ")?.strip_suffix(" -->")
}

fn content(name: &str, catalog: &Catalog, result_of: &dyn Fn(&str) -> Option<Value>) -> Result<String> {
    match name {
        FIGURES => Ok(figures(catalog, result_of)),
        COUNTS => Ok(counts(catalog, result_of)),
        _ => {
            let block = catalog.blocks().find(|(_, block)| block.name == name);
            let (study, block) = block.context("no study has such a block")?;
            match result_of(&study.name) {
                Some(stored) => measured(study, block, &stored),
                None => Ok(format!("```text\n{}\n```\n\n{NOT_YET}", study.full)),
            }
        }
    }
}

/// Returns the content of a block from a stored result.
pub(super) fn measured(study: &Study, block: &Block, stored: &Value) -> Result<String> {
    let command = select::first(stored, "/command").map(select::text).context("no command")?;
    let mut parts = vec![format!("```text\n{command}\n```")];
    if let Some(picture) = &block.picture {
        parts.push(format!("![{picture}](figures/{}.svg)", study.name));
    }
    parts.extend(block.caption.clone());
    let result = &stored["result"];
    if let Some(table) = &block.table {
        parts.push(table::markdown(table, result)?);
    }
    if let Some(wanted) = &block.notes {
        parts.push(notes(result, wanted)?);
    }
    if let Some([from, to]) = &block.printed {
        parts.push(format!("```text\n{}\n```", printed(result, from, to)?));
    }
    parts.push(machine(stored)?);
    Ok(parts.iter().map(|part| part.trim_end()).collect::<Vec<_>>().join("\n\n"))
}

fn notes(result: &Value, wanted: &str) -> Result<String> {
    let notes = select::all(result, "/notes/*").into_iter().map(select::text);
    let lines: Vec<String> =
        notes.filter(|note| note.contains(wanted)).map(|note| format!("* {note}")).collect();
    if lines.is_empty() {
        bail!("the report has no note with \"{wanted}\"")
    }
    Ok(lines.join("\n"))
}

fn printed(result: &Value, from: &str, to: &str) -> Result<String> {
    let lines: Vec<String> = select::all(result, "/printed/*").into_iter().map(select::text).collect();
    let begin = lines.iter().position(|line| line.starts_with(from));
    let begin = begin.with_context(|| format!("the command printed no line \"{from}…\""))?;
    let length = lines[begin..].iter().position(|line| line.starts_with(to));
    let length = length.with_context(|| format!("the command printed no line \"{to}…\""))?;
    Ok(lines[begin..=begin + length].join("\n"))
}

fn machine(stored: &Value) -> Result<String> {
    let part = |path: &str| {
        select::first(stored, path).map(select::text).with_context(|| format!("the result has no {path}"))
    };
    Ok(format!(
        "Measured with {} on Linux {}, {}, {} cores.",
        part("/evbd")?,
        part("/machine/kernel")?,
        part("/machine/processor")?,
        part("/machine/cores")?,
    ))
}

/// Returns the words for the status of a figure: the one of the catalog only if every study of the
/// figure has a result.
fn status(figure: &Figure, result_of: &dyn Fn(&str) -> Option<Value>) -> &'static str {
    let is_measured =
        !figure.studies.is_empty() && figure.studies.iter().all(|study| result_of(study).is_some());
    match figure.status {
        Status::NotApplicable => "not applicable",
        _ if !is_measured => "not measured yet",
        Status::Reproduced => "reproduced",
        Status::InPart => "in part",
    }
}

fn figures(catalog: &Catalog, result_of: &dyn Fn(&str) -> Option<Value>) -> String {
    let mut text = "| figure | shows | status | reason | command |\n|---|---|---|---|---|\n".to_owned();
    for figure in &catalog.figures {
        let mut commands: Vec<String> =
            figure.studies.iter().filter_map(|name| catalog.study(name)).map(short).collect();
        commands.dedup();
        text += &format!(
            "| [{}]({}) | {} | {} | {} | {} |\n",
            figure.name(),
            figure.section,
            figure.shows,
            status(figure, result_of),
            if figure.reason.is_empty() { "–" } else { &figure.reason },
            if commands.is_empty() { "–".to_owned() } else { commands.join(", ") },
        );
    }
    text
}

fn counts(catalog: &Catalog, result_of: &dyn Fn(&str) -> Option<Value>) -> String {
    let count =
        |wanted: &str| catalog.figures.iter().filter(|figure| status(figure, result_of) == wanted).count();
    format!(
        "Of {} figures and plots, {} are reproduced, {} are reproduced in part, {} are not measured yet, and {} are not \
         applicable.",
        catalog.figures.len(),
        count("reproduced"),
        count("in part"),
        count("not measured yet"),
        count("not applicable"),
    )
}

/// Returns the command of a study without its options, as code.
fn short(study: &Study) -> String {
    let is_word = |word: &&str| !word.starts_with('-') && !word.contains('/');
    let words: Vec<&str> = study.full.split_whitespace().take_while(is_word).collect();
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests;
