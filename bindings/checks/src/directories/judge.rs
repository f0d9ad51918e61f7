//! Compares what the tools found in one directory.

use std::{collections::BTreeSet, mem, path::PathBuf};

use anyhow::{Context as _, Result};
use evb_file::EventFile;
use serde_json::Value;

use super::{
    files::{Directory, size},
    pace::Pace,
    tools::{
        Found, Rows, Said, Tool, Tools, clear, heads_of_cpp, heads_of_dump, of_cpp, of_merge, of_python,
    },
};

/// Marks of files: the parts of their names by which the words of a tool are searched.
type Marks = BTreeSet<String>;

/// The files that the words of a reader may name, and of these the ones that they must name.
struct BadFiles {
    must_name: Marks,
    may_name: Marks,
}

/// A run as `evbd verify` reports it.
struct Verified {
    number: u64,
    id: Option<String>,
    /// The ids of its events.
    events: BTreeSet<u64>,
    incomplete: u64,
    /// The files with damage that every reader meets, and those with any defect.
    damaged: Marks,
    defective: Marks,
}

/// The comparison of all tools on one directory.
pub(super) struct Judge<'a> {
    tools: &'a Tools,
    made: &'a Directory,
    out: PathBuf,
    pace: &'a mut Pace,
    size: u64,
    complaints: Vec<String>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(tools: &'a Tools, made: &'a Directory, out: PathBuf, pace: &'a mut Pace) -> Self {
        Self { tools, made, out, pace, size: 0, complaints: Vec::new() }
    }

    /// Runs all tools, and returns the disagreements.
    pub(super) fn judge(&mut self, number: u64) -> Result<Vec<String>> {
        self.size = size(&self.made.path)?;
        let Some(said) = self.run(Tool::Verify, None)? else { return Ok(mem::take(&mut self.complaints)) };
        let report: Value = serde_json::from_slice(&said.output.stdout).with_context(|| said.all())?;
        let unreadable = self.marks(report["unreadable"].as_array(), |_| true);
        let runs: Vec<Verified> =
            report["runs"].as_array().into_iter().flatten().map(|run| self.verified(run)).collect();
        self.check_good(&runs, &unreadable);
        let defective: Marks = runs.iter().flat_map(|run| run.defective.clone()).collect();
        let mut may_name: Marks = unreadable.union(&defective).cloned().collect();
        // Of two links to one device, some readers name the first only.
        let bad = |kind: &str| super::files::is_unreadable(kind, true) == Some(true);
        may_name.extend(self.made.kinds.iter().filter(|(_, kind)| bad(kind)).map(|(mark, _)| mark.clone()));
        let damaged: Marks =
            runs.iter().flat_map(|run| run.damaged.clone()).chain(unreadable.clone()).collect();
        let dump = self.run(Tool::Dump, None)?;
        if let Some(said) = &dump {
            let lines: String = said
                .all()
                .lines()
                .filter(|line| line.starts_with('!'))
                .map(|line| line.to_owned() + "\n")
                .collect();
            self.check_named("evbd dump", &lines, &unreadable, &may_name);
        }
        if let Some(said) = self.run(Tool::ScriptVerify, None)? {
            self.check_named("evb_read.py", &bad_of_script(&said), &damaged, &may_name);
        }
        let choices: Vec<Option<String>> = match runs.len() {
            0 => vec![None],
            // A single run needs no choice; the directories with odd numbers choose it all the
            // same.
            1 if number.is_multiple_of(2) => vec![None],
            _ => runs.iter().map(|run| Some(run.choice())).collect(),
        };
        for choice in choices {
            let chosen: Vec<&Verified> =
                runs.iter().filter(|run| choice.as_ref().is_none_or(|choice| run.fits(choice))).collect();
            let must_name = match chosen[..] {
                [run] => run.damaged.union(&unreadable).cloned().collect(),
                _ => Marks::new(),
            };
            let bad = BadFiles { must_name, may_name: may_name.clone() };
            self.judge_choice(choice.as_deref(), &chosen, &bad, dump.as_ref())?;
        }
        Ok(mem::take(&mut self.complaints))
    }

    /// Compares what the readers find with the option `--run CHOICE`, or without that option.
    /// `chosen` has the runs that the choice fits; if it is not exactly one, no reader may find
    /// events.
    fn judge_choice(
        &mut self,
        choice: Option<&str>,
        chosen: &[&Verified],
        bad: &BadFiles,
        dump: Option<&Said>,
    ) -> Result<()> {
        let option = choice.map_or_else(String::new, |choice| format!(" --run {choice}"));
        let merged = self.found_by_merge(choice)?;
        let by_package = self.found_by_python(Tool::Package, choice)?;
        let by_script = self.found_by_python(Tool::Script, choice)?;
        if let (Some(package), Some(script)) = (&by_package, &by_script) {
            self.compare_lengths(package, script);
        }
        let by_cpp = self.found_by_cpp(choice, dump)?;
        let found: Vec<(Tool, &Found)> = [
            (Tool::Merge, &merged),
            (Tool::Package, &by_package),
            (Tool::Script, &by_script),
            (Tool::Cpp, &by_cpp),
        ]
        .into_iter()
        .filter_map(|(tool, found)| Some((tool, found.as_ref()?)))
        .collect();
        let [run] = chosen else {
            self.expect_no_events(&option, &found, chosen.len());
            return Ok(());
        };
        self.compare(&option, run, &found, bad)?;
        self.check_rows(&option, &found);
        match merged {
            Some(merged) => self.check_exports(choice, &merged.rows, bad),
            None => Ok(()),
        }
    }

    fn found_by_merge(&mut self, choice: Option<&str>) -> Result<Option<Found>> {
        let Some(said) = self.run(Tool::Merge, choice)? else { return Ok(None) };
        let merged = of_merge(&said, &self.out)?;
        if merged.error.is_none() {
            self.check_merged(&merged)?;
        }
        Ok(Some(merged))
    }

    fn found_by_python(&mut self, tool: Tool, choice: Option<&str>) -> Result<Option<Found>> {
        self.run(tool, choice)?.map(|said| of_python(&said)).transpose()
    }

    /// Returns what the C++ reader finds, and compares the record heads that it lists with those of
    /// `evbd dump`.
    fn found_by_cpp(&mut self, choice: Option<&str>, dump: Option<&Said>) -> Result<Option<Found>> {
        let Some(said) = self.run(Tool::Cpp, choice)? else { return Ok(None) };
        let listing = said.out();
        if let Some(dump) = dump {
            let (dumped, listed) = (heads_of_dump(&dump.out()), heads_of_cpp(&listing));
            if dumped != listed {
                let differ: Vec<_> = dumped.symmetric_difference(&listed).take(3).collect();
                self.complain(format!("evbd dump and evb_file.hpp differ in the heads {differ:?}"));
            }
        }
        Ok(Some(of_cpp(&listing)))
    }

    /// Checks that both readers in Python count the same records in each file.
    fn compare_lengths(&mut self, package: &Found, script: &Found) {
        let both_found = package.error.is_none() && script.error.is_none();
        if both_found && package.lengths != script.lengths {
            let (package, script) = (&package.lengths, &script.lengths);
            self.complain(format!("the readers in Python have files of {package:?} and {script:?} records"));
        }
    }

    fn expect_no_events(&mut self, option: &str, found: &[(Tool, &Found)], runs: usize) {
        for (tool, found) in found.iter().filter(|(_, found)| found.error.is_none()) {
            let (name, events) = (tool.name(), found.rows.len());
            self.complain(format!("{name}{option} finds {events} events, but there are {runs} such runs"));
        }
    }

    /// Exports the run, and compares the exports with the events of the merge.
    fn check_exports(&mut self, choice: Option<&str>, merged: &Rows, bad: &BadFiles) -> Result<()> {
        // To save time, only about a fifth of the directories are exported to Parquet too. The size
        // decides, so that a directory that is made again is exported again.
        let formats =
            if self.size.is_multiple_of(5) { &[Tool::Hdf5, Tool::Parquet][..] } else { &[Tool::Hdf5] };
        for tool in formats {
            if let Some(said) = self.run(*tool, choice)? {
                self.check_export(*tool, &said, merged, bad)?;
            }
        }
        Ok(())
    }

    /// Compares the events of each reader with those of `evbd verify`.
    fn compare(
        &mut self,
        option: &str,
        run: &Verified,
        found: &[(Tool, &Found)],
        bad: &BadFiles,
    ) -> Result<()> {
        for (tool, found) in found {
            let name = format!("{}{option}", tool.name());
            if let Some(error) = &found.error {
                self.complain(format!("{name} finds nothing: {}", error.trim()));
                continue;
            }
            let must_name = self.must_name(*tool, &bad.must_name, &found.rows)?;
            self.check_named(&name, &found.named, &must_name, &bad.may_name);
            let ids: BTreeSet<u64> = found.rows.keys().copied().collect();
            if ids != run.events {
                let differ: Vec<_> = ids.symmetric_difference(&run.events).take(5).collect();
                let (there, told) = (ids.len(), run.events.len());
                self.complain(format!(
                    "{name} finds {there} events, evbd verify {told}; they differ in {differ:?}"
                ));
            }
            let incomplete = found.rows.values().filter(|row| !row.missing.is_empty()).count() as u64;
            if incomplete != run.incomplete {
                self.complain(format!(
                    "{name}: {incomplete} are incomplete, and for verify {}",
                    run.incomplete
                ));
            }
        }
        Ok(())
    }

    /// Runs a tool, and checks its time and output. Returns nothing if it fails.
    fn run(&mut self, tool: Tool, choice: Option<&str>) -> Result<Option<Said>> {
        clear(&self.out);
        match self.tools.run(tool, &self.made.path, choice, &self.out) {
            Ok(said) => {
                let complaint = self.pace.check(self.tools, tool, self.size, &said)?;
                self.complaints.extend(complaint);
                Ok(Some(said))
            }
            Err(error) => {
                self.complain(error.to_string());
                Ok(None)
            }
        }
    }

    fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    /// Checks that the events of good files were found.
    fn check_good(&mut self, runs: &[Verified], unreadable: &Marks) {
        let mut lost = Vec::new();
        for (number, ids) in &self.made.good {
            let of_number = runs.iter().filter(|run| run.number == u64::from(number.number()));
            let there: BTreeSet<u64> = of_number.flat_map(|run| run.events.iter().copied()).collect();
            lost.extend(ids.iter().filter(|id| !there.contains(id)).copied());
        }
        if !lost.is_empty() {
            self.complain(format!("verify does not find these events of good files: {lost:?}"));
        }
        for (mark, kind) in &self.made.kinds {
            // Two links to one device count as one file.
            if self.made.kinds.iter().filter(|(_, other)| other == kind).count() > 1 {
                continue;
            }
            let is_bad = super::files::is_unreadable(kind, self.tools.obey_rights());
            if is_bad.is_some_and(|is_bad| is_bad != unreadable.contains(mark)) {
                let said = if unreadable.contains(mark) { "cannot be read" } else { "can be read" };
                self.complain(format!("verify says that {mark} ({kind}) {said}"));
            }
        }
    }

    /// Returns the files that this tool must name, of those that a reader of all copies must name.
    /// A merge does not read copies that do not count, so it need not name a file with damage to
    /// such copies alone.
    fn must_name(&self, tool: Tool, by_all_copies: &Marks, rows: &Rows) -> Result<Marks> {
        let mut must = by_all_copies.clone();
        if !matches!(tool, Tool::Merge | Tool::Hdf5 | Tool::Parquet | Tool::Cpp) {
            return Ok(must);
        }
        for mark in by_all_copies {
            let Ok(file) = EventFile::open(self.made.path.join(mark)) else { continue };
            // Without an index, the event of a damaged head is not known.
            let knows_all = file.has_whole_index()? || file.records().all(|record| record.is_ok());
            if file.recovery().is_none() && knows_all {
                let entries = file.index_entries(0, usize::MAX)?;
                if entries.iter().all(|entry| rows.contains_key(&entry.event.number())) {
                    must.remove(mark);
                }
            }
        }
        Ok(must)
    }

    /// Checks that the words of a tool name each file that it must name, and none that it may not.
    fn check_named(&mut self, name: &str, words: &str, must_name: &Marks, may_name: &Marks) {
        let named: Marks = self
            .made
            .kinds
            .iter()
            .map(|(mark, _)| mark)
            .filter(|mark| words.contains(*mark))
            .cloned()
            .collect();
        let (lacks, more): (Vec<_>, Vec<_>) =
            (must_name.difference(&named).collect(), named.difference(may_name).collect());
        if !lacks.is_empty() {
            self.complain(format!("{name} does not name {lacks:?}"));
        }
        if !more.is_empty() {
            self.complain(format!("{name} names {more:?}, and verify does not"));
        }
    }

    /// Checks that the readers agree on each event.
    fn check_rows(&mut self, option: &str, found: &[(Tool, &Found)]) {
        let whole: Vec<_> = found.iter().filter(|(_, found)| found.error.is_none()).collect();
        for pair in whole.windows(2) {
            let [(one, first), (other, second)] = [pair[0], pair[1]];
            let differ =
                first.rows.iter().find(|(id, row)| second.rows.get(id).is_some_and(|other| other != *row));
            if let Some((id, row)) = differ {
                let other_row = &second.rows[id];
                let (one, other) = (one.name(), other.name());
                self.complain(format!("event {id}{option}: {one} has {row:?}, {other} has {other_row:?}"));
            }
        }
    }

    /// Checks that the output of a merge is whole.
    fn check_merged(&mut self, merged: &Found) -> Result<()> {
        let said = self.tools.run(Tool::Verify, &self.out, None, &self.out)?;
        let report: Value = serde_json::from_slice(&said.output.stdout).with_context(|| said.all())?;
        let run = &report["runs"][0];
        let defects = ["damaged", "torn_tails", "foreign", "duplicates", "superseded", "without_index"];
        let is_whole = run["events"] == merged.rows.len()
            && report["unreadable"].as_array().is_some_and(Vec::is_empty)
            && defects.iter().all(|name| run[name]["total"] == 0);
        if !is_whole {
            self.complain(format!("verify of the merged files: {report}"));
        }
        Ok(())
    }

    /// Compares the counts of an export with the events of the merge.
    fn check_export(&mut self, tool: Tool, said: &Said, rows: &Rows, bad: &BadFiles) -> Result<()> {
        let name = tool.name();
        let Ok(value) = serde_json::from_slice::<Value>(&said.output.stdout) else {
            self.complain(format!("{name}: {}", said.all().trim()));
            return Ok(());
        };
        let must_name = self.must_name(tool, &bad.must_name, rows)?;
        self.check_named(name, &value["damage"].to_string(), &must_name, &bad.may_name);
        let counts = [
            ("events", rows.len()),
            ("fragments", rows.values().map(|row| row.sources.len()).sum()),
            ("incomplete", rows.values().filter(|row| !row.missing.is_empty()).count()),
        ];
        for (what, count) in counts {
            if value[what] != count {
                self.complain(format!("{name} has {} {what}, and the merge {count}", value[what]));
            }
        }
        let highest = rows.keys().next_back().copied().unwrap_or_default();
        let first = usize::from(rows.contains_key(&0));
        let absent = highest - (rows.len() - first) as u64;
        if value["absent"] != absent {
            self.complain(format!(
                "{name}: {} event ids are absent, and for the merge {absent}",
                value["absent"]
            ));
        }
        Ok(())
    }

    /// Reads a run of the report of `evbd verify`. The report lists no events, but the highest id
    /// and the gaps between the ids.
    fn verified(&self, run: &Value) -> Verified {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let highest = number(&run["highest"]);
        let mut events = BTreeSet::new();
        let mut next = 1;
        for gap in run["gaps"]["first"].as_array().into_iter().flatten() {
            events.extend(next..number(&gap["first"]));
            next = number(&gap["last"]).saturating_add(1);
        }
        if highest >= next {
            events.extend(next..=highest);
        }
        // Event 0 is in no gap.
        if number(&run["events"]) == events.len() as u64 + 1 {
            events.insert(0);
        }
        let index_only = |finding: &Value| {
            finding["what"]
                .as_str()
                .is_some_and(|what| what.contains("index") && !what.contains("begins here"))
        };
        let list = |name: &str| run[name]["first"].as_array();
        let mut damaged = self.marks(list("damaged"), |finding| !index_only(finding));
        damaged.extend(self.marks(list("torn_tails"), |_| true));
        damaged.extend(self.marks(list("foreign"), |finding| !finding["event"].is_null()));
        let mut defective = damaged.clone();
        for name in ["damaged", "foreign", "duplicates"] {
            defective.extend(self.marks(list(name), |_| true));
        }
        Verified {
            number: number(&run["run"]),
            id: run["run_id"].as_str().map(ToOwned::to_owned),
            events,
            incomplete: number(&run["incomplete"]["total"]),
            damaged,
            defective,
        }
    }

    /// Returns the marks of the files of findings.
    fn marks(&self, findings: Option<&Vec<Value>>, wanted: impl Fn(&Value) -> bool) -> Marks {
        let paths = findings.into_iter().flatten().filter(|finding| wanted(finding));
        let text: String = paths.map(|finding| finding["path"].to_string()).collect();
        self.made.kinds.iter().map(|(mark, _)| mark).filter(|mark| text.contains(*mark)).cloned().collect()
    }
}

