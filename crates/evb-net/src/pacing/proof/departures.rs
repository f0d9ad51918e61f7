//! The proof that datagrams depart at the requested times.

use std::{io, time::Duration};

use evb_core::{time::Instant, units::Rate};

use super::{Trial, TrialResult, observe::Observed, rounded};
use crate::{
    clock,
    pacing::{
        executor::{Executor, SocketRate, Software},
        gaps::Gaps,
    },
};

/// Number of datagrams in one proof.
const COUNT: usize = 8;
/// Requested time between two departures.
const GAP: Duration = Duration::from_millis(2);
/// Time from the handover of the datagrams to the first departure; the time doubles with each
/// attempt, for slow hosts.
const AHEAD: Duration = Duration::from_millis(4);
/// Wait after the last departure; datagrams that are seen later count as lost.
const PATIENCE: Duration = Duration::from_millis(20);
/// A datagram that leaves earlier than its departure time by more than this was not held. Without
/// the offload, all datagrams leave early by `AHEAD` or more.
const EARLY: Duration = Duration::from_millis(1);
/// Largest allowed distance of the median gap from the requested gap, as a fraction of the
/// requested gap.
const TOLERANCE: f64 = 0.1;
/// Maximum number of attempts: a busy host may delay some datagrams, but never sends them early.
const ATTEMPTS: u32 = 4;

/// Observed departures of datagrams that had departure times.
#[derive(Debug, PartialEq)]
pub(super) struct Timing {
    /// Number of datagrams that were observed.
    pub(super) seen: usize,
    /// Number of datagrams that left before their departure times.
    early: usize,
    /// Distance of the median gap from the requested gap, as a fraction of the requested gap.
    pub(super) error: Option<f64>,
    /// Distance of a departure from its requested time, at the 99th percentile.
    pub(super) p99: Option<Duration>,
    /// Distance of a departure from its requested time, at the median.
    pub(super) median: Option<Duration>,
}

impl Timing {
    /// Compares the requested departure times, `gap` apart, with the observed times, which may be
    /// earlier by `delta` if the queueing discipline releases datagrams in advance.
    pub(super) fn of(asked: &[Instant], seen: &[Option<Instant>], gap: Duration, delta: Duration) -> Self {
        let pairs: Vec<(Instant, Instant)> =
            asked.iter().zip(seen).filter_map(|(asked, seen)| Some((*asked, (*seen)?))).collect();
        let early = pairs.iter().filter(|(asked, seen)| *seen + EARLY + delta < *asked).count();
        let distance = |from: Instant, to: Instant| from.since(to).max(to.since(from));
        // A datagram may leave when it was asked, or earlier by `delta`.
        let mut deviations: Vec<Duration> = pairs
            .iter()
            .map(|(asked, seen)| {
                let handed = asked.shifted(-i64::try_from(delta.as_nanos()).unwrap_or(0));
                distance(*asked, *seen).min(distance(handed, *seen))
            })
            .collect();
        deviations.sort_unstable();
        let times: Vec<Instant> = pairs.iter().map(|(_, seen)| *seen).collect();
        Self {
            seen: pairs.len(),
            early,
            error: Gaps::between(&times).median_error(gap),
            p99: deviations.get((deviations.len() * 99).div_ceil(100).max(1) - 1).copied(),
            median: deviations.get(deviations.len() / 2).copied(),
        }
    }

    /// Returns true if all `count` datagrams were seen and their departure times were kept.
    pub(super) fn holds(&self, count: usize) -> bool {
        self.seen == count && self.early == 0 && self.error.is_some_and(|error| error <= TOLERANCE)
    }

    /// Describes how exactly the test packets left; `witness` says who saw them.
    fn words(&self, count: usize, gap: Duration, witness: &str) -> String {
        if self.seen == 0 {
            return format!(
                "none of {count} test packets was seen to leave; if the host that they go to is down, start it, and try again"
            );
        }
        let lost = if self.seen < count {
            format!("{} of {count} lost, ", count - self.seen)
        } else {
            String::new()
        };
        let early =
            if self.early > 0 { format!("{} left before their time, ", self.early) } else { String::new() };
        let error = self.error.map_or_else(String::new, |error| format!("{:.2} %", error * 100.0));
        format!(
            "{lost}{early}a packet each {gap:?}: typical spacing wrong by {error}, 99 of 100 within {:?} of their times (watched {witness})",
            rounded(self.p99.unwrap_or_default())
        )
    }

    /// Returns the result of a trial with `count` packets, each `gap` apart.
    fn result(&self, count: usize, gap: Duration, witness: &str) -> TrialResult {
        TrialResult {
            held: self.holds(count),
            undecided: false,
            median_error: self.error,
            p99: self.p99,
            why: self.words(count, gap, witness),
        }
    }
}

