//! Tests evb together with programs that its users have, such as Prometheus and Slurm, in the
//! versions that Debian packages. Every part of the test lists the programs that it needs. If a
//! program is missing, the part is skipped with a reason, or fails if `--require` is given.

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
mod thousands;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use bindings_checks::{adapters, boards, c, c_speed, directories, export, file_cpp, python};
use checkout::SKIPPED;
use clap::{Args, Subcommand};
use lab_base::{
    needs::{self, Need},
    setting::Setting,
};

#[derive(Args)]
pub(crate) struct EcoArgs {
    #[command(subcommand)]
    part: Part,
    /// Fail if a required program is missing, instead of skipping the test.
    #[arg(long, global = true)]
    require: bool,
    /// Path of the evbd to test; by default, the newer one of target/release/evbd and
    /// target/debug/evbd.
    #[arg(long, global = true)]
    evbd: Option<PathBuf>,
    /// Folder for logs, reports and screenshots.
    #[arg(long, global = true, default_value = "target/eco")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Part {
    /// The control page in Chromium: commands, figures and charts work, and nothing is loaded from
    /// another host.
    Page(page::PageArgs),
    /// A system on ten hosts, all started by the same command, `evbd run --here`: hosts with
    /// several addresses, host names, IPv6, typos.
    Here(here::HereArgs),
    /// Slurm on five hosts: a job that builds events, jobs that are cancelled, and a job that loses
    /// a host.
    Slurm(slurm::SlurmArgs),
    /// Metrics in Prometheus: event counts equal those of evbd's status and of the event files, and
    /// the queries of the Grafana dashboard return data.
    Metrics(metrics::MetricsArgs),
    /// Alerts in Prometheus and Alertmanager: a frozen source and a disk that fills up each raise
    /// an alert that names the culprit.
    Alerts(alerts::AlertsArgs),
    /// The cost of monitoring: compares event rates with and without live reports, a Prometheus
    /// scrape and three control pages.
    Cost(cost::CostArgs),
    /// A run with a thousand sources on loopback: its start, complete events, the cost of idle
    /// lanes, and a crash of a process with hundreds of sources.
    Thousands(thousands::ThousandsArgs),
    /// The C++ reader of event files: on 10 000 files, most of them damaged, it finds the same
    /// events and the same damage as the Rust reader.
    FileCpp(file_cpp::FileCppArgs),
    /// The C and C++ bindings: compilers, CMake, pkg-config, valgrind and sanitizers.
    C(c::CArgs),
    /// The rate of readout in C++, compared with readout in Rust.
    CSpeed(c_speed::SpeedArgs),
    /// The Python package: builds its wheel, checks which systems the wheel runs on, and runs its
    /// tests with NumPy 1, NumPy 2 and without NumPy.
    Python(python::PythonArgs),
    /// The hand-over of events to NATS JetStream: both sides are killed, and no event is lost.
    Nats(adapters::KillsArgs),
    /// The hand-over of events to Kafka: the program between them is killed, brokers freeze, and no
    /// event is lost.
    Kafka(adapters::KillsArgs),
    /// Event files that are uploaded to S3 and XRootD: the servers are killed, and each file is
    /// there once, with all its bytes; runs are entered in a log book.
    Upload(adapters::KillsArgs),
    /// Runs as process variables of EPICS: values, alarms and commands, as clients see them; and
    /// process variables that are recorded in the right events.
    Epics(adapters::EpicsArgs),
    /// The exports: every fragment of a run as h5py, h5dump, pyarrow and uproot read it; memory,
    /// speed, and exports that are killed.
    Export(export::ExportArgs),
    /// Boards with formats of their own: emulators of the boards in `examples/boards`, and heaps
    /// that spead2 sends, also with lost packets.
    Boards(boards::BoardsArgs),
    /// Random directories with good, bad and crafted event files: all tools and readers find the
    /// same events, name the same bad files, and take no longer than for good files.
    Directories(directories::DirectoriesArgs),
    /// The files of a release: archives, Debian package, container image, completions, and the
    /// schema of the configuration.
    Packages(dist_checks::PackagesArgs),
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
            Self::Thousands(_) => thousands::NEEDS,
            Self::FileCpp(_) => file_cpp::NEEDS,
            Self::C(_) => c::NEEDS,
            Self::CSpeed(_) => c_speed::NEEDS,
            Self::Python(_) => python::NEEDS,
            Self::Nats(_) => adapters::NATS_NEEDS,
            Self::Upload(_) => adapters::UPLOAD_NEEDS,
            Self::Kafka(_) | Self::Epics(_) => adapters::PYTHON_NEEDS,
            Self::Export(_) => export::NEEDS,
            Self::Boards(_) => boards::NEEDS,
            Self::Directories(_) => directories::NEEDS,
            Self::Packages(_) => dist_checks::NEEDS,
        }
    }

    /// Returns true if the part runs `evbd` in namespaces, which takes root.
    fn is_isolated(&self) -> bool {
        !matches!(
            self,
            Self::FileCpp(_)
                | Self::C(_)
                | Self::CSpeed(_)
                | Self::Python(_)
                | Self::Nats(_)
                | Self::Kafka(_)
                | Self::Upload(_)
                | Self::Epics(_)
                | Self::Export(_)
                | Self::Boards(_)
                | Self::Directories(_)
        )
    }
}

