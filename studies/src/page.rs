//! The generated parts of the pages: a block has the command, the picture and the table of a study.

use anyhow::{Context as _, Result, bail};

use super::{
    catalog::{Block, Catalog, Figure, Status, Study},
    kept::Kept,
    result::Stored,
    select, table,
};

/// Name of the block with the table of all figures.
const FIGURES: &str = "figures";
/// Name of the block with the number of figures of each status.
const COUNTS: &str = "counts";
/// Text in place of a result that does not exist yet.
const NOT_YET: &str = "*Not measured yet.*";

/// Returns a page with all its blocks filled from the stored results.
///
/// # Errors
/// A block is unknown, has no end, or needs something that the result lacks.
pub fn filled(page: &str, catalog: &Catalog, stored: &Stored) -> Result<String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let Some(name) = name_of(line) else { continue };
        let end = format!("<!-- end: {name} -->");
        if !lines.any(|line| line == end) {
            bail!("the block `{name}` has no line `{end}`");
        }
        let content = content(name, catalog, stored).with_context(|| format!("the block `{name}`"))?;
        text += &format!("\n{}\n\n{end}\n", content.trim_end());
    }
    Ok(text)
}

/// Returns the name of the block that begins with this line.
pub fn name_of(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- begin: ")?.strip_suffix(" -->")
}

fn content(name: &str, catalog: &Catalog, stored: &Stored) -> Result<String> {
    match name {
        FIGURES => Ok(figures(catalog, stored)),
        COUNTS => Ok(counts(catalog, stored)),
        _ => {
            let block = catalog.blocks().find(|(_, block)| block.name == name);
            let (study, block) = block.context("no study has such a block")?;
            match stored.get(&study.name) {
                Some(kept) => measured(study, block, kept),
                None => Ok(format!("```text\n{}\n```\n\n{NOT_YET}", study.full)),
            }
        }
    }
}

/// Returns the content of a block from a stored result.
pub(super) fn measured(study: &Study, block: &Block, kept: &Kept) -> Result<String> {
    let mut parts = vec![format!("```text\n{}\n```", about(kept, "command")?)];
    if let Some(picture) = &block.picture {
        parts.push(format!("![{picture}](figures/{}.svg)", study.name));
    }
    parts.extend(block.caption.clone());
    if let Some(table) = &block.table {
        parts.push(table::markdown(table, kept)?);
    }
    if let Some(wanted) = &block.notes {
        parts.push(notes(kept, wanted)?);
    }
    if let Some(ends) = &block.printed {
        let lines: Vec<String> = kept.all_about("printed").map(ToOwned::to_owned).collect();
        parts.push(format!("```text\n{}\n```", select::between(&lines, ends)?.join("\n")));
    }
    parts.push(machine(kept)?);
    Ok(parts.iter().map(|part| part.trim_end()).collect::<Vec<_>>().join("\n\n"))
}

fn about<'a>(kept: &'a Kept, word: &str) -> Result<&'a str> {
    kept.about(word).with_context(|| format!("the result has no line `# {word}: …`"))
}

fn notes(kept: &Kept, wanted: &str) -> Result<String> {
    let notes = kept.all_about("note").filter(|note| note.contains(wanted));
    let lines: Vec<String> = notes.map(|note| format!("* {note}")).collect();
    if lines.is_empty() {
        bail!("the report has no note with \"{wanted}\"")
    }
    Ok(lines.join("\n"))
}

fn machine(kept: &Kept) -> Result<String> {
    Ok(format!(
        "Measured with {} on Linux {}, {}, {} cores.",
        about(kept, "evbd")?,
        about(kept, "kernel")?,
        about(kept, "processor")?,
        about(kept, "cores")?,
    ))
}

/// Returns the words for the status of a figure: the one of the catalog only if every study of the
/// figure has a result.
fn status(figure: &Figure, stored: &Stored) -> &'static str {
    let is_measured =
        !figure.studies.is_empty() && figure.studies.iter().all(|study| stored.get(study).is_some());
    match figure.status {
        Status::NotApplicable => "not applicable",
        _ if !is_measured => "not measured yet",
        Status::Reproduced => "reproduced",
        Status::InPart => "in part",
    }
}

fn figures(catalog: &Catalog, stored: &Stored) -> String {
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
            status(figure, stored),
            if figure.reason.is_empty() { "–" } else { &figure.reason },
            if commands.is_empty() { "–".to_owned() } else { commands.join(", ") },
        );
    }
    text
}

fn counts(catalog: &Catalog, stored: &Stored) -> String {
    let count =
        |wanted: &str| catalog.figures.iter().filter(|figure| status(figure, stored) == wanted).count();
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
