//! [`World`]: all simulated hosts with their processes and disks, and the main loop of the
//! simulation.

mod faults;
mod history;
mod process;
mod steering;

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use evb_core::{
    id::{BuilderId, Epoch, Peer, RunNumber},
    ledger::RunReport,
    rng::Rng,
    supervisor::RunPlan,
    time::Instant,
};

use super::{
    check,
    conditions::below,
    counts::Counts,
    disk::{DiskState, Files, JournalFile},
    failure::{Check, Failure},
    host::{Exit, NotStarted, Records, SupervisorHost, Surroundings},
    network::{Act, Happening, Network, NodeIndex},
    scenario::Scenario,
    trace::Trace,
};
use crate::workload::Workload;

use history::History;
use process::Process;

/// A simulated host.
struct Host {
    process: Option<Process>,
    /// The run in which the process was started.
    run: u32,
    clock: i64,
    boot_id: String,
    /// True if the host's process may take part in the run.
    is_member: bool,
    /// True if an operator asked to add the host's builder and was told that it takes part already.
    is_claimed: bool,
    /// Time until which the host has no process because of a fault.
    down_until: Instant,
    frozen_until: Instant,
    /// Time until which the readout of the host's source delivers nothing, and true if it is gone.
    mute: Option<(Instant, bool)>,
    /// Time until which the host's process is sometimes late, by how much, and how rarely.
    late: (Instant, Duration, u64),
    cut_until: Instant,
    disk: DiskState,
    disk_until: Instant,
}

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    network: Network,
    hosts: Vec<Host>,
    files: Files,
    journal: JournalFile,
    records: Records,
    /// The fragments of the current run, which differ between runs.
    workload: Workload,
    rng: Rng,
    run: u32,
    /// Number of runs whose ledger is closed.
    closed: u32,
    is_over: bool,
    epoch: u64,
    storm_until: Instant,
    /// Time at which all faults of the run are over and the run has been stopped, so that it must
    /// end soon after.
    calm_from: Instant,
    history: History,
    /// Number of datagrams that the network had lost when the run was opened.
    lost_before: u64,
    failure: Option<Failure>,
}

/// Time after the last fault and the stop within which a run must have ended. The time must exceed
/// the 90 s for which peers look for a supervisor.
const PATIENCE: Duration = Duration::from_secs(100);

/// Time after which a failed process is restarted, as service managers do.
const RESTART: Duration = Duration::from_millis(500);

/// Time from the end of a run to the opening of the next run.
const BETWEEN: Duration = Duration::from_millis(300);

