//! Draws the random scenario of a seed.

mod boards;
mod owing;

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    rng::Rng,
    supervisor::{AssignmentPolicy, SourceLoss},
    transport::Transport,
    trigger::TriggerKind,
    units::{Bytes, Frequency},
};
use evb_shaper::Shaping;

use super::{End, Pushes, Scenario};
use crate::{
    system::{
        conditions::Conditions,
        disk::DiskState,
        fault::{Fault, Planned},
    },
    workload::{FragmentSize, Readout},
};

/// The kind of network of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sky {
    /// All packets take the same time.
    Steady,
    /// Datagrams are lost, and nothing else is wrong in any run.
    Lossy,
    /// Packets take slightly different times.
    Jittery,
    /// Packets are late, and datagrams are lost, repeated and damaged.
    Bad,
}

/// The kind of faults in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No faults.
    Calm,
    /// Processes are late by milliseconds, and there are no other faults.
    Late,
    /// Faults of builders, sinks and the supervisor, but not of sources and their lanes.
    Builders,
    /// Faults of builders, sinks and the supervisor close to the end of the run.
    Ending,
    /// Faults of any kind.
    Anything,
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

struct Chance(Rng);

impl Chance {
    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// Draws a duration between two limits in milliseconds; short durations are more frequent than
    /// long ones.
    fn duration(&mut self, low: u64, high: u64) -> Duration {
        let high = if self.percent(50) { low + (high - low) / 5 } else { high };
        millis(self.between(low, high))
    }
}

pub(super) fn draw(seed: u64, transport: Option<Transport>) -> Scenario {
    let chance = &mut Chance(Rng::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x7363_656E_6172_696F));
    let drawn = if chance.percent(50) { Transport::Tcp } else { Transport::Udp };
    let transport = transport.unwrap_or(drawn);
    let sky = match chance.between(0, 99) {
        0..15 => Sky::Steady,
        15..30 if transport == Transport::Udp => Sky::Lossy,
        15..60 => Sky::Jittery,
        _ => Sky::Bad,
    };
    let mut scenario = system(seed, transport, sky, chance);
    events(&mut scenario, sky, chance);
    for run in 0..scenario.runs {
        let kind = kind(sky, chance);
        let count = match kind {
            Kind::Calm => 0,
            Kind::Late | Kind::Ending => chance.between(1, 4),
            Kind::Builders | Kind::Anything if chance.percent(40) => chance.between(1, 3),
            Kind::Builders | Kind::Anything => chance.between(1, 12),
        };
        for _ in 0..count {
            let drawn = match kind {
                Kind::Late => Some(late(&scenario, chance)),
                Kind::Ending => ending(&scenario, chance),
                _ => fault(&scenario, kind, chance),
            };
            if let Some(fault) = drawn {
                let at = time(&scenario, run, kind, chance);
                scenario.faults.push(Planned { at, run, fault });
            }
        }
    }
    // These draws are the last, so that they change no other.
    scenario.is_torn = chance.percent(50);
    scenario.run_control = chance.of(&[None, None, Some(false), Some(true)]);
    scenario.faults.sort_by_key(|planned| (planned.run, planned.at));
    scenario.boards = boards::draw(&scenario);
    owing::draw(&mut scenario);
    scenario
}

/// Draws the kind of a run's faults.
fn kind(sky: Sky, chance: &mut Chance) -> Kind {
    match (sky, chance.between(0, 9)) {
        (Sky::Lossy, _) | (Sky::Steady, 0) => Kind::Calm,
        (Sky::Steady, 1..5) => Kind::Late,
        (Sky::Steady, _) | (Sky::Jittery, 0..4) => Kind::Builders,
        (Sky::Jittery, 4..7) | (Sky::Bad, 0..2) => Kind::Ending,
        (Sky::Jittery | Sky::Bad, _) => Kind::Anything,
    }
}

