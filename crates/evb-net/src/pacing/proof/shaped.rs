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
/// How many show the rate, after those that pass at once.
const SHOWN: usize = 80;
/// The depth of a bucket that is meant to shape: what `evbd provision` gives it is 10 ms of the rate at most.
const DEPTH: Duration = Duration::from_millis(12);
/// Passed over in any case: small buckets hold a few packets more.
const LEAST_SKIPPED: usize = 40;
/// How many departures a socket keeps for us to look at, with a margin: its receive buffer of 208 KiB holds about 270.
const BETWEEN_LOOKS: usize = 64;
/// What a socket's buffer and a class's queue of 1000 packets take.
const MOST_SKIPPED: usize = 750;
/// The longest that a proof takes.
const LONGEST: Duration = Duration::from_millis(240);
/// The rate may be this far from the asked one, as a fraction of it.
const TOLERANCE: f64 = 0.1;

/// How often a busy host may disturb it.
const ATTEMPTS: usize = 3;

/// What is offered must be this many times faster than what is to be held back.
const FASTER: f64 = 1.1;
/// Why nothing was proved and nothing disproved.
const TOO_SLOW: &str = "too slow to tell on this host";

/// Sends a burst and takes the rate at which its end departs.
pub(super) fn held_back(trial: &Trial) -> io::Result<Finding> {
    let Some(rate) = trial.rate else {
        return Ok(Finding::failed("no rate was given to compare with"));
    };
    let packets = |time: Duration| usize::try_from((rate * time).count() / LAYER_2).unwrap_or(usize::MAX);
    let skipped = packets(DEPTH).clamp(LEAST_SKIPPED, MOST_SKIPPED);
    // As many as depart within the time, of a slow rate a third of them for the depth of the bucket.
    let count = (skipped + SHOWN).min(packets(LONGEST));
    let skipped = skipped.min(count.saturating_sub(SHOWN).max(count / 3));
    if count < 12 {
        return Ok(Finding::failed(format!("{rate} is too slow for a proof of {LONGEST:?}")));
    }
    let mut last = Finding::failed("nothing was sent");
    for _ in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, &TokenBucketFilter, None)?;
        let offered = send_burst(&mut observed, trial, count)?;
        observed.wait(count + 1, clock::now() + LONGEST)?;
        let seen: Vec<Instant> = observed.departures().iter().flatten().copied().collect();
        let (finding, found) = judge(&offered, &seen, skipped, rate);
        last = Finding { why: format!("{}, seen {}", finding.why, observed.witness()), ..finding };
        // A busy host makes it slower now and then, never faster.
        if last.held || found > rate.bytes_per_second() * (1.0 + TOLERANCE) {
            break;
        }
    }
    Ok(last)
}

/// When each was handed over.
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

/// Compares full packets that were handed over and departed at these times with a rate, the first `skipped` left out; and the
/// rate found, in bytes per second.
pub(super) fn judge(offered: &[Instant], seen: &[Instant], skipped: usize, rate: Rate) -> (Finding, f64) {
    let lost = offered.len().saturating_sub(seen.len());
    let rest = seen.get(skipped..).unwrap_or_default();
    let (Some(found), Some(offer)) = (rate_of(rest), rate_of(offered)) else {
        return (
            Finding::failed(format!("{} of {} datagrams were seen to leave", seen.len(), offered.len())),
            0.0,
        );
    };
    let asked = rate.bytes_per_second();
    let error = (found - asked).abs() / asked;
    let slow = offer < asked * FASTER;
    let mut why = format!("{:.2} Mbit/s departed of {rate} asked", found * 8e-6);
    if lost > 0 {
        why = format!("{why}, {lost} of {} lost", offered.len());
    }
    if slow {
        why = format!("{why}, only {:.0} Mbit/s were offered: {TOO_SLOW}", offer * 8e-6);
    }
    (Finding { held: error <= TOLERANCE && !slow, median_error: Some(error), p99: None, why }, found)
}

/// The rate of full packets at these times, in bytes per second.
fn rate_of(times: &[Instant]) -> Option<f64> {
    let [first, .., last] = times else { return None };
    let bytes = (times.len() as u64 - 1) * LAYER_2;
    Some(bytes as f64 / last.since(*first).as_secs_f64().max(1e-9))
}
