//! Checks metrics in a real Prometheus: after runs with faults, its event counts equal those of
//! evbd's status and of the event files, and the queries of the Grafana dashboard return data.

mod board;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use lab_base::{
    alone,
    disk::Disk,
    needs::Need,
    report::{Bound, Report},
    setting::Setting,
};
use serde_json::{Value, json};

use super::{
    daemon::Daemon,
    prometheus::{self, PROMETHEUS, PROMTOOL, Prometheus, judge},
};

pub(crate) const NEEDS: &[Need] = &[PROMETHEUS, PROMTOOL, alone::UNSHARE, alone::IP];

/// Time limit of the whole test; after it, all its processes are killed.
const LIMIT: Duration = Duration::from_secs(240);
/// Size of the disk to which both builders of the quickstart configuration write, in bytes.
const DISK: u64 = 4 << 30;
/// Time within which a change reaches Prometheus: metrics may be half a second old, and are scraped
/// once a second.
const SCRAPED: Duration = Duration::from_secs(3);
const OUTCOMES: [&str; 5] = ["complete", "incomplete", "rejected", "lost", "inhibited"];
/// Processes of the quickstart system and their roles; each role that is killed or frozen has its
/// own process.
const PARTS: [(&str, &[&str]); 3] = [
    ("leader", &["supervisor", "source:1", "source:2", "source:3", "builder:1"]),
    ("second builder", &["builder:2"]),
    ("fourth source", &["source:4"]),
];

#[derive(Args)]
pub(crate) struct MetricsArgs {
    /// Used internally: states that this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

pub(super) fn run(setting: &Setting, args: &MetricsArgs) -> Result<u8> {
    if !args.inside {
        return alone::run(&setting.again("metrics"), LIMIT);
    }
    let folder = setting.folder("metrics")?;
    let out = folder.join("out");
    let disk = Disk::mount(&out, DISK)?;
    let (first, second) = configs()?;
    let mut daemon = Daemon::new(&setting.evbd, &folder, &first)?;
    for (name, roles) in PARTS {
        daemon.start(name, roles)?;
    }
    daemon.wait("ready", |status| status["ready"] == true)?;
    let prometheus = Prometheus::start(&folder)?;
    let began = Instant::now();
    let files = out.join("quickstart");
    let course = Course { setting, daemon, prometheus, files, began, report: Report::bare("metrics") };
    let holds = course.play(&second).with_context(|| format!("logs in {}", folder.display()));
    drop(disk);
    Ok(u8::from(!holds?))
}

/// Returns two configurations: the quickstart with run control, and the same with an event filter
/// and without an end of the run.
fn configs() -> Result<(String, String)> {
    let quickstart = fs::read_to_string(checkout::root().join("examples/quickstart.toml"))?;
    let first = format!("{quickstart}\n[control]\nlisten = \"{}\"\n", super::daemon::CONTROL);
    let mut second = first.clone();
    for (old, new) in [
        ("\nevents = 10_000\n", "\n"),
        ("deadline = \"2 s\"", "deadline = \"300 ms\"\npolicy = \"least-loaded\""),
        ("\nsink ", "\nfilter = { kind = \"prescale\", keep_every = 3 }\nsink "),
    ] {
        ensure!(second.contains(old), "the quickstart has no {old:?} any more");
        second = second.replace(old, new);
    }
    Ok((first, second))
}

struct Course<'a> {
    setting: &'a Setting,
    daemon: Daemon,
    prometheus: Prometheus,
    /// Folder to which the builders write event files.
    files: PathBuf,
    began: Instant,
    report: Report,
}

