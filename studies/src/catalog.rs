//! [`Catalog`]: the list of all studies and of all figures of the five papers, read from
//! `docs/studies/studies.toml`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// Path of the catalog.
pub const CATALOG: &str = "docs/studies/studies.toml";

/// The papers, by the word with which the ids of their figures begin, with the number of their
/// figures and plots: Yasu et al. (KEK), Yasu et al. (ATLAS), Hiraki et al., Pavel et al. (BaBar),
/// Nomachi et al. (RCNP).
pub const PAPERS: [(&str, u32); 5] = [("kek", 13), ("atlas", 5), ("hiraki", 4), ("babar", 9), ("rcnp", 11)];

/// All figures of the papers, and the studies that reproduce them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
    #[serde(rename = "study")]
    pub studies: Vec<Study>,
}

/// A figure or a plot of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The paper's word and the number of the figure, such as `kek-11`.
    pub id: String,
    /// Description of what the figure shows.
    pub shows: String,
    /// Status once all studies have a result.
    pub status: Status,
    /// Reason why the figure is not reproduced, or only in part.
    #[serde(default)]
    pub reason: String,
    /// Names of the studies that reproduce the figure.
    #[serde(default)]
    pub studies: Vec<String>,
    /// Page and heading that treat the figure, as a link from the index.
    pub section: String,
}

/// The part of a figure that the studies reproduce.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Status {
    #[serde(rename = "reproduced")]
    Reproduced,
    #[serde(rename = "in part")]
    InPart,
    #[serde(rename = "not applicable")]
    NotApplicable,
}

/// A command, and the tables and pictures that are made from its result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    pub name: String,
    /// The command line of the full measurement, as a user types it; no argument contains a blank.
    pub full: String,
    /// The command line of the short form that CI runs.
    pub quick: String,
    /// Time limits of the two forms, in seconds.
    #[serde(default = "an_hour")]
    pub full_limit: u64,
    #[serde(default = "a_minute")]
    pub quick_limit: u64,
    /// True if bounds of the study may fail on a busy machine. Then the short form may end with
    /// exit code 1.
    #[serde(default)]
    pub timed: bool,
    /// True if `evb-bench` draws a picture by its option `--svg`.
    #[serde(default)]
    pub draws: bool,
    /// Name of the report of a scenario of the network lab, if it is not that of the scenario.
    pub report: Option<String>,
    /// Name of the picture that a scenario of the network lab leaves beside its report.
    pub drawn: Option<String>,
    /// Rows that no block shows, such as those of a picture, but the repository keeps.
    #[serde(default)]
    pub kept: Vec<KeptRows>,
    #[serde(default, rename = "block")]
    pub blocks: Vec<Block>,
}

fn an_hour() -> u64 {
    3600
}

fn a_minute() -> u64 {
    60
}

/// Rows of a result that no block shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRows {
    /// Path of the rows.
    pub at: String,
    /// Paths of the values within a row.
    pub columns: Vec<String>,
}

/// A generated part of a page, between the markers `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    pub name: String,
    /// Description of the picture, if the block shows the study's picture.
    pub picture: Option<String>,
    /// Sentence above the table.
    pub caption: Option<String>,
    pub table: Option<Table>,
    /// Shows those notes of a lab's report that contain this text; an empty text shows all.
    pub notes: Option<String>,
    /// Shows the text that the command printed, from the first line to the second that begin so.
    pub printed: Option<[String; 2]>,
    /// True if the short form measures less, so that this block may be empty.
    #[serde(default)]
    pub only_full: bool,
}

/// A table that is made from the rows of a result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub rows: Rows,
    pub columns: Vec<Column>,
}

impl Table {
    /// Returns the path of the rows, and the paths of the values within a row.
    fn selected(&self) -> (&str, Vec<&str>) {
        let conditions = self.rows.are.keys().chain(self.rows.have.keys());
        let values = self.columns.iter().flat_map(|column| [&column.at].into_iter().chain(&column.error));
        (&self.rows.at, conditions.chain(values).map(String::as_str).collect())
    }
}

