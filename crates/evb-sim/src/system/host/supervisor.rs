//! The supervisor's process: its machine, its journal, the connections of its peers, and what people ask for.

use core::{mem, time::Duration};
use std::collections::{BTreeMap, VecDeque};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    ledger::RunReport,
    rng::Rng,
    supervisor::{Output, Progress, Recipients, RecoverError, Recovery, RunPlan, SupervisorCore},
    time::{Instant, earlier},
    wire::control::{Control, Hello, Welcome, control::Message},
};

use super::{
    Spinning, Surroundings,
    keeper::{Done, Keeper},
};
use crate::{
    stream::{read_control, write_control},
    system::{
        failure::{Check, Failure},
        greeting::{read_greeting, refused, welcomed, write_greeting},
        network::{ConnectionKind, EndId},
    },
};

/// How long the other side's part of a greeting may take.
const GREETING: Duration = Duration::from_secs(5);

/// What people ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Trigger(u64),
    Stop,
    Pause,
    Resume,
    Add(BuilderId),
    Remove(BuilderId),
}

/// What waits until the journal has what it depends on.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are messages")]
enum Act {
    Send(Recipients, Control),
    Connect(Peer, EndId, Welcome),
    End(Box<RunReport>),
}

pub(crate) struct SupervisorHost {
    core: SupervisorCore,
    keeper: Option<Keeper>,
    /// Each with how many entries it depends on; `None`: those of this turn.
    held: VecDeque<(Option<u64>, Act)>,
    greetings: Vec<(EndId, Instant)>,
    links: BTreeMap<Peer, EndId>,
    /// By id, in the roster's order.
    sources: Vec<SourceId>,
    report: Option<Box<RunReport>>,
    spinning: Spinning,
}

/// Why no supervisor was started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The journal says that the run is over.
    Over,
    Failed(Failure),
}

