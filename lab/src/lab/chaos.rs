//! Fault injection: during a run, processes are killed and frozen, hosts are cut off, and disks
//! fill up and hang, one after the other, in an order that a seed determines. Afterwards the event
//! files are compared with the event counts of the run summary: no event may be lost, duplicated or
//! damaged.

mod fault;
mod director;
mod table;

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use lab_base::{
    bench::Bench,
    disk::{self, Disk},
    fleet::Fleet,
    interrupt,
    network::{Network, Shape},
    report::{Bound, Report},
    system::{Mode, Storage, System, Transport, Trigger, port_capacity},
};

use self::director::Director;
use super::{books::Books, memory::Memory, watch::Watch};

/// A network with rates so low that two cores have time left for the disturbances.
const SHAPE: Shape =
    Shape { sources: 4, builders: 3, rate: 20_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };
const FRAGMENT: u64 = 4_000;
/// Number of outstanding events per builder.
const SLOTS: u32 = 16;
/// Load of the chaos scenario, as a share of the capacity of the ports.
const LOAD: f64 = 0.5;
const SOAK_LOAD: f64 = 0.8;
/// Size of each builder's disk, in bytes: more than a long run writes.
const DISK: u64 = 6 << 30;
/// Longest allowed time from the stop request to the end of the run.
const END_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(40);

#[derive(Args)]
pub(crate) struct ChaosArgs {
    /// Number of faults for each transport.
    #[arg(long, default_value_t = 100)]
    faults: usize,
    /// Seed of the faults; the same seed draws the same faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Omit the faults that cut a host off for a minute.
    #[arg(long)]
    short: bool,
}

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Duration of the run for each transport, in minutes; one fault occurs every minute.
    #[arg(long, default_value_t = 20)]
    minutes: usize,
    /// Seed of the faults; the same seed draws the same faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Plan of one run with faults.
struct Play {
    name: String,
    transport: Transport,
    seed: u64,
    faults: usize,
    /// Load of the run, as a share of the capacity of the ports.
    load: f64,
    /// True if some faults cut a host off for a minute.
    long: bool,
    /// Interval between faults; `None` if each fault has its own random delay.
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

/// Runs like [`run`], but at a load near the limit and with one fault a minute, and also checks
/// that the memory of the processes does not grow.
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
            // The memory is not judged in the first quarter of the run, in which caches and pools
            // fill up.
            memory.judge(name, fleet.elapsed() / 4, report);
        }
        Ok(())
    }

    fn event_rate(&self) -> f64 {
        let event = FRAGMENT as f64 * f64::from(SHAPE.sources);
        port_capacity(SHAPE, self.transport, FRAGMENT) / 8.0 * f64::from(SHAPE.builders) / event * self.load
    }

    /// Applies the faults during the run, requests its end, and waits until every process has
    /// ended.
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
