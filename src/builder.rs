//! [`Builder`]: brings the fragments of its events together and hands them to a sink.

mod accept;
mod ends;
mod lanes;
mod driver;
mod begin;

pub use ends::out_of_order_memory;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use evb_core::{
    id::{BuilderId, Epoch, Peer, RunNumber},
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
    udp,
};
use evb_shaper::{Shaping, cost::CELL};
use tokio::net::TcpListener;

use crate::{
    filter::{AcceptAll, Filter},
    role::{self, Access, Entry, RoleError, RoleHandle, RunOutcome, TurnCounters},
    sink::Sink,
};

/// Time to empty a port's queue below which a builder takes precedence on its core. While the
/// builder waits for others to leave its core, no grants fill the queue, and the port falls idle: a
/// time slice of Linux is some 3 ms (`sysctl_sched_base_slice`, kernel/sched/fair.c).
pub const URGENT: Duration = Duration::from_millis(5);

/// A builder's configuration; the rest comes from the supervisor.
#[derive(Clone, Debug)]
pub struct BuilderConfig {
    /// The builder's id, which must be in the supervisor's list.
    pub id: BuilderId,
    /// The supervisor's address, `host:port`.
    pub supervisor: String,
    /// Address at which sources reach it, `host:port`; they are told exactly this text. Port 0
    /// takes any free port.
    pub listen: String,
    /// Time for which it tries to reach the supervisor.
    pub start_timeout: Duration,
    /// Rules for which source may send when.
    pub shaping: Shaping,
    /// Source at which the rotation begins; give each builder a different number.
    pub rotation: usize,
    /// Largest IP packet on the way, bytes.
    pub mtu: u32,
    /// Time that data may wait in full queues on its way, mostly that of the builder's port: its
    /// buffer divided by its rate; zero if unknown. Over datagrams, no timer declares anything lost
    /// earlier than this.
    pub queue: Duration,
    /// Least space that a packet occupies in the switch port's buffer.
    pub cell: Bytes,
    /// The most payload memory; checked against `slots × Σ max_fragment` before the first event.
    /// `None`: no limit.
    pub memory: Option<Bytes>,
    /// Transport of the lanes; the same for all sources and builders of a run.
    pub transport: Transport,
    /// Options of the lanes' sockets.
    pub lane: LaneOptions,
    /// Traffic class of the packets of the supervisor connection.
    pub control: TrafficClass,
    /// Keys and certificates by which it and its peers authenticate each other.
    pub security: Security,
    /// Time for which a failing sink is retried after the end of the run was requested; after that,
    /// its events are lost.
    pub give_up: Duration,
    /// Number and epoch of the run that it has built for before, if any: a supervisor of another
    /// run or epoch refuses it before it takes part.
    pub life: Option<(RunNumber, Epoch)>,
    /// Counter of the turns of its loop; those of its sink, which may wait for a disk, are not
    /// counted.
    pub turn_counters: TurnCounters,
    /// The core to run on; `None`: any.
    pub core: Option<usize>,
    /// True if its thread takes precedence over others on its core, where the system permits it
    /// ([`host::take_precedence`]). `None` means: only if [`Self::queue`] is known and empties
    /// within [`URGENT`]. The sink's thread never takes precedence.
    pub precedence: Option<bool>,
    /// Keeps the machine's idle cores awake during the run, if the system permits it
    /// ([`host::keep_awake`]); `None`: where [`Self::queue`] is known and empties within
    /// [`BRISK`](crate::role::BRISK).
    pub keep_awake: Option<bool>,
    /// Time for which it goes on polling its sockets after the last grant before it sleeps; `None`:
    /// it sleeps at once. Its core is busy meanwhile: ask
    /// [`prove_polling`](evb_net::pacing::prove_polling) first.
    pub busy_poll: Option<Duration>,
}

impl BuilderConfig {
    /// Creates a configuration with defaults: any port of loopback, credit with a budget of
    /// megabytes, 30 s to start, and as long for a failing sink.
    pub fn new(id: BuilderId, supervisor: impl Into<String>) -> Self {
        Self {
            id,
            supervisor: supervisor.into(),
            listen: "127.0.0.1:0".to_owned(),
            start_timeout: Duration::from_secs(30),
            shaping: Shaping::LOOPBACK,
            rotation: id.number().into(),
            mtu: 1500,
            queue: Duration::ZERO,
            cell: CELL,
            memory: None,
            transport: Transport::Tcp,
            lane: LaneOptions::default(),
            control: TrafficClass::default(),
            security: Security::None,
            give_up: Duration::from_secs(30),
            life: None,
            turn_counters: TurnCounters::default(),
            core: None,
            precedence: None,
            keep_awake: None,
            busy_poll: None,
        }
    }

