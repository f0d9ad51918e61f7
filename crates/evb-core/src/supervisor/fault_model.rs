//! A model test: builders, sources and the supervisor are killed, disconnected and restarted at
//! random times. The supervisor is the real state machine; its peers are models that follow the
//! protocol. Every event must be settled exactly once in the ledger.

mod peers;

use core::time::Duration;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    Output, Recipients, RunPlan, SourceLoss, SupervisorCore,
    tests::{EVERYBODY, control, hello, plan, recovered},
};
use crate::{
    id::{EventId, Peer},
    index::BuilderIndex,
    ledger::{LEDGER_OPEN, NOT_ASSIGNED, RunReport},
    set::SourceSet,
    time::Instant,
    trigger::TriggerKind,
    wire::{
        control::{Control, Hello, Message},
        journal::{Entry, What},
    },
};
use peers::{BuilderModel, Line, SourceModel};

const TICK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
enum Step {
    Trigger(u64),
    Build {
        builder: BuilderIndex,
        most: usize,
    },
    Pass(u32),
    Kill(usize),
    Cut(usize),
    Heal(usize),
    Break(usize),
    /// Kill the supervisor after that many more outputs.
    KillSupervisor(usize),
    StartSupervisor,
    /// Replace the journal with a snapshot.
    Compact,
}

/// Returns a strategy that draws steps; without `source_faults`, faults befall builders only.
fn step(source_faults: bool) -> impl Strategy<Value = Step> {
    let peers = if source_faults { 0usize..4 } else { 2usize..4 };
    prop_oneof![
        20 => (1u64..5).prop_map(Step::Trigger),
        20 => (0usize..2, 1usize..4).prop_map(|(builder, most)| Step::Build { builder: BuilderIndex::new(builder), most }),
        20 => prop_oneof![4 => 1u32..6, 1 => 20u32..60].prop_map(Step::Pass),
        3 => peers.clone().prop_map(Step::Kill),
        2 => peers.clone().prop_map(Step::Cut),
        4 => peers.clone().prop_map(Step::Heal),
        3 => peers.prop_map(Step::Break),
        2 => (0usize..8).prop_map(Step::KillSupervisor),
        6 => Just(Step::StartSupervisor),
        1 => Just(Step::Compact),
    ]
}

fn peer(index: usize) -> Peer {
    EVERYBODY[index]
}

struct World {
    plan: RunPlan,
    /// The supervisor; `None` while it is killed.
    core: Option<SupervisorCore>,
    /// Number of outputs until the supervisor is killed; `None` if it is not to be killed.
    fuse: Option<usize>,
    now: Instant,
    journal: Vec<Entry>,
    sources: [SourceModel; 2],
    builders: [BuilderModel; 2],
    lines: [Line; 4],
    /// For each event, the epochs under which a sink accepted it.
    written: BTreeMap<u64, Vec<u64>>,
    report: Option<RunReport>,
}

impl World {
    /// Creates a world in which all peers have registered.
    fn new(on_source_loss: SourceLoss, slots: u32) -> Self {
        // The limit is longer than all faults together, so the run never gives up a peer for good.
        let give_up_after = Duration::from_secs(600);
        let plan =
            RunPlan { slots, on_source_loss, give_up_after, journal: true, ..plan(TriggerKind::External) };
        let now = Instant::from_nanos(1_000_000);
        let core = SupervisorCore::new(plan.clone(), 3, now).unwrap();
        let mut world = Self {
            plan,
            core: Some(core),
            fuse: None,
            now,
            journal: Vec::new(),
            sources: Default::default(),
            builders: Default::default(),
            lines: Default::default(),
            written: BTreeMap::new(),
            report: None,
        };
        world.pass(10);
        world
    }

