//! evb under lasting disturbances, one after the other within one run: a frozen source, a slow
//! sink, slow sinks at all builders, a source on a slow link. Peers that are not affected must keep
//! their rate, dead time must be attributed to its actual cause, and the memory of the processes
//! must not grow.

mod stage;
pub(crate) mod slow;
mod director;
mod course;
mod judge;
mod table;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use lab_base::{
    bench::Bench,
    disk::{self, Disk},
    fleet::Fleet,
    interrupt,
    network::{Network, Shape},
    report::Report,
    system::{Mode, Storage, System, Transport, Trigger, port_capacity},
};
use serde_json::{Value, json};

use self::{
    course::{Mark, Played, Span, bytes_in},
    director::Director,
    judge::Judge,
    stage::{HALF, Stage},
};
use super::{books::Books, memory::Memory};

/// A network with rates so low that two cores carry it.
const SHAPE: Shape =
    Shape { sources: 8, builders: 4, rate: 40_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };
const FRAGMENT: u64 = 4_000;
/// Number of outstanding events per builder.
const SLOTS: u32 = 16;
/// Size of each builder's disk, in bytes: more than a long run writes.
const DISK: u64 = 16 << 30;
/// Total duration of all stages in the short version of CI.
const SHORT: Duration = Duration::from_secs(45);
/// Duration of the run with the policy `least-loaded`, as a share of the duration of the run with
/// `round-robin`.
const SINKS_PART: f64 = 0.2;
/// Share of a stage's inhibited triggers that must be attributed to their actual cause. The share
/// is lower in the short version (`BLAMED_SHORT`), because a busy machine may inhibit some
/// triggers.
const BLAMED: f64 = 0.9;
const BLAMED_SHORT: f64 = 0.75;
/// Longest allowed time from the start of the processes until events are built.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);
/// Time from the first complete event until rates are measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// Share of the run in which processes may still grow; memory is judged after it.
const WARM_UP_PART: f64 = 0.05;
/// Longest allowed time from the stop request to the end of the run.
const END_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Args)]
pub(crate) struct PressureArgs {
    /// Duration of the run with all stages, in minutes, for each transport.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Run the short version of CI: less than a minute for each transport, and bounds on speed and
    /// memory are only noted.
    #[arg(long)]
    short: bool,
}

/// Plan of one run: its transport, assignment policy and stages.
struct Play {
    name: String,
    transport: Transport,
    policy: &'static str,
    stages: &'static [Stage],
    lasts: Duration,
    /// Share of the inhibited triggers that must be attributed to their actual cause.
    blamed: f64,
    /// True if the run is long enough to judge the memory.
    is_long: bool,
}

pub(crate) fn run(bench: &Bench, args: &PressureArgs) -> Result<Report> {
    let mut report = Report::bare("pressure");
    for play in plays(bench, args).iter().filter(|play| bench.wants(&play.name)) {
        play.perform(bench, &mut report)
            .with_context(|| format!("{}: logs in {}", play.name, bench.out.display()))?;
    }
    Ok(report)
}

/// Returns the runs of the scenario. The short version tests the policy `round-robin` over TCP and
/// `least-loaded` over UDP.
fn plays(bench: &Bench, args: &PressureArgs) -> Vec<Play> {
    let play = |transport, policy, stages, lasts, is_long| {
        let name = Bench::name(&format!("8x4 pressure {policy}"), transport);
        let blamed = if args.short { BLAMED_SHORT } else { BLAMED };
        Play { name, transport, policy, stages, lasts, blamed, is_long }
    };
    if args.short {
        return vec![
            play(Transport::Tcp, "round-robin", &stage::SHORT, SHORT, false),
            play(Transport::Udp, "least-loaded", &stage::SHORT, SHORT, false),
        ];
    }
    let lasts = Duration::from_secs_f64(args.minutes * 60.0);
    let both = |transport: &Transport| {
        [
            play(*transport, "round-robin", &stage::ALL, lasts, true),
            play(*transport, "least-loaded", &stage::SINKS, lasts.mul_f64(SINKS_PART), false),
        ]
    };
    bench.transports.iter().flat_map(both).collect()
}

impl Play {
    fn perform(&self, bench: &Bench, report: &mut Report) -> Result<()> {
        let (name, folder) = (&self.name, bench.folder(&self.name)?);
        println!("{name}: {:.0} s, {SHAPE}", self.lasts.as_secs_f64());
        let network = Network::up(SHAPE)?;
        let disks = disk::mount_all(&folder, SHAPE, DISK)?;
        let can_be_slow = disks.values().all(Disk::hangs);
        if !can_be_slow {
            report.note(format!("{name}: SKIP slow sinks: no loop device here"));
        }
        let (config, led) = self.configure(&folder, &disks)?;
        let fleet = Fleet::start_with_two_configs(&network, &bench.evbd, &led, &config, &folder)?;
        let usual = self.event_rate(HALF) * FRAGMENT as f64 * 8.0;
        let director = Director::new(&network, &disks, &bench.evbd, &led, usual);
        let mut scene =
            Scene { network: &network, disks: &disks, fleet, director, memory: Memory::default() };
        let played = self.play(&mut scene, can_be_slow)?;
        let Scene { fleet, memory, .. } = scene;
        println!("\n{}", table::show(&played));
        let stages: Value = played.iter().map(Played::json).collect();
        report.attach(name, json!({ "stages": stages, "memory": memory.json() }));
        let books = Books::read(&bench.evbd, &folder, SHAPE, &fleet)?;
        Judge { name, played: &played, blamed: self.blamed, report }.judge(&books.summary);
        books.judge(name, report);
        let warm_up = fleet.elapsed().mul_f64(WARM_UP_PART);
        if self.is_long {
            memory.judge(name, warm_up, report);
        }
        Ok(())
    }

