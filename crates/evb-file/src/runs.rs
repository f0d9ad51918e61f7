//! Tells the runs of several files apart: by run ids, and in files without an id by epochs.

mod links;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use evb_core::{
    id::{Epoch, RunId, RunNumber},
    time::Utc,
};

use crate::{
    error::ReadError,
    format::FileHeader,
    reader::{Recovery, read_header},
};

/// The choice of a run by its number, or by the first digits of its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunChoice(String);

/// The reason why a text chooses no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a run number, or at least the first 4 of the hexadecimal digits of a run id")]
pub struct ParseChoiceError;

/// The fewest digits that choose a run by its id.
const FEWEST_DIGITS: usize = 4;

impl RunChoice {
    /// Returns true if a run has the number or id that was chosen.
    pub fn fits(&self, run: RunNumber, id: RunId) -> bool {
        self.0.parse() == Ok(run)
            || (self.0.len() >= FEWEST_DIGITS && id.is_known() && id.to_string().starts_with(&self.0))
    }
}

impl FromStr for RunChoice {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<RunNumber>().is_ok();
        let is_id =
            (FEWEST_DIGITS..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_number || is_id { Ok(Self(text.to_ascii_lowercase())) } else { Err(ParseChoiceError) }
    }
}

impl From<RunNumber> for RunChoice {
    fn from(run: RunNumber) -> Self {
        Self(run.to_string())
    }
}

impl fmt::Display for RunChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A range of epochs, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochRange {
    /// The lowest epoch.
    pub first: Epoch,
    /// The highest epoch.
    pub last: Epoch,
}

/// The reason why a text is no [`EpochRange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give one epoch, or the first and the last: A..B, A.. or ..B; `evbd dump` lists the epochs of the events"
)]
pub struct ParseEpochsError;

impl EpochRange {
    /// Returns true if the epoch lies in the range.
    pub fn contains(self, epoch: Epoch) -> bool {
        (self.first..=self.last).contains(&epoch)
    }
}

impl FromStr for EpochRange {
    type Err = ParseEpochsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let end = |text: &str, left_out| match text {
            "" => Ok(Epoch::new(left_out)),
            number => number.parse().map_err(|_| ParseEpochsError),
        };
        let range = Self { first: end(first, 0)?, last: end(last, u64::MAX)? };
        if range.first <= range.last && !text.is_empty() { Ok(range) } else { Err(ParseEpochsError) }
    }
}

/// The choice of one run among those of several files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The run; `None` if the files are of one run only.
    pub run: Option<RunChoice>,
    /// True if all files with one run number and without a known run id are of one run.
    pub same_run: bool,
    /// The epochs of the records to take, from all files with one run number and without a known
    /// run id; `None` for all.
    pub epochs: Option<EpochRange>,
}

impl Selection {
    /// Returns true if a record of that epoch is taken.
    pub fn takes(&self, epoch: Epoch) -> bool {
        self.epochs.is_none_or(|epochs| epochs.contains(epoch))
    }
}

/// A run found in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRun {
    /// The number of the run.
    pub run: RunNumber,
    /// The identity of the run. If all headers were recovered from records, it has the first 8
    /// digits of the id, and zeros.
    pub run_id: RunId,
    /// The lowest epoch in the headers of the files.
    pub epoch: Epoch,
    /// The time at which the run was begun.
    pub begun: Utc,
    /// The files, in the order in which they were given.
    pub files: Vec<PathBuf>,
}

impl fmt::Display for FoundRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} (", self.run)?;
        match self.run_id.is_known() {
            true => write!(f, "{}, ", self.run_id.short())?,
            false => write!(f, "id unknown, epoch {}, ", self.epoch)?,
        }
        if self.begun.is_known() {
            write!(f, "begun {}, ", self.begun)?;
        }
        let count = self.files.len();
        write!(f, "{count} {})", if count == 1 { "file" } else { "files" })
    }
}

/// The reason why files are not those of one run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunsError {
    /// The files are of several runs, or the choice fits several runs.
    #[error("the files are of {} runs: {}; {}", runs.len(), list(runs), way_out(runs))]
    Several {
        /// The runs.
        runs: Vec<FoundRun>,
    },
    /// No file is of the chosen run.
    #[error(
        "none of the files is of run {choice}, but of {}: choose one of these, or give the files of run {choice}",
        list(runs)
    )]
    NoSuchRun {
        /// The choice.
        choice: RunChoice,
        /// The runs of the files.
        runs: Vec<FoundRun>,
    },
}

