//! The settings of a queueing discipline: the attributes of linux/pkt_sched.h, as numbers with
//! units.

use std::{fmt, time::Duration};

use evb_core::units::{Bytes, Rate};

/// Settings of a queueing discipline of a kind that evb can read.
#[derive(Clone, Debug, PartialEq)]
pub enum QdiscOptions {
    /// `fq` (fair queue): a queue and a pacing rate for each flow; holds packets until their
    /// departure times.
    Fq(Fq),
    /// `etf` (earliest txtime first): sends packets in the order of their departure times, and
    /// drops packets that have none.
    Etf(Etf),
    /// `tbf` (token bucket filter): limits the rate of all packets by one token bucket.
    Tbf {
        /// Long-term rate at which packets pass, in bytes of layer-2 frames.
        rate: Rate,
        /// Bytes of layer-2 frames that may pass at once: the depth of the bucket.
        burst: Bytes,
        /// Maximum number of bytes of layer-2 frames that may wait.
        limit: Bytes,
    },
    /// `fq_codel`: a queue for each flow, which drops packets that wait too long.
    FqCodel {
        /// Maximum number of packets that may wait.
        limit: Option<u32>,
        /// Queueing delay that the discipline aims at.
        target: Option<Duration>,
        /// Time for which packets may wait longer than the target.
        interval: Option<Duration>,
    },
    /// `pfifo` or `bfifo`: one queue, which holds at most this number of packets (`pfifo`) or bytes
    /// (`bfifo`).
    Fifo(u32),
    /// The discipline has no settings, or evb cannot read them.
    NotRead,
}

/// Settings of `fq`; each is `None` where this kernel does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fq {
    /// Maximum number of packets that may wait in all flows together; this host drops further
    /// packets.
    pub limit: Option<u32>,
    /// Maximum number of packets of one flow that may wait.
    pub flow_limit: Option<u32>,
    /// Bytes that a flow may send before the next flow has its turn.
    pub quantum: Option<u32>,
    /// Bytes that a new flow may send before the discipline paces the flow.
    pub initial_quantum: Option<u32>,
    /// True if the discipline paces each flow at its socket's rate (`SO_MAX_PACING_RATE`).
    pub pacing: Option<bool>,
    /// Longest time by which a packet's departure time may lie in the future.
    pub horizon: Option<Duration>,
    /// True if packets beyond the horizon are dropped, instead of sent at the horizon.
    pub horizon_drop: Option<bool>,
    /// Lateness that the discipline's timer may have.
    pub timer_slack: Option<Duration>,
}

/// Settings of `etf` (`struct tc_etf_qopt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etf {
    /// Clock of the departure times, as a clock number of clock_gettime(2); 11 is `CLOCK_TAI`.
    pub clock: i32,
    /// Time before a packet's departure at which the discipline hands the packet to the device.
    pub delta: Duration,
    /// True if the device itself holds packets until their departure times.
    pub offload: bool,
    /// True if departure times are deadlines, before which a packet may leave.
    pub deadline_mode: bool,
    /// True if the discipline accepts packets of sockets that have not set `SO_TXTIME`.
    pub skip_sock_check: bool,
}

/// Number of `CLOCK_TAI` (linux/time.h).
const CLOCK_TAI: i32 = 11;

impl fmt::Display for QdiscOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        match self {
            Self::Fq(fq) => {
                words.extend(fq.limit.map(|limit| format!("limit {limit}p")));
                words.extend(fq.flow_limit.map(|limit| format!("flow_limit {limit}p")));
                words.extend(fq.quantum.map(|quantum| format!("quantum {quantum}b")));
                words.extend(fq.initial_quantum.map(|quantum| format!("initial_quantum {quantum}b")));
                words.extend(fq.horizon.map(|horizon| format!("horizon {horizon:?}")));
                words.extend(fq.pacing.filter(|pacing| !pacing).map(|_| "nopacing".to_owned()));
            }
            Self::Etf(etf) => {
                let clock =
                    if etf.clock == CLOCK_TAI { "TAI".to_owned() } else { format!("number {}", etf.clock) };
                words.push(format!("clock {clock} delta {:?}", etf.delta));
                let flags = [
                    (etf.offload, "offload"),
                    (etf.deadline_mode, "deadline_mode"),
                    (etf.skip_sock_check, "skip_sock_check"),
                ];
                words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_owned()));
            }
            Self::Tbf { rate, burst, limit } => {
                words.push(format!("rate {rate} burst {burst} limit {limit}"));
            }
            Self::FqCodel { limit, target, interval } => {
                words.extend(limit.map(|limit| format!("limit {limit}p")));
                words.extend(target.map(|target| format!("target {target:?}")));
                words.extend(interval.map(|interval| format!("interval {interval:?}")));
            }
            Self::Fifo(limit) => words.push(format!("limit {limit}")),
            Self::NotRead => {}
        }
        f.write_str(&words.join(" "))
    }
}

