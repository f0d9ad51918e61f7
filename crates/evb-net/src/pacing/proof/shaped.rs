//! Whether something in the kernel holds datagrams to a destination back to a rate.

use std::{io, time::Duration};

use evb_core::{time::Instant, units::Rate};

use super::{Finding, Trial, observe::Observed};
use crate::{
    clock,
    pacing::{executor::TokenBucketFilter, sender::SendError},
};

/// Payload of a full packet at an MTU of 1500, and its size on layer 2.
const PAYLOAD: usize = 1458;
const LAYER_2: u64 = 1500;
/// Datagrams sent beyond the depth of a bucket that is meant to shape.
const SHOWN: usize = 80;
/// That depth: `evbd provision` gives 10 ms of the rate at most.
const DEPTH: Duration = Duration::from_millis(12);
/// Small buckets hold a few packets more.
const LEAST_DEPTH: usize = 40;
/// Number of datagrams that must depart after the last was handed over, which shows that they had
/// to wait.
const WAITED: usize = 8;
/// Departures that a socket stores between two reads, with a margin: its receive buffer of 208 KiB
/// holds about 270.
const BETWEEN_LOOKS: usize = 64;
/// Datagrams that fit into a socket's buffer and a class's queue of 1000 packets.
const MOST: usize = 830;
/// The longest that a proof takes.
const LONGEST: Duration = Duration::from_millis(240);
/// The rate may be this far from the asked one, as a fraction of it.
const TOLERANCE: f64 = 0.1;

/// Attempts, since a busy host may disturb some.
const ATTEMPTS: usize = 3;

/// Factor by which the offered rate must exceed the rate to be enforced.
const FASTER: f64 = 1.1;
/// Reason for a proof that neither proves nor disproves.
const TOO_SLOW: &str = "this host is too slow to tell";

/// Sends a burst and takes the rate at which its end departs.
pub(super) fn held_back(trial: &Trial) -> io::Result<Finding> {
    let Some(rate) = trial.rate else {
        return Ok(Finding::failed("no rate was given to compare with"));
    };
    let packets = |time: Duration| usize::try_from((rate * time).count() / LAYER_2).unwrap_or(usize::MAX);
    // The bucket refills while the burst is sent: twice its depth empties one of half the speed at
    // which it is sent.
    let depth = packets(DEPTH).max(LEAST_DEPTH);
    let count = (depth.saturating_mul(2) + SHOWN).min(MOST).min(packets(LONGEST));
    if count < 12 {
        return Ok(Finding::failed(format!("{rate} is too slow for a test of {LONGEST:?}")));
    }
    let mut last = Finding::failed("nothing was sent");
    for _ in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, &TokenBucketFilter, None)?;
        let offered = send_burst(&mut observed, trial, count)?;
        observed.wait(count + 1, clock::now() + LONGEST)?;
        let seen: Vec<Instant> = observed.departures().iter().flatten().copied().collect();
        let (finding, found) = judge(&offered, &seen, rate);
        last = Finding { why: format!("{}, seen {}", finding.why, observed.witness()), ..finding };
        // A busy host makes it slower now and then, never faster.
        if last.held || found > rate.bytes_per_second() * (1.0 + TOLERANCE) {
            break;
        }
    }
    Ok(last)
}

/// Sends a burst, and returns the times at which its datagrams were handed over.
fn send_burst(observed: &mut Observed, trial: &Trial, count: usize) -> io::Result<Vec<Instant>> {
    let mut times = Vec::with_capacity(count);
    for number in 1..=count {
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

/// Compares full packets, handed over and departed at these times, with a rate. Returns the finding
/// and the measured rate in bytes per second.
///
/// Packets that depart after the last was handed over had to wait, and show what holds them back.
/// Where none had to wait, either nothing holds them back, or the bucket was never empty.
pub(super) fn judge(offered: &[Instant], seen: &[Instant], rate: Rate) -> (Finding, f64) {
    let (Some(end), Some(offer)) = (offered.last(), rate_of(offered)) else {
        return (Finding::failed("hardly anything could be sent"), 0.0);
    };
    let asked = rate.bytes_per_second();
    let waited = seen.get(seen.partition_point(|at| at <= end)..).unwrap_or_default();
    let shown = if waited.len() >= WAITED { waited } else { seen };
    let Some(found) = rate_of(shown) else {
        let why = format!("{} of {} datagrams were seen to leave", seen.len(), offered.len());
        return (Finding::failed(why), 0.0);
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
        Finding {
            held: error <= TOLERANCE && !undecided,
            undecided,
            median_error: Some(error),
            p99: None,
            why,
        },
        found,
    )
}

/// Returns true if `count` packets at rate `offer` empty a bucket of that rate, which refills
/// meanwhile.
fn is_emptied(count: usize, offer: f64, rate: Rate) -> bool {
    let depth = (rate * DEPTH).count().max(LEAST_DEPTH as u64 * LAYER_2) as f64;
    count as f64 * LAYER_2 as f64 * (1.0 - rate.bytes_per_second() / offer) > depth
}

/// The rate of full packets at these times, in bytes per second.
fn rate_of(times: &[Instant]) -> Option<f64> {
    let [first, .., last] = times else { return None };
    let bytes = (times.len() as u64 - 1) * LAYER_2;
    Some(bytes as f64 / last.since(*first).as_secs_f64().max(1e-9))
}
