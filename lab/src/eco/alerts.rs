//! Checks alerts in a real Prometheus and a real Alertmanager: a fault raises the expected alert in
//! time, and no alert blames another peer.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use lab_base::{
    alone::{self, IP, UNSHARE},
    disk::Disk,
    needs::Need,
    report::{Bound, Report},
    setting::Setting,
};

use super::{
    daemon::Daemon,
    prometheus::{ALERTMANAGER, AMTOOL, Alert, Alertmanager, PROMETHEUS, Prometheus, dist, judge},
};

pub(crate) const NEEDS: &[Need] = &[PROMETHEUS, ALERTMANAGER, AMTOOL, UNSHARE, IP];

const CONFIG: &str = include_str!("alerts/evb.toml");
/// Time limit of the whole test; after it, all its processes are killed.
const LIMIT: Duration = Duration::from_secs(330);
/// Size of a disk that never fills up, in bytes. The images of the test's disks are sparse, so they
/// occupy only the space that is written.
const LARGE: u64 = 256 << 30;
const SMALL: u64 = 600 << 20;
/// Length of a run without faults, in which no alert may fire.
const GOOD: Duration = Duration::from_secs(25);
/// Longest allowed time from a fault until its alert fires, in seconds.
const SOON: f64 = 30.0;
const LOOK_EVERY: Duration = Duration::from_millis(200);
const SOURCE: &str = "fourth source";
const ROLES: [&str; 6] = ["supervisor", "source:1", "source:2", "source:3", "builder:1", "builder:2"];

#[derive(Args)]
pub(crate) struct AlertsArgs {
    /// Used internally: states that this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

pub(super) fn run(setting: &Setting, args: &AlertsArgs) -> Result<u8> {
    if !args.inside {
        return alone::run(&setting.again("alerts"), LIMIT);
    }
    let folder = setting.folder("alerts")?;
    let large = Disk::mount(&folder.join("large"), LARGE)?;
    let small = Disk::mount(&folder.join("small"), SMALL)?;
    let course = Course::begin(setting, &folder)?;
    let holds = course.play(&small).with_context(|| format!("logs in {}", folder.display()));
    drop((large, small));
    Ok(u8::from(!holds?))
}

struct Course<'a> {
    setting: &'a Setting,
    daemon: Daemon,
    alertmanager: Alertmanager,
    prometheus: Prometheus,
    report: Report,
}

impl<'a> Course<'a> {
    fn begin(setting: &'a Setting, folder: &Path) -> Result<Self> {
        let mut daemon = Daemon::new(&setting.evbd, folder, CONFIG)?;
        daemon.start("leader", &ROLES)?;
        daemon.start(SOURCE, &["source:4"])?;
        daemon.wait("ready", |status| status["ready"] == true)?;
        let alertmanager = Alertmanager::start(folder)?;
        let prometheus = Prometheus::start(folder)?;
        Ok(Self { setting, daemon, alertmanager, prometheus, report: Report::bare("alerts") })
    }

    /// Runs all steps of the alert test, and returns true if every check passed.
    fn play(mut self, small: &Disk) -> Result<bool> {
        let (is_content, said) =
            judge("amtool", &["check-config", "alertmanager.yml"], &dist("prometheus"), "")?;
        if !is_content {
            self.report.note(said);
        }
        self.report.yes("amtool check-config", is_content);
        self.good_run()?;
        self.frozen_source()?;
        self.disk_that_fills(small)?;
        self.report.finish(&self.setting.out)
    }

    fn command(&self, name: &str) -> Result<()> {
        let (code, answer) = self.daemon.command(name)?;
        ensure!(code == 200, "{name}: {answer}");
        Ok(())
    }

    fn stop(&mut self, runs: u64) -> Result<()> {
        self.command("stop")?;
        self.daemon.wait("a run that is over", |status| status["runs"] == runs)?;
        Ok(())
    }

    fn good_run(&mut self) -> Result<()> {
        self.command("start")?;
        thread::sleep(GOOD);
        let firing = self.prometheus.firing()?;
        firing.iter().for_each(|alert| self.report.note(format!("a good run: {alert:?}")));
        self.report.holds("a good run: alerts that fire", firing.len() as f64, Bound::AtMost(0.0));
        Ok(())
    }

    fn frozen_source(&mut self) -> Result<()> {
        let began = Instant::now();
        self.daemon.signal(SOURCE, "STOP")?;
        self.told("a frozen source", "EvbSourceSilent", "source 4", began)?;
        self.nobody_else("a frozen source", "source 4")?;
        self.daemon.signal(SOURCE, "CONT")?;
        let began = Instant::now();
        self.quiet("a frozen source", began)?;
        self.stop(1)
    }

