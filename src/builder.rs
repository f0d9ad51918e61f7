//! [`Builder`]: collects the fragments of each of its events and hands the events to a sink.

mod accept;
mod ends;
mod lanes;
mod driver;
mod begin;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use evb_core::{
    id::{BuilderId, Peer},
    session::Member,
    units::Bytes,
    wire::control::Hello,
};
use evb_net::{
    class::TrafficClass,
    host,
    lane::{LaneOptions, listen},
    pacing::Transport,
    resolve::resolve,
    security::Security,
};
pub use evb_shaper::out_of_order_memory;
use evb_shaper::{Shaping, cost::CELL};
use tokio::net::TcpListener;

use crate::{
    filter::{AcceptAll, Filter},
    role::{self, Access, AdmittedRole, RoleError, RoleHandle, RoleThread, RunOutcome, TurnCounters},
    sink::{Sink, stage},
    tap::Tap,
};

/// Time to empty a port's queue below which a builder takes precedence on its core. While the
/// builder waits for another thread to leave the core, it grants nothing, so its port falls idle. A
/// time slice of the Linux scheduler is some 3 ms (`sysctl_sched_base_slice`, kernel/sched/fair.c).
pub const URGENT: Duration = Duration::from_millis(5);

/// A builder's configuration; the supervisor provides all other settings.
///
/// ```
/// use evb::prelude::*;
///
/// let mut config = BuilderConfig::new(BuilderId::new(1), "daq0:7000");
/// config.listen = "10.0.0.11:0".to_owned(); // in the data network
/// config.memory = Some(Bytes::mib(2048));
/// // The switch port has 512 KiB and 10 Gbit/s.
/// config.queue_delay = Bytes::kib(512) / Rate::from_bits_per_second(10_000_000_000);
/// assert!(config.is_urgent(), "the port is empty after {:?}", config.queue_delay);
/// ```
#[derive(Clone, Debug)]
pub struct BuilderConfig {
    /// The builder's id, which must be in the supervisor's list.
    pub id: BuilderId,
    /// The supervisor's address, `host:port`.
    pub supervisor: String,
    /// Address at which sources reach the builder, `host:port`; sources are told exactly this text.
    /// Port 0 takes any free port.
    pub listen: String,
    /// Time for which the builder tries to reach the supervisor.
    pub start_timeout: Duration,
    /// Rules that decide which source may send when.
    pub shaping: Shaping,
    /// Position of the source at which the builder's rotation over its sources begins; give each
    /// builder a different number.
    pub rotation: usize,
    /// Size of the largest IP packet on the path between sources and builder, bytes.
    pub mtu: u32,
    /// Longest time that data may wait in full queues on the way to the builder, mostly in the
    /// queue of the builder's switch port: the port's buffer divided by its rate; zero if unknown.
    /// Over datagrams, no timer declares anything lost earlier than this.
    pub queue_delay: Duration,
    /// Least space that a packet occupies in the switch port's buffer.
    pub cell: Bytes,
    /// Limit of the builder's payload memory; checked against `slots × Σ max_fragment` before the
    /// first event; `None`: no limit.
    pub memory: Option<Bytes>,
    /// Transport of the lanes, which must be the same for all sources and builders of a run.
    pub transport: Transport,
    /// Options of the lanes' sockets.
    pub lane: LaneOptions,
    /// Traffic class of the packets of the supervisor connection.
    pub control: TrafficClass,
    /// Keys and certificates by which the builder and its peers authenticate each other.
    pub security: Security,
    /// Time for which a failing sink is retried after the end of the run was requested; after that,
    /// the events that the sink has not accepted are lost.
    pub give_up: Duration,
    /// Counter of the turns of the builder's event loop. Turns of the sink's thread, which may wait
    /// for a disk, are not counted.
    pub turn_counters: TurnCounters,
    /// Tap that shows the builder's events to onlookers; `None`: nobody can look at them.
    pub tap: Option<Tap>,
    /// CPU core on which the builder's thread runs; `None`: any core.
    pub cpu: Option<usize>,
    /// True if the builder's thread takes precedence over other threads on its core, where the
    /// operating system permits it ([`host::take_precedence`]). `None` means: only if
    /// [`Self::queue_delay`] is known and shorter than [`URGENT`]. The sink's thread never takes
    /// precedence.
    pub precedence: Option<bool>,
    /// Keeps the machine's idle cores awake during the run, if the operating system permits it
    /// ([`host::keep_awake`]); `None`: if [`Self::queue_delay`] is known and shorter than
    /// [`BRISK`](crate::role::BRISK).
    pub keep_awake: Option<bool>,
    /// Time for which the builder goes on polling its sockets after the last grant before it
    /// sleeps; `None`: it sleeps at once. Polling keeps the core busy: ask
    /// [`prove_polling`](evb_net::pacing::prove_polling) first.
    pub busy_poll: Option<Duration>,
}

