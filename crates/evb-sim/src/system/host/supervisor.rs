//! The supervisor's process, with its role, its journal, the connections of its peers, and requests
//! of operators.

use core::mem;
use std::{collections::BTreeMap, sync::Arc};

use evb_core::{
    id::{BuilderId, EventId, Peer, SourceId},
    ledger::RunReport,
    rng::Rng,
    run_control::{
        self, State,
        leader::{Request, RunEvent},
    },
    session::HANDSHAKE_TIMEOUT,
    supervisor::{
        Keeper, OwingRequest, Progress, Recipients, RecoverError, Recovery, RunChange, RunPlan, RunState,
        SupervisorCore, SupervisorOutput, SupervisorRole,
    },
    time::{Instant, earlier},
    wire::control::{Control, Hello, Message, Welcome},
};

use super::{Spinning, Surroundings, journal::JournalDisk, leading::Leading};
use crate::{
    stream::{read_control, write_control},
    system::{
        failure::{Check, Failure},
        greeting::{read_greeting, refused, welcomed, write_greeting},
        network::{ConnectionKind, EndId},
    },
};

/// A request of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Trigger(u64),
    Start,
    Stop,
    Pause,
    Resume,
    Add(BuilderId),
    Remove(BuilderId),
    /// Exclude a source, beginning with the event that lies this number behind the next one.
    Exclude(SourceId, u64),
    Include(SourceId),
}

pub(crate) struct SupervisorHost {
    role: SupervisorRole,
    journal: JournalDisk,
    /// Connections of peers that are registered but whose greetings are not answered yet.
    joining: BTreeMap<Peer, (EndId, Welcome)>,
    greetings: Vec<(EndId, Instant)>,
    links: BTreeMap<Peer, EndId>,
    /// Ids of the sources, in the roster's order.
    sources: Vec<SourceId>,
    report: Option<Box<RunReport>>,
    /// Run control; `None` if runs begin as soon as all peers are ready.
    leading: Option<Leading>,
    spinning: Spinning,
}

/// The reason why no supervisor was started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// According to the journal, the run is over.
    Over,
    Failed(Failure),
}

impl SupervisorHost {
    /// Creates the supervisor of a run, which begins the run, or recovers it from the journal.
    pub(crate) fn new(mut plan: RunPlan, around: &mut Surroundings<'_>) -> Result<Self, NotStarted> {
        let leading = around.scenario.run_control.map(Leading::new);
        plan.hold = leading.is_some();
        let role = role(plan.clone(), around)?;
        around.network.nodes[around.node].listens = true;
        let mut host = Self {
            role,
            journal: JournalDisk::default(),
            joining: BTreeMap::new(),
            greetings: Vec::new(),
            links: BTreeMap::new(),
            sources: plan.sources.clone(),
            report: None,
            leading,
            spinning: Spinning::default(),
        };
        if let Some(leading) = &mut host.leading {
            let opened = leading
                .prepare(around.now())
                .and_then(|_| leading.handle_opened(plan, &mut host.role, around.now()));
            opened.map_err(NotStarted::Failed)?;
        }
        Ok(host)
    }

    /// Opens the next run in this process, which leads run after run. Returns the builders that
    /// take part.
    pub(crate) fn open_next(
        &mut self,
        mut plan: RunPlan,
        around: &mut Surroundings<'_>,
    ) -> Result<Vec<BuilderId>, NotStarted> {
        let Some(mut leading) = self.leading.take() else { return Ok(plan.builders) };
        let now = around.now();
        plan.hold = true;
        let next = leading.prepare(now).map_err(NotStarted::Failed)?;
        if let Some(builders) = next.builders {
            plan.builders = builders;
        }
        plan.excluded = next.excluded;
        let builders = plan.builders.clone();
        self.role = role(plan.clone(), around)?;
        around.network.nodes[around.node].listens = true;
        self.journal = JournalDisk::default();
        (self.joining, self.links) = (BTreeMap::new(), BTreeMap::new());
        self.greetings.clear();
        leading.handle_opened(plan, &mut self.role, now).map_err(NotStarted::Failed)?;
        self.leading = Some(leading);
        Ok(builders)
    }

    /// Returns the report of the run, once, when the run has ended.
    pub(crate) fn take_report(&mut self) -> Option<Box<RunReport>> {
        self.report.take()
    }

    /// Returns the builders that take part in the run.
    pub(crate) fn builders(&self) -> Vec<BuilderId> {
        self.role.builders()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.role.core().progress()
    }