/// Draws the time at which the next fault of a run begins.
fn time(scenario: &Scenario, run: u32, kind: Kind, chance: &mut Chance) -> Duration {
    let last = scenario.stop_after.as_millis() as u64 + 3000;
    let stop = scenario.stop_after + millis(chance.between(0, 1000));
    let before = scenario.faults.last().filter(|planned| planned.run == run).map(|planned| planned.at);
    match (kind, chance.between(0, 9)) {
        (Kind::Late, _) => millis(chance.between(0, last / 2)),
        // The fault coincides with the previous one, or else with the end of the run.
        (_, 0..3) => before.unwrap_or(stop),
        (_, 3) => stop.saturating_sub(millis(500)),
        // The fault follows the previous one.
        (_, 4) => before.unwrap_or(stop) + millis(chance.between(0, 3000)),
        (Kind::Ending, _) => stop.saturating_sub(millis(chance.between(0, 3000))),
        _ => millis(chance.between(0, last)),
    }
}

fn system(seed: u64, transport: Transport, sky: Sky, chance: &mut Chance) -> Scenario {
    let bandwidth = chance.of(&[12_500_000, 125_000_000, 125_000_000]);
    let latency = Duration::from_micros(chance.of(&[20, 50, 200, 1000, 5000, 20_000]));
    let mut weather = Conditions::steady(latency, bandwidth);
    let mut largest = Bytes::new(chance.of(&[64, 500, 2000, 2000, 8000, 40_000]));
    match sky {
        Sky::Steady => {}
        Sky::Lossy => {
            // Links are slow and fragments large, so that an answer to a request consists of many
            // datagrams.
            weather.bandwidth = chance.of(&[3_125_000, 12_500_000, 125_000_000]);
            (weather.loss, weather.burst) =
                chance.of(&[(1000, 1), (10_000, 1), (50_000, 1), (1000, 10), (1000, 50)]);
            largest = Bytes::new(chance.of(&[500, 8000, 40_000, 40_000]));
        }
        Sky::Jittery => weather.jitter = latency / 4,
        Sky::Bad => weather = worse(weather, transport, chance),
    }
    let budget = Bytes::kib(chance.of(&[16, 32, 64, 128, 256]));
    let shaping = match chance.between(0, 9) {
        0 if transport == Transport::Tcp => Shaping::None,
        1 => Shaping::Window { window: Bytes::kib(16) },
        _ => Shaping::Credit { budget, groups: Vec::new(), chunk: budget / 4, sources_at_once: None },
    };
    let delay = chance.of(&[millis(0), millis(1), millis(10), millis(100)]);
    let silence = if sky != Sky::Lossy && chance.percent(25) { chance.of(&[0.05, 0.3]) } else { 0.0 };
    Scenario {
        seed,
        transport,
        sources: chance.between(1, 5) as u16,
        builders: chance.between(1, 4) as u16,
        spares: 0,
        slots: chance.of(&[1, 2, 4, 8, 16, 32, 64]),
        run_length: chance.of(&[1, 1, 1, 4]),
        policy: chance.of(&[AssignmentPolicy::RoundRobin, AssignmentPolicy::LeastLoaded]),
        shaping,
        readout: Readout { size: FragmentSize::Uniform(Bytes::new(0), largest), delay, silence },
        pushes: chance.of(&[Pushes::OnDemand, Pushes::OnDemand, Pushes::Late, Pushes::Ahead]),
        ahead: chance.between(1, 200),
        trigger: TriggerKind::External,
        end: End::Stop,
        stop_after: Duration::ZERO,
        runs: chance.of(&[1, 1, 2, 3, 4, 6]),
        // The deadline of a real system is longer than a few round trips.
        deadline: chance.of(&[millis(100), millis(300), millis(1000), millis(2000)]).max(15 * latency),
        drain_grace: chance.of(&[millis(5000), millis(5000), millis(12_000), millis(30_000)]),
        on_source_loss: chance.of(&[SourceLoss::Incomplete, SourceLoss::Wait]),
        has_journal: chance.percent(90),
        compact_at: chance.of(&[20, 100, 100_000]),
        knows_round_trip: chance.percent(70),
        is_torn: false,
        run_control: None,
        weather,
        write: Duration::from_micros(chance.of(&[0, 0, 20, 1000, 20_000, 60_000])),
        commit: Duration::from_micros(chance.of(&[50, 1000, 10_000, 500_000])),
        give_up: chance.of(&[millis(1000), millis(30_000)]),
        filter: chance.of(&[0, 0, 7]),
        expendable: Vec::new(),
        sporadic: BTreeMap::new(),
        groups: Vec::new(),
        boards: None,
        faults: Vec::new(),
    }
}