impl BuilderConfig {
    /// Creates a configuration with defaults: any port of loopback, shaping by credit with a budget
    /// of megabytes, 30 s to reach the supervisor, and 30 s of retries for a failing sink.
    pub fn new(id: BuilderId, supervisor: impl Into<String>) -> Self {
        Self {
            id,
            supervisor: supervisor.into(),
            listen: "127.0.0.1:0".to_owned(),
            start_timeout: Duration::from_secs(30),
            shaping: Shaping::LOOPBACK,
            rotation: id.number().into(),
            mtu: 1500,
            queue_delay: Duration::ZERO,
            cell: CELL,
            memory: None,
            transport: Transport::Tcp,
            lane: LaneOptions::default(),
            control: TrafficClass::default(),
            security: Security::None,
            give_up: Duration::from_secs(30),
            turn_counters: TurnCounters::default(),
            tap: None,
            cpu: None,
            precedence: None,
            keep_awake: None,
            busy_poll: None,
        }
    }

    /// Returns true if the builder's thread is to take precedence on its core: [`Self::precedence`]
    /// if set, else by the length of [`Self::queue_delay`].
    pub fn is_urgent(&self) -> bool {
        self.precedence.unwrap_or(self.queue_delay > Duration::ZERO && self.queue_delay < URGENT)
    }

    /// Returns the facts with which the builder registers at the supervisor.
    fn member(&self, highest_run: u64, listen: String) -> Member {
        let hello = Hello {
            highest_run,
            boot_id: host::boot_id(),
            software: concat!("evb ", env!("CARGO_PKG_VERSION")).to_owned(),
            listen,
            tap: self.tap.as_ref().map_or_else(String::new, |tap| tap.options().address.clone()),
            ..Hello::new(Peer::Builder(self.id), Peer::Supervisor)
        };
        Member { supervisor: self.supervisor.clone(), hello, start_timeout: self.start_timeout }
    }

    fn access(&self) -> Access {
        Access { bind: None, class: self.control, security: self.security.clone() }
    }
}

/// A handle to a running builder. The builder runs on a thread of its own, its sink on another.
/// Dropping all handles changes nothing: the builder goes on until the run is over, or
/// [`Self::abort`].
///
/// ```no_run
/// use evb::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let options = evb::file::WriterOptions::default();
/// let mut config = BuilderConfig::new(BuilderId::new(1), "daq0:7000");
/// config.listen = "10.0.0.11:7100".to_owned();
/// let builder = Builder::connect(config, FileSink::new("/data/events", options)).await?;
/// println!("sources connect to {}", builder.address());
/// println!("{}", builder.finished().await?.verdict);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    role: RoleHandle,
    address: SocketAddr,
}

impl Builder {
    /// Listens for sources, registers at the supervisor, and builds every event into `sink`.
    ///
    /// Cancel safety: dropping the future before it is ready cancels the registration.
    ///
    /// # Errors
    /// [`RoleError`]: the listening address cannot be bound, or the supervisor cannot be reached or
    /// refuses the builder.
    pub async fn connect(config: BuilderConfig, sink: impl Sink) -> Result<Self, RoleError> {
        Self::connect_filtered(config, AcceptAll, sink).await
    }

    /// Connects like [`Self::connect`], with a filter before the sink.
    ///
    /// # Errors
    /// The same errors as [`Self::connect`].
    pub async fn connect_filtered(
        config: BuilderConfig,
        filter: impl Filter,
        sink: impl Sink,
    ) -> Result<Self, RoleError> {
        role::check_transport(config.transport)?;
        let name = format!("builder {}", config.id);
        let (address, role) =
            RoleHandle::start(name, RoleThread::Own(config.cpu), |mut joined, run_ends| async move {
                let bound = bind(&config).await;
                let (stage, prepared) =
                    stage::start(config.id, sink, Box::new(filter), config.give_up, config.tap.clone())?;
                let prepared = tokio::time::timeout(PREPARATION, prepared).await;
                // An error of the sink that does not pass keeps the builder out of the run.
                let fault_of_sink = match &prepared {
                    Ok(Ok(Err(error))) if !error.is_passing() => Some(RoleError::Sink(error.to_string())),
                    _ => None,
                };
                // The number plus 1, so that 0 stands for an unknown one.
                let highest_run = match prepared {
                    Ok(Ok(Ok(highest))) => 1 + highest.map_or(0, |run| u64::from(run.number())),
                    _ => 0,
                };
                let listen = match &bound {
                    Ok((_, address)) => advertised(&config.listen, *address),
                    Err(_) => String::new(),
                };
                let (member, access) = (config.member(highest_run, listen), config.access());
                let (listener, address) = match (bound, fault_of_sink) {
                    (Ok(bound), None) => bound,
                    (Err(unable), _) | (Ok(_), Some(unable)) => {
                        role::decline(member, access, &unable.to_string()).await;
                        return Err(unable);
                    }
                };
                let (entry, _) = tokio::select! {
                    entered = AdmittedRole::join(member, access, run_ends) => entered?,
                    () = joined.closed() => return Err(RoleError::Unwanted),
                };
                role::hand_over(joined, address).await?;
                let (turn_counters, name) = (config.turn_counters.clone(), format!("builder {}", config.id));
                let run = begin::run(config, listener, entry, stage);
                turn_counters.count(name, run).await
            })
            .await?;
        Ok(Self { role, address })
    }