fn list(runs: &[FoundRun]) -> String {
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns how to choose one of several runs. Two runs of one number without ids can be told apart
/// by their epochs only.
fn way_out(runs: &[FoundRun]) -> &'static str {
    let has_twin = |(place, run): (usize, &FoundRun)| {
        let is_twin = |other: &FoundRun| other.run == run.run && !other.run_id.is_known();
        !run.run_id.is_known() && runs[place + 1..].iter().any(is_twin)
    };
    if runs.iter().enumerate().any(has_twin) {
        "choose the records of one with `--epoch A..B`, from its first to its last epoch, or take them for one run with `--same-run`"
    } else if runs
        .iter()
        .enumerate()
        .any(|(place, run)| runs[place + 1..].iter().any(|other| other.run == run.run))
    {
        "choose one with `--run`, by the first digits of its id"
    } else {
        "choose one with `--run`, by its number"
    }
}

/// The runs of several files, and the files that cannot be opened.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The runs in the order of number, begin, epoch and id.
    pub(crate) found: Vec<FoundRun>,
    pub(crate) unreadable: Vec<(PathBuf, ReadError)>,
}

/// A file, and what its header says of the run.
struct RunFile {
    path: PathBuf,
    header: FileHeader,
    /// True if only the first digits of the run id are known.
    has_digits_only: bool,
}

impl Runs {
    /// Finds the runs of these files. Of the selection, it needs everything but the choice.
    pub(crate) fn of(paths: Vec<PathBuf>, selection: &Selection) -> Self {
        let (mut numbers, mut unreadable) = (BTreeMap::<RunNumber, Vec<RunFile>>::new(), Vec::new());
        for path in paths {
            match read_header(&path) {
                Ok((header, recovery)) => {
                    let has_digits_only = recovery == Some(Recovery::Records) && header.run_id.is_known();
                    let member = RunFile { path, has_digits_only, header };
                    numbers.entry(member.header.run).or_default().push(member);
                }
                Err(error) => unreadable.push((path, error)),
            }
        }
        let groups = numbers.into_values().flat_map(|members| groups(members, selection));
        let mut found: Vec<FoundRun> = groups.map(FoundRun::of).collect();
        found.sort_by_key(|run| (run.run, run.begun, run.epoch, run.run_id));
        Self { found, unreadable }
    }

    /// Returns the chosen run alone, or all if none is chosen.
    pub(crate) fn chosen(self, selection: &Selection) -> Result<Vec<FoundRun>, RunsError> {
        let Some(choice) = &selection.run else { return Ok(self.found) };
        let (fitting, others): (Vec<_>, Vec<_>) =
            self.found.into_iter().partition(|run| choice.fits(run.run, run.run_id));
        match fitting.len() {
            0 if others.is_empty() => Ok(Vec::new()),
            0 => Err(RunsError::NoSuchRun { choice: choice.clone(), runs: others }),
            1 => Ok(fitting),
            _ => Err(RunsError::Several { runs: fitting }),
        }
    }

    /// Returns the only run that the selection leaves; `None` if there is no run at all.
    pub(crate) fn one(self, selection: &Selection) -> Result<Option<FoundRun>, RunsError> {
        let mut runs = self.chosen(selection)?;
        if runs.len() > 1 { Err(RunsError::Several { runs }) } else { Ok(runs.pop()) }
    }
}

impl FoundRun {
    /// Describes a run by the files that belong to it.
    fn of(members: Vec<RunFile>) -> Self {
        let headers = || members.iter().map(|member| &member.header);
        let whole = members.iter().find(|member| !member.has_digits_only).or_else(|| members.first());
        Self {
            run: headers().next().map_or_else(RunNumber::default, |header| header.run),
            run_id: whole.map_or(RunId::UNKNOWN, |member| member.header.run_id),
            epoch: headers().map(|header| header.epoch).min().unwrap_or_default(),
            begun: headers().map(|header| header.begun).max().unwrap_or_default(),
            files: members.into_iter().map(|member| member.path).collect(),
        }
    }
}

/// Divides the files with one run number into runs (FILE-60, FILE-61).
fn groups(members: Vec<RunFile>, selection: &Selection) -> Vec<Vec<RunFile>> {
    let (mut known, mut digits, mut unknown) =
        (BTreeMap::<RunId, Vec<RunFile>>::new(), Vec::new(), Vec::new());
    for member in members {
        match member.header.run_id {
            id if !id.is_known() => unknown.push(member),
            _ if member.has_digits_only => digits.push(member),
            id => known.entry(id).or_default().push(member),
        }
    }
    for member in digits {
        let id = member.header.run_id;
        let mut fitting = known.keys().filter(|known| known.short() == id.short());
        let whole = match (fitting.next(), fitting.next()) {
            (Some(whole), None) => *whole,
            _ => id,
        };
        known.entry(whole).or_default().push(member);
    }
    let mut groups: Vec<_> = known.into_values().collect();
    if selection.same_run || selection.epochs.is_some() {
        groups.extend((!unknown.is_empty()).then_some(unknown));
    } else {
        groups.extend(links::groups(unknown));
    }
    groups
}
