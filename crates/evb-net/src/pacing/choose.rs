//! [`choose`]: selects an offload for `offload = "auto"`, or checks the requested offload, and
//! never uses an offload that was not seen to work.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::BorrowedFd,
    sync::Arc,
    time::Duration,
};

use evb_core::{
    offload::Offload,
    transport::Transport,
    units::{Bytes, Rate},
};

use super::{
    executor::{Etf, Executor, SocketRate, Software, TokenBucketFilter, Txtime},
    proof::{Proof, Trial, UNSENT, device_of, is_provisioned, prove_by, tso_train},
};
use crate::{sys_txtime::DepartureClock, timer::Timer};

/// The executor of departure times that was chosen for this host, and the reason for the choice.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Executor that prepares the sockets and realizes the departure times.
    pub executor: Arc<dyn Executor>,
    /// One sentence that states the choice and its reason.
    pub reason: String,
    /// Observations of every offload that was tried.
    pub proofs: Vec<Proof>,
}

/// Reason why the requested offload is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("offload = \"{offload}\": {why}; {}", remedy.as_deref().map_or_else(|| "offload = \"auto\" chooses one that works".into(), |remedy| format!("to make it work: {remedy}, or choose offload = \"auto\"")))]
pub struct NotProved {
    /// Offload that was requested.
    pub offload: Offload,
    /// Observation on which the refusal rests.
    pub why: String,
    /// Command or setting that would make the offload work.
    pub remedy: Option<String>,
}

/// Longest acceptable train of a paced TCP socket: sending with a timer spaces packets better than
/// longer trains do.
const TAME: Bytes = Bytes::kib(16);

/// Upper limit of the precision that a proof may yield: if the timer was later than this in the
/// proof, a disturbance delayed it once, and its lateness is not typical.
const COARSEST: Duration = Duration::from_millis(1);

/// Maximum number of paths that are tried, so that a start takes less than a second.
const MOST_TRIALS: usize = 4;

/// Chooses the requested offload if it works on all paths in `trials`; with `None`, chooses the
/// best offload that works on all of them. Without any path, chooses software. The function sends
/// packets and times them, usually for 40 to 200 ms per device. The function blocks the thread, so
/// it must not be called in an async task.
///
/// # Errors
/// [`NotProved`] if the requested offload does not work on one of the paths.
pub fn choose(requested: Option<Offload>, software: Software, trials: &[Trial]) -> Result<Choice, NotProved> {
    choose_by(requested, software, trials, &|offload, trial| prove_by(offload, trial, software))
}

/// All paths, each with the index of its device. The system is asked for the device only once for
/// each pair of source and destination address.
struct Paths {
    trials: Vec<(Trial, Option<u32>)>,
}

impl Paths {
    fn new(trials: &[Trial]) -> Self {
        let mut known = BTreeMap::new();
        let mut device =
            |trial: &Trial| *known.entry((trial.from, trial.to)).or_insert_with(|| device_of(trial));
        Self { trials: trials.iter().map(|trial| (*trial, device(trial))).collect() }
    }

    /// Returns the trials to run, at most `MOST_TRIALS`: one for each device and priority, and for
    /// token buckets also one for each destination, because token buckets distinguish destinations.
    fn to_try(&self, offload: Offload) -> Vec<Trial> {
        let mut keys = Vec::new();
        let mut found = Vec::new();
        for (trial, device) in &self.trials {
            let destination = (offload == Offload::Tbf).then_some((trial.to, trial.port));
            let key = (*device, trial.priority, destination);
            if found.len() < MOST_TRIALS && !keys.contains(&key) {
                keys.push(key);
                found.push(*trial);
            }
        }
        found
    }

    /// Returns true if all devices have token buckets.
    fn are_provisioned(&self) -> bool {
        let devices: BTreeSet<_> = self.trials.iter().map(|(_, device)| *device).collect();
        devices.into_iter().all(is_provisioned)
    }

    /// Returns the candidates in order of preference. `etf` is used only on request, since it drops
    /// late trains.
    fn candidates(&self) -> Vec<Offload> {
        let transport = self.trials.first().map_or(Transport::Tcp, |(trial, _)| trial.transport);
        let rated = self.trials.iter().all(|(trial, _)| trial.rate.is_some());
        let mut found = Vec::new();
        if rated && self.are_provisioned() {
            found.push(Offload::Tbf);
        }
        match transport {
            Transport::Tcp if rated => found.push(Offload::PacingRate),
            Transport::Tcp => {}
            Transport::Udp => found.push(Offload::Txtime),
        }
        found
    }
}

