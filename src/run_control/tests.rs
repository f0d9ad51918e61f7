//! Run control over real roles on loopback, all in one process.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evb_core::{
    event::Event,
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, RunNumber, SourceId},
    ledger::RunReport,
    run_control::{Command, State},
    supervisor::{OwingRequest, Presence, Survey},
    trigger::TriggerKind,
    units::Frequency,
};

use super::{Joining, Role, RunControl, System, SystemError};
use crate::{
    builder::{Builder, BuilderConfig},
    sink::FnSink,
    source::{Readout, Source, SourceConfig},
    supervisor::{JournalConfig, JournalFsync, RunPlan, SupervisorConfig},
};

type Built = Arc<Mutex<BTreeMap<u32, u64>>>;

/// A system of two sources and two builders that counts the built events by run number.
struct Small {
    next_run: u32,
    events: Option<u64>,
    trigger: TriggerKind,
    absent: Option<SourceId>,
    journal: Option<JournalConfig>,
    refuse: Arc<Mutex<Option<SystemError>>>,
    /// Error that `plan` returns, if any.
    planless: Arc<Mutex<Option<SystemError>>>,
    /// Error with which roles of this process fail to join, if any.
    barred: Arc<Mutex<Option<SystemError>>>,
    /// True while the sinks accept nothing.
    is_held: Arc<AtomicBool>,
    built: Built,
    reports: Arc<Mutex<Vec<RunReport>>>,
}

struct Letters;

impl Readout for Letters {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        Some(Fragment::new(event, Timestamp::new(event.number()), vec![b'x'; 300]))
    }
}

impl Small {
    fn new(trigger: TriggerKind, events: Option<u64>) -> Self {
        Self {
            next_run: 5,
            events,
            trigger,
            absent: None,
            journal: None,
            refuse: Arc::default(),
            planless: Arc::default(),
            barred: Arc::default(),
            is_held: Arc::default(),
            built: Arc::default(),
            reports: Arc::default(),
        }
    }

    fn builder(&self, supervisor: SocketAddr, id: BuilderId) -> Joining {
        let (built, is_held) = (Arc::clone(&self.built), Arc::clone(&self.is_held));
        let sink = FnSink(move |event: &Event| {
            while is_held.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            *built.lock().unwrap().entry(event.run.number()).or_default() += 1;
            Ok(())
        });
        let config = BuilderConfig::new(id, supervisor.to_string());
        Box::pin(async move {
            let builder = Builder::connect(config, sink).await;
            builder.map(|builder| Role::Builder(id, builder)).map_err(not_joined)
        })
    }
}

fn not_joined(error: crate::role::RoleError) -> SystemError {
    SystemError::new("a role", error.to_string(), "-")
}