/// Runs a part of the test, and returns the exit code: 0 if all checks passed, 1 if a check failed,
/// or [`SKIPPED`].
pub(crate) fn run(args: &EcoArgs) -> Result<u8> {
    if let Some(reason) = needs::missing(args.part.needs(), args.part.is_isolated()) {
        if args.require {
            bail!("{reason}");
        }
        eprintln!("SKIP: {reason}");
        return Ok(SKIPPED);
    }
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create the folder {}; give another --out", args.out.display()))?;
    let out = args.out.canonicalize()?;
    let setting = || -> Result<Setting> { Ok(Setting { evbd: evbd(args)?, out: out.clone() }) };
    match &args.part {
        Part::Page(page) => page::run(&setting()?, page),
        Part::Here(here) => here::run(&setting()?, here),
        Part::Slurm(slurm) => slurm::run(&setting()?, slurm),
        Part::Metrics(metrics) => metrics::run(&setting()?, metrics),
        Part::Alerts(alerts) => alerts::run(&setting()?, alerts),
        Part::Cost(cost) => cost::run(&setting()?, cost),
        Part::Thousands(thousands) => thousands::run(&setting()?, thousands),
        Part::FileCpp(file_cpp) => file_cpp::run(&out, file_cpp),
        Part::C(c) => c::run(&out, c),
        Part::CSpeed(speed) => c_speed::run(&out, speed),
        Part::Python(python) => python::run(&setting()?, python, args.require),
        Part::Nats(nats) => adapters::run_nats(&setting()?, nats, args.require),
        Part::Kafka(kafka) => adapters::run_kafka(&setting()?, kafka, args.require),
        Part::Upload(upload) => adapters::run_upload(&setting()?, upload, args.require),
        Part::Epics(epics) => adapters::run_epics(&setting()?, epics, args.require),
        Part::Export(export) => export::run(&setting()?, export, args.require),
        Part::Boards(boards) => boards::run(&setting()?, boards, args.require),
        Part::Directories(directories) => directories::run(&setting()?, directories, args.require),
        Part::Packages(packages) => dist_checks::run(&setting()?, packages),
    }
}

/// Returns the path of the requested evbd, or of the last one built.
fn evbd(args: &EcoArgs) -> Result<PathBuf> {
    if let Some(evbd) = &args.evbd {
        return evbd.canonicalize().with_context(|| format!("--evbd {} cannot be used", evbd.display()));
    }
    let built =
        ["release", "debug"].map(|profile| checkout::root().join("target").join(profile).join("evbd"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    let newest = built.into_iter().filter(|path| path.is_file()).max_by_key(age);
    newest.context(
        "there is no evbd: build it with `cargo build --release -p evb-daemon`, or give its path with --evbd",
    )
}
