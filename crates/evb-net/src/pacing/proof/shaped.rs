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
/// How many are sent: more than the depth of a bucket that is meant to shape.
const COUNT: usize = 120;
/// Those of the bucket's depth, which pass at once.
const SKIPPED: usize = 40;
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

/// What a burst showed.
pub(super) struct Shown {
    pub(super) finding: Finding,
    /// The rate that was seen, in bytes per second.
    rate: Option<f64>,
}

impl Shown {
    fn failed(why: String) -> Self {
        Self { finding: Finding::failed(why), rate: None }
    }
}

/// Sends a burst and takes the rate at which its end departs.
pub(super) fn held_back(trial: &Trial) -> io::Result<Finding> {
    let Some(rate) = trial.rate else {
        return Ok(Finding::failed("no rate was given to compare with"));
    };
    // As many as depart within the time, a third of them for the depth of the bucket.
    let possible = (rate * LONGEST).count() / LAYER_2;
    let count = COUNT.min(usize::try_from(possible).unwrap_or(COUNT));
    let skipped = SKIPPED.min(count / 3);
    if count < 12 {
        return Ok(Finding::failed(format!("{rate} is too slow for a proof of {LONGEST:?}")));
    }
    let mut last = Shown::failed("nothing was sent".into());
    for _ in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, &TokenBucketFilter, None)?;
        send_burst(&mut observed, trial, count)?;
        observed.wait(count + 1, clock::now() + LONGEST)?;
        let seen: Vec<Instant> = observed.departures().iter().flatten().copied().collect();
        last = judge(&seen, count, skipped, rate, observed.witness());
        // A busy host makes it slower now and then, never faster.
        let faster = last.rate.is_some_and(|found| found > rate.bytes_per_second());
        if last.finding.held || faster {
            break;
        }
        let offered = rate_of(&observed.queued());
        if offered.is_some_and(|offered| offered < rate.bytes_per_second() * FASTER) {
            let offered = offered.unwrap_or_default() * 8e-6;
            last.finding.why =
                format!("{}; only {offered:.0} Mbit/s were offered, {TOO_SLOW}", last.finding.why);
        }
    }
    Ok(last.finding)
}

fn send_burst(observed: &mut Observed, trial: &Trial, count: usize) -> io::Result<()> {
    for _ in 0..count {
        match observed.send(PAYLOAD - if trial.to.is_ipv4() { 0 } else { 20 }, None) {
            Ok(()) => {}
            Err(SendError::Full) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(())
}

/// The rate of full packets that departed at these times, the first `skipped` left out.
pub(super) fn judge(seen: &[Instant], count: usize, skipped: usize, rate: Rate, witness: &str) -> Shown {
    let lost = count - seen.len().min(count);
    if seen.len() < skipped + 2 {
        return Shown::failed(format!("{} of {count} datagrams were seen to leave", seen.len()));
    }
    let found = rate_of(&seen[skipped..]).unwrap_or_default();
    let error = (found - rate.bytes_per_second()).abs() / rate.bytes_per_second();
    let dropped = if lost > 0 { format!(", {lost} of {count} lost") } else { String::new() };
    let finding = Finding {
        held: error <= TOLERANCE,
        median_error: Some(error),
        p99: None,
        why: format!("{:.2} Mbit/s departed of {rate} asked{dropped}, seen {witness}", found * 8e-6),
    };
    Shown { finding, rate: Some(found) }
}

/// The rate of full packets at these times, in bytes per second.
fn rate_of(times: &[Instant]) -> Option<f64> {
    let (first, last) = (times.first()?, times.last()?);
    let bytes = (times.len() as u64 - 1) * LAYER_2;
    Some(bytes as f64 / last.since(*first).as_secs_f64().max(1e-9))
}