    /// Lets a run fill the disk gradually first, and then takes all its free space at once.
    fn disk_that_fills(&mut self, small: &Disk) -> Result<()> {
        self.daemon.configure(&CONFIG.replace("large/1", "small/1"))?;
        self.daemon.wait("ready again", |status| status["ready"] == true)?;
        let began = Instant::now();
        self.command("start")?;
        self.told("a disk that fills", "EvbDiskFullSoon", "sink of builder 1", began)?;
        self.nobody_else("a disk that fills", "sink of builder 1")?;
        let began = Instant::now();
        let ballast = small.folder.join("ballast");
        fill(&ballast)?;
        self.told("a full disk", "EvbSinkSlow", "sink of builder 1", began)?;
        self.nobody_else("a full disk", "sink of builder 1")?;
        fs::remove_file(&ballast)?;
        self.stop(2)?;
        let status = self.daemon.status()?;
        let lost = status["totals"]["events"]["lost"].as_f64().unwrap_or(f64::NAN);
        self.report.holds("events lost by both faults", lost, Bound::AtMost(0.0));
        self.daemon.end("leader")
    }

    /// Waits until an alert fires in Prometheus and reaches Alertmanager, and reports both times.
    fn told(&mut self, what: &str, name: &str, culprit: &str, began: Instant) -> Result<()> {
        let fires = self.until(began, || Ok(find(&self.prometheus.firing()?, name, culprit)))?;
        let seconds = fires.as_ref().map_or(f64::NAN, |(seconds, _)| *seconds);
        if let Some((_, summary)) = fires {
            self.report.note(format!("{what}: {summary}"));
        }
        self.report.noisy(
            &format!("{what}: {name} of {culprit} fires after, s"),
            seconds,
            Bound::AtMost(SOON),
        );
        let told = self.until(began, || Ok(find(&self.alertmanager.alerts()?, name, culprit)))?;
        let seconds = told.map_or(f64::NAN, |(seconds, _)| seconds);
        self.report.noisy(
            &format!("{what}: Alertmanager knows after, s"),
            seconds,
            Bound::AtMost(SOON + 2.0),
        );
        Ok(())
    }

    /// Polls until `look` returns a value, and returns it with the seconds since `began`; gives up
    /// after 1.5 times the allowed time.
    fn until<T>(
        &self,
        began: Instant,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<(f64, T)>> {
        loop {
            let found = look()?;
            let seconds = began.elapsed().as_secs_f64();
            match found {
                Some(found) => return Ok(Some((seconds, found))),
                None if seconds > 1.5 * SOON => return Ok(None),
                None => thread::sleep(LOOK_EVERY),
            }
        }
    }

    fn nobody_else(&mut self, what: &str, culprit: &str) -> Result<()> {
        let firing: BTreeSet<_> = self.prometheus.firing()?.into_iter().collect();
        let names: Vec<_> =
            firing.iter().map(|alert| format!("{} ({})", alert.name, alert.culprit)).collect();
        self.report.note(format!("{what}: fires: {}", names.join(", ")));
        self.report.yes(
            &format!("{what}: nobody else is blamed"),
            firing.iter().all(|alert| alert.culprit == culprit),
        );
        Ok(())
    }

    /// Waits until no alert fires any more, and reports the time.
    fn quiet(&mut self, what: &str, began: Instant) -> Result<()> {
        let over = self.until(began, || Ok(self.prometheus.firing()?.is_empty().then_some(())))?;
        let seconds = over.map_or(f64::NAN, |(seconds, ())| seconds);
        self.report.noisy(
            &format!("{what}: over, and no alert fires, after, s"),
            seconds,
            Bound::AtMost(SOON),
        );
        Ok(())
    }
}

/// Fills the disk with a ballast file until no space is left, even if other processes write to the
/// disk at the same time.
fn fill(ballast: &Path) -> Result<()> {
    let mut file = File::create(ballast)?;
    let piece = vec![0; 1 << 20];
    loop {
        match file.write_all(&piece) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error).context("the ballast"),
        }
    }
}

/// Returns the summary text of the alert with this name and culprit; `None` if `alerts` does not
/// contain it.
fn find(alerts: &[Alert], name: &str, culprit: &str) -> Option<String> {
    alerts.iter().find(|alert| alert.is(name, culprit)).map(|alert| alert.summary.clone())
}
