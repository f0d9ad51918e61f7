//! The task that owns the supervisor's machine.

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    id::{BuilderId, Peer},
    ledger::RunReport,
    supervisor::{ChangeError, NotReady, Output, Progress, SupervisorCore, Survey},
    time::Instant,
    trigger::announcement::{Asked, MAX_COUNT},
    units::Frequency,
    wire::control::{Control, control::Message},
};
use evb_net::{
    clock,
    control::{Incoming, LinkError},
    timer::Timer,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    door::Door,
    held::{Act, Held},
    journal::keeper::{Done, Keeper},
    links::Links,
    trigger_port::TriggerPort,
};

/// How often onlookers see new counters.
const PROGRESS_EVERY: Duration = Duration::from_millis(20);

/// How long peers may take to read their last message and close.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long the run stands still when its journal cannot be written, before it goes on without.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);

/// How many commands and trigger messages one turn takes.
const BATCH: usize = 64;

/// What a handle asks for.
#[derive(Debug)]
pub(super) enum Command {
    Trigger(u64),
    Stop(String),
    Change(Change, oneshot::Sender<Result<(), ChangeError>>),
    Begin(oneshot::Sender<Result<(), NotReady>>),
    Survey(oneshot::Sender<Survey>),
}

/// What is to be changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Pause,
    Resume,
    SetRate(Frequency),
    AddBuilder(BuilderId),
    RemoveBuilder(BuilderId),
}

#[derive(Debug)]
pub(super) struct Driver {
    core: SupervisorCore,
    pub(super) journal: Option<Keeper>,
    /// Since when it cannot be written, and why.
    journal_fails: Option<(Instant, io::Error)>,
    held: Held,
    door: Door,
    links: Links,
    triggers: Option<TriggerPort>,
    commands: mpsc::Receiver<Command>,
    commands_open: bool,
    timer: Timer,
    progress: watch::Sender<Progress>,
    progress_due: Instant,
    /// The highest announced trigger that was taken, and how many announcements before it did not come.
    announced: u64,
    unannounced: u64,
    report: Option<Box<RunReport>>,
}

impl Driver {
    pub(super) fn new(
        core: SupervisorCore,
        journal: Option<Keeper>,
        door: Door,
        triggers: Option<TriggerPort>,
        commands: mpsc::Receiver<Command>,
        progress: watch::Sender<Progress>,
    ) -> io::Result<Self> {
        // A run that goes on by its journal has taken those already.
        let announced = core.decided().number();
        Ok(Self {
            links: Links::new(&core.peers()),
            core,
            journal,
            journal_fails: None,
            held: Held::default(),
            door,
            triggers,
            commands,
            commands_open: true,
            timer: Timer::new()?,
            progress,
            progress_due: Instant::ZERO,
            announced,
            unannounced: 0,
            report: None,
        })
    }