    /// Applies a step, and checks the invariants.
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Trigger(count) => {
                if let Some(core) = &mut self.core {
                    core.trigger(count, self.now);
                }
            }
            Step::Build { builder, most } => self.build(builder.get(), most),
            Step::Pass(ticks) => self.pass(ticks),
            Step::Kill(index) => {
                self.lines[index].is_cut = false;
                self.disconnect(index);
                match index {
                    0 | 1 => self.sources[index] = SourceModel::default(),
                    _ => self.builders[index - 2] = BuilderModel::default(),
                }
            }
            Step::Cut(index) => self.lines[index].is_cut = true,
            Step::Heal(index) => self.lines[index].is_cut = false,
            Step::Break(index) => self.disconnect(index),
            Step::KillSupervisor(after) => self.fuse = Some(after),
            Step::StartSupervisor => self.start_supervisor(),
            Step::Compact => {
                if let Some(core) = &self.core {
                    self.journal = core.snapshot(self.now);
                }
            }
        }
        self.turn();
        self.core.iter().for_each(SupervisorCore::invariants);
    }

    /// Breaks the connection of a peer, as the supervisor sees it.
    fn disconnect(&mut self, index: usize) {
        if core::mem::take(&mut self.lines[index].connected) {
            self.lines[index].clear();
            if let Some(core) = &mut self.core {
                core.handle_disconnect(peer(index), "the model", self.now);
            }
        }
    }

    fn start_supervisor(&mut self) {
        if self.core.is_none() && self.report.is_none() {
            self.core = Some(recovered(&self.plan, &self.journal, self.now).unwrap());
        }
    }

    /// Ends the supervisor, and with it all connections.
    fn kill_supervisor(&mut self) {
        self.fuse = None;
        self.core = None;
        for line in &mut self.lines {
            line.connected = false;
            line.clear();
        }
    }

    /// Lets time pass: in each tick, peers register again and send heartbeats, and the timers of
    /// the supervisor fire.
    fn pass(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.now += TICK;
            self.register();
            for index in 0..4 {
                let beat = peers::heartbeat(self.now);
                self.say(index, beat);
            }
            if let Some(core) = &mut self.core {
                core.handle_timeout(self.now);
            }
            self.turn();
        }
    }

    /// Registers every peer that has no connection.
    fn register(&mut self) {
        for index in 0..4 {
            let Some(core) = &mut self.core else { return };
            if self.lines[index].connected || self.lines[index].is_cut {
                continue;
            }
            let incarnation = match index {
                0 | 1 => self.sources[index].incarnation,
                _ => self.builders[index - 2].incarnation,
            };
            let Ok(welcome) = core.register(&Hello { incarnation, ..hello(peer(index)) }, self.now) else {
                continue;
            };
            self.lines[index].clear();
            self.lines[index].connected = true;
            let decided = welcome.parameters.unwrap().decided;
            match index {
                0 | 1 => self.sources[index].welcomed(welcome.incarnation, decided),
                _ => self.builders[index - 2].welcomed(welcome.incarnation),
            }
            if let Some(builder) = index.checked_sub(2) {
                self.builders[builder].unaccounted().into_iter().for_each(|message| self.say(index, message));
            }
            self.turn();
        }
    }

    fn say(&mut self, index: usize, message: Message) {
        let line = &mut self.lines[index];
        if line.connected {
            line.up.push_back(message);
        }
    }

    /// Delivers messages and handles outputs until none are left.
    fn turn(&mut self) {
        loop {
            let mut moved = false;
            for index in 0..4 {
                moved |= self.deliver_up(index);
                moved |= self.deliver_down(index);
            }
            moved |= self.poll();
            if !moved {
                return;
            }
        }
    }

    /// Delivers what a peer has sent to the supervisor. Returns true if there was a message.
    fn deliver_up(&mut self, index: usize) -> bool {
        let line = &mut self.lines[index];
        let Some(core) = &mut self.core else { return false };
        if line.is_cut || !line.connected {
            return false;
        }
        let messages: Vec<Message> = line.up.drain(..).collect();
        let any = !messages.is_empty();
        for message in messages {
            core.handle_message(peer(index), control(message), self.now);
        }
        any
    }

    /// Delivers what the supervisor has sent to a peer, and queues the answers. Returns true if
    /// there was a message.
    fn deliver_down(&mut self, index: usize) -> bool {
        if self.lines[index].is_cut || !self.lines[index].connected {
            return false;
        }
        let messages: Vec<Message> = self.lines[index].down.drain(..).collect();
        let any = !messages.is_empty();
        for message in messages {
            let answers = match index {
                0 | 1 => self.sources[index].hear(&message),
                _ => self.builders[index - 2].hear(message, self.now, self.plan.lease),
            };
            answers.into_iter().for_each(|answer| self.say(index, answer));
        }
        any
    }

    /// Takes the outputs of the supervisor until there are none, or until the fuse kills the
    /// supervisor. Returns true if there was an output.
    fn poll(&mut self) -> bool {
        let mut any = false;
        while let Some(output) = self.core.as_mut().and_then(|core| core.poll(self.now)) {
            any = true;
            if let Some(left) = &mut self.fuse {
                if *left == 0 {
                    self.kill_supervisor();
                    return true;
                }
                *left -= 1;
            }
            match output {
                Output::Journal(entry) => self.journal.push(*entry),
                Output::Send { to, message } => self.send(to, &message),
                Output::Drop { peer: dropped, .. } => {
                    let index = (0..4).find(|index| peer(*index) == dropped).unwrap();
                    self.lines[index].connected = false;
                    self.lines[index].clear();
                }
                Output::Begun(_) => {}
                Output::Ended(report) => self.report = Some(*report),
            }
        }
        any
    }

    /// Queues a message for each connected peer to which it is addressed.
    fn send(&mut self, to: Recipients, message: &Control) {
        for index in 0..4 {
            let meant = match to {
                Recipients::Everyone => true,
                Recipients::Sources(ref set) => index < 2 && set.contains(index),
                Recipients::Source(id) => peer(index) == Peer::Source(id),
                Recipients::Builder(id) => peer(index) == Peer::Builder(id),
            };
            if meant && self.lines[index].connected {
                self.lines[index].down.push_back(message.message.clone().unwrap());
            }
        }
    }

    /// Settles events at a builder whose fragments are available or no longer expected.
    fn build(&mut self, index: usize, most: usize) {
        let id = index as u32 + 1;
        let has = |event: u64| -> SourceSet {
            (0..2).filter(|source| self.sources[*source].can_send(event, id)).collect()
        };
        let written = self.builders[index].build(self.now, most, has);
        for (event, epoch) in &written {
            self.written.entry(*event).or_default().push(*epoch);
        }
        let news = self.builders[index].news(written.len());
        news.into_iter().for_each(|message| self.say(index + 2, message));
    }

    /// Ends all faults, and runs until the supervisor has reported.
    fn finish(&mut self) {
        self.fuse = None;
        for index in 0..4 {
            self.lines[index].is_cut = false;
        }
        self.start_supervisor();
        let mut stopped = false;
        for round in 0..2000 {
            if self.report.is_some() {
                return;
            }
            self.pass(1);
            self.build(0, 3);
            self.build(1, 3);
            self.turn();
            if round == 100 && !stopped {
                stopped = true;
                if let Some(core) = &mut self.core {
                    core.stop("the model", self.now);
                }
            }
        }
    }

    /// Returns how often the journal records the completion of each event.
    fn accounted(&self) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for entry in &self.journal {
            if let Some(What::Accounted(accounted)) = &entry.what {
                let completions = accounted.completions.as_ref().unwrap();
                let exceptions = completions.exceptions.iter().map(|exception| EventId::new(exception.event));
                for event in completions.events().chain(exceptions) {
                    *counts.entry(event.number()).or_default() += 1;
                }
            }
        }
        counts
    }
}

