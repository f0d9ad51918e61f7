//! The proof that a token bucket in the kernel limits datagrams to a destination to a rate.

use std::{io, time::Duration};

use evb_core::{time::Instant, units::Rate};

use super::{Trial, TrialResult, observe::Observed};
use crate::{
    clock,
    pacing::{executor::TokenBucketFilter, sender::SendError},
};

/// Payload of a test packet over IPv4; on layer 2, its size is `LAYER_2`, the size of a full
/// packet.
const PAYLOAD: usize = 1458;
const LAYER_2: u64 = 1500;
/// Number of datagrams sent beyond the depth of the token bucket.
const SHOWN: usize = 80;
/// Assumed depth of the token bucket, as a time at its rate; `evbd provision` sets at most 10 ms.
const DEPTH: Duration = Duration::from_millis(12);
/// Smallest assumed depth of a token bucket in packets, because small buckets hold a few packets
/// more.
const LEAST_DEPTH: usize = 40;
/// Number of datagrams that must depart after the last datagram was handed over, which shows that
/// they had to wait.
const WAITED: usize = 8;
/// Number of datagrams sent between two reads of the receiving socket, with a margin: the socket's
/// receive buffer of 208 KiB holds about 270 datagrams.
const BETWEEN_LOOKS: usize = 64;
/// Maximum number of datagrams in a burst, which fit into a socket's buffer and a traffic class's
/// queue of 1000 packets.
const MOST: usize = 830;
/// Longest time that a burst takes at the rate to be enforced.
const LONGEST: Duration = Duration::from_millis(240);
/// Largest allowed distance of the rate from the requested rate, as a fraction of the requested
/// rate.
const TOLERANCE: f64 = 0.1;

/// Maximum number of attempts, since a busy host may disturb some of them.
const ATTEMPTS: usize = 3;
/// Multiple of the requested rate above which no bucket can be at work.
const UNLIMITED: f64 = 2.0;

/// Factor by which the offered rate must exceed the rate to be enforced.
const FASTER: f64 = 1.1;
/// Reason that is given for an inconclusive proof.
const TOO_SLOW: &str = "this host is too slow to tell, so try it when the host is idle";

/// Tests a token bucket: sends a burst and measures the rate at which the end of the burst departs.
pub(super) fn held_back(trial: &Trial) -> io::Result<TrialResult> {
    let Some(rate) = trial.rate else {
        return Ok(TrialResult::failed("the rate of the lanes is not known; write `link_rate` in [network]"));
    };
    let packets = |time: Duration| usize::try_from((rate * time).count() / LAYER_2).unwrap_or(usize::MAX);
    // The bucket refills while the burst is sent: a burst of twice the depth empties a bucket whose
    // rate is half the rate of sending.
    let depth = packets(DEPTH).max(LEAST_DEPTH);
    let count = (depth.saturating_mul(2) + SHOWN).min(MOST).min(packets(LONGEST));
    // So few packets show no rate.
    if count < 12 {
        return Ok(TrialResult::failed(format!("the rate {rate} is too slow for a test of {LONGEST:?}")));
    }
    let mut last = TrialResult::failed("nothing was sent");
    for _ in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, &TokenBucketFilter, None)?;
        let offered = send_burst(&mut observed, trial, count)?;
        observed.wait(count + 1, clock::now() + LONGEST)?;
        let seen = observed.departures().iter().flatten().copied();
        let (result, found) = judge(&offered, seen, rate);
        last = TrialResult { why: format!("{}, seen {}", result.why, observed.witness()), ..result };
        // A busy host may lower the measured rate, and late timers may raise it a little. Only a
        // rate that is far too high ends the test.
        if last.held || found > rate.bytes_per_second() * UNLIMITED {
            break;
        }
    }
    Ok(last)
}

/// Sends a burst, and returns the times at which its datagrams were handed over.
fn send_burst(observed: &mut Observed, trial: &Trial, count: usize) -> io::Result<Vec<Instant>> {
    let mut times = Vec::with_capacity(count);
    for number in 1..=count {
        // The header of IPv6 is 20 bytes longer than that of IPv4.
        match observed.send(PAYLOAD - if trial.to.is_ipv4() { 0 } else { 20 }, None) {
            Ok(()) => times.push(clock::now()),
            Err(SendError::Full) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
        if number % BETWEEN_LOOKS == 0 {
            observed.look(Duration::ZERO)?;
        }
    }
    Ok(times)
}

/// Compares the rate of test packets, handed over at the times `offered` and departed at the times
/// `seen`, with a requested rate. Returns the result and the measured rate in bytes per second.
///
/// Packets that depart after the last packet was handed over had to wait, and show the rate of the
/// bucket from then on: a bucket lets several packets go at once if its timer was late, so that the
/// rate from the first of them would be too high. If no packet had to wait, either there is no
/// bucket, or the bucket was never empty.
pub(super) fn judge(
    offered: &[Instant],
    seen: impl Iterator<Item = Instant>,
    rate: Rate,
) -> (TrialResult, f64) {
    // Two cores may send packets of one queue at the same time.
    let mut seen: Vec<Instant> = seen.collect();
    seen.sort_unstable();
    let (Some(end), Some(offer)) = (offered.last(), rate_of(offered)) else {
        return (TrialResult::failed("hardly anything could be sent; try it when the host is idle"), 0.0);
    };
    let asked = rate.bytes_per_second();
    let waited = seen.get(seen.partition_point(|at| at <= end)..).unwrap_or_default();
    let found = if waited.len() >= WAITED { rate_since(*end, waited) } else { rate_of(&seen) };
    let Some(found) = found else {
        let why = format!("{} of {} datagrams were seen to leave", seen.len(), offered.len());
        return (TrialResult::failed(why), 0.0);
    };
    let error = (found - asked).abs() / asked;
    let lost = offered.len().saturating_sub(seen.len());
    let mut why = format!("{:.2} Mbit/s departed where {rate} was asked", found * 8e-6);
    if lost > 0 {
        why = format!("{why}, {lost} of {} lost", offered.len());
    }
    let undecided =
        offer < asked * FASTER || (waited.len() < WAITED && !is_emptied(offered.len(), offer, rate));
    if undecided {
        why = format!("{why}, {:.0} Mbit/s were offered: {TOO_SLOW}", offer * 8e-6);
    }
    (
        TrialResult {
            held: error <= TOLERANCE && !undecided,
            undecided,
            median_error: Some(error),
            p99: None,
            why,
        },
        found,
    )
}

/// Returns true if `count` packets sent at the rate `offer` empty a bucket of rate `rate`, which
/// refills meanwhile.
fn is_emptied(count: usize, offer: f64, rate: Rate) -> bool {
    let depth = (rate * DEPTH).count().max(LEAST_DEPTH as u64 * LAYER_2) as f64;
    count as f64 * LAYER_2 as f64 * (1.0 - rate.bytes_per_second() / offer) > depth
}

/// Returns the rate of test packets that departed at the given times while they waited since
/// `start`, in bytes per second on layer 2. At `start`, half of a packet is due on average.
fn rate_since(start: Instant, times: &[Instant]) -> Option<f64> {
    let bytes = (times.len() as f64 - 0.5) * LAYER_2 as f64;
    Some(bytes / times.last()?.since(start).as_secs_f64().max(1e-9))
}

/// Returns the rate of test packets at the given times, in bytes per second on layer 2.
fn rate_of(times: &[Instant]) -> Option<f64> {
    let [first, .., last] = times else { return None };
    let bytes = (times.len() as u64 - 1) * LAYER_2;
    Some(bytes as f64 / last.since(*first).as_secs_f64().max(1e-9))
}
