//! Tests evb together with the programs that its users have, each the real one as Debian packages
//! it. Every part states its requirements, is skipped with a reason if one is missing, and fails
//! instead if `--require` demands that it runs.

mod needs;
#[cfg_attr(not(feature = "browser"), allow(dead_code))] // only the page needs them so far
mod alone;
#[cfg_attr(not(feature = "browser"), allow(dead_code))]
mod daemon;
mod prometheus;
mod alerts;
mod metrics;
mod page;
mod hosts;
mod here;
mod slurm;
mod cost;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use self::needs::Need;
use crate::{SKIPPED, repo};

#[derive(Args)]
pub(crate) struct EcoArgs {
    #[command(subcommand)]
    part: Part,
    /// Fail if something is missing, instead of skipping.
    #[arg(long, global = true)]
    require: bool,
    /// The daemon to test; by default, the last one built in target/release or target/debug.
    #[arg(long, global = true)]
    evbd: Option<PathBuf>,
    /// Folder for logs, reports and pictures.
    #[arg(long, global = true, default_value = "target/eco")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Part {
    /// The page in Chromium: commands, figures, charts, and nothing from elsewhere.
    Page(page::PageArgs),
    /// Ten hosts started by the same command, `evbd run --here`: several addresses, names, IPv6,
    /// typos.
    Here(here::HereArgs),
    /// Slurm on five hosts: a job that builds events, one that is cancelled, and one that loses a
    /// host.
    Slurm(slurm::SlurmArgs),
    /// Metrics in Prometheus: its counts equal those of the status and the files, and the board's
    /// queries return data.
    Metrics(metrics::MetricsArgs),
    /// Alerts in Prometheus and Alertmanager: a frozen source and a disk that fills up raise alerts
    /// that name them.
    Alerts(alerts::AlertsArgs),
    /// The cost of being watched: runs alternately with and without reports, a scrape and three
    /// pages.
    Cost(cost::CostArgs),
}

impl Part {
    fn needs(&self) -> &'static [Need] {
        match self {
            Self::Page(_) => page::NEEDS,
            Self::Here(_) => here::NEEDS,
            Self::Slurm(_) => slurm::NEEDS,
            Self::Metrics(_) => metrics::NEEDS,
            Self::Alerts(_) => alerts::NEEDS,
            Self::Cost(_) => cost::NEEDS,
        }
    }
}

/// The settings that every part gets.
struct Setting {
    evbd: PathBuf,
    out: PathBuf,
}

impl Setting {
    /// Returns the arguments that start a part again, inside its own namespaces.
    fn again(&self, part: &str) -> Vec<String> {
        let (evbd, out) = (self.evbd.to_string_lossy(), self.out.to_string_lossy());
        ["eco", part, "--evbd", &evbd, "--out", &out, "--inside"].map(ToOwned::to_owned).into()
    }

    /// Creates an empty folder for a part's logs.
    fn folder(&self, part: &str) -> Result<PathBuf> {
        let folder = self.out.join(part);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// Runs a part, and returns 0, 1 if a check failed, or [`SKIPPED`].
pub(crate) fn run(args: &EcoArgs) -> Result<u8> {
    if let Some(reason) = needs::missing(args.part.needs()) {
        if args.require {
            bail!("{reason}");
        }
        eprintln!("SKIP: {reason}");
        return Ok(SKIPPED);
    }
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let setting = Setting { evbd: evbd(args)?, out: args.out.canonicalize()? };
    match &args.part {
        Part::Page(page) => page::run(&setting, page),
        Part::Here(here) => here::run(&setting, here),
        Part::Slurm(slurm) => slurm::run(&setting, slurm),
        Part::Metrics(metrics) => metrics::run(&setting, metrics),
        Part::Alerts(alerts) => alerts::run(&setting, alerts),
        Part::Cost(cost) => cost::run(&setting, cost),
    }
}

/// Returns the requested daemon, or the last one built.
fn evbd(args: &EcoArgs) -> Result<PathBuf> {
    if let Some(evbd) = &args.evbd {
        return evbd.canonicalize().with_context(|| evbd.display().to_string());
    }
    let built = ["release", "debug"].map(|profile| repo::root().join("target").join(profile).join("evbd"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    let newest = built.into_iter().filter(|path| path.is_file()).max_by_key(age);
    newest.context("there is no evbd: `cargo build --release -p evb-daemon`, or --evbd")
}