/// Draws the trigger, the end of the runs, and the number of spare builders.
fn events(scenario: &mut Scenario, sky: Sky, chance: &mut Chance) {
    let hertz = chance.of(&[20.0, 100.0, 300.0]);
    let trigger = match chance.between(0, 9) {
        0 if scenario.write >= millis(1) => Some(TriggerKind::AsFastAsPossible),
        0..3 => Frequency::from_hertz(hertz).map(|rate| TriggerKind::Poisson { rate }),
        3..7 => Frequency::from_hertz(hertz).map(|rate| TriggerKind::Periodic { rate }),
        _ => None,
    };
    scenario.trigger = trigger.unwrap_or(TriggerKind::External);
    scenario.stop_after = chance.duration(2000, 12_000);
    scenario.end = match chance.between(0, 3) {
        0 => End::Events(chance.between(50, 2000)),
        1 => End::Duration(chance.duration(2000, 12_000)),
        _ => End::Stop,
    };
    scenario.spares = u16::from(sky != Sky::Lossy && chance.percent(20));
}

/// Returns network conditions with random additional delays and faults.
fn worse(mut weather: Conditions, transport: Transport, chance: &mut Chance) -> Conditions {
    weather.jitter = chance.of(&[Duration::ZERO, weather.latency / 2, weather.latency * 2]);
    weather.stall = chance.of(&[0, 0, 500]);
    if transport == Transport::Udp {
        weather.loss = chance.of(&[0, 1000, 20_000]);
        weather.burst = chance.of(&[1, 1, 5]);
        weather.repeat = chance.of(&[0, 0, 10_000]);
        weather.delay = chance.of(&[0, 0, 10_000]);
        weather.late = chance.of(&[millis(1), millis(10), millis(100)]);
        weather.damage = chance.of(&[0, 0, 2000]);
    }
    weather
}