    /// Leaves the journal as it is if the process dies now, perhaps in the middle of a write.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        self.journal.tear(around, rng);
    }

    /// Carries out a request of an operator; an error is the reason why the request was refused.
    pub(crate) fn command(
        &mut self,
        command: Command,
        around: &mut Surroundings<'_>,
    ) -> Result<Result<(), String>, Failure> {
        let now = around.now();
        around.say(|| format!("is asked for {command:?}"));
        let Some(leading) = &mut self.leading else { return Ok(order(&mut self.role, command, now)) };
        if !leading.has_run() {
            return Ok(Err("no run is open".to_owned()));
        }
        leading.follow(&mut self.role, now)?;
        let has_begun = self.role.core().progress().state != RunState::Configured;
        let request = match command {
            Command::Trigger(_) => return Ok(order(&mut self.role, command, now)),
            Command::Add(_) | Command::Remove(_) if !has_begun => {
                return Ok(Err("the run has not begun".to_owned()));
            }
            Command::Start => Request::Command(run_control::Command::Start),
            Command::Stop => Request::Command(run_control::Command::Stop),
            Command::Pause => Request::Command(run_control::Command::Pause),
            Command::Resume => Request::Command(run_control::Command::Resume),
            Command::Add(id) => Request::Add(id),
            Command::Remove(id) => Request::Remove(id),
            Command::Exclude(..) | Command::Include(_) => Request::Owe(owing(self.role.core(), command)),
        };
        let answer = leading.request(request, Some(&mut self.role), now)?;
        if let (Command::Add(id) | Command::Remove(id), Some(Err(refusal))) = (command, &answer) {
            let takes_part = self.role.builders().contains(&id);
            let is_wrong = match command {
                Command::Add(_) => refusal.reason.contains("already") && !takes_part,
                _ => refusal.reason.contains("does not take part") && takes_part,
            };
            if is_wrong {
                let what = format!("{command:?} is refused, and takes part: {takes_part}: {refusal}");
                return Err(Failure::new(Check::Steering, what));
            }
        }
        Ok(answer.unwrap_or(Ok(State::Configured)).map(drop).map_err(|refusal| refusal.to_string()))
    }

    pub(crate) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        self.role.run_mut().handle_wall_clock(around.wall_clock(), now);
        self.greet(around)?;
        self.read_links(around)?;
        self.role.handle_timeout(now);
        self.drain(around)?;
        while let Some(done) = self.journal.poll(around) {
            match done {
                Ok(length) => self.role.handle_journal_written(length, Ok(()), now),
                Err(error) => self.role.handle_journal_failure(error, now),
            }
            self.drain(around)?;
        }
        self.role.invariants();
        let mut next = earlier(self.role.next_timeout(), self.journal.next_timeout(around));
        if let Some(leading) = &self.leading {
            next = earlier(next, leading.next_timeout());
        }
        self.spinning.check(Peer::Supervisor, next, now)?;
        around.wake_at(next);
        Ok(())
    }

    fn greet(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        let accepted = mem::take(&mut around.network.nodes[around.node].accepted);
        self.greetings.extend(accepted.into_iter().map(|end| (end, now)));
        if !self.role.takes_registrations() {
            return Ok(());
        }
        for (end, since) in mem::take(&mut self.greetings) {
            let incoming = around.network.incoming(end);
            match read_greeting::<Hello>(ConnectionKind::Control, incoming).map_err(Failure::protocol)? {
                Some(hello) => self.admit(end, &hello, around),
                None if around.network.is_ended(end) || now.since(since) >= HANDSHAKE_TIMEOUT => {
                    around.network.close(end);
                }
                None => self.greetings.push((end, since)),
            }
        }
        Ok(())
    }

    fn admit(&mut self, end: EndId, hello: &Hello, around: &mut Surroundings<'_>) {
        match self.role.register(hello, around.now()) {
            Ok((peer, welcome)) => {
                around.say(|| format!("lets {peer} in, as {}", welcome.incarnation));
                self.drop_link(peer, around);
                self.joining.insert(peer, (end, welcome));
            }
            Err(refusal) => {
                around.say(|| format!("refuses {:?}: {}", hello.from_peer(), refusal.detail));
                write_greeting(ConnectionKind::Control, &refused(refusal), around.network.outgoing(end));
                around.network.flush(end);
                around.network.close(end);
            }
        }
    }

    fn read_links(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        for (peer, end) in self.links.clone() {
            while let Some(message) = read_control(around.network.incoming(end)).map_err(Failure::protocol)? {
                self.role.handle_message(peer, Control { message: Some(message) }, now);
            }
            if around.network.is_ended(end) {
                around.say(|| format!("lost {peer}"));
                around.network.close(end);
                self.links.remove(&peer);
                self.role.handle_disconnect(peer, "the connection ended", now);
            }
        }
        Ok(())
    }

    /// Carries out the outputs of the role and what run control decides, and sends the messages.
    fn drain(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        self.carry_out(around)?;
        if let Some(leading) = &mut self.leading {
            leading.follow(&mut self.role, around.now())?;
            self.carry_out(around)?;
        }
        for end in self.links.values() {
            around.network.flush(*end);
        }
        Ok(())
    }

    fn carry_out(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        while let Some(output) = self.role.poll(now) {
            match output {
                SupervisorOutput::Send { to, message } => self.send(to, &message, around),
                SupervisorOutput::Connect(peer) => {
                    let Some((end, welcome)) = self.joining.remove(&peer) else { continue };
                    write_greeting(ConnectionKind::Control, &welcomed(welcome), around.network.outgoing(end));
                    self.links.insert(peer, end);
                }
                SupervisorOutput::Begun(result) => {
                    if let Some(leading) = &mut self.leading {
                        leading.handle_begun(result, &mut self.role, now)?;
                    }
                }
                // Simulated operators do not wait for confirmations.
                SupervisorOutput::Confirmed(_) => {}
                SupervisorOutput::Drop { peer, reason } => {
                    around.say(|| format!("closes on {peer}: {reason}"));
                    self.drop_link(peer, around);
                }
                SupervisorOutput::Write(write) => self.journal.write(write, now),
                SupervisorOutput::AbandonJournal => {
                    around.journal.clear();
                    self.role.handle_journal_abandoned(Ok(()), now);
                }
                SupervisorOutput::Ended(report) => {
                    if let Some(leading) = &mut self.leading {
                        leading.hear(RunEvent::Over(Arc::new((*report).clone())), &mut self.role, now)?;
                    }
                    self.report = Some(report);
                }
            }
        }
        Ok(())
    }

    fn send(&self, to: Recipients, message: &Control, around: &mut Surroundings<'_>) {
        let is_meant = |peer: Peer| match (&to, peer) {
            (Recipients::Everyone, _) => true,
            (Recipients::Sources(set), Peer::Source(id)) => {
                self.sources.binary_search(&id).is_ok_and(|index| set.contains(index))
            }
            (Recipients::Source(id), peer) => peer == Peer::Source(*id),
            (Recipients::Builder(id), peer) => peer == Peer::Builder(*id),
            (Recipients::Sources(_), _) => false,
        };
        if !matches!(message.message, Some(Message::Heartbeat(_))) {
            around.say(|| format!("to {to:?}: {:?}", message.message.as_ref()));
        }
        for (_, end) in self.links.iter().filter(|(peer, _)| is_meant(**peer)) {
            write_control(message, around.network.outgoing(*end));
        }
    }

    fn drop_link(&mut self, peer: Peer, around: &mut Surroundings<'_>) {
        if let Some(end) = self.links.remove(&peer) {
            around.network.close(end);
        }
        // A connection of the peer may still wait for the answer to its greeting.
        if let Some((end, _)) = self.joining.remove(&peer) {
            around.network.close(end);
        }
    }
}