    /// Returns true if its thread is to take precedence: [`Self::precedence`], or what follows from
    /// its port's queue.
    pub fn is_urgent(&self) -> bool {
        self.precedence.unwrap_or(self.queue > Duration::ZERO && self.queue < URGENT)
    }
}

/// A running builder. It lives on a thread of its own, its sink on another. Dropping all handles
/// changes nothing: it builds until the run is over, or [`Self::abort`].
#[derive(Clone, Debug)]
pub struct Builder {
    role: RoleHandle,
    address: SocketAddr,
}

impl Builder {
    /// Listens for sources, registers at the supervisor, and builds every event into `sink`.
    ///
    /// Cancel safety: dropping the future before it is ready gives the attempt up.
    ///
    /// # Errors
    /// [`RoleError`]: the address cannot be listened on, or the supervisor cannot be reached or
    /// refuses.
    pub async fn connect(config: BuilderConfig, sink: impl Sink) -> Result<Self, RoleError> {
        Self::connect_filtered(config, AcceptAll, sink).await
    }

    /// Connects like [`Self::connect`], with a filter before the sink.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_filtered(
        config: BuilderConfig,
        filter: impl Filter,
        sink: impl Sink,
    ) -> Result<Self, RoleError> {
        role::check_transport(config.transport)?;
        let name = format!("builder {}", config.id);
        let (address, role) = RoleHandle::start(name, config.core, |mut joined, run_ends| async move {
            let (listener, address) = bind(&config).await?;
            let (run, epoch) = config.life.map_or((0, 0), |(run, epoch)| (run.number(), epoch.number()));
            let hello = Hello {
                run,
                epoch,
                boot_id: host::boot_id(),
                software: concat!("evb ", env!("CARGO_PKG_VERSION")).to_owned(),
                listen: advertised(&config.listen, address),
                ..Hello::new(Peer::Builder(config.id), Peer::Supervisor)
            };
            let (supervisor, start_timeout) = (config.supervisor.clone(), config.start_timeout);
            let member = Member { supervisor, hello, start_timeout };
            let access = Access { bind: None, class: config.control, security: config.security.clone() };
            let (entry, _) = tokio::select! {
                entered = Entry::join(member, access) => entered?,
                () = joined.closed() => return Err(RoleError::Unwanted),
            };
            role::hand_over(joined, address).await?;
            let (turn_counters, name) = (config.turn_counters.clone(), format!("builder {}", config.id));
            let run = begin::run(config, listener, entry, Box::new(filter), sink, run_ends);
            turn_counters.count(name, run).await
        })
        .await?;
        Ok(Self { role, address })
    }

    /// Returns the address at which it listens for sources.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks the supervisor to end the run: there are no more triggers, then every event is built or
    /// named in the ledger.
    pub fn request_run_end(&self, cause: &str) {
        self.role.request_run_end(cause);
    }

    /// Waits until the run is over, when every event is with the sink or named in the ledger.
    ///
    /// Cancel safety: a call that is dropped changes nothing, and any number may wait.
    ///
    /// # Errors
    /// The reason for which the builder could not go on.
    pub async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        self.role.finished().await
    }

    /// Ends the builder at once, as if its process were killed: other builders get the events that
    /// its sink has not accepted. [`Self::finished`] returns [`RoleError::Aborted`] then.
    pub fn abort(&self) {
        self.role.abort();
    }
}

/// Binds the configured address. An address that is still in use, as by this process in the
/// previous run, is tried again for a moment.
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

/// Pause before an address is tried again.
const BIND_AGAIN: Duration = Duration::from_millis(100);

/// Time that an address may take to become free.
const RELEASE: Duration = Duration::from_secs(1);

async fn bind_any(config: &BuilderConfig) -> Result<(TcpListener, SocketAddr), RoleError> {
    let mut last = None;
    for address in resolve(&config.listen).await? {
        // A port that is free for TCP may be taken for UDP. Each try lets the system choose another
        // one.
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

/// Number of free ports that are tried.
const PORTS: u32 = 8;

fn bind_one(config: &BuilderConfig, address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = listen(address, &config.lane)?;
    let address = listener.local_addr()?;
    if config.transport == Transport::Udp {
        // The socket is opened when the run is known, and with it the bytes that may be under way.
        // Opening it once now reveals a port that is taken.
        udp::open(address, None, &config.lane.datagrams()).map_err(|error| {
            io::Error::new(error.kind(), format!("UDP, port {}: {error}", address.port()))
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