impl Course<'_> {
    /// Runs all steps of the metrics test, and returns true if every check passed.
    fn play(mut self, second: &str) -> Result<bool> {
        self.rules()?;
        self.quickstart()?;
        self.daemon.configure(second)?;
        self.troubles()?;
        thread::sleep(SCRAPED);
        self.lint("after the runs")?;
        self.counts()?;
        self.board()?;
        self.report.finish(&self.setting.out)
    }

    /// Checks the Prometheus files that evb ships in `dist` with `promtool`.
    fn rules(&mut self) -> Result<()> {
        let folder = prometheus::dist("prometheus");
        for arguments in [
            ["check", "config", "prometheus.yml"],
            ["check", "rules", "evb.rules.yml"],
            ["test", "rules", "evb.rules.test.yml"],
        ] {
            let (is_content, said) = judge("promtool", &arguments, &folder, "")?;
            if !is_content {
                self.report.note(said);
            }
            self.report.yes(&format!("promtool {}", arguments.join(" ")), is_content);
        }
        Ok(())
    }

    /// Checks that `promtool` accepts evbd's metrics in the older text format; it cannot check the
    /// newer format, which Prometheus scrapes.
    fn lint(&mut self, when: &str) -> Result<()> {
        let text = prometheus::metrics()?;
        let (is_content, said) = judge("promtool", &["check", "metrics"], Path::new("."), &text)?;
        if !said.is_empty() {
            self.report.note(said.clone());
        }
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        self.report.note(format!("{when}: {lines} series, {} bytes", text.len()));
        self.report.yes(&format!("promtool check metrics, {when}"), is_content && said.is_empty());
        Ok(())
    }

    fn command(&self, name: &str) -> Result<()> {
        let (code, answer) = self.daemon.command(name)?;
        ensure!(code == 200, "{name}: {answer}");
        Ok(())
    }

    fn ready(&self) -> Result<()> {
        self.daemon.wait("ready", |status| status["ready"] == true).map(drop)
    }

    /// Runs the quickstart configuration, whose run ends by itself.
    fn quickstart(&mut self) -> Result<()> {
        self.ready()?;
        self.lint("before the runs")?;
        self.command("start")?;
        thread::sleep(Duration::from_secs(3));
        self.lint("in a good run")?;
        self.daemon.wait("a run that is over", |status| status["runs"] == 1)?;
        Ok(())
    }

    /// Kills a builder and restarts it; then freezes a source for 8 s.
    fn troubles(&mut self) -> Result<()> {
        let pause = |seconds| thread::sleep(Duration::from_secs(seconds));
        let (builder, roles) = PARTS[1];
        self.ready()?;
        self.command("start")?;
        pause(4);
        self.daemon.kill(builder)?;
        pause(6);
        self.lint("without a builder")?;
        self.daemon.start(builder, roles)?;
        self.daemon
            .wait("a builder that is back", |status| status["survey"]["builders"][1]["presence"] == "up")?;
        pause(4);
        let source = PARTS[2].0;
        self.daemon.signal(source, "STOP")?;
        pause(8);
        self.lint("with a silent source")?;
        self.daemon.signal(source, "CONT")?;
        pause(4);
        self.command("stop")?;
        self.daemon.wait("two runs that are over", |status| status["runs"] == 2)?;
        Ok(())
    }

    /// Compares the event counts in Prometheus, in evbd's status, and in the event files.
    fn counts(&mut self) -> Result<()> {
        let totals = self.daemon.status()?["totals"]["events"].take();
        let samples = self.prometheus.query("sum by (outcome) (evb_events_total)")?;
        let scraped = |outcome: &str| {
            let of = samples.iter().find(|sample| sample["metric"]["outcome"] == outcome);
            of.and_then(|sample| sample["value"][1].as_str()?.parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        let files = files(&self.setting.evbd, &self.files)?;
        self.report.attach("totals", totals.clone());
        self.report.attach("files", json!({ "complete": files.complete, "incomplete": files.incomplete }));
        for outcome in OUTCOMES {
            let status = totals[outcome].as_f64().unwrap_or(f64::NAN);
            let counted = scraped(outcome);
            self.report.note(format!("{outcome}: Prometheus {counted}, status {status}"));
            self.report.holds(
                &format!("{outcome}: Prometheus less the status"),
                (counted - status).abs(),
                Bound::AtMost(0.0),
            );
        }
        let triggered = self.prometheus.value("sum(evb_triggers_total)")?;
        let sum: f64 = OUTCOMES.iter().map(|outcome| scraped(outcome)).sum();
        self.report.holds(
            "Prometheus: triggers less all outcomes",
            (triggered - sum).abs(),
            Bound::AtMost(0.0),
        );
        for (outcome, found) in [("complete", files.complete), ("incomplete", files.incomplete)] {
            let difference = (scraped(outcome) - found).abs();
            self.report.note(format!("{outcome}: {found} in the files"));
            self.report.holds(
                &format!("{outcome}: Prometheus less the files"),
                difference,
                Bound::AtMost(0.0),
            );
        }
        for outcome in ["incomplete", "rejected", "complete"] {
            self.report.holds(&format!("there were {outcome} events"), scraped(outcome), Bound::AtLeast(1.0));
        }
        Ok(())
    }

    /// Checks that every query of the Grafana dashboard has returned data since the start of the
    /// test, and that no scrape failed.
    fn board(&mut self) -> Result<()> {
        let lasted = self.began.elapsed();
        let queries = board::queries()?;
        let mut shown = 0;
        for query in &queries {
            let values = self.prometheus.count_values(&query.expression, lasted)?;
            if values == 0 {
                self.report.note(format!("no data in `{}`: {}", query.panel, query.expression));
            }
            shown += usize::from(values > 0);
        }
        self.report.note(format!("the board has {} queries", queries.len()));
        self.report.holds("queries without data", (queries.len() - shown) as f64, Bound::AtMost(0.0));
        let scrapes = self.prometheus.value("count_over_time(up{job=\"evb\"}[5m])")?;
        let answered = self.prometheus.value("sum_over_time(up{job=\"evb\"}[5m])")?;
        self.report.holds("scrapes that failed", scrapes - answered, Bound::AtMost(0.0));
        self.report.noisy("scrapes", scrapes, Bound::AtLeast(lasted.as_secs_f64() * 0.8));
        Ok(())
    }
}

/// Numbers of events in the event files.
#[derive(Debug)]
struct Files {
    complete: f64,
    incomplete: f64,
}

/// Counts the events in all event files with `evbd verify`; an event that was built twice counts
/// once.
fn files(evbd: &Path, folder: &Path) -> Result<Files> {
    let (_, text) = judge(&evbd.to_string_lossy(), &["verify", "--json", "."], folder, "")?;
    let found: Value = serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))?;
    let runs = found["runs"].as_array().context("no runs")?;
    let sum = |of: fn(&Value) -> &Value| runs.iter().filter_map(|run| of(run).as_f64()).sum();
    Ok(Files { complete: sum(|run| &run["complete"]), incomplete: sum(|run| &run["incomplete"]["total"]) })
}
