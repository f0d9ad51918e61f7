//! [`Source`]: a readout computer's end of the event builder.

mod input;
mod pacing;
mod end;
mod dialing;
mod lanes;
mod feed;
mod driver;
mod begin;

use std::{net::IpAddr, sync::Arc, time::Duration};

use evb_core::{
    fragment::Fragment,
    id::{EventId, Peer, SourceId},
    session::Member,
    source::PushError as Refused,
    units::Bytes,
    wire::control::Hello,
};
use evb_net::{class::TrafficClass, host, lane::LaneOptions, pacing::Transport, security::Security};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};

use crate::role::{self, Access, Beats, Ending, Entry, RoleError, RunOutcome, StopRequest};
pub use pacing::PacingConfig;

use input::Intake;

/// A source's configuration; the rest comes from the supervisor.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The source's id, which must be in the supervisor's list.
    pub id: SourceId,
    /// The supervisor's address, `host:port`.
    pub supervisor: String,
    /// The local address to send from; `None` leaves it to routing.
    pub bind: Option<IpAddr>,
    /// The largest payload, by which builders reserve memory.
    pub max_fragment: Bytes,
    /// Payload bytes that may wait for a decision before `push` waits.
    pub backlog: Bytes,
    /// Time for which it tries to reach the supervisor.
    pub start_timeout: Duration,
    /// Shaping of departures; the builders do their half of it.
    pub shaping: Shaping,
    /// Pace towards each builder, in addition to any shaping, and the mechanism that keeps it.
    pub pacing: PacingConfig,
    /// Largest IP packet on the way, bytes.
    pub mtu: u32,
    /// Time that announcements may wait in full queues on their way, mostly that of a builder's
    /// port: its buffer divided by its rate; zero if unknown. They keep this distance from each
    /// other, and over datagrams none is repeated earlier.
    pub queue: Duration,
    /// Keeps the machine's idle cores awake during the run, if the system permits it
    /// ([`evb_net::host::keep_awake`]); `None`: where [`Self::queue`] is known and empties within
    /// [`BRISK`](crate::role::BRISK).
    pub keep_awake: Option<bool>,
    /// Time for which it goes on polling its sockets after the last grant before it sleeps; `None`:
    /// it sleeps at once. Its core is busy meanwhile: ask
    /// [`prove_polling`](evb_net::pacing::prove_polling) first.
    pub busy_poll: Option<Duration>,
    /// Least space that a packet occupies in a switch port's buffer.
    pub cell: Bytes,
    /// Transport of the lanes; the same for all sources and builders of a run.
    pub transport: Transport,
    /// Options of the lanes' sockets.
    pub lane: LaneOptions,
    /// Traffic class of the packets of the supervisor connection.
    pub control: TrafficClass,
    /// Keys and certificates by which it and its peers authenticate each other.
    pub security: Security,
    /// Counter of the turns of its loop.
    pub beats: Beats,
    /// The core to run on; `None`: any.
    pub core: Option<usize>,
}

impl SourceConfig {
    /// Creates a configuration with defaults: 4 MiB fragments, 256 MiB backlog, 30 s to start, no
    /// pacing.
    pub fn new(id: SourceId, supervisor: impl Into<String>) -> Self {
        Self {
            id,
            supervisor: supervisor.into(),
            bind: None,
            max_fragment: Bytes::mib(4),
            backlog: Bytes::mib(256),
            start_timeout: Duration::from_secs(30),
            shaping: Shaping::LOOPBACK,
            pacing: PacingConfig::default(),
            mtu: 1500,
            queue: Duration::ZERO,
            keep_awake: None,
            busy_poll: None,
            cell: CELL,
            transport: Transport::Tcp,
            lane: LaneOptions::default(),
            control: TrafficClass::default(),
            security: Security::None,
            beats: Beats::default(),
            core: None,
        }
    }

    /// Returns the cost of lane bytes on the wire.
    fn cost(&self) -> PacketCost {
        role::packet_cost(self.transport, self.mtu, self.cell, self.security.is_protected())
    }
}

/// Reason for which a fragment was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The caller's fragment was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The run is over, or the source failed: [`Source::finished`] returns the result.
    #[error("the source has ended; nothing more is taken")]
    Ended,
}

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
/// builder asks for it and the builder's sink has accepted the event.
#[derive(Clone, Debug)]
pub struct Source {
    intake: Intake,
    first: EventId,
    ending: Ending,
    stop: StopRequest,
}

impl Source {
    /// Registers at the supervisor and starts the source on a thread of its own. Dropping the
    /// future before it is ready gives the attempt up.
    ///
    /// # Errors
    /// [`RoleError::Join`]: the supervisor cannot be reached within `start_timeout`, or refuses.
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
        let hello = Hello {
            boot_id: host::boot_id(),
            software: concat!("evb ", env!("CARGO_PKG_VERSION")).to_owned(),
            max_fragment: config.max_fragment.count(),
            ..Hello::new(Peer::Source(config.id), Peer::Supervisor)
        };
        let (supervisor, start_timeout) = (config.supervisor.clone(), config.start_timeout);
        let member = Member { supervisor, hello, start_timeout };
        let (intake, outlet) = input::intake(config.max_fragment, config.backlog);
        let (stop, stopping) = StopRequest::new();
        let name = format!("source {}", config.id);
        let (first, ending) = role::on_own_thread(name, config.core, |mut joined| async move {
            let security = config.security.clone();
            let access = Access { bind: config.bind, class: config.control, security };
            let (entry, first) = tokio::select! {
                entered = Entry::join(member, access) => entered?,
                () = joined.closed() => return Err(RoleError::Unwanted),
            };
            outlet.begin(first);
            role::hand_over(joined, first).await?;
            let (beats, name) = (config.beats.clone(), format!("source {}", config.id));
            beats.count(name, begin::run(config, entry, outlet, readout, stopping)).await
        })
        .await?;
        Ok(Self { intake, first, ending, stop })
    }

    /// Hands a fragment over; waits while the backlog is full: that is the back-pressure on
    /// readout.
    ///
    /// # Errors
    /// [`PushError`]: refused, or the run is over. A fragment of an inhibited or closed event is no
    /// error: it is dropped and counted.
    pub async fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        self.intake.push(fragment).await
    }

    /// Returns the first event that this source has a part in: 1, or in a run that goes on, the
    /// event after those that were decided when it joined. Later events will miss this source if it
    /// does not push their fragments, however late it begins to push.
    pub fn first_event(&self) -> EventId {
        self.first
    }

    /// Returns a handle for readout threads that are not async.
    pub fn blocking(&self) -> BlockingSource {
        BlockingSource { intake: self.intake.clone() }
    }

    /// Asks the supervisor to end the run: there are no more triggers, then every event is built or
    /// named in the ledger.
    pub fn stop(&self, cause: &str) {
        self.stop.send(cause);
    }

    /// Waits until the run is over.
    ///
    /// # Errors
    /// The reason for which the source could not go on.
    pub async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        role::ended(&mut self.ending.clone()).await
    }
}

/// A [`Source`] for readout threads that are not async.
#[derive(Clone, Debug)]
pub struct BlockingSource {
    intake: Intake,
}

impl BlockingSource {
    /// Hands a fragment over; blocks while the backlog is full.
    ///
    /// # Errors
    /// As [`Source::push`].
    ///
    /// # Panics
    /// Inside an async task, where blocking would stop the others.
    pub fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        self.intake.push_blocking(fragment)
    }
}
