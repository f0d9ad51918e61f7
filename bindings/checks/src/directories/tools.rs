//! The programs that read a directory, and what each of them finds there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use evb_core::event::Event;
use evb_file::{EventFile, files_at};
use lab_base::setting::Setting;
use serde_json::Value;

use super::files::programs;
use crate::{export::tools::built, file_cpp::program::Program, python};

/// A program that reads event files, in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    Verify,
    Dump,
    Merge,
    Hdf5,
    Parquet,
    /// The Python package.
    Package,
    /// The module of `bindings/python/evb_read.py`.
    Script,
    /// `bindings/python/evb_read.py` as a program.
    ScriptVerify,
    /// `evb_file.hpp`.
    Cpp,
}

impl Tool {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Verify => "evbd verify",
            Self::Dump => "evbd dump",
            Self::Merge => "evbd merge",
            Self::Hdf5 => "evb-export --to hdf5",
            Self::Parquet => "evb-export --to parquet",
            Self::Package => "Python package",
            Self::Script => "module evb_read",
            Self::ScriptVerify => "evb_read.py",
            Self::Cpp => "evb_file.hpp",
        }
    }
}

/// An event as a reader gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) epoch: u64,
    pub(super) sources: Vec<u16>,
    pub(super) missing: Vec<u16>,
}

/// The events of a run.
pub(super) type Rows = BTreeMap<u64, Row>;

/// The events of a run as a reader found them, and its words.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The reason why there are no events.
    pub(super) error: Option<String>,
    pub(super) rows: Rows,
    /// The words that name bad files.
    pub(super) named: String,
    /// The numbers of records of the files, by their indexes, from readers in Python.
    pub(super) lengths: Vec<u64>,
}

/// The programs of the test.
pub(super) struct Tools {
    evbd: PathBuf,
    export: PathBuf,
    python: PathBuf,
    cpp: Program,
    /// The program `setpriv` and its options, in front of each command ([`WITHOUT_RIGHTS`]); empty
    /// where it cannot drop rights.
    prefix: Vec<&'static str>,
}

/// The output of a program, and the time that it took.
pub(super) struct Said {
    pub(super) output: Output,
    pub(super) time: Duration,
}