/// Finishes the run, and checks that every event was written and counted exactly once.
fn check(world: &mut World, source_faults: bool) -> Result<(), TestCaseError> {
    world.finish();
    prop_assert!(world.report.is_some(), "the run does not end");
    let report = world.report.clone().unwrap();
    prop_assert_eq!(report.events.open(), Some(0), "{:?}", report);
    prop_assert_eq!(report.events.lost, 0, "{:?}", report.problems);
    prop_assert!(source_faults || report.events.incomplete == 0, "{:?}", report.problems);
    for (event, epochs) in &world.written {
        prop_assert!(epochs.is_sorted_by(|a, b| a < b), "event {} was written under {:?}", event, epochs);
    }
    let settled = (report.events.complete + report.events.incomplete) as usize;
    prop_assert_eq!(world.written.len(), settled, "sinks and books have the same events");
    let said = report.problems.join("; ");
    prop_assert!(!said.contains(LEDGER_OPEN) && !said.contains(NOT_ASSIGNED), "{}", said);
    prop_assert!(!said.contains("was dropped"), "{}", said);
    let compacted = world.journal.iter().any(|entry| matches!(entry.what, Some(What::Totals(_))));
    let accounted = world.accounted();
    prop_assert!(compacted || accounted.len() == settled);
    prop_assert!(accounted.values().all(|times| *times == 1), "{:?}", accounted);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn builders_and_supervisors_may_die_and_nothing_is_missing(
        slots in 1u32..5,
        steps in prop::collection::vec(step(false), 1..150),
    ) {
        let mut world = World::new(SourceLoss::Incomplete, slots);
        steps.iter().for_each(|step| world.apply(step));
        check(&mut world, false)?;
    }

    #[test]
    fn anybody_may_die_and_every_event_is_in_the_books_once(
        slots in 1u32..5,
        wait in any::<bool>(),
        steps in prop::collection::vec(step(true), 1..150),
    ) {
        let loss = if wait { SourceLoss::Wait } else { SourceLoss::Incomplete };
        let mut world = World::new(loss, slots);
        steps.iter().for_each(|step| world.apply(step));
        check(&mut world, true)?;
    }
}