/// Number of process runs above which the simulation counts as stuck.
const MOST_TURNS: u64 = 20_000_000;

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, trace: Trace) -> Self {
        let mut rng = Rng::new(scenario.seed ^ 0x776F_726C_6421_2121);
        let hosts = (0..scenario.nodes()).map(|node| Host {
            process: None,
            run: 0,
            clock: rng.below(3_600_000_000_000) as i64 + 1_000_000_000,
            boot_id: format!("boot-{node}-0"),
            is_member: true,
            is_claimed: false,
            down_until: Instant::ZERO,
            frozen_until: Instant::ZERO,
            late: (Instant::ZERO, Duration::ZERO, 1),
            mute: None,
            cut_until: Instant::ZERO,
            disk: DiskState::Well,
            disk_until: Instant::ZERO,
        });
        let hosts: Vec<Host> = hosts.collect();
        let mut network = Network::new(hosts.len(), scenario.weather, scenario.port(), scenario.seed, trace);
        if scenario.is_torn {
            network.tear(scenario.seed);
        }
        Self {
            scenario,
            network,
            hosts,
            files: Files::new(),
            journal: JournalFile::default(),
            records: Records::default(),
            workload: Workload::of_boards(scenario.readout, scenario.boards.as_ref(), 0, scenario.seed),
            rng,
            run: 0,
            closed: 0,
            is_over: false,
            epoch: 0,
            storm_until: Instant::ZERO,
            calm_from: Instant::ZERO,
            history: History::default(),
            lost_before: 0,
            failure: None,
        }
    }

    /// Runs the simulation to its end or to the first failed check. Returns the counts, the trace,
    /// and the failure, if any.
    pub(super) fn turn(mut self) -> (Counts, Trace, Option<Failure>) {
        self.open(0);
        while self.failure.is_none() && !self.is_over {
            let Some(what) = self.network.advance() else {
                self.fail(Failure::new(Check::Hang, "no further step is scheduled, and the run is not over"));
                break;
            };
            self.happen(what);
        }
        let fates = self.network.fates;
        let counts = &mut self.records.counts;
        counts.time = self.network.now().since(Instant::ZERO);
        (counts.datagrams, counts.datagrams_lost) = (fates.sent, fates.lost);
        let failure = self.failure.map(|failure| {
            let what = format!("{} (at {}, run {})", failure.what, self.network.now(), self.run + 1);
            Failure { what, ..failure }
        });
        (self.records.counts, self.network.trace, failure)
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Wake(node) => self.wake(node),
            Happening::World(act) => self.act(act),
            _ => {}
        }
        let now = self.network.now();
        if now.since(self.calm_from) > PATIENCE {
            let progress = match &self.hosts[0].process {
                Some(Process::Supervisor(host)) => format!("{:?}", host.progress()),
                _ => "there is no supervisor".to_owned(),
            };
            let what = format!("the run does not end, {PATIENCE:?} after all faults: {progress}");
            self.fail(Failure::new(Check::Hang, what));
        }
        if self.records.counts.turns > MOST_TURNS {
            self.fail(Failure::new(Check::Spinning, format!("{MOST_TURNS} turns, and no end")));
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn is_frozen(&self, node: NodeIndex) -> bool {
        self.hosts[node].frozen_until > self.network.now()
    }

    /// Runs the process of a host once, or postpones this if the process is frozen or late.
    fn wake(&mut self, node: NodeIndex) {
        let (until, by, every) = self.hosts[node].late;
        let now = self.network.now();
        // A turn that was postponed isn't postponed again, so that no turn is later than `by`.
        let was_late = self.hosts[node].frozen_until == now;
        if now < until && !was_late && !self.is_frozen(node) && self.rng.below(every) == 0 {
            self.hosts[node].frozen_until = now + below(by, &mut self.rng);
        }
        if self.is_frozen(node) {
            let at = self.hosts[node].frozen_until;
            return self.network.wake_at(node, at);
        }
        let Some(mut process) = self.hosts[node].process.take() else { return };
        self.records.counts.turns += 1;
        let outcome = {
            let around = &mut self.around(node);
            catch_unwind(AssertUnwindSafe(|| process.turn(around)))
                .unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
        };
        match outcome {
            Err(failure) => {
                let what = format!("{}: {}", self.scenario.peer(node), failure.what);
                self.fail(Failure { what, ..failure });
            }
            Ok(Some(exit)) => self.exit(node, &exit),
            Ok(None) => {
                let report = process.take_report();
                self.hosts[node].process = Some(process);
                if node == 0 {
                    self.note_losses();
                }
                if let Some(report) = report {
                    self.close(&report);
                }
            }
        }
    }

    /// Notes if the supervisor counts more lost events than disks refused.
    fn note_losses(&mut self) {
        let Some(Process::Supervisor(host)) = &self.hosts[0].process else { return };
        let lost = host.progress().events.lost;
        let run = RunNumber::new(self.run + 1);
        let refused = || self.records.failed.iter().filter(|(of, _)| *of == run).count() as u64;
        self.history.note_losses(lost > 0 && lost > refused(), self.network.now());
    }

    fn around(&mut self, node: NodeIndex) -> Surroundings<'_> {
        let host = &self.hosts[node];
        Surroundings {
            scenario: self.scenario,
            network: &mut self.network,
            node,
            clock: host.clock,
            boot_id: &host.boot_id,
            disk: host.disk,
            mute: host.mute.map(|(_, is_gone)| is_gone),
            files: &mut self.files,
            journal: &mut self.journal,
            records: &mut self.records,
            workload: &self.workload,
        }
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        let now = self.network.now();
        self.network.trace.line(now, text);
    }

    /// Handles the end of a process that has ended on its own.
    fn exit(&mut self, node: NodeIndex, exit: &Exit) {
        let peer = self.scenario.peer(node);
        self.say(|| format!("{peer} ends: {exit:?}"));
        self.network.drop_all_of(node);
        if *exit == Exit::Over && self.hosts[node].is_claimed && self.goes_on() {
            let what =
                format!("{peer} left, although the operator who asked to add it was told that it takes part");
            self.fail(Failure::new(Check::Steering, what));
        }
        // Under run control, a process whose run is over joins the next run.
        let joins_next = self.scenario.run_control.is_some() && self.hosts[node].run < self.run;
        if matches!(exit, Exit::Failed(_)) || joins_next {
            let at = self.network.now() + RESTART;
            self.network.schedule(at, Happening::World(Act::Start(node)));
        }
    }

    /// Starts the process of a host, if it has none and may have one.
    fn start(&mut self, node: NodeIndex) {
        let now = self.network.now();
        let host = &self.hosts[node];
        let is_off = host.down_until > now || !host.is_member;
        if host.process.is_some() || is_off || self.is_over {
            return;
        }
        let peer = self.scenario.peer(node);
        self.say(|| format!("{peer} starts"));
        self.records.counts.processes += 1;
        let process = match peer {
            Peer::Supervisor => {
                let plan = self.next_plan();
                match Process::lead(plan, &mut self.around(node)) {
                    Ok(process) => process,
                    // The previous supervisor had closed the ledger, but was killed before it
                    // reported this.
                    Err(NotStarted::Over) => return self.open_next(),
                    Err(NotStarted::Failed(failure)) => return self.fail(failure),
                }
            }
            Peer::Source(id) => Process::source(id, &self.around(node)),
            Peer::Builder(id) => Process::builder(id, &mut self.around(node)),
        };
        self.hosts[node].process = Some(process);
        self.hosts[node].run = self.run;
        self.network.wake_at(node, now);
    }

    /// Opens a run with an empty journal and a new supervisor, and starts all other processes that
    /// do not run.
    fn open(&mut self, run: u32) {
        self.say(|| format!("run {} is opened", run + 1));
        self.run = run;
        self.history.open_run(self.network.now());
        self.lost_before = self.network.fates.lost;
        self.journal.clear();
        let Scenario { readout, seed, ref boards, .. } = *self.scenario;
        self.workload = Workload::of_boards(readout, boards.as_ref(), run, seed);
        let previous = self.hosts[0].process.take();
        self.network.drop_all_of(0);
        let builders = match previous {
            Some(Process::Supervisor(host)) if self.scenario.run_control.is_some() => self.lead_on(host),
            // A supervisor's process that is still running belongs to the previous run.
            _ => (1..=self.scenario.builders).map(BuilderId::new).collect(),
        };
        for node in 0..self.hosts.len() {
            let is_member = match self.scenario.peer(node) {
                Peer::Builder(id) => builders.contains(&id),
                _ => true,
            };
            self.hosts[node].is_member = is_member;
            self.hosts[node].is_claimed = false;
            if is_member {
                self.start(node);
            }
        }
        self.plan_run(run);
    }

    /// Opens the run in the process that led the one before. Returns the builders that take part.
    fn lead_on(&mut self, mut host: Box<SupervisorHost>) -> Vec<BuilderId> {
        let plan = self.next_plan();
        let opened = host.open_next(plan, &mut self.around(0));
        self.hosts[0].process = Some(Process::Supervisor(host));
        self.network.wake_at(0, self.network.now());
        opened.unwrap_or_else(|error| {
            self.fail(Failure::new(Check::Steering, format!("the next run is not opened: {error:?}")));
            Vec::new()
        })
    }

    /// Returns the plan of the current run for its next supervisor.
    fn next_plan(&mut self) -> RunPlan {
        self.epoch += 1;
        self.scenario.plan(self.run, Epoch::new(self.epoch << 32 | 1), &self.hosts[0].boot_id)
    }

    /// Handles the end of a run: compares its closed ledger with the contents of the disks, and
    /// schedules the next run.
    fn close(&mut self, report: &RunReport) {
        self.say(|| format!("the ledger is closed: {:?} {:?}", report.events, report.problems));
        let events = report.events;
        self.network.trace.mix([
            events.triggered,
            events.complete,
            events.incomplete,
            events.lost,
            events.rejected,
        ]);
        let counts = &mut self.records.counts;
        counts.runs += 1;
        counts.triggered += events.triggered;
        counts.inhibited += events.inhibited;
        counts.complete += events.complete;
        counts.incomplete += events.incomplete;
        counts.rejected += events.rejected;
        counts.lost += events.lost;
        counts.resends += report.network.datagrams.resends;
        let run = check::OfRun {
            scenario: self.scenario,
            run: self.run,
            files: &self.files,
            failed: &self.records.failed,
            workload: &self.workload,
            faults: &self.history.faults(),
            lost_datagrams: self.network.fates.lost - self.lost_before,
            may_lose: self.history.explains_losses(self.scenario),
        };
        let (checked, (boards, judged)) = (run.check(report), run.check_boards(report));
        for (kind, count) in boards {
            *self.records.counts.boards.entry(kind).or_default() += count;
        }
        match checked.and_then(|copies| judged.map(|()| copies)) {
            Ok(copies) => self.records.counts.copies += copies,
            Err(failure) => self.fail(failure),
        }
        self.open_next();
    }

    fn open_next(&mut self) {
        self.closed = self.run + 1;
        if self.run + 1 >= self.scenario.runs {
            self.is_over = true;
            return;
        }
        let at = self.network.now() + BETWEEN;
        self.calm_from = at;
        self.network.schedule(at, Happening::World(Act::Open { run: self.run + 1 }));
    }
}