    /// Tells the supervisor why this builder cannot take part, for a program that has found the
    /// reason itself; tries for 3 s.
    pub async fn decline(config: BuilderConfig, reason: impl Into<String>) {
        let (member, access) = (config.member(0, String::new()), config.access());
        RoleHandle::decline(format!("builder {}", config.id), member, access, reason.into()).await;
    }

    /// Returns the address at which the builder listens for sources.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks the supervisor to end the run: the run takes no more triggers, and every event under
    /// way is built or named in the ledger.
    pub fn request_run_end(&self, cause: &str) {
        self.role.request_run_end(cause);
    }

    /// Waits until the run is over: then the sink has accepted every event, or the ledger names it.
    ///
    /// Cancel safety: a call that is dropped changes nothing, and any number of calls may wait.
    ///
    /// # Errors
    /// The reason for which the builder could not go on.
    pub async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        self.role.finished().await
    }

    /// Ends the builder at once, as if its process were killed. Events that its sink has not
    /// accepted go to other builders. After this, [`Self::finished`] returns
    /// [`RoleError::Aborted`].
    pub fn abort(&self) {
        self.role.abort();
    }
}

/// Time for which a builder waits for its sink to say which runs its storage knows.
const PREPARATION: Duration = Duration::from_secs(5);

/// Binds the configured address. Retries for a moment an address that is still in use, for example
/// by this process in the previous run.
async fn bind(config: &BuilderConfig) -> Result<(TcpListener, SocketAddr), RoleError> {
    let until = evb_net::clock::now() + RELEASE;
    loop {
        match bind_any(config).await {
            Err(RoleError::Listen { reason, .. })
                if reason.kind() == io::ErrorKind::AddrInUse && evb_net::clock::now() < until =>
            {
                tokio::time::sleep(BIND_AGAIN).await;
            }
            other => return other,
        }
    }
}

/// Pause before the next attempt to bind an address.
const BIND_AGAIN: Duration = Duration::from_millis(100);

/// Time for which an address that is still in use is tried again.
const RELEASE: Duration = Duration::from_secs(1);

/// Binds the first of the configured addresses that can be bound.
async fn bind_any(config: &BuilderConfig) -> Result<(TcpListener, SocketAddr), RoleError> {
    let mut last = None;
    for address in resolve(&config.listen).await? {
        // The kernel chooses another port at each try, because a port that is free for TCP may be
        // taken for UDP.
        let tries = if address.port() == 0 { PORTS } else { 1 };
        for _ in 0..tries {
            match bind_one(config, address) {
                Ok(bound) => return Ok(bound),
                Err(error) => last = Some(error),
            }
        }
    }
    let reason = last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
    Err(RoleError::Listen { address: config.listen.clone(), reason })
}

/// Number of tries to find a port that is free for both TCP and UDP.
const PORTS: u32 = 8;

/// Binds one address for TCP, and checks that the same UDP port is free if lanes use UDP.
fn bind_one(config: &BuilderConfig, address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = listen(address, &config.lane)?;
    let address = listener.local_addr()?;
    #[cfg(feature = "udp")]
    if config.transport == Transport::Udp {
        // The run's UDP socket is opened later, when the number of bytes that may be under way is
        // known. Opening a socket now reveals a port that is taken.
        evb_net::udp::open(address, None, &config.lane.datagrams()).map_err(|error| {
            io::Error::new(error.kind(), format!("its UDP port {} cannot be opened: {error}", address.port()))
        })?;
    }
    Ok((listener, address))
}

/// Returns the address that sources are told: the configured text, with the port that was bound.
fn advertised(listen: &str, bound: SocketAddr) -> String {
    match listen.rsplit_once(':') {
        Some((host, "0")) => format!("{host}:{}", bound.port()),
        _ => listen.to_owned(),
    }
}