/// Reads the settings of a discipline of kind `kind` from its netlink attributes.
#[cfg(target_os = "linux")]
pub(super) fn read(kind: &str, options: &[netlink_packet_route::tc::TcOption]) -> QdiscOptions {
    use netlink_packet_core::Nla as _;
    use netlink_packet_route::tc::{TcOption, TcQdiscFqCodelOption as Codel};

    if kind == "fq_codel" {
        let (mut limit, mut target, mut interval) = (None, None, None);
        for option in options {
            match option {
                TcOption::FqCodel(Codel::Limit(packets)) => limit = Some(*packets),
                TcOption::FqCodel(Codel::Target(micros)) => target = Some(micros_of(*micros)),
                TcOption::FqCodel(Codel::Interval(micros)) => interval = Some(micros_of(*micros)),
                _ => {}
            }
        }
        return QdiscOptions::FqCodel { limit, target, interval };
    }
    let Some(TcOption::Other(option)) = options.first() else { return QdiscOptions::NotRead };
    let mut bytes = vec![0; option.value_len()];
    option.emit_value(&mut bytes);
    parse(kind, &bytes)
}

/// Reads the settings of a discipline from the bytes of its attribute `TCA_OPTIONS`.
pub(super) fn parse(kind: &str, bytes: &[u8]) -> QdiscOptions {
    let options = match kind {
        "fq" => Some(QdiscOptions::Fq(fq(bytes))),
        "etf" => attribute(bytes, 1).and_then(etf).map(QdiscOptions::Etf),
        "tbf" => tbf(bytes),
        "pfifo" | "bfifo" => number(bytes, 0).map(QdiscOptions::Fifo),
        _ => None,
    };
    options.unwrap_or(QdiscOptions::NotRead)
}

/// Reads the options of fq. The numbers are those of the attributes in linux/pkt_sched.h
/// (`TCA_FQ_…`).
fn fq(bytes: &[u8]) -> Fq {
    let value = |kind| attribute(bytes, kind).and_then(|value| number(value, 0));
    Fq {
        limit: value(1),
        flow_limit: value(2),
        quantum: value(3),
        initial_quantum: value(4),
        pacing: value(5).map(|set| set != 0),
        horizon: value(14).map(micros_of),
        horizon_drop: attribute(bytes, 15).and_then(|value| value.first()).map(|set| *set != 0),
        timer_slack: value(13).map(|nanos| Duration::from_nanos(nanos.into())),
    }
}

/// Reads the options of etf, which are a `tc_etf_qopt` of linux/pkt_sched.h.
fn etf(bytes: &[u8]) -> Option<Etf> {
    let delta = number(bytes, 0)?;
    let flags = number(bytes, 8)?;
    Some(Etf {
        delta: Duration::from_nanos(delta.into()),
        clock: number(bytes, 4)?.cast_signed(),
        deadline_mode: flags & 1 != 0,
        offload: flags & 2 != 0,
        skip_sock_check: flags & 4 != 0,
    })
}

/// Nanoseconds in a tick of the kernel's packet scheduler (`PSCHED_SHIFT`, net/pkt_sched.h), the
/// unit in which the kernel states the depth of a token bucket.
const NANOS_PER_TICK: u128 = 64;

/// Reads `struct tc_tbf_qopt`: two rates of twelve bytes, of which the last four are bytes per
/// second; then limit and depth.
fn tbf(bytes: &[u8]) -> Option<QdiscOptions> {
    let parameters = attribute(bytes, 1)?;
    let small: u64 = number(parameters, 8)?.into();
    let large = attribute(bytes, 4).and_then(|value| value.get(..8)?.try_into().ok()).map(u64::from_ne_bytes);
    let rate = large.unwrap_or(small);
    // The kernel gives the depth as the time that it lasts at the rate, in ticks.
    let burst = u128::from(number(parameters, 28)?) * NANOS_PER_TICK * u128::from(rate) / 1_000_000_000;
    Some(QdiscOptions::Tbf {
        rate: Rate::from_bytes_per_second(rate),
        burst: Bytes::new(u64::try_from(burst).ok()?),
        limit: Bytes::new(number(parameters, 24)?.into()),
    })
}

fn micros_of(micros: u32) -> Duration {
    Duration::from_micros(micros.into())
}

/// Returns the value of the first attribute of kind `kind` in a sequence of attributes. Each
/// attribute has a length, a kind and a value, and is aligned to four bytes.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    /// Mask of an attribute's kind without the two upper bits, which tell how its value is encoded
    /// (linux/netlink.h).
    const KIND: u16 = 0x3fff;
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let found = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & KIND;
        let value = bytes.get(4..length)?;
        if found == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