impl System for Small {
    fn configure(&mut self) -> Result<(), SystemError> {
        self.refuse.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn plan(&mut self) -> Result<SupervisorConfig, SystemError> {
        if let Some(error) = self.planless.lock().unwrap().clone() {
            return Err(error);
        }
        let run = RunNumber::new(self.next_run);
        self.next_run += 1;
        let sources = [1, 2].map(SourceId::new).to_vec();
        let builders = [1, 2].map(BuilderId::new).to_vec();
        let plan = RunPlan {
            events: self.events,
            trigger: self.trigger,
            ..RunPlan::new(run, SupervisorConfig::fresh_epoch(), sources, builders)
        };
        let journal = self.journal.clone();
        Ok(SupervisorConfig { journal, ..SupervisorConfig::new("127.0.0.1:0", plan) })
    }

    fn join(&mut self, supervisor: SocketAddr, plan: &RunPlan) -> Vec<Joining> {
        let mut joining: Vec<Joining> = Vec::new();
        if let Some(error) = self.barred.lock().unwrap().clone() {
            joining.push(Box::pin(async { Err(error) }));
        }
        joining.extend(plan.builders.iter().map(|id| self.builder(supervisor, *id)));
        for id in [1, 2].map(SourceId::new) {
            if self.absent == Some(id) {
                continue;
            }
            let config = SourceConfig::new(id, supervisor.to_string());
            joining.push(Box::pin(async move {
                let source = Source::on_demand(config, Letters).await;
                source.map(|source| Role::Source(id, source)).map_err(not_joined)
            }));
        }
        joining
    }

    fn join_builder(&mut self, supervisor: SocketAddr, id: BuilderId) -> Option<Joining> {
        Some(self.builder(supervisor, id))
    }

    fn ended(&mut self, report: &RunReport) {
        self.reports.lock().unwrap().push(report.clone());
    }
}

fn khz(rate: f64) -> TriggerKind {
    TriggerKind::Periodic { rate: Frequency::from_hertz(rate * 1e3).unwrap() }
}

async fn in_state(control: &RunControl, state: State) {
    let mut shown = control.watch();
    let wanted = shown.wait_for(|shown| shown.state == state);
    tokio::time::timeout(Duration::from_secs(20), wanted).await.expect("in time").unwrap();
}

/// Asks for surveys until `wanted` accepts one, which takes longer on a busy machine.
async fn surveyed(control: &RunControl, wanted: impl Fn(&Survey) -> bool) -> Survey {
    let asking = async {
        loop {
            let survey = control.status().await.unwrap().survey.unwrap();
            if wanted(&survey) {
                return survey;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asking).await.expect("in time")
}

#[tokio::test]
async fn ten_runs_in_a_row_with_pauses_inside() {
    let system = Small::new(khz(2.0), None);
    let (built, reports) = (Arc::clone(&system.built), Arc::clone(&system.reports));
    let control = RunControl::new(system, false);
    assert_eq!(control.configure().await.unwrap(), State::Configured);
    for run in 5..15 {
        assert_eq!(control.start().await.unwrap(), State::Running);
        let status = control.status().await.unwrap();
        assert_eq!((status.state, status.run, status.runs), (State::Running, Some(run), u64::from(run) - 5));
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(control.pause().await.unwrap(), State::Paused);
        // Events under way are still built, but no events follow.
        let before = surveyed(&control, |survey| survey.outstanding == 0).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let after = control.status().await.unwrap().survey.unwrap();
        assert_eq!((before.events.assigned, after.outstanding), (after.events.assigned, 0));
        assert_eq!(control.resume().await.unwrap(), State::Running);
        surveyed(&control, |survey| survey.events.assigned > after.events.assigned).await;
        assert_eq!(control.stop().await.unwrap(), State::Stopping);
        let report = control.settled().await.unwrap();
        assert_eq!((report.run, report.exit_code), (run, 0), "{:?}", report.problems);
        assert_eq!(built.lock().unwrap()[&run], report.events.complete);
        in_state(&control, State::Configured).await;
    }
    assert_eq!(
        reports.lock().unwrap().iter().map(|report| report.run).collect::<Vec<_>>(),
        [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    );
}

#[tokio::test]
async fn a_run_may_end_by_itself_and_the_first_may_begin_by_itself() {
    let system = Small::new(TriggerKind::AsFastAsPossible, Some(500));
    let reports = Arc::clone(&system.reports);
    let control = RunControl::new(system, true);
    control.configure().await.unwrap();
    let mut shown = control.watch();
    shown.wait_for(|shown| shown.last_run.is_some()).await.unwrap();
    in_state(&control, State::Configured).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(reports.lock().unwrap().len(), 1, "only the first one begins by itself");
    control.start().await.unwrap();
    let report = control.settled().await.unwrap();
    assert_eq!((report.events.complete, reports.lock().unwrap().len()), (500, 2));
    control.close("done").await.unwrap();
    let gone = control.start().await.unwrap_err();
    assert_eq!(gone.refused_by, "the evbd process");
}

#[tokio::test]
async fn the_oldest_of_many_runs_is_forgotten() {
    let control = RunControl::new(Small::new(TriggerKind::AsFastAsPossible, Some(3)), false);
    control.configure().await.unwrap();
    for run in 5..28 {
        control.start().await.unwrap();
        assert_eq!(control.settled().await.unwrap().run, run);
        in_state(&control, State::Configured).await;
    }
    let status = control.status().await.unwrap();
    let kept: Vec<_> = status.last_run.iter().chain(&status.earlier_runs).map(|run| run.run).collect();
    assert_eq!(kept, (8..28).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn who_is_missing_refuses_the_start() {
    let mut system = Small::new(khz(1.0), None);
    system.absent = Some(SourceId::new(2));
    let control = RunControl::new(system, false);
    control.configure().await.unwrap();
    let refusal = control.start().await.unwrap_err();
    assert_eq!(
        (refusal.refused_by.as_str(), refusal.reason.as_str()),
        ("source 2", "it has not registered with the supervisor")
    );
    assert!(refusal.remedy.contains("--role source:2"), "{refusal}");
    let status = control.status().await.unwrap();
    assert_eq!((status.state, status.ready), (State::Configured, false));
    assert!(status.waiting_for.contains(&"source 2".to_owned()), "{:?}", status.waiting_for);
    assert_eq!(control.reset().await.unwrap(), State::Unconfigured);
}

#[tokio::test]
async fn every_command_is_refused_where_the_table_says_so() {
    let control = RunControl::new(Small::new(khz(1.0), None), false);
    // The test visits each state and tries every command that is illegal there.
    let way = [None, Some(Command::Configure), Some(Command::Start), Some(Command::Pause)];
    let mut state = State::Unconfigured;
    for step in way {
        if let Some(command) = step {
            state = control.command(command).await.unwrap();
        }
        for command in Command::ALL {
            if let Err(by_table) = state.command(command) {
                let refusal = control.command(command).await.unwrap_err();
                assert_eq!(refusal, by_table);
                assert_eq!(control.status().await.unwrap().state, state);
            }
        }
    }
    control.stop().await.unwrap();
    in_state(&control, State::Configured).await;
}

#[tokio::test]
async fn a_configuration_that_is_refused_changes_nothing() {
    let system = Small::new(khz(1.0), None);
    let refuse = Arc::clone(&system.refuse);
    let control = RunControl::new(system, false);
    let bad = SystemError::new("the configuration", "line 3 is wrong", "mend line 3");
    *refuse.lock().unwrap() = Some(bad.clone());
    let refusal = control.configure().await.unwrap_err();
    assert_eq!((refusal.refused_by, refusal.remedy), (bad.refused_by, bad.remedy));
    assert_eq!(control.status().await.unwrap().state, State::Unconfigured);
    *refuse.lock().unwrap() = None;
    control.configure().await.unwrap();
    *refuse.lock().unwrap() = Some(SystemError::new("the configuration", "worse", "-"));
    control.configure().await.unwrap_err();
    // The old configuration is still in force after the failed `configure`.
    assert_eq!(control.start().await.unwrap(), State::Running);
    control.stop().await.unwrap();
    control.settled().await.unwrap();
}

/// Asserts that run control refuses every command except `reset` in its present state.
async fn all_but_reset_are_refused(control: &RunControl) {
    for command in [Command::Configure, Command::Start, Command::Pause, Command::Resume, Command::Stop] {
        let refusal = control.command(command).await.expect_err("the state refuses the command");
        assert_eq!(refusal.request, command.to_string());
    }
}

#[tokio::test]
async fn what_cannot_be_opened_fails_and_a_reset_mends_it() {
    let system = Small::new(khz(2.0), Some(50));
    let planless = Arc::clone(&system.planless);
    let control = RunControl::new(system, false);
    control.configure().await.unwrap();
    *planless.lock().unwrap() = Some(SystemError::new("the journal", "is locked", "end the other one"));
    let refusal = control.configure().await.unwrap_err();
    assert_eq!((refusal.refused_by.as_str(), refusal.reason.as_str()), ("the journal", "is locked"));
    let status = control.status().await.unwrap();
    assert_eq!((status.state, status.run), (State::Failed, None));
    assert!(status.last_error.unwrap().contains("is locked"));
    all_but_reset_are_refused(&control).await;
    assert_eq!(control.reset().await.unwrap(), State::Unconfigured);
    assert!(control.configure().await.is_err(), "the cause still exists");
    assert_eq!(control.status().await.unwrap().state, State::Unconfigured);
    *planless.lock().unwrap() = None;
    control.configure().await.unwrap();
    assert_eq!(control.start().await.unwrap(), State::Running);
    in_state(&control, State::Configured).await;
}

#[tokio::test]
async fn a_role_that_cannot_join_fails_the_system() {
    let system = Small::new(khz(2.0), Some(50));
    let barred = Arc::clone(&system.barred);
    *barred.lock().unwrap() = Some(SystemError::new("builder 1", "its disk is gone", "-"));
    let control = RunControl::new(system, false);
    control.configure().await.unwrap();
    in_state(&control, State::Failed).await;
    all_but_reset_are_refused(&control).await;
    assert!(control.status().await.unwrap().last_error.unwrap().contains("its disk is gone"));
    *barred.lock().unwrap() = None;
    assert_eq!(control.reset().await.unwrap(), State::Unconfigured);
    assert_eq!(control.configure().await.unwrap(), State::Configured);
    assert_eq!(control.start().await.unwrap(), State::Running);
    in_state(&control, State::Configured).await;
}

#[tokio::test]
async fn nothing_can_be_asked_of_a_run_that_is_being_drained() {
    let system = Small::new(khz(2.0), None);
    let (is_held, reports) = (Arc::clone(&system.is_held), Arc::clone(&system.reports));
    let control = RunControl::new(system, false);
    control.configure().await.unwrap();
    control.start().await.unwrap();
    surveyed(&control, |survey| survey.events.complete > 20).await;
    is_held.store(true, Ordering::Relaxed);
    surveyed(&control, |survey| survey.events.inhibited > 0).await;
    assert_eq!(control.stop().await.unwrap(), State::Stopping);
    all_but_reset_are_refused(&control).await;
    assert!(control.reset().await.is_err());
    assert_eq!(control.status().await.unwrap().state, State::Stopping);
    is_held.store(false, Ordering::Relaxed);
    in_state(&control, State::Configured).await;
    let events = reports.lock().unwrap()[0].events;
    assert_eq!((events.lost, events.incomplete), (0, 0), "{events:?}");
}

#[tokio::test]
async fn rate_and_builders_stay_changed_over_runs() {
    let control = RunControl::new(Small::new(khz(0.1), None), false);
    assert_eq!(
        control.set_rate(Frequency::from_hertz(1.0).unwrap()).await.unwrap_err().refused_by,
        "state Unconfigured"
    );
    control.configure().await.unwrap();
    let refusal = control.add_builder(BuilderId::new(2)).await.unwrap_err();
    assert_eq!(
        (refusal.refused_by.as_str(), refusal.reason.as_str()),
        ("run control", "builder 2 takes part in the run already")
    );
    control.remove_builder(BuilderId::new(2)).await.unwrap();
    control.remove_builder(BuilderId::new(1)).await.unwrap_err();
    control.set_rate(Frequency::from_hertz(5000.0).unwrap()).await.unwrap();
    for _ in 0..2 {
        control.start().await.unwrap();
        let survey = surveyed(&control, |survey| survey.events.triggered > 200).await;
        assert_eq!(survey.builders.len(), 1);
        control.stop().await.unwrap();
        control.settled().await.unwrap();
    }
}

#[tokio::test]
async fn a_builder_of_this_process_that_was_removed_builds_again_when_it_is_added() {
    let control = RunControl::new(Small::new(khz(2.0), None), false);
    control.configure().await.unwrap();
    control.start().await.unwrap();
    let second = BuilderId::new(2);
    let of_second = |survey: &Survey| survey.builders.iter().find(|builder| builder.id == 2).cloned();
    for leaves_first in [true, false] {
        let before = surveyed(&control, |survey| of_second(survey).is_some_and(|it| it.complete > 50)).await;
        control.remove_builder(second).await.unwrap();
        if leaves_first {
            let is_gone =
                |survey: &Survey| of_second(survey).is_none_or(|it| it.presence == Presence::Absent);
            surveyed(&control, is_gone).await;
        }
        while let Err(refusal) = control.add_builder(second).await {
            assert!(refusal.reason.contains("is leaving the run"), "{refusal}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = of_second(&before).map_or(0, |it| it.complete);
        let builds_on = |survey: &Survey| of_second(survey).is_some_and(|it| it.complete > before + 500);
        surveyed(&control, builds_on).await;
    }
    control.stop().await.unwrap();
    let report = control.settled().await.unwrap();
    assert_eq!((report.events.lost, report.events.incomplete), (0, 0), "{:?}", report.problems);
}

/// A supervisor that replaces a killed one keeps the trigger rate, the pause, the builders and the
/// exclusions that operators have set.
#[test]
fn what_people_have_set_is_so_after_the_death_of_the_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Some(JournalConfig { path: folder.path().join("journal"), fsync: JournalFsync::None });
    let life = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = life();
    let run = first.block_on(async {
        let control = RunControl::new(Small { journal: journal(), ..Small::new(khz(0.01), None) }, false);
        control.configure().await.unwrap();
        control.start().await.unwrap();
        control.set_rate(Frequency::from_hertz(2000.0).unwrap()).await.unwrap();
        control.remove_builder(BuilderId::new(2)).await.unwrap();
        control.change_owing(owing(1, true)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        control.pause().await.unwrap();
        control.status().await.unwrap().run
    });
    drop(first);
    life().block_on(async {
        let control = RunControl::new(Small { journal: journal(), ..Small::new(khz(0.01), None) }, false);
        control.configure().await.unwrap();
        in_state(&control, State::Paused).await;
        let before = control.status().await.unwrap();
        assert_eq!(before.state, State::Paused);
        control.resume().await.unwrap();
        // At the configured rate of 10 Hz, 600 triggers would take a minute.
        let before = before.survey.unwrap().events.triggered;
        let after = surveyed(&control, |survey| survey.events.triggered > before + 600).await;
        assert_eq!((after.run, after.builders.len()), (run.unwrap(), 1));
        control.add_builder(BuilderId::new(2)).await.unwrap();
        control.stop().await.unwrap();
        control.settled().await.unwrap();
        // In the next run, too, the source is excluded.
        let exclusion = control.status().await.unwrap().survey.unwrap().sources[0].exclusion.clone();
        assert_eq!(exclusion.as_deref(), Some("broken"));
    });
}

fn owing(source: u16, excludes: bool) -> OwingRequest {
    let sources = vec![SourceId::new(source)];
    OwingRequest { sources, excludes, from: None, why: "broken".to_owned() }
}
