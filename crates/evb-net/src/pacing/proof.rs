//! [`prove`]: sends packets, times them, and reports the observation, because an option that the
//! system accepts may still have no effect.

mod observe;
mod departures;
mod flow;
mod shaped;
#[cfg(test)]
mod tests;

use std::{fmt, io, net::IpAddr, time::Duration};

use evb_core::{
    offload::Offload,
    transport::Transport,
    units::{Bytes, Rate},
};

use super::{
    executor::{Etf, SocketRate, Software, Txtime},
    tso::TsoTrain,
};
use crate::host::{
    link::{self, Link},
    qdisc::{self, Place, Qdisc, QdiscOptions},
    route,
};

/// A network path on which an offload is to be proved, as the lanes will use the path.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use evb_net::pacing::{Transport, Trial};
///
/// let (here, builder) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 7));
/// let trial = Trial { port: Some(7101), ..Trial::new(Transport::Udp, here, builder) };
/// assert_eq!(trial.to, builder);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Transport of the lanes.
    pub transport: Transport,
    /// Local address from which the lanes send.
    pub from: IpAddr,
    /// Destination of the lanes. If the destination is an address of this host, the proof receives
    /// its own datagrams there. If the destination is another host, the proof sends small datagrams
    /// to it, and the sending host's kernel times their departure.
    pub to: IpAddr,
    /// Port to which the proof sends datagrams: the port of the lanes, by which a provisioned token
    /// bucket may recognize the datagrams, although no datagram socket listens there. `None` stands
    /// for the discard port (9).
    pub port: Option<u16>,
    /// `SO_PRIORITY` of the lanes, by which queueing disciplines classify packets.
    pub priority: Option<u32>,
    /// Layer-2 rate that a provisioned token bucket must enforce.
    pub rate: Option<Rate>,
}

impl Trial {
    /// Returns a trial of lanes without priority and rate.
    pub fn new(transport: Transport, from: impl Into<IpAddr>, to: impl Into<IpAddr>) -> Self {
        Self { transport, from: from.into(), to: to.into(), port: None, priority: None, rate: None }
    }

    /// Returns a trial within this host, over the loopback device.
    #[cfg(test)]
    pub(crate) fn loopback(transport: Transport) -> Self {
        Self::new(transport, [127, 0, 0, 1], [127, 0, 0, 1])
    }
}

/// Result of the proof of one offload on one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// Offload that was tried.
    pub offload: Offload,
    /// Name of the device by which the peer is reached, if the system reports it.
    pub device: Option<String>,
    /// True if the offload works.
    pub held: bool,
    /// True if the proof was inconclusive because this host is too slow for it. An offload whose
    /// proof was inconclusive does not count as working.
    pub undecided: bool,
    /// Distance of the median gap from the requested gap, as a fraction of the requested gap. For
    /// offloads that keep a rate, the distance of the rate from the requested rate, as a fraction
    /// of the requested rate.
    pub median_error: Option<f64>,
    /// Deviation of a datagram from its departure time at the 99th percentile.
    pub p99: Option<Duration>,
    /// Readable description of the observation.
    pub why: String,
    /// Command or setting that would make the offload work.
    pub remedy: Option<String>,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device.as_deref().unwrap_or("an unknown device");
        let verdict = match (self.held, self.undecided) {
            (true, _) => "works",
            (false, true) => "could not be judged",
            (false, false) => "does not work",
        };
        write!(f, "{} {verdict} on {device}: {}", self.offload, self.why)
    }
}