/// Tests an executor in the kernel: hands over all datagrams together, each with its departure
/// time.
pub(super) fn by_kernel(executor: &dyn Executor, trial: &Trial, delta: Duration) -> io::Result<TrialResult> {
    let mut last = TrialResult::failed("nothing was sent");
    for attempt in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, executor, None)?;
        let first = clock::now() + AHEAD * (1 << attempt) + delta;
        let asked: Vec<Instant> = (0..COUNT as u32).map(|index| first + GAP * index).collect();
        for at in &asked {
            observed.send(64, Some(*at)).map_err(io::Error::other)?;
        }
        let punctual = clock::now() + delta < first;
        observed.wait(COUNT + 1, first + GAP * COUNT as u32 + PATIENCE)?;
        let timing = Timing::of(&asked, observed.departures(), GAP, delta);
        last = timing.result(COUNT, GAP, observed.witness());
        let counts = observed.sender.collect()?;
        if counts.missed + counts.invalid > 0 {
            last.why = format!("{}; {} reported late, {} refused", last.why, counts.missed, counts.invalid);
        }
        if !punctual {
            // A datagram that is handed over after its departure time leaves at once with any
            // discipline, and proves nothing.
            last = last.unproved("this host handed the datagrams over too late");
        } else if last.held || timing.early > 0 {
            break;
        }
    }
    Ok(last)
}

/// Tests the pacing of a UDP socket: hands over all datagrams together on a socket that has a rate.
/// The queueing discipline `fq` spaces these datagrams; other disciplines do not.
///
/// The rate is below `fq`'s `low_rate_threshold` of 550 kbit/s, since a faster flow may send
/// `initial_quantum` (ten packets of the device's MTU) unpaced.
pub(super) fn by_rate(executor: &SocketRate, trial: &Trial) -> io::Result<TrialResult> {
    /// Length of the test datagrams on layer 2: small, but long enough that no device pads them.
    const LENGTH: usize = 100;
    let headers = if trial.to.is_ipv4() { 14 + 20 + 8 } else { 14 + 40 + 8 };
    let rate = Rate::from_bytes_per_second((LENGTH as u128 * 1_000_000_000 / GAP.as_nanos()) as u64);
    let mut last = TrialResult::failed("nothing was sent");
    for _ in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, executor, Some(rate))?;
        // The pause lets `fq` forget the datagram that `open` sent, so that the flow's next
        // datagram may depart at once.
        std::thread::sleep(GAP);
        let first = clock::now();
        for _ in 0..COUNT {
            observed.send(LENGTH - headers, None).map_err(io::Error::other)?;
        }
        observed.wait(COUNT + 1, first + GAP * COUNT as u32 + PATIENCE)?;
        let asked: Vec<Instant> = (0..COUNT as u32).map(|index| first + GAP * index).collect();
        let timing = Timing::of(&asked, observed.departures(), GAP, GAP);
        last = timing.result(COUNT, GAP, observed.witness());
        if last.held || timing.early > 0 {
            break;
        }
    }
    Ok(last)
}

/// Sends datagrams at their departure times with the executor's timer. This test cannot fail; it
/// measures the precision of the timer on this host.
pub(super) fn by_timer(executor: &Software, trial: &Trial) -> io::Result<TrialResult> {
    const COUNT: usize = 32;
    const GAP: Duration = Duration::from_millis(1);
    let mut observed = Observed::open(trial, executor, None)?;
    // The timer needs a tokio runtime. The caller may already run inside a runtime, so the new
    // runtime gets a thread of its own.
    let asked = std::thread::scope(|scope| {
        let thread = scope.spawn(|| send_on_time(&mut observed, executor, COUNT, GAP));
        thread.join().map_err(|_| io::Error::other("the sending thread has ended"))?
    })?;
    observed.wait(COUNT + 1, clock::now() + PATIENCE)?;
    let timing = Timing::of(&asked, observed.departures(), GAP, Duration::ZERO);
    let waits = if executor.spins() { "spinning" } else { "a timer" };
    Ok(TrialResult {
        held: true,
        undecided: false,
        median_error: timing.error,
        p99: timing.p99,
        why: match (timing.median, timing.p99) {
            (Some(median), Some(p99)) => {
                format!(
                    "of {COUNT} packets sent by {waits}, the typical one left {:?} off its time, and the worst {:?}",
                    rounded(median),
                    rounded(p99)
                )
            }
            _ => format!("this host does not show when packets sent by {waits} leave"),
        },
    })
}

/// Sends packets at regular times by the timer, and returns the times at which they should leave.
fn send_on_time(
    observed: &mut Observed,
    executor: &Software,
    count: usize,
    gap: Duration,
) -> io::Result<Vec<Instant>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let mut timer = executor.timer()?;
        let first = clock::now() + gap;
        let mut asked = Vec::with_capacity(count);
        for index in 0..count as u32 {
            let at = first + gap * index;
            timer.arm(Some(at));
            timer.expired().await;
            observed.send(64, None).map_err(io::Error::other)?;
            asked.push(at);
        }
        Ok(asked)
    })
}