impl SupervisorHost {
    /// Leads a run, from its beginning or by its journal.
    pub(crate) fn new(plan: RunPlan, around: &mut Surroundings<'_>) -> Result<Self, NotStarted> {
        let failed = |what: String| NotStarted::Failed(Failure::new(Check::Ledger, what));
        let (now, seed, has_journal) = (around.now(), around.scenario.seed, plan.journal);
        let entries = around.journal.read().map_err(|_| failed("the journal is damaged".to_owned()))?;
        let sources = plan.sources.clone();
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
            Err(error) => return Err(failed(format!("the journal does not lead on: {error}"))),
        };
        around.network.nodes[around.node].listens = true;
        Ok(Self {
            core,
            keeper: has_journal.then(Keeper::default),
            held: VecDeque::new(),
            greetings: Vec::new(),
            links: BTreeMap::new(),
            sources,
            report: None,
            spinning: Spinning::default(),
        })
    }

    /// What the ledger says, once.
    pub(crate) fn take_report(&mut self) -> Option<Box<RunReport>> {
        self.report.take()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.core.progress()
    }

    /// The process is killed.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        if let Some(keeper) = &self.keeper {
            keeper.tear(around, rng);
        }
    }

    /// Carries out what somebody asks for; what was refused.
    pub(crate) fn command(&mut self, command: Command, around: &mut Surroundings<'_>) -> Result<(), String> {
        let (core, now) = (&mut self.core, around.now());
        around.say(|| format!("is asked for {command:?}"));
        let changed = match command {
            Command::Trigger(count) => {
                core.trigger(count, now);
                Ok(())
            }
            Command::Stop => {
                core.stop("the scenario", now);
                Ok(())
            }
            Command::Pause => core.pause(now),
            Command::Resume => core.resume(now),
            Command::Add(id) => core.add_builder(id, now),
            Command::Remove(id) => core.remove_builder(id, now),
        };
        changed.map_err(|error| error.to_string())
    }

    pub(crate) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        let stalled = self.note_stall(now);
        self.greet(stalled, around)?;
        self.read_links(around)?;
        if self.core.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
        self.drain(around);
        loop {
            let done = match &mut self.keeper {
                Some(keeper) => keeper.poll(around),
                None => Done::Nothing,
            };
            match done {
                Done::Nothing => break,
                Done::Something => {}
                Done::Abandoned => {
                    self.keeper = None;
                    self.core.abandon_journal("the journal cannot be written".to_owned());
                    self.held.iter_mut().for_each(|(on, _)| *on = Some(0));
                }
            }
            self.note_stall(now);
            self.drain(around);
        }
        self.core.invariants();
        let journal = self.keeper.as_ref().and_then(|keeper| keeper.next_timeout(around));
        let next = earlier(self.core.next_timeout(), journal);
        self.spinning.check(Peer::Supervisor, next, now)?;
        around.wake_at(next);
        Ok(())
    }

    fn note_stall(&mut self, now: Instant) -> bool {
        let stalled = self.keeper.as_mut().is_some_and(|keeper| keeper.is_stalled(now));
        if stalled {
            self.core.stall_journal(now);
        } else {
            self.core.journal_goes_on(now);
        }
        stalled
    }

    fn greet(&mut self, stalled: bool, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        let accepted = mem::take(&mut around.network.nodes[around.node].accepted);
        self.greetings.extend(accepted.into_iter().map(|end| (end, now)));
        if stalled {
            // Nobody could be told before it is written down.
            return Ok(());
        }
        for (end, since) in mem::take(&mut self.greetings) {
            let incoming = around.network.incoming(end);
            match read_greeting::<Hello>(ConnectionKind::Control, incoming).map_err(Failure::protocol)? {
                Some(hello) => self.admit(end, &hello, around),
                None if around.network.is_ended(end) || now.since(since) >= GREETING => {
                    around.network.close(end);
                }
                None => self.greetings.push((end, since)),
            }
        }
        Ok(())
    }

    fn admit(&mut self, end: EndId, hello: &Hello, around: &mut Surroundings<'_>) {
        match (self.core.register(hello, around.now()), hello.from_peer()) {
            (Ok(welcome), Some(peer)) => {
                around.say(|| format!("lets {peer} in, as {}", welcome.incarnation));
                self.drop_link(peer, around);
                self.held.push_back((None, Act::Connect(peer, end, welcome)));
            }
            (Ok(_), None) => {}
            (Err(refusal), peer) => {
                around.say(|| format!("refuses {peer:?}: {}", refusal.detail));
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
                self.core.handle_message(peer, Control { message: Some(message) }, now);
            }
            if around.network.is_ended(end) {
                around.say(|| format!("lost {peer}"));
                around.network.close(end);
                self.links.remove(&peer);
                self.core.handle_disconnect(peer, "the connection ended", now);
            }
        }
        Ok(())
    }

    /// Carries out what the machine wants, until it wants nothing, and what that leads to.
    fn drain(&mut self, around: &mut Surroundings<'_>) {
        let now = around.now();
        while let Some(output) = self.core.poll(now) {
            match output {
                // It depends on nothing, and peers listen for it.
                Output::Send { to, message: message @ Control { message: Some(Message::Heartbeat(_)) } } => {
                    self.send(to, &message, around);
                }
                Output::Send { to, message } => self.held.push_back((None, Act::Send(to, message))),
                Output::Drop { peer, reason } => {
                    around.say(|| format!("closes on {peer}: {reason}"));
                    self.drop_link(peer, around);
                }
                Output::Journal(entry) => {
                    if let Some(keeper) = &mut self.keeper {
                        keeper.add(*entry, now);
                    }
                }
                Output::Ended(report) => self.held.push_back((None, Act::End(report))),
            }
        }
        self.release(around);
        for end in self.links.values() {
            around.network.flush(*end);
        }
    }

    /// Has written down what happened, and does what depends on nothing that is not written.
    fn release(&mut self, around: &mut Surroundings<'_>) {
        let now = around.now();
        let (mut added, mut written) = (0, 0);
        if let Some(keeper) = &mut self.keeper {
            let core = &self.core;
            keeper.start(now, || core.snapshot(now));
            (added, written) = (keeper.added(), keeper.written());
        }
        for (on, _) in self.held.iter_mut().rev().take_while(|(on, _)| on.is_none()) {
            *on = Some(added);
        }
        while let Some((_, act)) = self.held.pop_front_if(|(on, _)| on.is_some_and(|on| on <= written)) {
            match act {
                Act::Send(to, message) => self.send(to, &message, around),
                Act::Connect(peer, end, welcome) => {
                    write_greeting(ConnectionKind::Control, &welcomed(welcome), around.network.outgoing(end));
                    self.links.insert(peer, end);
                }
                Act::End(report) => self.report = Some(report),
            }
        }
    }

    fn send(&self, to: Recipients, message: &Control, around: &mut Surroundings<'_>) {
        let is_meant = |peer: Peer| match (to, peer) {
            (Recipients::Everyone, _) => true,
            (Recipients::Sources(set), Peer::Source(id)) => {
                self.sources.binary_search(&id).is_ok_and(|index| set.contains(index))
            }
            (Recipients::Source(id), peer) => peer == Peer::Source(id),
            (Recipients::Builder(id), peer) => peer == Peer::Builder(id),
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
        // A connection that waits to be welcomed.
        self.held.retain(|(_, act)| match act {
            Act::Connect(of, end, _) if *of == peer => {
                around.network.close(*end);
                false
            }
            _ => true,
        });
    }
}
