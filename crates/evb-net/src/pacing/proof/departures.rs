//! Whether datagrams depart at the times asked for.

use std::{io, time::Duration};

use evb_core::{time::Instant, units::Rate};

use super::{Finding, Trial, observe::Observed, rounded};
use crate::{
    clock,
    pacing::{
        executor::{Executor, SocketRate, Software},
        gaps::Gaps,
    },
};

/// Datagrams in one proof.
const COUNT: usize = 8;
/// Time between two departures.
const GAP: Duration = Duration::from_millis(2);
/// Time from handing the datagrams over to the first departure; a slow host gets twice as much with
/// each attempt.
const AHEAD: Duration = Duration::from_millis(4);
/// Wait after the last departure; datagrams that come later count as lost.
const PATIENCE: Duration = Duration::from_millis(20);
/// A datagram that leaves earlier than its time by this much was not held. Without the offload they
/// all do, by `AHEAD` and more.
const EARLY: Duration = Duration::from_millis(1);
/// The median gap may be this far from the asked one, as a fraction of it.
const TOLERANCE: f64 = 0.1;
/// A busy host may be late now and then; it is never early.
const ATTEMPTS: u32 = 4;

/// Observed departures of datagrams that had departure times.
#[derive(Debug, PartialEq)]
pub(super) struct Timing {
    /// Datagrams that were observed.
    pub(super) seen: usize,
    /// Datagrams that left before their time.
    early: usize,
    /// Distance of the median gap from the requested one.
    pub(super) error: Option<f64>,
    /// The distance of a departure from its time, at the 99th percentile.
    pub(super) p99: Option<Duration>,
    /// Distance of a departure from its time, at the median.
    pub(super) median: Option<Duration>,
}

impl Timing {
    /// Compares departures `gap` apart with the observed times, which may be earlier by `delta`,
    /// where that is intended.
    pub(super) fn of(asked: &[Instant], seen: &[Option<Instant>], gap: Duration, delta: Duration) -> Self {
        let pairs: Vec<(Instant, Instant)> =
            asked.iter().zip(seen).filter_map(|(asked, seen)| Some((*asked, (*seen)?))).collect();
        let early = pairs.iter().filter(|(asked, seen)| *seen + EARLY + delta < *asked).count();
        let distance = |from: Instant, to: Instant| from.since(to).max(to.since(from));
        let mut off: Vec<Duration> = pairs
            .iter()
            .map(|(asked, seen)| {
                let handed = asked.shifted(-i64::try_from(delta.as_nanos()).unwrap_or(0));
                distance(*asked, *seen).min(distance(handed, *seen))
            })
            .collect();
        off.sort_unstable();
        let times: Vec<Instant> = pairs.iter().map(|(_, seen)| *seen).collect();
        Self {
            seen: pairs.len(),
            early,
            error: Gaps::between(&times).median_error(gap),
            p99: off.get((off.len() * 99).div_ceil(100).max(1) - 1).copied(),
            median: off.get(off.len() / 2).copied(),
        }
    }

    /// Returns true if departure times were kept.
    pub(super) fn holds(&self, count: usize) -> bool {
        self.seen == count && self.early == 0 && self.error.is_some_and(|error| error <= TOLERANCE)
    }

    fn words(&self, count: usize, gap: Duration, witness: &str) -> String {
        if self.seen == 0 {
            return format!("none of {count} datagrams was seen to leave; is the peer running?");
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
            "{lost}{early}median gap off by {error} of {gap:?}, departures within {:?}, seen {witness}",
            rounded(self.p99.unwrap_or_default())
        )
    }

    fn finding(&self, count: usize, gap: Duration, witness: &str) -> Finding {
        Finding {
            held: self.holds(count),
            undecided: false,
            median_error: self.error,
            p99: self.p99,
            why: self.words(count, gap, witness),
        }
    }
}

/// Datagrams handed over together, each with its departure time.
pub(super) fn by_kernel(executor: &dyn Executor, trial: &Trial, delta: Duration) -> io::Result<Finding> {
    let mut last = Finding::failed("nothing was sent");
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
        last = timing.finding(COUNT, GAP, observed.witness());
        let counts = observed.sender.collect()?;
        if counts.missed + counts.invalid > 0 {
            last.why = format!("{}; {} reported late, {} refused", last.why, counts.missed, counts.invalid);
        }
        if !punctual {
            // A datagram handed over after its time leaves at once, before any discipline holds it,
            // and proves nothing.
            last = last.unproved("this host handed the datagrams over too late");
        } else if last.held || timing.early > 0 {
            break;
        }
    }
    Ok(last)
}

/// Datagrams handed over together on a socket that has a rate; `fq` spaces them, others do not.
///
/// The rate is below `fq`'s `low_rate_threshold` of 550 kbit/s, since a faster flow may send
/// `initial_quantum` (ten packets of the device's MTU) unpaced.
pub(super) fn by_rate(executor: &SocketRate, trial: &Trial) -> io::Result<Finding> {
    /// Layer 2, of the smallest datagrams that no device pads.
    const LENGTH: usize = 100;
    let headers = if trial.to.is_ipv4() { 14 + 20 + 8 } else { 14 + 40 + 8 };
    let rate = Rate::from_bytes_per_second((LENGTH as u128 * 1_000_000_000 / GAP.as_nanos()) as u64);
    let mut last = Finding::failed("nothing was sent");
    for _ in 0..ATTEMPTS {
        let mut observed = Observed::open(trial, executor, Some(rate))?;
        // The flow's next departure is due by what it has sent: nothing, for a while.
        std::thread::sleep(GAP);
        let first = clock::now();
        for _ in 0..COUNT {
            observed.send(LENGTH - headers, None).map_err(io::Error::other)?;
        }
        observed.wait(COUNT + 1, first + GAP * COUNT as u32 + PATIENCE)?;
        let asked: Vec<Instant> = (0..COUNT as u32).map(|index| first + GAP * index).collect();
        let timing = Timing::of(&asked, observed.departures(), GAP, GAP);
        last = timing.finding(COUNT, GAP, observed.witness());
        if last.held || timing.early > 0 {
            break;
        }
    }
    Ok(last)
}

/// Sends datagrams at their times by the timer of its executor. This cannot disprove anything: it
/// measures the timer's precision on this host.
pub(super) fn by_timer(executor: &Software, trial: &Trial) -> io::Result<Finding> {
    const COUNT: usize = 32;
    const GAP: Duration = Duration::from_millis(1);
    let mut observed = Observed::open(trial, executor, None)?;
    // The timer belongs to a runtime; where we are called from one, ours needs a thread of its own.
    let asked = std::thread::scope(|scope| {
        let thread = scope.spawn(|| send_on_time(&mut observed, executor, COUNT, GAP));
        thread.join().map_err(|_| io::Error::other("the sending thread has ended"))?
    })?;
    observed.wait(COUNT + 1, clock::now() + PATIENCE)?;
    let timing = Timing::of(&asked, observed.departures(), GAP, Duration::ZERO);
    let waits = if executor.spins() { "spinning" } else { "a timer" };
    Ok(Finding {
        held: true,
        undecided: false,
        median_error: timing.error,
        p99: timing.p99,
        why: match (timing.median, timing.p99) {
            (Some(median), Some(p99)) => {
                format!(
                    "{waits} departs {:?} from the asked time at the median, {:?} at the worst of {COUNT}",
                    rounded(median),
                    rounded(p99)
                )
            }
            _ => format!("{waits}; its departures could not be seen"),
        },
    })
}

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