/// Chooses how departure times are kept: the requested offload if it passes its proof, or without a
/// request the first candidate that passes, or else the software.
fn choose_by(
    requested: Option<Offload>,
    software: Software,
    trials: &[Trial],
    prove: &dyn Fn(Offload, &Trial) -> Proof,
) -> Result<Choice, NotProved> {
    let mut proofs = Vec::new();
    let paths = Paths::new(trials);
    let wanted = match requested {
        _ if trials.is_empty() => Vec::new(),
        Some(Offload::Software) => Vec::new(),
        Some(offload) => vec![offload],
        None => paths.candidates(),
    };
    let mut against = Vec::new();
    for offload in wanted {
        let seen: Vec<Proof> = paths.to_try(offload).iter().map(|trial| prove(offload, trial)).collect();
        // A token bucket that was requested and is set up is accepted even if this host is too slow
        // for the proof.
        let stands = |proof: &Proof| {
            offload == Offload::Tbf && proof.undecided && requested.is_some() && paths.are_provisioned()
        };
        let failed = seen.iter().find(|proof| !proof.held && !stands(proof)).cloned();
        let objection = match &failed {
            Some(proof) => Some(proof.to_string()),
            None if requested.is_none() => untamed(offload, trials),
            None => None,
        };
        proofs.extend(seen.iter().cloned());
        match (objection, requested) {
            (None, _) => {
                let reason = seen.first().map_or_else(String::new, ToString::to_string);
                let fastest = trials.iter().filter_map(|trial| trial.rate).max();
                let p99 = seen.iter().filter_map(|proof| proof.p99).max();
                return Ok(Choice { executor: executor_of(offload, software, fastest, p99), reason, proofs });
            }
            (Some(_), Some(offload)) => {
                let (why, remedy) =
                    failed.map_or_else(Default::default, |proof| (proof.to_string(), proof.remedy));
                return Err(NotProved { offload, why, remedy });
            }
            (Some(objection), None) => against.push(objection),
        }
    }
    Ok(by_software(software, trials, prove, proofs, &against))
}

/// Chooses software, with the precision that was measured on this host.
fn by_software(
    software: Software,
    trials: &[Trial],
    prove: &dyn Fn(Offload, &Trial) -> Proof,
    mut proofs: Vec<Proof>,
    against: &[String],
) -> Choice {
    let means = if software.spins() { "by spinning" } else { "by a timer" };
    let mut reason = format!("this process sends each packet at its time {means}");
    let mut executor = software;
    // If no packet leaves, the other offloads failed for the same reason.
    let mut is_unsent = false;
    if let Some(trial) = trials.first() {
        let proof = prove(Offload::Software, trial);
        reason = format!("{reason}; {}", proof.why);
        if let Some(remedy) = &proof.remedy {
            reason = format!("{reason}; {remedy}");
            is_unsent = true;
        }
        if let Some(p99) = proof.p99 {
            executor = software.with_precision(p99.clamp(software.precision(), COARSEST));
        }
        proofs.push(proof);
    }
    if !against.is_empty() && !is_unsent {
        reason = format!("{reason}; {}", against.join("; "));
    }
    Choice { executor: Arc::new(executor), reason, proofs }
}

/// Returns the reason why an offload that works is still worse than software, if there is one.
fn untamed(offload: Offload, trials: &[Trial]) -> Option<String> {
    let (Offload::PacingRate, Some(trial)) = (offload, trials.first()) else { return None };
    if trial.transport != Transport::Tcp {
        return None;
    }
    let rate = trials.iter().filter_map(|trial| trial.rate).max()?;
    let tso = tso_train(trial);
    let burst = tso.length(rate, UNSENT, Bytes::new(u64::MAX));
    let setting = match tso.rtt_log {
        Some(1..) => "sysctl -w net.ipv4.tcp_tso_rtt_log=0 and ",
        _ => "",
    };
    (burst > TAME).then(|| {
        format!("pacing-rate works, but TCP would send trains of up to {burst} at line rate ({tso}); {setting}a rate below 134 Mbit/s would shorten them, and until then evb's own timers pace")
    })
}

/// Returns the executor of an offload; `fastest` is the highest rate of a lane, and `p99` how exact
/// the proof was.
fn executor_of(
    offload: Offload,
    software: Software,
    fastest: Option<Rate>,
    p99: Option<Duration>,
) -> Arc<dyn Executor> {
    let paced = SocketRate::new(UNSENT);
    match offload {
        Offload::Software => Arc::new(software),
        Offload::PacingRate => Arc::new(fastest.map_or(paced, |rate| paced.up_to(rate))),
        Offload::Txtime => Arc::new(Seen::new(Txtime, p99)),
        Offload::Etf => Arc::new(Seen::new(Etf, p99)),
        Offload::Tbf => Arc::new(TokenBucketFilter),
    }
}

/// An executor with the precision that its proof has measured.
#[derive(Debug)]
struct Seen<E> {
    executor: E,
    precision: Duration,
}

impl<E: Executor> Seen<E> {
    fn new(executor: E, p99: Option<Duration>) -> Self {
        let least = executor.precision();
        Self { executor, precision: p99.map_or(least, |p99| p99.clamp(least, COARSEST)) }
    }
}

impl<E: Executor> Executor for Seen<E> {
    fn offload(&self) -> Offload {
        self.executor.offload()
    }

    fn lead(&self) -> Duration {
        self.executor.lead()
    }

    fn precision(&self) -> Duration {
        self.precision
    }

    fn prepare(&self, socket: BorrowedFd<'_>, rate: Option<Rate>) -> io::Result<()> {
        self.executor.prepare(socket, rate)
    }

    fn timer(&self) -> io::Result<Timer> {
        self.executor.timer()
    }

    fn clock(&self) -> Option<DepartureClock> {
        self.executor.clock()
    }
}
