//! The steps of the test of evb's batch script on a Slurm cluster.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use lab_base::setting::Setting;
use serde_json::Value;

use super::cluster::Cluster;
use crate::eco::hosts::{closes, run as run_program, said, until};

const SCRIPT: &str = "dist/slurm/evb.sbatch";
/// Longest time that a job on four nodes may take, if the nodes share two cores.
const LIMIT: Duration = Duration::from_secs(100);
/// Trigger rate that needs less than two cores, so that no program misses a deadline because it has
/// to wait for a core.
const RATE: &str = "8kHz";
/// Time for which a job builds events before the test cancels it or kills a node.
const BEFORE: Duration = Duration::from_secs(4);

struct Course<'a> {
    setting: &'a Setting,
    folder: PathBuf,
    cluster: Cluster,
}

/// Runs the whole Slurm test inside its own namespaces; an error names the check that failed.
pub(super) fn run(setting: &Setting, events: u64) -> Result<()> {
    let folder = setting.out.join("slurm");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let began = Instant::now();
    let cluster = Cluster::up(&folder)?;
    println!("four nodes are idle after {:.1} s", began.elapsed().as_secs_f64());
    let mut course = Course { setting, folder, cluster };
    course.builds(events)?;
    course.drains()?;
    course.names_a_dead_node()
}

/// A Slurm job that runs evb's batch script.
struct Job {
    id: String,
    folder: PathBuf,
    log: PathBuf,
}

impl Job {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Reads the run summary that the supervisor has written on its host, n1.
    fn summary(&self) -> Result<Value> {
        let path = self.folder.join("n1.json");
        let text = fs::read_to_string(&path).with_context(|| format!("no summary: {}", self.said()))?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Course<'_> {
    /// Submits the batch script, which passes `arguments` to `evbd plan`.
    fn submit(&self, arguments: &[&str]) -> Result<Job> {
        let script = checkout::root().join(SCRIPT);
        let mut command = self.cluster.command("sbatch", &["--parsable", "--nodes=4"]);
        command.arg(script).args(arguments).env("EVBD", &self.setting.evbd);
        let id = said(&mut command)?.trim().to_owned();
        let folder = self.folder.join(format!("evb-{id}"));
        Ok(Job { log: self.folder.join(format!("evb-{id}.out")), folder, id })
    }

    fn state(&self, job: &Job) -> String {
        let said = self.cluster.slurm("scontrol", &["show", "job", &job.id]).unwrap_or_default();
        let state = said.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        state.unwrap_or("UNKNOWN").to_owned()
    }

    /// Waits until the job is over and its script has printed the result of the run, and returns
    /// the state of the job.
    fn ended(&self, job: &Job) -> Result<String> {
        let over =
            |state: &str| ["COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"].contains(&state);
        until("over", LIMIT, || over(&self.state(job))).with_context(|| job.said())?;
        until("done with its ledger", LIMIT, || job.said().contains("\nevb: "))
            .with_context(|| job.said())?;
        Ok(self.state(job))
    }

    /// Waits until the job runs, and then for some seconds in which the run builds events.
    fn running(&self, job: &Job) -> Result<()> {
        until("running", LIMIT, || self.state(job) == "RUNNING")?;
        until("planned", LIMIT, || job.said().contains("Hosts of the configuration"))?;
        thread::sleep(BEFORE);
        Ok(())
    }

    fn builds(&self, events: u64) -> Result<()> {
        let out = self.folder.join("events");
        let began = Instant::now();
        let (number, out_dir) = (events.to_string(), out.to_string_lossy().into_owned());
        let job = self.submit(&["--events", &number, "--out", &out_dir, "--trigger-rate", RATE])?;
        let state = self.ended(&job)?;
        let summary = job.summary()?;
        ensure!(state == "COMPLETED", "{state}: {}", job.said());
        ensure!(summary["events"]["complete"] == events && closes(&summary), "{}", summary["verdict"]);
        let verdict = format!("evb: {events} of {events} assigned events complete");
        ensure!(job.said().contains(&verdict), "{}", job.said());
        let files = self.setting.evbd.to_string_lossy().into_owned();
        let verified = run_program(&files, &["verify", &out_dir])?;
        ensure!(verified.contains(&events.to_string()), "{verified}");
        println!(
            "sbatch: {events} events complete on 4 nodes in {:.1} s, ledger closed, files verified",
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn drains(&self) -> Result<()> {
        for (how, arguments, expected) in
            [("scancel", &[][..], "CANCELLED"), ("scancel --signal=TERM", &["--signal=TERM"], "COMPLETED")]
        {
            let job = self.submit(&["--trigger-rate", RATE])?;
            self.running(&job)?;
            let began = Instant::now();
            self.cluster.slurm("scancel", &[arguments, &[job.id.as_str()]].concat())?;
            let state = self.ended(&job)?;
            let summary = job.summary()?;
            let events = &summary["events"];
            ensure!(state == expected, "{how}: {state}: {}", job.said());
            ensure!(closes(&summary) && summary["exit_code"] == 0, "{how}: {}", summary["verdict"]);
            ensure!(events["complete"].as_u64() > Some(0), "{how}: nothing was built: {events}");
            println!(
                "{how}: {} of {} assigned events complete, ledger closed {:.1} s later",
                events["complete"],
                events["assigned"],
                began.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }

    fn names_a_dead_node(&mut self) -> Result<()> {
        let job = self.submit(&["--events", "40000", "--trigger-rate", "3kHz"])?;
        self.running(&job)?;
        self.cluster.kill("n4")?;
        let state = self.ended(&job)?;
        let (said, summary) = (job.said(), job.summary()?);
        ensure!(state == "FAILED" && closes(&summary), "{state}: {}", summary["verdict"]);
        ensure!(summary["events"]["assigned"] == 40_000, "the run did not go on: {}", summary["events"]);
        let hosted = said.lines().find(|line| line.trim_start().starts_with("n4 ")).unwrap_or_default();
        ensure!(hosted.contains("builder 1, source 3"), "who is on n4? {said}");
        for part in ["source 3 is missing in", "Node failure on n4"] {
            ensure!(said.contains(part), "`{part}` is not said: {said}");
        }
        println!(
            "a node that dies: {} of 40000 events complete, {} incomplete, {} lost; named by evb and by Slurm",
            summary["events"]["complete"], summary["events"]["incomplete"], summary["events"]["lost"]
        );
        Ok(())
    }
}