/// Creates the role of a run, which begins the run, or recovers it from the journal.
fn role(plan: RunPlan, around: &mut Surroundings<'_>) -> Result<SupervisorRole, NotStarted> {
    let failed = |what: String| NotStarted::Failed(Failure::new(Check::Ledger, what));
    let (now, seed, has_journal) = (around.now(), around.scenario.seed, plan.journal);
    let entries = around.journal.read().map_err(|_| failed("the journal is damaged".to_owned()))?;
    let compact_at = around.scenario.compact_at as u64;
    let mut recovery = Recovery::new(plan.clone());
    entries.iter().for_each(|entry| recovery.read(entry));
    let core = match recovery.finish(now) {
        Ok(core) => {
            around.records.counts.recoveries += 1;
            core
        }
        Err(RecoverError::Empty) => {
            SupervisorCore::new(plan, seed, now).map_err(|error| failed(error.to_string()))?
        }
        Err(RecoverError::Over(_)) => return Err(NotStarted::Over),
        Err(error) => {
            return Err(failed(format!("the run cannot be recovered from the journal: {error}")));
        }
    };
    Ok(SupervisorRole::new(core, has_journal.then(|| Keeper::new("journal", compact_at))))
}

/// Carries out a request of an operator in a run without run control.
fn order(role: &mut SupervisorRole, command: Command, now: Instant) -> Result<(), String> {
    let change = match command {
        Command::Trigger(count) => {
            role.run_mut().trigger(count, now);
            return Ok(());
        }
        Command::Stop => {
            role.run_mut().stop("the scenario", now);
            return Ok(());
        }
        // The run begins by itself.
        Command::Start => return Ok(()),
        Command::Pause => RunChange::Pause,
        Command::Resume => RunChange::Resume,
        Command::Add(id) => RunChange::AddBuilder(id),
        Command::Remove(id) => RunChange::RemoveBuilder(id),
        Command::Exclude(..) | Command::Include(_) => RunChange::Owe(owing(role.core(), command)),
    };
    role.change(change, now).map_err(|error| error.to_string())
}

/// Returns the request to exclude or include a source.
fn owing(core: &SupervisorCore, command: Command) -> OwingRequest {
    let next = core.progress().events.triggered + 1;
    let (source, excludes, ahead) = match command {
        Command::Exclude(source, ahead) => (source, true, ahead),
        Command::Include(source) => (source, false, 0),
        other => unreachable!("{other:?} changes nothing that is owed"),
    };
    let from = (ahead > 0).then(|| EventId::new(next + ahead));
    OwingRequest { sources: vec![source], excludes, from, why: "the scenario".to_owned() }
}