    /// Writes two configuration files, and returns their paths: one for sources and builders, and
    /// one for the supervisor, with run control.
    fn configure(&self, folder: &Path, disks: &BTreeMap<String, Disk>) -> Result<(PathBuf, PathBuf)> {
        let sinks = disks.values().map(|disk| disk.folder.clone()).collect();
        let storage = Storage { sinks, journal: folder.join("journal"), events: None };
        let system = System::new(Mode::Credit, FRAGMENT)
            .slots(SLOTS)
            .over(self.transport)
            .trigger(Trigger::Periodic(self.event_rate(HALF)))
            .policy(self.policy)
            .storage(storage);
        let text = system.config(SHAPE, 0.0)?;
        let (config, led) = (folder.join("config.toml"), folder.join("supervisor.toml"));
        fs::write(&config, &text)?;
        fs::write(&led, text + "\n[control]\nautostart = true\n")?;
        Ok((config, led))
    }

    /// Returns the event rate that uses the share `load` of the capacity of the ports.
    fn event_rate(&self, load: f64) -> f64 {
        let event = FRAGMENT as f64 * f64::from(SHAPE.sources);
        port_capacity(SHAPE, self.transport, FRAGMENT) / 8.0 * f64::from(SHAPE.builders) / event * load
    }

    /// Runs all stages, ends the run, and returns the observations.
    fn play(&self, scene: &mut Scene<'_>, with_sinks: bool) -> Result<Vec<Played>> {
        scene.begins()?;
        let mut played = Vec::new();
        let mut load = HALF;
        for stage in self.stages.iter().filter(|stage| with_sinks || !stage.pressure.is_of_sinks()) {
            if stage.load != load {
                scene.director.set_rate(self.event_rate(stage.load))?;
                load = stage.load;
            }
            let lasts = stage.lasts(self.stages, self.lasts);
            println!("{:8.2} s  {} for {:.0} s", scene.now().as_secs_f64(), stage.name, lasts.as_secs_f64());
            let begin = scene.mark()?;
            scene.director.set(stage.pressure, &scene.fleet)?;
            scene.watch(begin.at + Stage::settles(lasts))?;
            let settled = scene.mark()?;
            scene.watch(begin.at + lasts)?;
            let (first, steady) = (Span::between(&begin, &settled), Span::between(&settled, &scene.mark()?));
            played.push(Played { stage: *stage, first, steady });
        }
        scene.director.set(stage::Pressure::Nothing, &scene.fleet)?;
        scene.ends()?;
        Ok(played)
    }
}

/// The network, the disks and the processes of a run, and the observations of their memory.
struct Scene<'a> {
    network: &'a Network,
    disks: &'a BTreeMap<String, Disk>,
    /// Applies the disturbances. The director is dropped before the fleet, because processes cannot
    /// end while their disk hangs.
    director: Director<'a>,
    fleet: Fleet,
    memory: Memory,
}

impl Scene<'_> {
    fn now(&self) -> Duration {
        self.fleet.elapsed()
    }

    /// Waits until events are built, and for the warm-up.
    fn begins(&mut self) -> Result<()> {
        let is_building = |scene: &Self| {
            let status = scene.director.status();
            // An error is ignored, because the supervisor does not answer before it listens.
            status.is_ok_and(|status| status["survey"]["events"]["complete"].as_u64() > Some(0))
        };
        while !is_building(self) {
            if self.now() > BEGINS_WITHIN {
                bail!("the run does not begin\n{}", self.fleet.complaints());
            }
            self.watch(self.now() + Duration::from_millis(200))?;
        }
        self.watch(self.now() + WARM_UP)
    }

    /// Observes all processes until the time `until`; fails if a process ends.
    fn watch(&mut self, until: Duration) -> Result<()> {
        while self.now() < until {
            interrupt::check()?;
            self.fleet.look()?;
            self.memory.look(self.now(), &self.fleet);
            if let Some(host) = self.fleet.ended_early(false) {
                bail!("{host} ended by itself in mid-run\n{}", self.fleet.complaints());
            }
            std::thread::sleep(LOOK_EVERY.min(until.saturating_sub(self.now())));
        }
        Ok(())
    }

    fn mark(&self) -> Result<Mark> {
        let on_disk = self.disks.values().map(|disk| bytes_in(&disk.folder)).sum::<Result<u64>>()?;
        let (flows, at) = (self.network.flows()?, self.now());
        Mark::new(at, flows, on_disk, &self.director.status()?)
    }

    /// Requests the end of the run, and waits until all processes have ended.
    fn ends(&mut self) -> Result<()> {
        self.fleet.signal("sup", "TERM")?;
        let limit = self.now() + END_WITHIN;
        self.fleet.wait(limit, |_| Ok(()))
    }
}
