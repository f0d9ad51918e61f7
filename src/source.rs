//! [`Source`]: a readout computer's end of the event builder.

mod push_error;
mod input;
mod blocking;
mod pacing;
mod config;
mod end;
mod dialing;
mod lanes;
mod feed;
mod driver;
mod begin;

use std::sync::Arc;

use evb_core::{
    fragment::Fragment,
    id::{EventId, Peer},
    session::Member,
    units::Bytes,
    wire::control::Hello,
};
use evb_net::host;

use crate::role::{self, Access, Entry, RoleError, RoleHandle, RunOutcome};
pub use blocking::BlockingSource;
pub use config::SourceConfig;
pub use evb_core::source::PushError as Refused;
pub use input::Permit;
pub use pacing::PacingConfig;
pub use push_error::{PushError, TryPushError};

use input::Intake;

/// Makes the fragments of events when they are assigned: for readout that keeps its data until
/// asked, for generators and replay. Runs on the source's own thread, so it must not block for
/// long.
pub trait Readout: Send + 'static {
    /// Makes the fragment of an event; `None` if there is none, so that the event will miss this
    /// source.
    fn fragment(&mut self, event: EventId) -> Option<Fragment>;
}

/// A running source. Clones push into the same source.
///
/// It connects to the supervisor, learns the builders, and keeps each fragment until the event's
/// builder asks for it and the builder's sink has accepted the event. Dropping all handles changes
/// nothing: the source delivers what was pushed until the run is over, or [`Self::abort`].
#[derive(Clone, Debug)]
pub struct Source {
    intake: Intake,
    first: EventId,
    role: RoleHandle,
}

impl Source {
    /// Registers at the supervisor and starts the source on a thread of its own.
    ///
    /// Cancel safety: dropping the future before it is ready gives the attempt up.
    ///
    /// # Errors
    /// [`RoleError::Join`]: the supervisor cannot be reached within `start_timeout`, or refuses.
    /// [`RoleError::NoUdp`]: the build lacks the configured transport.
    pub async fn connect(config: SourceConfig) -> Result<Self, RoleError> {
        Self::start(config, None).await
    }

    /// Connects like [`Self::connect`], with readout that makes fragments when asked.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn on_demand(config: SourceConfig, readout: impl Readout) -> Result<Self, RoleError> {
        Self::start(config, Some(Box::new(readout))).await
    }

    async fn start(config: SourceConfig, readout: Option<Box<dyn Readout>>) -> Result<Self, RoleError> {
        role::check_transport(config.transport)?;
        let hello = Hello {
            boot_id: host::boot_id(),
            software: concat!("evb ", env!("CARGO_PKG_VERSION")).to_owned(),
            max_fragment: config.max_fragment.count(),
            ..Hello::new(Peer::Source(config.id), Peer::Supervisor)
        };
        let (supervisor, start_timeout) = (config.supervisor.clone(), config.start_timeout);
        let member = Member { supervisor, hello, start_timeout };
        let (intake, outlet) = input::intake(config.max_fragment, config.backlog);
        let name = format!("source {}", config.id);
        let (first, role) = RoleHandle::start(name, config.core, |mut joined, run_ends| async move {
            let security = config.security.clone();
            let access = Access { bind: config.bind, class: config.control, security };
            let (entry, first) = tokio::select! {
                entered = Entry::join(member, access) => entered?,
                () = joined.closed() => return Err(RoleError::Unwanted),
            };
            outlet.begin(first);
            role::hand_over(joined, first).await?;
            let (turn_counters, name) = (config.turn_counters.clone(), format!("source {}", config.id));
            turn_counters.count(name, begin::run(config, entry, outlet, readout, run_ends)).await
        })
        .await?;
        Ok(Self { intake, first, role })
    }

    /// Hands a fragment over; waits while the backlog is full: that is the back-pressure on
    /// readout.
    ///
    /// Cancel safety: a call that is dropped before it is ready has pushed nothing and holds no
    /// room; the fragment is dropped with it. Where that would lose data,
    /// [`reserve`](Self::reserve) first.
    ///
    /// # Errors
    /// [`PushError`]: refused, or the run is over. A fragment of an inhibited or closed event is no
    /// error: it is dropped and counted.
    pub async fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        self.intake.push(fragment).await
    }

    /// Hands fragments over in their order, and removes from `fragments` what is handed over; waits
    /// while the backlog is full. Per fragment it costs a fraction of [`push`](Self::push).
    ///
    /// Cancel safety: what is still in `fragments` when the call is dropped is not pushed, and
    /// everything else is.
    ///
    /// # Errors
    /// As [`push`](Self::push), for the fragment that is now the first of `fragments`.
    pub async fn push_many(&self, fragments: &mut Vec<Fragment>) -> Result<(), PushError> {
        self.intake.push_many(fragments).await
    }

    /// Hands a fragment over if the backlog has room at this moment.
    ///
    /// # Errors
    /// [`TryPushError`], which returns the fragment.
    pub fn try_push(&self, fragment: Fragment) -> Result<(), TryPushError> {
        self.intake.try_push(fragment)
    }

    /// Reserves room for a fragment of up to `size` payload bytes; waits while the backlog is full.
    /// The permit's `push` neither waits nor fails.
    ///
    /// Cancel safety: a call that is dropped before it is ready holds no room, and loses its place
    /// in the queue.
    ///
    /// `reserve` does not know the event, so it waits even if the fragment will belong to an event
    /// that is decided already. Readout that pushes events out of order may fill the backlog with
    /// later events than the one that builders wait for: there, use [`push`](Self::push), which
    /// lets fragments of decided events pass.
    ///
    /// ```no_run
    /// # async fn readout(source: evb::Source) -> Result<(), evb::source::PushError> {
    /// # fn read_hardware() -> evb::fragment::Fragment { unimplemented!() }
    /// let permit = source.reserve(evb::units::Bytes::kib(64)).await?;
    /// permit.push(read_hardware());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PushError`]: more than `max_fragment`, or the run is over.
    pub async fn reserve(&self, size: Bytes) -> Result<Permit<'_>, PushError> {
        self.intake.reserve(size).await
    }

    /// Returns the first event that this source has a part in: 1, or in a run that goes on, the
    /// event after those that were decided when it joined. Later events will miss this source if it
    /// does not push their fragments, however late it begins to push.
    pub fn first_event(&self) -> EventId {
        self.first
    }

    /// Returns a handle for readout threads that are not async.
    pub fn blocking(&self) -> BlockingSource {
        BlockingSource::new(self.intake.clone())
    }

    /// Asks the supervisor to end the run: there are no more triggers, then every event is built or
    /// named in the ledger.
    pub fn request_run_end(&self, cause: &str) {
        self.role.request_run_end(cause);
    }

    /// Waits until the run is over.
    ///
    /// Cancel safety: a call that is dropped changes nothing, and any number may wait.
    ///
    /// # Errors
    /// The reason for which the source could not go on.
    pub async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        self.role.finished().await
    }

    /// Ends the source at once, as if its process were killed: events that lack its fragments are
    /// incomplete. [`Self::finished`] returns [`RoleError::Aborted`] then.
    pub fn abort(&self) {
        self.role.abort();
    }
}