impl Verified {
    /// Returns the value of `--run` that chooses this run: the first 8 digits of its id, or its
    /// number if it has no id.
    fn choice(&self) -> String {
        self.id.as_ref().map_or_else(|| self.number.to_string(), |id| id[..8].to_owned())
    }

    /// Returns true if this value of `--run` chooses this run, perhaps among others.
    fn fits(&self, choice: &str) -> bool {
        let digits = |id: &String| choice.len() >= 4 && id.starts_with(choice);
        choice.parse() == Ok(self.number) || self.id.as_ref().is_some_and(digits)
    }
}

/// Returns the words of `evb_read.py` that name bad files: a complaint names the file by the line
/// before it.
fn bad_of_script(said: &Said) -> String {
    let mut bad = String::from_utf8_lossy(&said.output.stderr).into_owned();
    let (out, mut file) = (said.out(), "");
    for line in out.lines() {
        if line.starts_with('/') && line.contains(": run ") {
            file = line;
            if line.contains(", index damaged,") {
                bad += line;
            }
        } else if line.starts_with("! ") && !is_of_run(line) {
            bad += file;
        }
    }
    bad
}

/// Returns true if a complaint is about the run, and not about the file before it.
fn is_of_run(line: &str) -> bool {
    ["INCOMPLETE", "is there again", "several runs"].iter().any(|words| line.contains(words))
}