/// A selection of values from a result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Path of the values, such as `/points/*`.
    pub at: String,
    /// Values that a row must have, by path within the row.
    #[serde(default)]
    pub are: BTreeMap<String, String>,
    /// Texts that values of a row must contain, by path within the row.
    #[serde(default)]
    pub have: BTreeMap<String, String>,
}

/// A column of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub head: String,
    /// Path of the value within the row.
    pub at: String,
    /// Divisor of numbers; 1 if it is not given.
    pub per: Option<f64>,
    /// Decimals of numbers; if it is not given, numbers stand as they are in the result.
    pub digits: Option<usize>,
    /// Path of the half width of the value's confidence interval.
    pub error: Option<String>,
    /// Text in place of a missing value, which is an error otherwise.
    pub missing: Option<String>,
}

impl Catalog {
    /// Reads a catalog.
    ///
    /// # Errors
    /// The text is no catalog, a figure names a study that is not in the catalog, or two studies or
    /// two blocks have the same name.
    pub fn read(text: &str) -> Result<Self> {
        let catalog: Self = toml::from_str(text).context(CATALOG)?;
        let studies: Vec<&str> = catalog.studies.iter().map(|study| study.name.as_str()).collect();
        for figure in &catalog.figures {
            for study in &figure.studies {
                ensure!(studies.contains(&study.as_str()), "{}: there is no study `{study}`", figure.id);
            }
        }
        let blocks: Vec<&str> = catalog.blocks().map(|(_, block)| block.name.as_str()).collect();
        for (what, names) in [("studies", studies), ("blocks", blocks)] {
            if let Some(name) = twice(names) {
                bail!("{CATALOG}: two {what} have the name `{name}`");
            }
        }
        Ok(catalog)
    }

    /// Returns all blocks, each with its study.
    pub fn blocks(&self) -> impl Iterator<Item = (&Study, &Block)> {
        self.studies.iter().flat_map(|study| study.blocks.iter().map(move |block| (study, block)))
    }

    pub fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|study| study.name == name)
    }
}

impl Study {
    /// Returns true if the full measurement yields a picture.
    pub fn has_picture(&self) -> bool {
        self.draws || self.drawn.is_some()
    }

    /// Returns the paths of all rows that the repository keeps of a result, each with the paths of
    /// the values within a row; a path may occur twice.
    pub fn selected(&self) -> Vec<(&str, Vec<&str>)> {
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        let shown = self.blocks.iter().filter_map(|block| block.table.as_ref()).map(Table::selected);
        let further =
            self.kept.iter().map(|rows| (&*rows.at, rows.columns.iter().map(|path| &**path).collect()));
        for (at, paths) in shown.chain(further) {
            match all.iter_mut().find(|(known, _)| *known == at) {
                Some((_, known)) => known.extend(paths),
                None => all.push((at, paths)),
            }
        }
        all
    }
}

impl Figure {
    /// Returns the name of the figure as the pages write it, such as `KEK 11`.
    pub fn name(&self) -> String {
        let (paper, number) = self.id.split_once('-').unwrap_or((&self.id, ""));
        let paper = match paper {
            "hiraki" => "Hiraki".to_owned(),
            "babar" => "BaBar".to_owned(),
            other => other.to_uppercase(),
        };
        format!("{paper} {number}")
    }
}

/// Returns a name that occurs at least twice.
fn twice(mut names: Vec<&str>) -> Option<&str> {
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Returns the ids of all figures of all papers.
pub fn all_figures() -> Vec<String> {
    let numbered =
        PAPERS.into_iter().flat_map(|(paper, count)| (1..=count).map(move |number| (paper, number)));
    numbered.map(|(paper, number)| format!("{paper}-{number}")).collect()
}

#[cfg(test)]
mod tests;
