//! [`Leading`]: run control in the supervisor's process.

use std::collections::BTreeMap;

use evb_core::{
    id::{BuilderId, SourceId},
    run_control::{
        Command, Refusal, State,
        leader::{Done, Leader, LeaderOutput, Request, RunEvent},
    },
    supervisor::{NotReady, RunPlan, RunState, SupervisorRole},
    time::Instant,
};

use crate::system::failure::{Check, Failure};

/// The changes to the plan of the next run.
#[derive(Debug)]
pub(super) struct NextRun {
    /// Builders that replace those of the plan.
    pub(super) builders: Option<Vec<BuilderId>>,
    /// Sources that are excluded from the first event on.
    pub(super) excluded: BTreeMap<SourceId, String>,
}

/// The leader of a process, which leads run after run.
pub(super) struct Leading {
    leader: Leader,
    /// Number of the last request.
    asked: u64,
    /// The answer to the last request.
    answer: Option<Result<State, Refusal>>,
    /// True from the beginning of a run until all peers have answered.
    is_beginning: bool,
    /// Given while the leader waits for the next run.
    opening: Option<NextRun>,
}

impl Leading {
    pub(super) fn new(begins_by_itself: bool) -> Self {
        let leader = Leader::new(begins_by_itself);
        Self { leader, asked: 0, answer: None, is_beginning: false, opening: None }
    }

    /// Makes the leader ask for the next run. Returns the changes to its plan.
    pub(super) fn prepare(&mut self, now: Instant) -> Result<NextRun, Failure> {
        let commands = match self.leader.status().state {
            State::Failed => &[Command::Reset, Command::Configure][..],
            State::Unconfigured => &[Command::Configure],
            _ => &[],
        };
        for command in commands {
            self.request(Request::Command(*command), None, now)?;
        }
        self.opening.take().ok_or_else(|| wrong("run control does not open the next run".to_owned()))
    }

    /// Tells the leader that the run of `plan` is open.
    pub(super) fn handle_opened(
        &mut self,
        mut plan: RunPlan,
        role: &mut SupervisorRole,
        now: Instant,
    ) -> Result<(), Failure> {
        plan.builders = role.builders();
        plan.excluded = role.excluded();
        self.leader.handle_done(Done::Opened(Ok(Box::new(plan))), now);
        self.carry_out(Some(role), now)
    }

    /// Passes a request on. Returns its answer; `None` if the answer comes later.
    pub(super) fn request(
        &mut self,
        request: Request,
        role: Option<&mut SupervisorRole>,
        now: Instant,
    ) -> Result<Option<Result<State, Refusal>>, Failure> {
        self.asked += 1;
        self.answer = None;
        self.leader.handle_request(self.asked, request, now);
        self.carry_out(role, now)?;
        Ok(self.answer.take())
    }

    /// Handles the result of the run's beginning.
    pub(super) fn handle_begun(
        &mut self,
        result: Result<(), NotReady>,
        role: &mut SupervisorRole,
        now: Instant,
    ) -> Result<(), Failure> {
        self.is_beginning = false;
        let result = result.map_err(Into::into);
        self.hear(RunEvent::Begun { result, is_hosting: true }, role, now)
    }

    /// Passes an event of the run on.
    pub(super) fn hear(
        &mut self,
        event: RunEvent,
        role: &mut SupervisorRole,
        now: Instant,
    ) -> Result<(), Failure> {
        self.leader.handle_event(event, now);
        self.carry_out(Some(role), now)
    }

    /// Tells the leader the state of the run and the time, and checks that both agree on the state.
    pub(super) fn follow(&mut self, role: &mut SupervisorRole, now: Instant) -> Result<(), Failure> {
        self.hear(RunEvent::Progress(role.core().progress()), role, now)?;
        self.leader.handle_timeout(now);
        self.carry_out(Some(role), now)?;
        self.leader.invariants();
        let (run, state) = (role.core().progress().state, self.leader.status().state);
        let agrees = match run {
            RunState::Configured => state == State::Configured,
            RunState::Recovering => matches!(state, State::Running | State::Paused | State::Stopping),
            RunState::Running => state == State::Running,
            RunState::Paused => state == State::Paused,
            RunState::Stopping => state == State::Stopping,
            _ => true,
        };
        if agrees || self.is_beginning {
            return Ok(());
        }
        Err(wrong(format!("run control is in state {state}, and the run is {run:?}")))
    }

    /// Returns true if a run is open.
    pub(super) fn has_run(&self) -> bool {
        self.opening.is_none()
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.leader.next_timeout()
    }

    fn carry_out(&mut self, mut role: Option<&mut SupervisorRole>, now: Instant) -> Result<(), Failure> {
        while let Some(output) = self.leader.poll() {
            let done = match output {
                LeaderOutput::Answer { number, outcome } => {
                    if number == self.asked {
                        self.answer = Some(outcome);
                    }
                    continue;
                }
                LeaderOutput::Open { builders, excluded, .. } => {
                    self.opening = Some(NextRun { builders, excluded });
                    continue;
                }
                // The simulation starts the processes of builders itself.
                LeaderOutput::Bring(_) => continue,
                LeaderOutput::Configure | LeaderOutput::Admit(_) => Done::System(Ok(())),
                output => {
                    let Some(role) = role.as_deref_mut() else {
                        return Err(wrong(format!("no run is open for {output:?}")));
                    };
                    match self.act_on(output, role, now)? {
                        Some(done) => done,
                        None => continue,
                    }
                }
            };
            self.leader.handle_done(done, now);
        }
        Ok(())
    }

    /// Carries out an output that concerns the run that is open.
    fn act_on(
        &mut self,
        output: LeaderOutput,
        role: &mut SupervisorRole,
        now: Instant,
    ) -> Result<Option<Done>, Failure> {
        match output {
            LeaderOutput::Begin(annotation) => {
                self.is_beginning = true;
                if let Err(reason) = role.run_mut().begin(&annotation, now) {
                    self.is_beginning = false;
                    let event = RunEvent::Begun { result: Err(reason.into()), is_hosting: true };
                    self.leader.handle_event(event, now);
                }
                Ok(None)
            }
            // Simulated operators do not wait until the change is in the journal.
            LeaderOutput::Change(change) => {
                Ok(Some(Done::Changed(role.change(change, now).map_err(|error| error.to_string()))))
            }
            LeaderOutput::Stop(cause) => {
                role.run_mut().stop(&cause, now);
                Ok(Some(Done::Changed(Ok(()))))
            }
            output => Err(wrong(format!("an operator did not ask for {output:?}"))),
        }
    }
}

fn wrong(what: String) -> Failure {
    Failure::new(Check::Steering, what)
}