/// Returns `time` rounded down to whole microseconds, for a message.
fn rounded(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Result of one measurement of a proof.
#[derive(Clone, Debug, PartialEq)]
struct TrialResult {
    held: bool,
    undecided: bool,
    median_error: Option<f64>,
    p99: Option<Duration>,
    why: String,
}

impl TrialResult {
    fn failed(why: impl fmt::Display) -> Self {
        Self { held: false, undecided: false, median_error: None, p99: None, why: why.to_string() }
    }

    /// Marks the observation as inconclusive, for the given reason.
    fn unproved(self, reason: &str) -> Self {
        Self { held: false, undecided: true, why: format!("{reason}: {}", self.why), ..self }
    }
}

/// The network device of a path, and its queueing disciplines.
struct Device {
    link: Option<Link>,
    qdiscs: Vec<Qdisc>,
}

impl Device {
    /// Reads the device with the given index; all fields stay empty if the system does not report
    /// the device.
    fn at(index: Option<u32>) -> Self {
        let link = index.and_then(|index| link::links().ok()?.into_iter().find(|link| link.index == index));
        let qdiscs = index.and_then(|index| qdisc::qdiscs(index).ok()).unwrap_or_default();
        Self { link, qdiscs }
    }

    fn name(&self) -> &str {
        self.link.as_ref().map_or("<device>", |link| &link.name)
    }

    /// Describes the device's queueing disciplines much as tc(8) does.
    fn words(&self) -> String {
        if self.qdiscs.is_empty() {
            return "its queueing discipline is not known".into();
        }
        self.qdiscs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the time before a datagram's departure at which `etf` hands the datagram to the
    /// device.
    fn etf_delta(&self) -> Duration {
        let delta = |qdisc: &Qdisc| match &qdisc.options {
            QdiscOptions::Etf(etf) => Some(etf.delta),
            _ => None,
        };
        self.qdiscs.iter().find_map(delta).unwrap_or_default()
    }

    fn has(&self, kind: &str) -> bool {
        self.qdiscs.iter().any(|qdisc| qdisc.kind == kind)
    }

    fn tso_train(&self) -> TsoTrain {
        TsoTrain::of_host(self.link.as_ref().and_then(|link| link.gso_max_size))
    }

    /// Returns the discipline that some queues of the device have in place of `fq`, if other queues
    /// have `fq`. The queue of a socket's packets depends on the sending core, so a proof on one
    /// queue says nothing about another queue.
    fn beside_fq(&self) -> Option<&str> {
        let leaves = || self.qdiscs.iter().filter(|qdisc| matches!(qdisc.place, Place::Below { .. }));
        let other = leaves().find(|qdisc| qdisc.kind != "fq")?;
        (self.has("mq") && self.has("fq")).then_some(other.kind.as_str())
    }

    /// Returns true if the device has a token bucket.
    fn holds_back(&self) -> bool {
        self.has("tbf") || self.has("htb")
    }
}

/// Returns true if the device with the given index has a token bucket, so that a proof is worth its
/// time.
pub(super) fn is_provisioned(device: Option<u32>) -> bool {
    Device::at(device).holds_back()
}

/// Returns the index of the device of a path, if the system reports it.
pub(super) fn device_of(trial: &Trial) -> Option<u32> {
    route::route(trial.to, Some(trial.from)).ok().map(|route| route.device)
}

/// Returns the limits of the trains that TCP sends on a path.
pub(super) fn tso_train(trial: &Trial) -> TsoTrain {
    Device::at(device_of(trial)).tso_train()
}

/// Maximum number of bytes that may wait unsent in a TCP socket that the kernel paces.
pub(super) const UNSENT: Bytes = Bytes::kib(16);

/// Tries an offload by sending packets and timing them, in 30 to 170 ms, or four times as long on a
/// busy host that disturbs the proof. The function blocks the thread, so it must not be called in
/// an async task.
pub fn prove(offload: Offload, trial: &Trial) -> Proof {
    prove_by(offload, trial, Software::timer())
}

/// Tries an offload as [`prove`] does, but with the given software executor instead of a timer.
pub(super) fn prove_by(offload: Offload, trial: &Trial, software: Software) -> Proof {
    let device = Device::at(device_of(trial));
    let by_fq =
        offload == Offload::Txtime || (offload == Offload::PacingRate && trial.transport == Transport::Udp);
    let mut unsent = None;
    let result = if let Some(other) = device.beside_fq().filter(|_| by_fq) {
        TrialResult::failed(format!("some queues of the device have fq, but others have {other}"))
    } else if offload.fits(trial.transport) {
        let found = match offload {
            Offload::Software => departures::by_timer(&software, trial),
            Offload::Txtime => departures::by_kernel(&Txtime, trial, Duration::ZERO),
            Offload::Etf => departures::by_kernel(&Etf, trial, device.etf_delta()),
            Offload::PacingRate => match trial.transport {
                Transport::Tcp => flow::paced(trial, device.tso_train()),
                Transport::Udp => departures::by_rate(&SocketRate::new(UNSENT), trial),
            },
            Offload::Tbf => shaped::held_back(trial),
        };
        found.unwrap_or_else(|error| {
            unsent = unreachable(&error, trial);
            TrialResult::failed(format!("no test packet leaves for {}: {error}", trial.to))
        })
    } else {
        TrialResult::failed(format!("{offload} does not work with {}", trial.transport))
    };
    let kernel = !matches!(offload, Offload::Software);
    let why = if result.held || !kernel {
        result.why
    } else {
        format!("{} ({}: {})", result.why, device.name(), device.words())
    };
    Proof {
        offload,
        held: result.held,
        undecided: result.undecided,
        median_error: result.median_error,
        p99: result.p99,
        why,
        remedy: if result.held { None } else { unsent.or_else(|| remedy(offload, trial, &device)) },
        device: device.link.map(|link| link.name),
    }
}

/// Returns what to do if the test could not be sent because of the network; `None` if the error has
/// another reason.
fn unreachable(error: &io::Error, trial: &Trial) -> Option<String> {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkDown | NetworkUnreachable)
        .then(|| format!("check the network and the firewall between this host and {}", trial.to))
}

/// Returns the command or setting that would make an offload work.
fn remedy(offload: Offload, trial: &Trial, device: &Device) -> Option<String> {
    let name = device.name();
    let below_mq = device.has("mq");
    match (offload, trial.transport) {
        (Offload::Software, _) => None,
        (Offload::Txtime | Offload::Etf, Transport::Tcp) => Some("set transport = \"udp\"".into()),
        (Offload::PacingRate, Transport::Tcp) => Some("sysctl -w net.ipv4.tcp_tso_rtt_log=0, as root".into()),
        (Offload::Txtime | Offload::PacingRate, Transport::Udp) if below_mq => Some(format!(
            "sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev {name} root mq, as root (if the kernel does not know fq: modprobe sch_fq)"
        )),
        (Offload::Txtime | Offload::PacingRate, Transport::Udp) => Some(format!(
            "tc qdisc replace dev {name} root fq, as root (if the kernel does not know fq: modprobe sch_fq)"
        )),
        (Offload::Etf, Transport::Udp) => Some(format!(
            "tc qdisc replace dev {name} handle 100: root mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 \
             queues 1@0 1@1 hw 0 && tc qdisc replace dev {name} parent 100:2 etf clockid CLOCK_TAI delta 300000, \
             and priority 3 for the lanes; as root, with CAP_NET_ADMIN for evbd"
        )),
        (Offload::Tbf, _) => Some(format!("evbd provision CONFIG --device {name} apply, as root")),
    }
}
