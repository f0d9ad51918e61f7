//! The task that drives the supervisor's state machine: it supplies bytes, time and the results of
//! the journal.

use std::{
    collections::BTreeMap,
    io,
    task::{Context, Poll},
};

use evb_core::{
    id::Peer,
    ledger::RunReport,
    supervisor::{SupervisorOutput, SupervisorRole},
    time::{Instant, earlier},
};
use evb_net::{
    clock,
    control::{ControlLink, Incoming, LinkError},
    timer::Timer,
};

use super::{
    commands::Commands,
    journal::writer::JournalWriter,
    links::Links,
    onlookers::Onlookers,
    registrations::Registrations,
    start_gate::Asking,
    state::{StateKeeper, note_files},
    trigger_port::TriggerPort,
    wall_clock::WallClockReader,
};

/// The supervisor's state machine and its connections, journal and timer.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) role: SupervisorRole,
    pub(super) journal: Option<JournalWriter>,
    pub(super) registrations: Registrations,
    pub(super) links: Links,
    /// Connections of peers whose registration is not answered yet.
    joining: BTreeMap<Peer, ControlLink>,
    triggers: Option<TriggerPort>,
    commands: Commands,
    pub(super) timer: Timer,
    wall_clock: WallClockReader,
    onlookers: Onlookers,
    report: Option<Box<RunReport>>,
    pub(super) state: Option<StateKeeper>,
    asking: Asking,
}

impl Driver {
    pub(super) fn new(
        role: SupervisorRole,
        journal: Option<JournalWriter>,
        registrations: Registrations,
        triggers: Option<TriggerPort>,
        commands: Commands,
        onlookers: Onlookers,
        (state, asking): (Option<StateKeeper>, Asking),
    ) -> io::Result<Self> {
        Ok(Self {
            links: Links::new(&role.core().peers()),
            role,
            journal,
            registrations,
            joining: BTreeMap::new(),
            triggers,
            commands,
            timer: Timer::new()?,
            wall_clock: WallClockReader::default(),
            onlookers,
            report: None,
            state,
            asking,
        })
    }

    /// Processes all input that is available now; returns ready when the ledger is closed.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Box<RunReport>> {
        loop {
            let now = clock::now();
            self.wall_clock.feed(&mut self.role, now);
            let mut more = self.poll_links(cx, now);
            more |= self.commands.poll(cx, &mut self.role, &mut self.links, now);
            more |= self.triggers.as_mut().is_some_and(|port| port.feed(cx, &mut self.role, now));
            self.role.handle_timeout(now);
            self.asking.poll(cx, &mut self.role, now);
            self.drain(cx, now);
            self.onlookers.show(|| self.role.core().progress(), self.report.is_some(), now);
            if let Some(report) = self.report.take() {
                return Poll::Ready(report);
            }
            self.state.iter_mut().for_each(|state| state.update(self.role.core(), now));
            self.timer.arm(earlier(self.role.next_timeout(), self.links.next_timeout()));
            more |= self.role.next_timeout().is_some_and(|due| due <= now);
            more |= JournalWriter::feed(&mut self.journal, cx, &mut self.role, now);
            if more {
                cx.waker().wake_by_ref(); // The runtime looks for other readable connections.
                return Poll::Pending;
            }
            if self.timer.poll_expired(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Processes new connections and messages of peers; returns true if more may be waiting.
    fn poll_links(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        while self.role.takes_registrations()
            && let Poll::Ready(incoming) = self.registrations.poll(cx, now)
        {
            self.admit(incoming, now);
        }
        let role = &mut self.role;
        let more = self.links.poll_received(cx, now, |peer, mut message| {
            note_files(self.state.as_mut(), peer, &mut message);
            role.handle_message(peer, message, now);
        });
        self.forget_lost(now);
        more
    }

    /// Admits a peer that asks to register, in place of its old connection, or refuses it.
    fn admit(&mut self, incoming: Incoming, now: Instant) {
        match self.role.register(&incoming.hello, now) {
            Ok((peer, welcome)) => {
                tracing::debug!(%peer, address = %incoming.peer(), "a peer has connected");
                self.state.iter_mut().for_each(|state| state.note_software(peer, &incoming.hello.software));
                let link = incoming.welcome(welcome);
                self.registrations.classify(&link);
                self.links.drop_link(peer);
                self.joining.insert(peer, link);
            }
            Err(refusal) => self.registrations.refuse(incoming, refusal),
        }
    }

    /// Carries out the outputs of the state machine and their consequences.
    fn drain(&mut self, cx: &mut Context<'_>, now: Instant) {
        loop {
            self.carry_out(now);
            self.links.poll_flush(cx);
            if !self.forget_lost(now) {
                return;
            }
        }
    }

    fn carry_out(&mut self, now: Instant) {
        while let Some(output) = self.role.poll(now) {
            match output {
                SupervisorOutput::Send { to, message } => self.links.send(to, &message),
                SupervisorOutput::Connect(peer) => {
                    if let Some(link) = self.joining.remove(&peer) {
                        self.links.connect(peer, link, self.role.named(peer));
                    }
                }
                SupervisorOutput::Begun(result) => {
                    let state = self.state.iter_mut().filter(|_| result.is_ok());
                    state.for_each(|state| state.note_begin(&self.role.core().begun()));
                    self.commands.answer_begin(&result);
                }
                SupervisorOutput::Confirmed(number) => {
                    // Who learns that the run is resumed must not read that it is paused.
                    self.onlookers.show(|| self.role.core().progress(), true, now);
                    self.commands.confirm(number);
                }
                SupervisorOutput::Drop { peer, .. } => {
                    self.links.drop_link(peer);
                    self.joining.remove(&peer);
                }
                SupervisorOutput::Write(write) => {
                    if let Some(journal) = &mut self.journal {
                        journal.write(write);
                    }
                }
                SupervisorOutput::AbandonJournal => self.journal.iter_mut().for_each(JournalWriter::abandon),
                SupervisorOutput::Ended(report) => {
                    self.state.iter_mut().for_each(|state| state.end(self.role.core(), &report, now));
                    self.report = Some(report);
                }
            }
        }
    }

    /// Tells the state machine which peers are gone. Returns true if any peer is gone.
    fn forget_lost(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((peer, error)) = self.links.pop_lost() {
            if matches!(error, LinkError::Forged(_)) {
                self.registrations.count_forged();
            }
            self.role.handle_disconnect(peer, &error.to_string(), now);
            any = true;
        }
        any
    }
}
