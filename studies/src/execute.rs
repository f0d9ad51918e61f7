//! Execution of a study's command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use checkout::{IN_PART, SKIPPED};
use serde_json::{Value, json};

use super::catalog::Study;

/// Exit code of a program of which a bound does not hold.
const FAILED: u8 = 1;

/// The programs that studies run, and the folder for their results.
pub(super) struct Programs {
    pub(super) evbd: PathBuf,
    /// The program `lab`; cargo builds it if there is no path.
    pub(super) lab: Option<PathBuf>,
    pub(super) out: PathBuf,
}

/// Outcome of a command.
pub(super) enum Ended {
    /// The command has a result, and a bound did not hold if `holds` is false.
    Measured { result: Value, holds: bool },
    /// The command cannot run on this machine; it said why.
    Skipped,
}

impl Programs {
    /// Runs the command line of a study, and reads its result.
    ///
    /// # Errors
    /// The command does not start, ends with an exit code that is none of a measurement, or wrote
    /// no result.
    pub(super) fn run(&self, study: &Study, line: &str, seconds: u64) -> Result<Ended> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let json = self.json(study);
        match words[..] {
            ["evb-bench", ..] => {
                let mut command = self.timed(seconds, &self.evbd.with_file_name("evb-bench"));
                command.args(&words[1..]).arg("--json").arg(&json);
                if study.draws {
                    command.arg("--svg").arg(self.svg(study));
                }
                ended(command, || read(&json))
            }
            ["evbd", ..] => {
                let mut command = self.timed(seconds, &self.evbd);
                let output = command.args(&words[1..]).stderr(Stdio::inherit()).output().context("evbd")?;
                if !output.status.success() {
                    bail!("{}", output.status);
                }
                let printed = String::from_utf8_lossy(&output.stdout);
                let result = match serde_json::from_str(&printed) {
                    Ok(result) => result,
                    Err(_) => json!({ "printed": printed.lines().collect::<Vec<_>>() }),
                };
                Ok(Ended::Measured { result, holds: true })
            }
            ["cargo", "xtask", "lab", scenario, ..] => {
                let out = self.out.join(&study.name);
                let lab = checkout::lab(self.lab.as_deref(), false);
                let mut command = self.timed(seconds, Path::new(lab.get_program()));
                command.args(lab.get_args()).args(&words[2..]);
                command.arg("--evbd").arg(&self.evbd).arg("--out").arg(&out);
                ended(command, || {
                    if let Some(drawn) = &study.drawn {
                        fs::copy(out.join(drawn), self.svg(study)).with_context(|| drawn.clone())?;
                    }
                    let report = study.report.as_deref().unwrap_or(scenario);
                    read(&out.join(format!("{report}.json")))
                })
            }
            _ => bail!("a study is `evbd …`, `evb-bench …` or `cargo xtask lab …`, not `{line}`"),
        }
    }

    /// Returns the path of the file for the JSON of a study.
    pub(super) fn json(&self, study: &Study) -> PathBuf {
        self.out.join(format!("{}.json", study.name))
    }

    /// Returns the path of the file for the picture of a study.
    pub(super) fn svg(&self, study: &Study) -> PathBuf {
        self.out.join(format!("{}.svg", study.name))
    }

    /// Returns the version of evbd, such as `evbd 0.1.0`.
    pub(super) fn version(&self) -> Result<String> {
        let output = Command::new(&self.evbd).arg("--version").output();
        let output = output.with_context(|| self.evbd.display().to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn timed(&self, seconds: u64, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=20", &seconds.to_string()]).arg(program).current_dir(checkout::root());
        command
    }
}

fn ended(mut command: Command, result: impl FnOnce() -> Result<Value>) -> Result<Ended> {
    let status = command.status().with_context(|| format!("{command:?} does not start"))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(0 | IN_PART) => Ok(Ended::Measured { result: result()?, holds: true }),
        Some(FAILED) => Ok(Ended::Measured { result: result()?, holds: false }),
        Some(SKIPPED) => Ok(Ended::Skipped),
        Some(124 | 137) => bail!("it did not end in time"),
        _ => bail!("{status}"),
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("no result {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
