//! [`Feed`]: the origin of a source's fragments, which readout pushes or makes on demand.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{session::FrontEndCounts, source::BeforeStart, time::Instant};
use evb_shaper::role::SourceRole;
use tokio::sync::watch;

use super::{
    FrontEnds, Readout,
    front_ends::ToldRun,
    input::{Outlet, Pushed},
};

/// Number of bytes that readout makes in one turn; more would delay heartbeats and grants.
const TURN: usize = 4 << 20;

/// Cost of making a fragment besides its bytes, as the number of bytes that could be made in the
/// same time.
const FRAGMENT_COST: usize = 1 << 10;

/// Number of fragments taken from the channel at once.
const BATCH: usize = 256;

/// The origin of a source's fragments: pushed by the program or made by a [`Readout`].
pub(super) struct Feed {
    outlet: Outlet,
    pushed: Vec<Pushed>,
    readout: Option<Box<dyn Readout>>,
    front_ends: Option<FrontEnds>,
    /// The wait for what must be done before the run begins, and for all that had arrived then.
    preparation: Option<Preparation>,
    /// The wait for a front end that connects or closes its connection.
    connections: Option<Connections>,
    /// The run as the front ends were told.
    told: ToldRun,
}

/// The wait for preparations and for a listener that pushes all that has arrived, with the reason
/// for which the run cannot begin.
type Preparation = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The wait for the next number of connected front ends; `None` if there will be none.
type Connections = Pin<Box<dyn Future<Output = Option<watch::Receiver<u32>>> + Send>>;

fn next_connections(mut connected: watch::Receiver<u32>) -> Connections {
    Box::pin(async move { connected.changed().await.is_ok().then_some(connected) })
}

impl Feed {
    /// Creates the feed of fragments from the user's program, readout or front ends.
    pub(super) fn new(
        outlet: Outlet,
        readout: Option<Box<dyn Readout>>,
        front_ends: Option<FrontEnds>,
        role: &mut SourceRole,
    ) -> Self {
        if let Some(front_ends) = &front_ends {
            role.set_before_start(front_ends.before_start());
            if role.is_under_way() {
                front_ends.join();
            }
        }
        let connections = front_ends.as_ref().map(|front_ends| next_connections(front_ends.connected()));
        Self {
            outlet,
            pushed: Vec::with_capacity(BATCH),
            readout,
            front_ends,
            preparation: None,
            connections,
            told: ToldRun::default(),
        }
    }

    /// Prepares for a run: asks the front ends' listener for all that has arrived.
    pub(super) fn begin(&mut self, role: &SourceRole) {
        let (run, _) = role.run();
        self.preparation =
            self.front_ends.as_ref().map(|front_ends| Box::pin(front_ends.prepare(run)) as Preparation);
    }

    /// Returns the counts of the front ends' listener.
    pub(super) fn front_ends(&self) -> FrontEndCounts {
        self.front_ends.as_ref().map(FrontEnds::counts).unwrap_or_default()
    }

    /// Takes the fragments that readout pushes. Returns true if more fragments may be waiting.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) -> bool {
        if let Some(wait) = &mut self.preparation
            && let Poll::Ready(prepared) = wait.as_mut().poll(cx)
        {
            self.preparation = None;
            match prepared {
                Ok(()) => self.start(role, now),
                Err(reason) => role.refuse_run(reason),
            }
        }
        let mut count = 0;
        if let Poll::Ready(received) = self.outlet.fragments.poll_recv_many(cx, &mut self.pushed, BATCH) {
            count = received;
        }
        for pushed in self.pushed.drain(..) {
            push(&mut self.outlet, pushed, role, now);
        }
        // A closed connection counts when all that came on it is taken.
        if count < BATCH {
            self.poll_connections(cx, role, now);
        }
        count == BATCH
    }

    /// Lets the source take part in the run for which it has prepared.
    fn start(&mut self, role: &mut SourceRole, now: Instant) {
        // What is pushed already is from the time before the start.
        while let Ok(pushed) = self.outlet.fragments.try_recv() {
            push(&mut self.outlet, pushed, role, now);
        }
        let discards = |front_ends: &&FrontEnds| front_ends.before_start() == BeforeStart::Discard;
        self.front_ends.iter().filter(discards).for_each(FrontEnds::start);
        role.handle_read_out();
    }

    /// Tells the role how many front ends are connected.
    fn poll_connections(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) {
        while let Some(wait) = &mut self.connections
            && let Poll::Ready(changed) = wait.as_mut().poll(cx)
        {
            self.connections = changed.map(|mut connected| {
                let expected = self.front_ends.as_ref().map_or(0, FrontEnds::expected);
                role.handle_front_ends(expected, *connected.borrow_and_update(), now);
                next_connections(connected)
            });
        }
    }

    /// Lets readout make one turn's share of the wanted fragments. Returns true if readout made a
    /// fragment.
    pub(super) fn make_wanted(&mut self, role: &mut SourceRole, now: Instant) -> bool {
        let Some(readout) = &mut self.readout else { return false };
        let mut made = 0;
        while made < TURN
            && let Some(event) = role.take_wanted()
        {
            let Some(fragment) = readout.fragment(event) else { continue };
            made += fragment.payload.len() + FRAGMENT_COST;
            if let Err(error) = role.push(fragment, now) {
                tracing::error!(%error, "this source refused a fragment that its readout made, which is lost, and the run goes on: {error}");
            }
        }
        made > 0
    }

    /// Tells the front ends of the run and its stage.
    fn tell_run(&mut self, role: &SourceRole) {
        let Some(front_ends) = &self.front_ends else { return };
        let (run, stage) = role.run();
        let first = role.core().config().decided.next();
        let told = ToldRun { id: run.id, number: run.run, first, stage, is_over: false };
        if told != self.told {
            self.told = told;
            front_ends.note_run(told);
        }
    }

    /// Tells the callers of `push` which events are decided, and how much room the backlog has.
    pub(super) fn update(&mut self, role: &mut SourceRole) {
        let core = role.core();
        self.outlet.update(core.undecided(), core.backlog(), core.backlog_fragments());
        role.set_full(self.outlet.is_full());
        self.tell_run(role);
    }
}

/// Passes pushed fragments on to the source's state machine.
fn push(outlet: &mut Outlet, pushed: Pushed, role: &mut SourceRole, now: Instant) {
    for fragment in outlet.take(pushed) {
        // `Source::push` has checked its fragment, but a permit has not. The state machine counts
        // the fragments that it refuses.
        if let Err(error) = role.push(fragment, now) {
            tracing::error!(%error, "this source refused a fragment of its readout, which is lost, and the run goes on: {error}");
        }
    }
}