    /// Leads the run to its end, and sees that everybody hears of it.
    pub(super) async fn run(mut self) -> Box<RunReport> {
        let mut report = poll_fn(|cx| self.poll_turn(cx)).await;
        report.security.add(&self.door.refusals());
        if self.unannounced > 0 {
            let missed = format!(
                "{} trigger announcements did not come; their events were made up for",
                self.unannounced
            );
            // What it cost, if it did, is among the problems.
            report.remarks.push(missed);
        }
        let (run, lost) = (report.run, report.events.lost);
        if lost > 0 {
            tracing::error!(run, lost, verdict = report.verdict, "events were lost");
        }
        self.timer.arm(Some(clock::now() + FAREWELL));
        poll_fn(|cx| self.poll_farewell(cx)).await;
        if let Some(journal) = self.journal.take() {
            journal.close().await;
        }
        report
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Box<RunReport>> {
        loop {
            let now = clock::now();
            let stalled = self.is_stalled(now);
            let mut more = self.poll_links(cx, now, stalled);
            more |= self.poll_commands(cx, now);
            more |= self.poll_triggers(cx, now);
            if self.core.next_timeout().is_some_and(|due| due <= now) {
                self.core.handle_timeout(now);
            }
            self.drain(cx, now);
            self.show_progress(now);
            if let Some(report) = self.report.take() {
                return Poll::Ready(report);
            }
            let journal = self.journal.as_ref().and_then(Keeper::next_timeout);
            let due = [self.core.next_timeout(), self.links.next_timeout(), journal];
            self.timer.arm(due.into_iter().flatten().min());
            let due = self.core.next_timeout().is_some_and(|due| due <= now);
            more |= self.poll_journal(cx, now);
            if !more && !due && self.timer.poll_expired(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Hears what came of writing; whether that was anything.
    fn poll_journal(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut any = false;
        while let Some(Poll::Ready(done)) = self.journal.as_mut().map(|journal| journal.poll(cx, now)) {
            match done {
                Done::Written { .. } => self.note_written(),
                Done::Failed(error) => self.note_failure(error, now),
                Done::Abandoned(removed) => self.go_on_without_journal(removed),
            }
            any = true;
        }
        any
    }

    /// Whether the run has to wait for the journal's disk.
    fn is_stalled(&mut self, now: Instant) -> bool {
        let stalled = self.journal.as_mut().is_some_and(|journal| journal.is_stalled(now));
        if stalled {
            self.core.stall_journal(now);
        } else {
            self.core.journal_goes_on(now);
        }
        stalled
    }

    fn poll_links(&mut self, cx: &mut Context<'_>, now: Instant, stalled: bool) -> bool {
        // Whoever comes now waits at the door: nobody could be told before it is written down.
        while !stalled && let Poll::Ready(incoming) = self.door.poll(cx) {
            self.admit(incoming, now);
        }
        let core = &mut self.core;
        let more = self.links.poll_received(cx, now, |peer, message| core.handle_message(peer, message, now));
        self.forget_lost(now);
        more
    }

    fn admit(&mut self, incoming: Incoming, now: Instant) {
        let registered = self.core.register(&incoming.hello, now);
        match (registered, incoming.hello.from_peer()) {
            (Ok(welcome), Some(peer)) => {
                tracing::debug!(%peer, address = %incoming.peer(), "connected");
                let link = incoming.welcome(welcome);
                self.door.classify(&link);
                self.links.drop_link(peer);
                self.held.drop_link(peer);
                self.held.push(Act::Connect(peer, Box::new(link)));
            }
            // The machine registers nobody without a name.
            (Ok(_), None) => {}
            (Err(refusal), _) => self.door.refuse(incoming, refusal),
        }
    }

    fn poll_commands(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        for _ in 0..BATCH {
            if !self.commands_open {
                return false;
            }
            match self.commands.poll_recv(cx) {
                Poll::Ready(Some(Command::Trigger(count))) => {
                    self.core.trigger(count, now);
                }
                Poll::Ready(Some(Command::Stop(cause))) => self.core.stop(&cause, now),
                // Who asked may have gone meanwhile.
                Poll::Ready(Some(Command::Begin(answer))) => drop(answer.send(self.core.begin(now))),
                Poll::Ready(Some(Command::Change(change, answer))) => {
                    drop(answer.send(self.change(change, now)));
                }
                Poll::Ready(Some(Command::Survey(answer))) => drop(answer.send(self.core.survey(now))),
                Poll::Ready(None) => self.commands_open = false,
                Poll::Pending => return false,
            }
        }
        true
    }

    fn change(&mut self, change: Change, now: Instant) -> Result<(), ChangeError> {
        match change {
            Change::Pause => self.core.pause(now),
            Change::Resume => self.core.resume(now),
            Change::SetRate(rate) => self.core.set_rate(rate, now),
            Change::AddBuilder(id) => {
                self.core.add_builder(id, now)?;
                self.links.add(Peer::Builder(id));
                Ok(())
            }
            Change::RemoveBuilder(id) => self.core.remove_builder(id, now),
        }
    }

    fn poll_triggers(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(port) = &mut self.triggers else { return false };
        for _ in 0..BATCH {
            match port.poll(cx) {
                Poll::Ready(Asked::Count(count)) => {
                    self.core.trigger(count, now);
                }
                Poll::Ready(Asked::Announced(announcement)) => {
                    let new = announcement.number.saturating_sub(self.announced);
                    if new > MAX_COUNT {
                        let number = announcement.number;
                        tracing::warn!(
                            number,
                            after = self.announced,
                            "ignored a leap in the trigger numbers"
                        );
                    } else if new > 0 && self.core.trigger(new, now) == new {
                        self.announced = announcement.number;
                        self.unannounced += new - 1;
                    }
                }
                Poll::Pending => return false,
            }
        }
        true
    }

    /// Carries out what the machine wants, until it wants nothing, and what that leads to.
    fn drain(&mut self, cx: &mut Context<'_>, now: Instant) {
        loop {
            while let Some(output) = self.core.poll(now) {
                match output {
                    // It depends on nothing, and peers listen for it.
                    Output::Send {
                        to,
                        message: message @ Control { message: Some(Message::Heartbeat(_)) },
                    } => {
                        self.links.send(to, &message);
                    }
                    Output::Send { to, message } => self.held.push(Act::Send(to, message)),
                    Output::Drop { peer, reason } => {
                        tracing::warn!(%peer, %reason, "connection closed");
                        self.links.drop_link(peer);
                        self.held.drop_link(peer);
                    }
                    Output::Journal(entry) => {
                        if let Some(journal) = &mut self.journal {
                            journal.add(*entry, now);
                        }
                    }
                    Output::Ended(report) => self.held.push(Act::End(report)),
                }
            }
            self.release(now);
            self.links.poll_flush(cx);
            if !self.forget_lost(now) {
                return;
            }
        }
    }

    /// Has written down what happened, and does what depends on nothing that is not written.
    fn release(&mut self, now: Instant) {
        let (mut added, mut written) = (0, 0);
        if let Some(journal) = &mut self.journal {
            let core = &self.core;
            journal.start(now, || core.snapshot(now));
            (added, written) = (journal.added(), journal.written());
        }
        self.held.seal(added);
        while let Some(act) = self.held.pop(written) {
            match act {
                Act::Send(to, message) => self.links.send(to, &message),
                Act::Connect(peer, link) => self.links.connect(peer, *link),
                Act::End(report) => self.report = Some(report),
            }
        }
    }

    fn note_written(&mut self) {
        if self.journal_fails.take().is_some()
            && let Some(journal) = &self.journal
        {
            tracing::warn!(path = %journal.path().display(), "the journal can be written again");
        }
    }

    fn note_failure(&mut self, error: io::Error, now: Instant) {
        let Some(journal) = &mut self.journal else { return };
        if self.journal_fails.is_none() {
            let path = journal.path().display();
            tracing::warn!(%path, %error, "the journal cannot be written: nothing is sent that depends on it");
        }
        let (since, _) = self.journal_fails.get_or_insert((now, error));
        if now.since(*since) >= JOURNAL_PATIENCE {
            journal.abandon();
        }
    }

    /// The run goes on without: what the file tells is no longer true, so it is removed.
    fn go_on_without_journal(&mut self, removed: io::Result<()>) {
        let Some(journal) = self.journal.take() else { return };
        let path = journal.path().display();
        let error = self
            .journal_fails
            .take()
            .map_or_else(|| "its thread ended".to_owned(), |(_, error)| error.to_string());
        let mut problem =
            format!("the journal {path} could not be written: {error}; the run went on without it");
        if let Err(error) = removed {
            problem += &format!(", and it could not be removed: {error}; remove it before the next start");
        }
        tracing::warn!("{problem}");
        self.core.abandon_journal(problem);
        // Nothing depends on it any more.
        self.held.free();
    }

    /// Tells the machine who is gone; whether anybody is.
    fn forget_lost(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((peer, error)) = self.links.pop_lost() {
            if matches!(error, LinkError::Forged(_)) {
                self.door.count_forged();
            }
            self.core.handle_disconnect(peer, &error.to_string(), now);
            any = true;
        }
        any
    }

    fn show_progress(&mut self, now: Instant) {
        if now >= self.progress_due || self.report.is_some() {
            self.progress_due = now + PROGRESS_EVERY;
            let progress = self.core.progress();
            self.progress.send_if_modified(|shown| {
                let changed = *shown != progress;
                *shown = progress;
                changed
            });
        }
    }

    /// Waits until everybody has read the last message and closed: closing first would make the kernel throw away what a
    /// peer has not read.
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.links.poll_flush(cx);
            let more = self.links.poll_received(cx, clock::now(), |_: Peer, _| {});
            while self.links.pop_lost().is_some() {}
            if self.links.is_empty() || self.timer.poll_expired(cx).is_ready() {
                return Poll::Ready(());
            }
            if !more {
                return Poll::Pending;
            }
        }
    }
}