fn fault(scenario: &Scenario, kind: Kind, chance: &mut Chance) -> Option<Fault> {
    let builder = BuilderId::new(chance.between(1, u64::from(scenario.builders)) as u16);
    let source = SourceId::new(chance.between(1, u64::from(scenario.sources)) as u16);
    let only_builders = kind == Kind::Builders;
    let peer =
        if only_builders || chance.percent(50) { Peer::Builder(builder) } else { Peer::Source(source) };
    // Without a journal, a run cannot survive the death of its supervisor.
    let with_supervisor = scenario.has_journal && chance.percent(25);
    let who = if with_supervisor { Peer::Supervisor } else { peer };
    let long = chance.of(&[5000, 5000, 40_000]);
    let fault = match chance.between(0, 29) {
        0..4 => Fault::Kill { who, down: chance.duration(50, long) },
        4 => Fault::Reboot { who, down: chance.duration(500, 6000) },
        5..7 => Fault::Freeze { who, length: chance.duration(100, 6000) },
        7..9 if !only_builders => Fault::Cut { who, length: chance.duration(100, 9000) },
        9..11 if !only_builders => Fault::Reset { who, pick: chance.between(0, 20) },
        11 => Fault::Reset { who: Peer::Supervisor, pick: chance.between(0, 20) },
        12 | 25 => Fault::Stall { who: peer, length: chance.duration(200, 1900) },
        13..16 => disk(scenario, builder, chance),
        16 if !only_builders => {
            let weather = worse(scenario.weather, scenario.transport, chance);
            Fault::Storm {
                weather: Conditions { loss: weather.loss * 5, ..weather },
                length: chance.duration(100, 5000),
            }
        }
        17 | 26 if scenario.pushes == Pushes::Ahead => Fault::Triggers { count: chance.of(&[1, 20, 1000]) },
        17 | 26 => Fault::Triggers { count: chance.of(&[1, 20, 1000, 100_000, 200_000]) },
        18 if scenario.spares > 0 => Fault::Add { builder: BuilderId::new(scenario.builders + 1) },
        19 => Fault::Remove { builder, back: chance.duration(10, 3000) },
        22..24 if !only_builders => Fault::Split { source, builder, length: chance.duration(500, 20_000) },
        24 | 27 if !only_builders => Fault::Deaf { who: Peer::Source(source) },
        28 => late(scenario, chance),
        29 if !only_builders => {
            let (who, is_gone) = (Peer::Source(source), chance.percent(50));
            Fault::Mute { who, is_gone, length: chance.duration(500, 12_000) }
        }
        20 => Fault::Pause { length: chance.duration(50, 3000) },
        21 => Fault::Stop,
        _ => return None,
    };
    Some(fault)
}

/// Draws a process that is late.
fn late(scenario: &Scenario, chance: &mut Chance) -> Fault {
    let who = match chance.between(0, 4) {
        0 => Peer::Supervisor,
        1 | 2 => Peer::Builder(BuilderId::new(chance.between(1, u64::from(scenario.builders)) as u16)),
        _ => Peer::Source(SourceId::new(chance.between(1, u64::from(scenario.sources)) as u16)),
    };
    let by = millis(chance.of(&[1, 5, 10, 30]));
    Fault::Late { who, by, every: chance.of(&[4, 20, 100]), length: chance.duration(1000, 12_000) }
}

/// Draws a fault that disturbs the end of a run: builders stay away for long, the supervisor is
/// killed while it stops the run, or sinks are slow.
fn ending(scenario: &Scenario, chance: &mut Chance) -> Option<Fault> {
    let builder = BuilderId::new(chance.between(1, u64::from(scenario.builders)) as u16);
    let who = Peer::Builder(builder);
    let fault = match chance.between(0, 9) {
        0..3 if scenario.has_journal => {
            Fault::Kill { who: Peer::Supervisor, down: chance.duration(50, 4000) }
        }
        3..6 => Fault::Kill { who, down: chance.duration(500, 40_000) },
        6 => Fault::Freeze { who, length: chance.duration(500, 20_000) },
        7 => {
            let state = DiskState::Slow(chance.duration(500, 4000));
            Fault::Disk { who, state, length: chance.duration(1000, 20_000) }
        }
        8 => Fault::Reset { who: Peer::Supervisor, pick: chance.between(0, 20) },
        9 => Fault::Remove { builder, back: chance.duration(10, 3000) },
        _ => return None,
    };
    Some(fault)
}

fn disk(scenario: &Scenario, builder: BuilderId, chance: &mut Chance) -> Fault {
    let slow = DiskState::Slow(chance.duration(10, 4500));
    if scenario.has_journal && chance.percent(25) {
        // The fault lasts for less time than a run waits for its journal.
        let state = chance.of(&[slow, DiskState::Full, DiskState::Failing, DiskState::Hanging]);
        return Fault::Disk { who: Peer::Supervisor, state, length: chance.duration(50, 4000) };
    }
    let state = chance.of(&[slow, slow, DiskState::Full, DiskState::Failing, DiskState::Hanging]);
    Fault::Disk { who: Peer::Builder(builder), state, length: chance.duration(50, 12_000) }
}
