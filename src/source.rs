//! [`Source`]: a readout computer's end of the event builder.

mod push_error;
mod input;
mod blocking;
mod pacing;
mod front_ends;
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
    id::{EventId, SourceId},
    units::Bytes,
};

use crate::role::{self, AdmittedRole, RoleError, RoleHandle, RoleThread, RunOutcome};
pub use blocking::BlockingSource;
pub use config::SourceConfig;
pub use evb_core::{
    alignment::{ClockError, ClockWrap, CounterError, CounterStart, DetectorClock, TriggerCounter},
    source::{BeforeStart, PushError as Refused},
};
pub(crate) use front_ends::ToldRun;
pub use front_ends::{Beginning, FrontEnds};
pub use input::Permit;
pub use pacing::PacingConfig;
pub use push_error::{PushError, TryPushError};

use input::Intake;

/// Makes fragments of events when these are assigned to builders: for readout that keeps its data
/// until it is asked, for generators and replay. The methods run on the source's own thread, so
/// they must not block for long.
///
/// ```
/// use evb::prelude::*;
///
/// /// A card that keeps the samples of the last events, by event id.
/// struct Card {
///     samples: Vec<&'static [u8]>,
/// }
///
/// impl Readout for Card {
///     fn fragment(&mut self, event: EventId) -> Option<Fragment> {
///         let index = usize::try_from(event.number() - 1).ok()?;
///         Some(Fragment::new(event, Timestamp::new(0), *self.samples.get(index)?))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let card = |_| Card { samples: vec![b"first", b"second"] };
/// let run = LocalSystem::new(1, 1).events(2).start_on_demand(card, |_| NullSink).await?;
/// assert_eq!(run.finished().await?.bytes.payload, 11);
/// # Ok(())
/// # }
/// ```
pub trait Readout: Send + 'static {
    /// Makes the fragment of an event; `None` if there is no fragment, so the event will lack this
    /// source.
    fn fragment(&mut self, event: EventId) -> Option<Fragment>;
}

/// A handle to a running source. Clones of the handle push into the same source.
///
/// The source connects to the supervisor, learns the builders, and keeps each fragment until the
/// event's builder has asked for it and the builder's sink has accepted the event. Dropping all
/// handles changes nothing: the source delivers all pushed fragments until the run is over, or
/// [`Self::abort`].
///
/// ```no_run
/// use evb::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # fn read_hardware(event: EventId) -> Fragment { unimplemented!() }
/// let source = Source::connect(SourceConfig::new(SourceId::new(1), "daq0:7000")).await?;
/// let mut event = source.first_event();
/// loop {
///     match source.push(read_hardware(event)).await {
///         Ok(()) => event = event.next(),
///         Err(PushError::Ended) => break,
///         Err(error) => return Err(error.into()),
///     }
/// }
/// println!("{}", source.finished().await?.verdict);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    id: SourceId,
    intake: Intake,
    first: EventId,
    role: RoleHandle,
}

impl Source {
    /// Registers at the supervisor and starts the source on a thread of its own.
    ///
    /// Cancel safety: dropping the future before it is ready cancels the registration.
    ///
    /// # Errors
    /// [`RoleError::Join`]: the supervisor cannot be reached within `start_timeout`, or refuses the
    /// source. [`RoleError::NoUdp`]: the build lacks the configured transport.
    /// [`RoleError::Clock`]: a quantity of the clock is out of range.
    /// [`RoleError::Counter`]: the configured counter cannot be.
    pub async fn connect(config: SourceConfig) -> Result<Self, RoleError> {
        Self::start(config, None).await
    }

    /// Connects like [`Self::connect`], with readout that makes a fragment when the source asks for
    /// it.
    ///
    /// # Errors
    /// The same errors as [`Self::connect`], and [`RoleError::CounterOnDemand`] if a counter is
    /// configured.
    pub async fn on_demand(config: SourceConfig, readout: impl Readout) -> Result<Self, RoleError> {
        Self::start(config, Some(Box::new(readout))).await
    }

