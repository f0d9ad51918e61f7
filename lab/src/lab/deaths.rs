//! Kills a builder at full rate for good, or kills the supervisor and restarts it: measures how
//! soon the other builders continue, and at which rate.

use std::{fs, time::Duration};

use anyhow::{Result, bail};
use lab_base::{
    bench::Bench,
    disk,
    fleet::Fleet,
    interrupt,
    network::{Network, Shape},
    report::{Bound, Report},
    system::{Mode, Storage, System, Transport},
};

use super::{books::Books, watch::Flows};

const SHAPE: Shape =
    Shape { sources: 8, builders: 4, rate: 100_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };
const FRAGMENT: u64 = 16_000;
/// Number of outstanding events per builder.
const SLOTS: u32 = 16;
/// Number of events of a run, which takes about fifteen seconds at full rate.
const EVENTS: u64 = 5_400;
const DISK: u64 = 1 << 30;
const KILL_AT: Duration = Duration::from_secs(5);
/// Time between the kill of the supervisor and its restart.
const AWAY: Duration = Duration::from_secs(1);
/// Length of the window over which rates are measured.
const WINDOW: Duration = Duration::from_millis(200);
/// Share of the rate before the kill at which the other builders count as recovered.
const GOES_ON: f64 = 0.5;
/// Longest allowed time until the other builders have recovered from the death of a builder, in
/// seconds.
const OTHERS_WITHIN: f64 = 1.0;
/// Share of the rate that must remain after one of four builders has died. Three of four full ports
/// carry exactly three quarters; the rate is measured over two seconds, and reading the counters
/// takes some milliseconds, so the bound is slightly lower.
const KEPT: f64 = 0.75 * (1.0 - RESOLUTION);
const RESOLUTION: f64 = 0.005;
/// Longest allowed time from the restart of the supervisor until events are built again, in
/// seconds.
const BACK_WITHIN: f64 = 2.0;
const LIMIT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(40);

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::bare("deaths");
    for &transport in bench.transports {
        for victim in ["b4", "sup"] {
            let name = Bench::name(&format!("8x4 {victim} killed"), transport);
            if bench.wants(&name) {
                one(bench, &name, transport, victim, &mut report)?;
            }
        }
    }
    Ok(report)
}

fn one(bench: &Bench, name: &str, transport: Transport, victim: &str, report: &mut Report) -> Result<()> {
    let folder = bench.folder(name)?;
    let network = Network::up(SHAPE)?;
    let disks = disk::mount_all(&folder, SHAPE, DISK)?;
    let sinks = disks.values().map(|disk| disk.folder.clone()).collect();
    let storage = Storage { sinks, journal: folder.join("journal"), events: Some(EVENTS) };
    let system = System::new(Mode::Credit, FRAGMENT).over(transport).slots(SLOTS).storage(storage);
    let config = folder.join("config.toml");
    fs::write(&config, system.config(SHAPE, 0.0)?)?;
    let mut fleet = Fleet::start(&network, &bench.evbd, &config, &folder)?;
    let course = play(&mut fleet, &network, victim)?;
    course.judge(name, victim, report);
    Books::read(&bench.evbd, &folder, SHAPE, &fleet)?.judge(name, report);
    Ok(())
}

/// The switch's byte counters over time, and the times of kill and restart.
#[derive(Default)]
struct Course {
    looks: Vec<(Duration, Flows)>,
    killed: Duration,
    back: Option<Duration>,
}

fn play(fleet: &mut Fleet, network: &Network, victim: &str) -> Result<Course> {
    let mut course = Course::default();
    let mut began = None;
    loop {
        interrupt::check()?;
        let running = fleet.look()?;
        let now = fleet.elapsed();
        course.looks.push((now, network.flows()?));
        if began.is_none() && course.rate(|host| host.starts_with('b'), now) > 0.5 * SHAPE.rate as f64 / 8.0 {
            began = Some(now);
        }
        match began {
            Some(began) if course.killed.is_zero() && now >= began + KILL_AT => {
                fleet.kill(victim)?;
                course.killed = fleet.elapsed();
            }
            _ => {}
        }
        let is_due = !course.killed.is_zero() && now >= course.killed + AWAY;
        if victim == "sup" && is_due && course.back.is_none() {
            fleet.start_again(victim)?;
            course.back = Some(fleet.elapsed());
        }
        if !running && (victim != "sup" || course.back.is_some()) {
            return Ok(course);
        }
        if now > LIMIT {
            bail!("still running: {}\n{}", fleet.running().join(" "), fleet.complaints());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Course {
    /// Returns the total rate to the hosts selected by `of`, in bytes per second, over the window
    /// that ends at `until`.
    fn rate(&self, of: impl Fn(&str) -> bool, until: Duration) -> f64 {
        self.mean(of, until.saturating_sub(WINDOW), until)
    }

    fn mean(&self, of: impl Fn(&str) -> bool, from: Duration, until: Duration) -> f64 {
        let at = |time: Duration| self.looks.partition_point(|(when, _)| *when < time);
        let (Some(first), Some(last)) = (self.looks.get(at(from)), self.looks[..].get(at(until).max(1) - 1))
        else {
            return 0.0;
        };
        let sum =
            |flows: &Flows| flows.iter().filter(|(host, _)| of(host)).map(|(_, (_, to))| *to).sum::<u64>();
        let seconds = last.0.saturating_sub(first.0).as_secs_f64();
        if seconds > 0.0 { sum(&last.1).saturating_sub(sum(&first.1)) as f64 / seconds } else { 0.0 }
    }

    /// Returns the seconds from `since` until the total rate to the hosts selected by `of` is at
    /// least half of `usual`.
    fn goes_on_after(&self, since: Duration, of: impl Fn(&str) -> bool + Copy, usual: f64) -> f64 {
        let good = |time: &&Duration| self.rate(of, **time) >= GOES_ON * usual;
        let times: Vec<Duration> = self.looks.iter().map(|(time, _)| *time).collect();
        let first = times.iter().filter(|time| **time >= since + WINDOW).find(good);
        first.map_or(f64::NAN, |time| (*time - since).as_secs_f64())
    }

    fn judge(&self, name: &str, victim: &str, report: &mut Report) {
        let others = |host: &str| host.starts_with('b') && host != victim;
        let all = |host: &str| host.starts_with('b');
        let second = Duration::from_secs(1);
        let usual = self.mean(others, self.killed.saturating_sub(2 * second), self.killed);
        let before = self.mean(all, self.killed.saturating_sub(2 * second), self.killed);
        let since = self.back.unwrap_or(self.killed);
        let after = self.goes_on_after(since, others, usual);
        let settled = since + 3 * second;
        let kept = self.mean(all, settled, settled + 2 * second) / before;
        let (what, limit) =
            if victim == "sup" { ("it is back", BACK_WITHIN) } else { ("the kill", OTHERS_WITHIN) };
        report.noisy(
            &format!("{name}: seconds from when {what} until the others go on"),
            after,
            Bound::AtMost(limit),
        );
        let least = if victim == "sup" { 0.9 } else { KEPT };
        report.noisy(
            &format!("{name}: rate 3 s after recovery, as part of the rate before the kill"),
            kept,
            Bound::AtLeast(least),
        );
        report.note(format!(
            "{name}: {:.0} Mbit/s of L2 frames before, {kept:.3} of it after",
            before * 8.0 / 1e6
        ));
    }
}
