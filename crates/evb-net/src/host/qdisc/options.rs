//! The settings of a queueing discipline: the attributes of linux/pkt_sched.h, as numbers with
//! units.

use std::{fmt, time::Duration};

use evb_core::units::{Bytes, Rate};

/// Settings of a queueing discipline of a kind that evb can read.
#[derive(Clone, Debug, PartialEq)]
pub enum QdiscOptions {
    /// `fq`: a queue and a pace for each flow; holds packets until their departure times.
    Fq(Fq),
    /// `etf`: earliest departure time first; without one, a packet is dropped.
    Etf(Etf),
    /// `tbf`: one token bucket.
    Tbf {
        /// Buffer bytes that pass in the long run.
        rate: Rate,
        /// Buffer bytes that pass at once.
        burst: Bytes,
        /// Buffer bytes that wait at most.
        limit: Bytes,
    },
    /// `fq_codel`: a queue for each flow, that drops what waits too long.
    FqCodel {
        /// Packets that wait at most.
        limit: Option<u32>,
        /// The wait that it aims at.
        target: Option<Duration>,
        /// Time for which packets may wait longer than the target.
        interval: Option<Duration>,
    },
    /// `pfifo`, packets, or `bfifo`, bytes: how many wait at most.
    Fifo(u32),
    /// A kind without options, or one that evb does not read.
    NotRead,
}

/// Settings of `fq`; each is `None` where this kernel does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fq {
    /// Packets that wait at most, in all; more are dropped in this host.
    pub limit: Option<u32>,
    /// Packets of one flow that wait at most.
    pub flow_limit: Option<u32>,
    /// Bytes that a flow sends in a turn.
    pub quantum: Option<u32>,
    /// Bytes that a new flow may send before it is paced.
    pub initial_quantum: Option<u32>,
    /// True if it paces by the rates of sockets (`SO_MAX_PACING_RATE`).
    pub pacing: Option<bool>,
    /// Longest time that a departure may lie in the future.
    pub horizon: Option<Duration>,
    /// True if packets beyond the horizon are dropped, instead of sent at the horizon.
    pub horizon_drop: Option<bool>,
    /// Lateness that its timer may have.
    pub timer_slack: Option<Duration>,
}

/// Settings of `etf` (`struct tc_etf_qopt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etf {
    /// The clock of its departure times, as in clock_gettime(2); 11 is `CLOCK_TAI`.
    pub clock: i32,
    /// Time before its departure at which a packet is handed to the device.
    pub delta: Duration,
    /// True if the device keeps the time itself.
    pub offload: bool,
    /// True if times are deadlines, before which a packet may leave.
    pub deadline_mode: bool,
    /// True if packets are taken from sockets that have not set `SO_TXTIME`.
    pub skip_sock_check: bool,
}

/// `CLOCK_TAI` (linux/time.h).
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

/// Reads the attributes of a discipline of that kind.
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

/// Reads the bytes of `TCA_OPTIONS`.
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

/// Length of a kernel tick (`PSCHED_SHIFT`, net/pkt_sched.h), in which the depth of a bucket is
/// stated.
const NANOS_PER_TICK: u128 = 64;

/// Reads `struct tc_tbf_qopt`: two rates of twelve bytes, of which the last four are bytes per
/// second; then limit and depth.
fn tbf(bytes: &[u8]) -> Option<QdiscOptions> {
    let parameters = attribute(bytes, 1)?;
    let small: u64 = number(parameters, 8)?.into();
    let large = attribute(bytes, 4).and_then(|value| value.get(..8)?.try_into().ok()).map(u64::from_ne_bytes);
    let rate = large.unwrap_or(small);
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

/// Returns the value of the first attribute of that kind in a row of attributes: length, kind and
/// value, each aligned to four bytes.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    /// The kind's two upper bits say how the value is coded (linux/netlink.h).
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
