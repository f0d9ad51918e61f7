//! Carries out the faults of a scenario.

use core::time::Duration;

use evb_core::{id::Peer, rng::Rng, time::Instant};

use super::World;
use crate::system::{
    conditions::below,
    disk::DiskState,
    fault::Fault,
    network::{Act, Happening, NodeIndex},
};

impl World<'_> {
    /// Schedules the faults of a run and the request to stop it.
    pub(super) fn plan_run(&mut self, run: u32) {
        let now = self.network.now();
        let mut last = now + self.scenario.stop_after;
        self.network.schedule(last, Happening::World(Act::Stop { run }));
        for (index, planned) in self.scenario.faults.iter().enumerate().filter(|(_, one)| one.run == run) {
            self.network.schedule(now + planned.at, Happening::World(Act::Begin(index)));
            last = last.max(now + planned.at + planned.fault.length());
        }
        if self.has_external_trigger() {
            self.network.schedule(now, Happening::World(Act::Trigger { run }));
        }
        if self.scenario.run_control.is_some_and(|begins_by_itself| !begins_by_itself || run > 0) {
            self.network.schedule(now, Happening::World(Act::BeginRun { run }));
        }
        self.calm_from = last;
    }

    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Begin(index) => {
                let planned = self.scenario.faults[index];
                // A fault that was planned for an earlier run is skipped.
                if planned.run == self.run {
                    self.say(|| format!("fault {index}: {planned}"));
                    *self.records.counts.faults.entry(planned.fault.word()).or_default() += 1;
                    self.begin(index, planned.fault);
                }
            }
            Act::End(index) => self.end(self.scenario.faults[index].fault),
            Act::Start(node) => self.start(node),
            Act::Trigger { run } => self.trigger(run),
            Act::BeginRun { run } => self.begin_run(run),
            Act::Stop { run } => self.stop(run),
            Act::Return { run, node } => self.add(run, node),
            Act::Include { source } => self.include(source),
            // The next run may be open already: this action is scheduled twice if a supervisor is
            // killed after it has closed its ledger, and is then started again.
            Act::Open { run } if run == self.run => {}
            Act::Open { run } => self.open(run),
        }
    }

    fn begin(&mut self, index: usize, fault: Fault) {
        let until = self.network.now() + fault.length();
        let node = fault.who().map_or(0, |who| self.scenario.node_of(who));
        if fault.length() > Duration::ZERO {
            self.network.schedule(until, Happening::World(Act::End(index)));
        }
        self.history.note_fault(fault, self.network.now());
        match fault {
            Fault::Kill { .. } => self.kill(node, until),
            Fault::Reboot { .. } => {
                self.cut(node, until);
                self.kill(node, until);
                self.reset_clock(node, until, index);
            }
            Fault::Freeze { .. } => {
                let host = &mut self.hosts[node];
                host.frozen_until = until.max(host.frozen_until);
            }
            Fault::Late { by, every, .. } => self.hosts[node].late = (until, by, every),
            Fault::Mute { is_gone, .. } => {
                self.hosts[node].mute = Some((until, is_gone));
                self.network.wake_at(node, self.network.now());
            }
            Fault::Cut { .. } => self.cut(node, until),
            Fault::Split { builder, .. } => {
                self.network.split(node, self.scenario.node_of(Peer::Builder(builder)));
            }
            Fault::Deaf { .. } => self.network.kill_sockets(node),
            Fault::Reset { pick, .. } => drop(self.network.reset_one(node, pick)),
            Fault::Stall { .. } => self.network.stall_control(node, until),
            Fault::Disk { state, .. } => {
                let host = &mut self.hosts[node];
                (host.disk, host.disk_until) = (state, until);
                self.network.wake_at(node, self.network.now());
            }
            Fault::Storm { weather, .. } => {
                (self.network.weather, self.storm_until) = (weather, until);
            }
            Fault::Triggers { .. }
            | Fault::Add { .. }
            | Fault::Remove { .. }
            | Fault::Exclude { .. }
            | Fault::Pause { .. }
            | Fault::Stop => self.steer(fault),
        }
    }

    fn end(&mut self, fault: Fault) {
        let now = self.network.now();
        let node = fault.who().map_or(0, |who| self.scenario.node_of(who));
        match fault {
            Fault::Kill { .. } => self.start(node),
            Fault::Reboot { .. } => {
                self.heal(node);
                self.start(node);
            }
            Fault::Freeze { .. } => self.network.wake_at(node, now),
            Fault::Mute { .. } => {
                let mute = &mut self.hosts[node].mute;
                *mute = mute.filter(|(until, _)| *until > now);
                self.network.wake_at(node, now);
            }
            Fault::Cut { .. } => self.heal(node),
            Fault::Split { builder, .. } => {
                self.network.join(node, self.scenario.node_of(Peer::Builder(builder)));
            }
            Fault::Disk { .. } if self.hosts[node].disk_until <= now => {
                self.hosts[node].disk = DiskState::Well;
                self.network.wake_at(node, now);
            }
            Fault::Storm { .. } if self.storm_until <= now => self.network.weather = self.scenario.weather,
            Fault::Remove { .. } => self.add(self.run, node),
            Fault::Exclude { source, .. } => self.include(source),
            Fault::Pause { .. } => self.resume(),
            _ => {}
        }
    }

    fn kill(&mut self, node: NodeIndex, until: Instant) {
        self.hosts[node].down_until = until.max(self.hosts[node].down_until);
        self.hosts[node].frozen_until = Instant::ZERO;
        let Some(process) = self.hosts[node].process.take() else { return };
        let mut rng = Rng::new(self.rng.next_u64());
        process.tear(&mut self.around(node), &mut rng);
        self.network.drop_all_of(node);
    }

    fn cut(&mut self, node: NodeIndex, until: Instant) {
        self.hosts[node].cut_until = until.max(self.hosts[node].cut_until);
        if !self.network.nodes[node].is_cut {
            self.network.cut(node);
        }
    }

    fn heal(&mut self, node: NodeIndex) {
        if self.hosts[node].cut_until <= self.network.now() {
            self.network.heal(node);
        }
    }

    /// Sets a host's clock as after a reboot, while no process runs on the host.
    fn reset_clock(&mut self, node: NodeIndex, back: Instant, index: usize) {
        let up = Duration::from_secs(1) + below(Duration::from_secs(10), &mut self.rng);
        self.hosts[node].clock = up.as_nanos() as i64 - back.as_nanos() as i64;
        self.hosts[node].boot_id = format!("boot-{node}-{}-{index}", self.run);
    }

    pub(super) fn is_supervised(&self) -> bool {
        self.hosts[0].process.is_some() && !self.is_frozen(self.scenario.node_of(Peer::Supervisor))
    }
}