impl Said {
    pub(super) fn out(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(super) fn all(&self) -> String {
        self.out() + &String::from_utf8_lossy(&self.output.stderr)
    }
}

/// Seconds after which a program counts as one that hangs.
const LIMIT: &str = "60";
/// The beginning of a command that runs a program without root's right to open every file. With
/// this right, the files without read permission could be read, and would test nothing.
const WITHOUT_RIGHTS: [&str; 4] =
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps=-all"];

impl Tools {
    /// Builds and finds all programs, and tests if they can run without root's rights over files.
    /// The inner error is the reason why a program cannot be had.
    pub(super) fn find(setting: &Setting, folder: &Path, quick: bool) -> Result<Result<Self, String>> {
        let venv = match python::installed(&setting.out, folder, quick)? {
            Ok(venv) => venv,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut trial = Command::new(WITHOUT_RIGHTS[0]);
        let can_drop_rights =
            trial.args(&WITHOUT_RIGHTS[1..]).arg("true").output().is_ok_and(|output| output.status.success());
        if !can_drop_rights {
            println!("setpriv takes no rights here: root reads files that are closed");
        }
        Ok(Ok(Self {
            evbd: setting.evbd.clone(),
            export: built(quick)?,
            python: venv.command("python").get_program().into(),
            cpp: Program::plain(&setting.out)?,
            prefix: if can_drop_rights { WITHOUT_RIGHTS.into() } else { Vec::new() },
        }))
    }

    /// Returns true if the programs cannot open files without read permission, even as root.
    pub(super) fn obey_rights(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Lets a tool read a directory. `choice` is its option `--run`: the id or number of a run.
    /// `out` is the path to which a merge or an export writes.
    pub(super) fn run(&self, tool: Tool, folder: &Path, choice: Option<&str>, out: &Path) -> Result<Said> {
        let mut line = Command::new(if self.prefix.is_empty() { "timeout" } else { self.prefix[0] });
        if !self.prefix.is_empty() {
            line.args(&self.prefix[1..]).arg("timeout");
        }
        line.args(["--kill-after=5", LIMIT]);
        match tool {
            Tool::Verify => drop(line.arg(&self.evbd).args(["verify", "--json"]).arg(folder)),
            Tool::Dump => drop(line.arg(&self.evbd).args(["dump", "--fragments"]).arg(folder)),
            Tool::Merge => drop(line.arg(&self.evbd).arg("merge").arg(folder).arg("--out").arg(out)),
            Tool::Hdf5 | Tool::Parquet => {
                line.arg(&self.export).args(["--json", "--force", "--allow-gaps", "--to"]);
                line.arg(if tool == Tool::Hdf5 { "hdf5" } else { "parquet" })
                    .arg("--out")
                    .arg(out)
                    .arg(folder);
            }
            Tool::Package | Tool::Script => {
                line.arg(&self.python).arg("-B").arg(programs().join("events.py"));
                line.arg(if tool == Tool::Package { "evb" } else { "evb_read" }).arg(folder);
                line.env("PYTHONPATH", checkout::root().join("bindings/python"));
            }
            Tool::ScriptVerify => {
                line.arg(&self.python)
                    .arg("-B")
                    .arg(checkout::root().join("bindings/python/evb_read.py"))
                    .arg(folder);
            }
            Tool::Cpp => {
                line.arg(self.cpp.path());
                line.args(choice.map(|choice| format!("--run={choice}"))).arg(folder);
            }
        }
        match (tool, choice) {
            (Tool::Cpp, _) | (_, None) => {}
            (Tool::Package | Tool::Script, Some(choice)) => drop(line.arg(choice)),
            (_, Some(choice)) => drop(line.args(["--run", choice])),
        }
        let begin = Instant::now();
        let output = line.output().with_context(|| format!("{line:?}"))?;
        let time = begin.elapsed();
        let code = output.status.code();
        // 124: it took too long. 101: a panic. None: a signal.
        if !matches!(code, Some(0..=2)) {
            bail!("{} ends with {}: {}", tool.name(), output.status, last_lines(&output.stderr));
        }
        Ok(Said { output, time })
    }
}

/// Removes the output of an earlier tool, which is a directory or a file.
pub(super) fn clear(out: &Path) {
    let _ = fs::remove_dir_all(out).or_else(|_| fs::remove_file(out));
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let from = text.char_indices().rev().nth(1500).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

/// Reads what `evbd merge` wrote and said.
pub(super) fn of_merge(said: &Said, out: &Path) -> Result<Found> {
    if !matches!(said.output.status.code(), Some(0 | 1)) || !out.exists() {
        return Ok(Found { error: Some(said.all()), named: said.all(), ..Found::default() });
    }
    let mut rows = Rows::new();
    for path in files_at(out)? {
        for event in EventFile::open(path)?.events() {
            let event: Event = event?;
            let row = Row {
                epoch: event.epoch.number(),
                sources: event.fragments().map(|fragment| fragment.source.number()).collect(),
                missing: event.missing_sources().map(|source| source.number()).collect(),
            };
            ensure!(rows.insert(event.id.number(), row).is_none(), "event {} is merged twice", event.id);
        }
    }
    Ok(Found { rows, named: said.all(), ..Found::default() })
}

/// Reads what `events.py` prints.
pub(super) fn of_python(said: &Said) -> Result<Found> {
    let Ok(value) = serde_json::from_slice::<Value>(&said.output.stdout) else {
        return Ok(Found { error: Some(said.all()), ..Found::default() });
    };
    let ids = |value: &Value| -> Vec<u16> {
        value.as_array().into_iter().flatten().filter_map(|id| Some(id.as_u64()? as u16)).collect()
    };
    let rows = value["events"].as_array().into_iter().flatten().map(|event| {
        let row = Row {
            epoch: event[1].as_u64().unwrap_or_default(),
            sources: ids(&event[2]),
            missing: ids(&event[3]),
        };
        (event[0].as_u64().unwrap_or_default(), row)
    });
    let named: Vec<&str> =
        value["named"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let error = value["error"].as_str().map(ToOwned::to_owned);
    let named = named.join("\n") + error.as_deref().unwrap_or_default();
    let lengths = value["lengths"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    Ok(Found { rows: rows.collect(), named, error, lengths })
}

/// Reads a listing of the C++ reader; see `crates/evb-file/examples/listing.rs`.
pub(super) fn of_cpp(listing: &str) -> Found {
    let (mut found, mut section, mut last) = (Found::default(), "", 0);
    for line in listing.lines() {
        let word = line.split(' ').next().unwrap_or_default();
        match word {
            "run" | "file" => section = word,
            "merged" | "verify" => section = word,
            "error" if section == "run" => {
                found.error = Some(line.to_owned());
                found.named += line;
            }
            "error" | "damage" => found.named = found.named + line + "\n",
            "event" if section == "merged" => {
                let row = Row {
                    epoch: field(line, "epoch=").parse().unwrap_or_default(),
                    sources: Vec::new(),
                    missing: field(line, "missing=").split(',').filter_map(|id| id.parse().ok()).collect(),
                };
                last = field(line, "id=").parse().unwrap_or_default();
                found.rows.insert(last, row);
            }
            "fragment" if section == "merged" => {
                let source = field(line, "source=").parse().unwrap_or_default();
                if let Some(row) = found.rows.get_mut(&last) {
                    row.sources.push(source);
                }
            }
            _ => {}
        }
    }
    found
}

fn field<'a>(line: &'a str, name: &str) -> &'a str {
    line.split(' ').find_map(|word| word.strip_prefix(name)).unwrap_or_default()
}

/// Records as a listing of heads gives them: the mark of the file, the offset, and the event id.
pub(super) type Heads = BTreeSet<(String, u64, u64)>;

/// Returns the records that `evbd dump` lists.
pub(super) fn heads_of_dump(text: &str) -> Heads {
    let (mut file, mut heads) = (String::new(), Heads::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((path, _)) = line.split_once(": run ").filter(|(path, _)| path.starts_with('/')) {
            file = mark_of(path);
        } else if words.len() > 7
            && let (Ok(event), Ok(offset)) = (words[0].parse(), words[6].parse())
        {
            heads.insert((file.clone(), offset, event));
        }
    }
    heads
}

/// Returns the records that the C++ reader lists.
pub(super) fn heads_of_cpp(listing: &str) -> Heads {
    let (mut file, mut heads, mut section) = (String::new(), Heads::new(), "");
    for line in listing.lines() {
        let word = line.split(' ').next().unwrap_or_default();
        match word {
            "file" => file = mark_of(&line[5..]),
            "heads" | "events" | "merged" => section = word,
            "event" if section == "heads" => {
                let number = |name| field(line, name).parse().unwrap_or_default();
                heads.insert((file.clone(), number("offset="), number("id=")));
            }
            _ => {}
        }
    }
    heads
}

fn mark_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}