    /// Starts the role of a source, and returns when it has joined a run. With `readout`, fragments
    /// are asked for instead of pushed.
    async fn start(config: SourceConfig, readout: Option<Box<dyn Readout>>) -> Result<Self, RoleError> {
        role::check_transport(config.transport)?;
        config.clock.as_ref().map_or(Ok(()), DetectorClock::check)?;
        let (member, access) = (config.member(), config.access());
        if let Some(counter) = &config.counter {
            counter.check()?;
            if readout.is_some() {
                return Err(RoleError::CounterOnDemand);
            }
        }
        let (intake, outlet) = input::intake(config.max_fragment, config.backlog, config.counter.is_some());
        let id = config.id;
        let name = format!("source {id}");
        let place = config.cpu.map_or(RoleThread::Any, |core| RoleThread::Own(Some(core)));
        let (first, role) = RoleHandle::start(name, place, |mut joined, run_ends| async move {
            let (entry, first) = tokio::select! {
                entered = AdmittedRole::join(member, access, run_ends) => entered?,
                () = joined.closed() => return Err(RoleError::Unwanted),
            };
            outlet.begin(first);
            role::hand_over(joined, first).await?;
            let (turn_counters, name) = (config.turn_counters.clone(), format!("source {}", config.id));
            turn_counters.count(name, begin::run(config, entry, outlet, readout)).await
        })
        .await?;
        Ok(Self { id, intake, first, role })
    }

    /// Tells the supervisor why this source cannot take part, for example because its hardware is
    /// missing; tries for 3 s.
    pub async fn decline(config: SourceConfig, reason: impl Into<String>) {
        let (member, access) = (config.member(), config.access());
        RoleHandle::decline(format!("source {}", config.id), member, access, reason.into()).await;
    }

    /// Pushes a fragment into the source; waits while the backlog is full. This wait is the
    /// back-pressure on readout.
    ///
    /// Cancel safety: a call that is dropped before it is ready has pushed nothing and occupies no
    /// room; the fragment is dropped as well. Where that would lose data,
    /// [`reserve`](Self::reserve) first.
    ///
    /// # Errors
    /// [`PushError`]: the fragment is refused, or the run is over. A fragment of an inhibited or
    /// closed event is no error: it is dropped and counted.
    pub async fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        self.intake.push(fragment).await
    }

    /// Pushes fragments in their order, and removes the pushed ones from `fragments`; waits while
    /// the backlog is full. The cost per fragment is a fraction of that of [`push`](Self::push).
    ///
    /// Cancel safety: when the call is dropped, the fragments that are still in `fragments` are not
    /// pushed, and all others are.
    ///
    /// # Errors
    /// The same errors as [`push`](Self::push), for the fragment that is now the first of
    /// `fragments`.
    pub async fn push_many(&self, fragments: &mut Vec<Fragment>) -> Result<(), PushError> {
        self.intake.push_many(fragments).await
    }

    /// Pushes a fragment if the backlog has room at this moment.
    ///
    /// # Errors
    /// [`TryPushError`], which returns the fragment.
    pub fn try_push(&self, fragment: Fragment) -> Result<(), TryPushError> {
        self.intake.try_push(fragment)
    }

    /// Reserves room for a fragment of up to `size` payload bytes; waits while the backlog is full.
    /// The [`push`](Permit::push) of the returned permit neither waits nor fails.
    ///
    /// Cancel safety: a call that is dropped before it is ready occupies no room, and loses its
    /// place in the queue of waiting calls.
    ///
    /// `reserve` does not know the event, so it waits even if the fragment will belong to an event
    /// that is decided already. Readout that pushes events out of order may fill the backlog with
    /// later events than the one that builders wait for. Such readout should use
    /// [`push`](Self::push), which admits fragments of decided events even if the backlog is full.
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
    /// [`PushError`]: `size` exceeds `max_fragment`, or the run is over.
    pub async fn reserve(&self, size: Bytes) -> Result<Permit<'_>, PushError> {
        self.intake.reserve(size).await
    }

    /// Returns the source's id.
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// Returns the first event that this source has a part in: event 1 in a new run; in a run that
    /// was under way when the source joined, the first event that was not decided by then. Later
    /// events will lack this source if it does not push their fragments, however late it begins to
    /// push.
    pub fn first_event(&self) -> EventId {
        self.first
    }

    /// Returns a handle for readout threads that are not async.
    pub fn blocking(&self) -> BlockingSource {
        BlockingSource::new(self.intake.clone())
    }

    /// Asks the supervisor to end the run: the run takes no more triggers, and every event under
    /// way is built or named in the ledger.
    pub fn request_run_end(&self, cause: &str) {
        self.role.request_run_end(cause);
    }

    /// Waits until the run is over.
    ///
    /// Cancel safety: a call that is dropped changes nothing, and any number of calls may wait.
    ///
    /// # Errors
    /// The reason for which the source could not go on.
    pub async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        self.role.finished().await
    }

    /// Ends the source at once, as if its process were killed: events that lack its fragments are
    /// incomplete. After this, [`Self::finished`] returns [`RoleError::Aborted`].
    pub fn abort(&self) {
        self.role.abort();
    }
}
