//! The signals that ask the process to end, or that mean nothing to it: docs/reference/operation.md
//! has the table.

#[cfg(test)]
mod tests;

use std::{
    fs,
    future::{pending, poll_fn},
    io,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use evb_config::complain;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Exit code of a process that ended before its ledger was closed: 130, as a shell reports SIGINT.
const LEFT: i32 = 130;

/// Time after a first SIGINT within which another one means the same: one press of Ctrl-C may reach
/// the process twice.
const SAME: Duration = Duration::from_secs(1);

/// Signals by which systems, shells, terminals and batch systems ask a program to end.
const ENDING: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::XCPU, Signal::POWER];

/// Signals that would end the process by default, but mean nothing to it.
const MEANINGLESS: [Signal; 7] =
    [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::IO, Signal::STKFLT];

/// The requests to end the process.
pub(super) struct Signals {
    ending: Vec<(Signal, unix::Signal)>,
    asked: ReceivedSignals,
}

impl Signals {
    /// Notes all signals from now on. What was ignored when the process began, as `nohup` and
    /// scripts arrange it, stays ignored.
    pub(super) fn new() -> io::Result<Self> {
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let counts = |one: &Signal| ignored & mask(*one) == 0;
        let listen = |one: Signal| signal(SignalKind::from_raw(one.as_raw()));
        for one in MEANINGLESS.into_iter().filter(counts) {
            // The handler stays when the receiver is dropped.
            drop(listen(one)?);
        }
        let ending = ENDING.into_iter().filter(counts).map(|one| Ok((one, listen(one)?)));
        Ok(Self { ending: ending.collect::<io::Result<_>>()?, asked: ReceivedSignals::default() })
    }

    /// Waits until the process is first asked to end. Afterwards, waits for a second SIGINT, at
    /// which the process ends at once.
    pub(super) async fn next(&mut self) {
        loop {
            let one = poll_fn(|cx| self.poll(cx)).await;
            match self.asked.again(one, Instant::now()) {
                Effect::None => {}
                Effect::Drain => break,
                Effect::Leave => {
                    complain!(
                        "interrupted again: this process leaves at once, without a report; its events under way may be lost, and `evbd verify` of the run's files shows which are missing"
                    );
                    std::process::exit(LEFT);
                }
            }
        }
        complain!(
            "stopping: no more triggers; events under way are built first (interrupt again after a second to leave at once)"
        );
    }

    /// Polls for a signal that asks for the end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        for (one, signal) in &mut self.ending {
            if signal.poll_recv(cx).is_ready() {
                return Poll::Ready(*one);
            }
        }
        Poll::Pending
    }
}

/// Waits for another SIGINT or SIGTERM, after the last run of the process.
pub(super) async fn another() {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = signals else { return pending().await };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// The effect of a signal.
#[derive(Debug, PartialEq)]
enum Effect {
    None,
    Drain,
    Leave,
}

/// The signals that have come.
#[derive(Debug, Default)]
struct ReceivedSignals {
    any: bool,
    interrupted: Option<Instant>,
}

impl ReceivedSignals {
    /// Returns the effect of another signal.
    fn again(&mut self, one: Signal, now: Instant) -> Effect {
        // One press of Ctrl-C may come twice, so only a later one asks for more.
        if one == Signal::INT {
            let first = *self.interrupted.get_or_insert(now);
            if now.duration_since(first) >= SAME {
                return Effect::Leave;
            }
        }
        if std::mem::replace(&mut self.any, true) { Effect::None } else { Effect::Drain }
    }
}

/// Returns the signals that are ignored according to `/proc/self/status`, one bit for each.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn mask(one: Signal) -> u64 {
    1 << (one.as_raw() - 1)
}
