//! Faults on purpose: processes killed and frozen, hosts cut off, disks full and stuck, one after
//! the other by a seed, during a run. Afterwards the files are checked against the ledger: no event
//! is lost, duplicated or damaged, and the run ends by itself.

mod fault;
mod director;
mod table;

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use self::director::Director;
use super::{
    bench::Bench,
    books::Books,
    disk::{self, Disk},
    fleet::Fleet,
    interrupt,
    memory::Memory,
    network::{Network, Shape},
    report::{Bound, Report},
    system::{Mode, Storage, System, Transport, Trigger, port_capacity},
    watch::Watch,
};

/// A system that is small enough to leave two cores time for everything else.
const SHAPE: Shape =
    Shape { sources: 4, builders: 3, rate: 20_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };
const FRAGMENT: u64 = 4_000;
/// Events outstanding per builder.
const SLOTS: u32 = 16;
/// Load as a share of the ports' capacity.
const LOAD: f64 = 0.5;
const SOAK_LOAD: f64 = 0.8;
/// Size of each builder's disk: more than a long run writes.
const DISK: u64 = 6 << 30;
/// Longest time from the stop request to the end.
const END_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(40);

#[derive(Args)]
pub(crate) struct ChaosArgs {
    /// Number of faults, for each transport.
    #[arg(long, default_value_t = 100)]
    faults: usize,
    /// Seed of the faults; the same seed draws the same faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Without cuts of a minute.
    #[arg(long)]
    short: bool,
}

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Length in minutes, for each transport; there is a fault every minute.
    #[arg(long, default_value_t = 20)]
    minutes: usize,
    /// Seed of the faults; the same seed draws the same faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The plan of one run.
struct Play {
    name: String,
    transport: Transport,
    seed: u64,
    faults: usize,
    /// Load as a share of the ports' capacity.
    load: f64,
    /// True if there are cuts of a minute.
    long: bool,
    /// Interval between faults; `None` if each has its own delay.
    every: Option<Duration>,
}

pub(crate) fn run(bench: &Bench, args: &ChaosArgs) -> Result<Report> {
    let mut report = Report::bare("chaos");
    for &transport in bench.transports {
        let play = Play {
            name: Bench::name("4x3 chaos", transport),
            transport,
            seed: args.seed.wrapping_add(transport as u64),
            faults: args.faults,
            load: LOAD,
            long: !args.short,
            every: None,
        };
        play.perform(bench, &mut report)?;
    }
    Ok(report)
}

/// Runs the same at a load near the limit, with a fault a minute, and checks the memory.
pub(crate) fn soak(bench: &Bench, args: &SoakArgs) -> Result<Report> {
    let mut report = Report::bare("soak");
    for &transport in bench.transports {
        let play = Play {
            name: Bench::name("4x3 soak", transport),
            transport,
            seed: args.seed.wrapping_add(transport as u64),
            faults: args.minutes,
            load: SOAK_LOAD,
            long: false,
            every: Some(Duration::from_secs(60)),
        };
        play.perform(bench, &mut report)?;
    }
    Ok(report)
}

impl Play {
    fn perform(&self, bench: &Bench, report: &mut Report) -> Result<()> {
        if !bench.wants(&self.name) {
            return Ok(());
        }
        println!("{}: {} faults, seed {}", self.name, self.faults, self.seed);
        let place = || format!("{}: seed {}, logs in {}", self.name, self.seed, bench.out.display());
        self.perform_here(bench, report).with_context(place)
    }

    fn perform_here(&self, bench: &Bench, report: &mut Report) -> Result<()> {
        let (name, folder) = (&self.name, bench.folder(&self.name)?);
        let network = Network::up(SHAPE)?;
        let disks = disk::mount_all(&folder, SHAPE, DISK)?;
        let hangs = disks.values().all(Disk::hangs);
        if !hangs {
            report.note(format!("{name}: SKIP disks that hang: no loop device here"));
        }
        let faults = fault::schedule(self.seed, self.faults, SHAPE, self.long, hangs);
        let sinks = disks.values().map(|disk| disk.folder.clone()).collect();
        let storage = Storage { sinks, journal: folder.join("journal"), events: None };
        let trigger = Trigger::Periodic(self.event_rate());
        let system = System::new(Mode::Credit, FRAGMENT)
            .over(self.transport)
            .slots(SLOTS)
            .trigger(trigger)
            .storage(storage);
        let config = folder.join("config.toml");
        fs::write(&config, system.config(SHAPE, 0.0)?)?;
        let mut fleet = Fleet::start(&network, &bench.evbd, &config, &folder)?;
        let mut director = Director::new(&network, &disks, faults, self.every);
        let memory = self.play(&mut fleet, &network, &mut director)?;
        println!("{}", table::show(&director.overcome));
        let faults = director.overcome.len();
        report.holds(&format!("{name}: faults overcome"), faults as f64, Bound::AtLeast(self.faults as f64));
        report.note(format!("{name}: {faults} faults in {:.0} s", fleet.elapsed().as_secs_f64()));
        report.attach(name, table::json(&director.overcome));
        Books::read(&bench.evbd, &folder, SHAPE, &fleet)?.judge(name, report);
        if self.every.is_some() {
            // In the first quarter, caches and pools fill up.
            memory.judge(name, fleet.elapsed() / 4, report);
        }
        Ok(())
    }

    fn event_rate(&self) -> f64 {
        let event = FRAGMENT as f64 * f64::from(SHAPE.sources);
        port_capacity(SHAPE, self.transport, FRAGMENT) / 8.0 * f64::from(SHAPE.builders) / event * self.load
    }

    /// Runs until every process has ended.
    fn play(&self, fleet: &mut Fleet, network: &Network, director: &mut Director<'_>) -> Result<Memory> {
        let per_source = self.event_rate() * FRAGMENT as f64;
        let per_builder = per_source * f64::from(SHAPE.sources) / f64::from(SHAPE.builders);
        let mut watch = Watch::new((per_source, per_builder), SHAPE.builders);
        let mut memory = Memory::default();
        let mut asked_at = None;
        loop {
            interrupt::check()?;
            let running = fleet.look()?;
            let now = fleet.elapsed();
            watch.look(now, network.flows()?);
            memory.look(now, fleet);
            if !running && director.is_done() {
                return Ok(memory);
            }
            if let Some(host) = fleet.ended_early(director.is_done()) {
                bail!("{host} ended by itself in mid-run\n{}", fleet.complaints());
            }
            director.turn(fleet, &mut watch)?;
            if director.is_done() && asked_at.is_none() {
                fleet.signal("sup", "TERM")?;
                asked_at = Some(now);
            }
            if asked_at.is_some_and(|asked| now > asked + END_WITHIN) {
                bail!("still running: {}\n{}", fleet.running().join(" "), fleet.complaints());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
