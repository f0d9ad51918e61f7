//! [`Programs`]: the states of the hosts' programs, which sleep, wait for a core or run.

use core::time::Duration;
use std::collections::VecDeque;

use evb_core::{
    rng::Rng,
    time::{Instant, earlier},
    units::Bytes,
};

use super::HostIndex;
use crate::hosts::Program;

/// All hosts' programs.
#[derive(Debug)]
pub(super) struct Programs {
    hosts: Vec<Host>,
    /// Number of idle cores.
    idle: usize,
    /// Programs that wait for a core, in their order.
    waiting: VecDeque<HostIndex>,
    running: Option<Run>,
    rng: Rng,
}

#[derive(Debug)]
struct Host {
    program: Program,
    state: State,
    /// The time since which there is something to do again, for a program on a core; for one
    /// asleep, the time from which there is something to do.
    next: Option<Instant>,
    /// The time at which a program that is asleep wakes up for it.
    wakes: Instant,
}

/// The current run, in virtual time.
#[derive(Debug)]
struct Run {
    host: HostIndex,
    spent: Duration,
    /// The socket of the last datagram: a train of them is one system call.
    socket: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// The program waits for a core; `slept` if it has just woken up.
    Waiting {
        slept: bool,
    },
    OnCore,
}

impl Programs {
    pub(super) fn new(programs: Vec<Program>, cores: Option<usize>, rng: Rng) -> Self {
        let host = |program| Host { program, state: State::Asleep, next: None, wakes: Instant::ZERO };
        Self {
            hosts: programs.into_iter().map(host).collect(),
            idle: cores.unwrap_or(usize::MAX).max(1),
            waiting: VecDeque::new(),
            running: None,
            rng,
        }
    }

    /// Notes that there is something to do for the host at `at`. Returns the time of its wake-up,
    /// if that has to be scheduled.
    pub(super) fn wake_at(&mut self, host: HostIndex, at: Instant, now: Instant) -> Option<Instant> {
        let Host { program, state, next, wakes } = &mut self.hosts[host];
        match state {
            // The next run will read all that is there.
            State::Waiting { .. } => None,
            State::OnCore => {
                *next = earlier(*next, Some(at));
                None
            }
            State::Asleep => {
                let at = at.max(now);
                // A recorded wake-up is not shortened by bytes that arrive before it.
                if !program.wake_up.is_of_each() && next.is_some_and(|since| since <= at) {
                    return None;
                }
                let wakes_up = at + program.wake_up.draw(&mut self.rng);
                let is_first = next.is_none() || wakes_up < *wakes;
                *next = Some(next.map_or(at, |since| since.min(at)));
                if !is_first {
                    return None;
                }
                *wakes = wakes_up;
                Some(wakes_up)
            }
        }
    }

    /// Wakes the program up, if this is the time of its wake-up.
    pub(super) fn handle_wake(&mut self, host: HostIndex, now: Instant) {
        let own = &mut self.hosts[host];
        if own.state == State::Asleep && own.next.is_some() && own.wakes == now {
            own.next = None;
            own.state = State::Waiting { slept: true };
            self.waiting.push_back(host);
        }
    }

    /// Returns the next program that gets a core.
    pub(super) fn start(&mut self) -> Option<HostIndex> {
        if self.idle == 0 {
            return None;
        }
        let host = self.waiting.pop_front()?;
        self.idle -= 1;
        let Host { program, state, .. } = &mut self.hosts[host];
        let slept = *state == State::Waiting { slept: true };
        *state = State::OnCore;
        let woken = if slept { program.processor.wake_up } else { Duration::ZERO };
        self.running = Some(Run { host, spent: woken + program.processor.call, socket: None });
        Some(host)
    }

    /// Charges the running program for its calls and bytes. Returns the time from the start of its
    /// run at which they are finished; zero outside of runs.
    pub(super) fn spend(&mut self, calls: u32, bytes: Bytes) -> Duration {
        let Some(run) = &mut self.running else { return Duration::ZERO };
        run.spent += self.hosts[run.host].program.processor.of(calls, bytes);
        run.spent
    }

    /// Does the same for a datagram of a socket.
    pub(super) fn spend_on_datagram(&mut self, socket: usize, bytes: Bytes) -> Duration {
        let last = self.running.as_mut().and_then(|run| run.socket.replace(socket));
        self.spend(u32::from(last != Some(socket)), bytes)
    }

    /// Ends the run, as far as the machines are concerned. Returns its host, and the time for which
    /// the program keeps its core.
    pub(super) fn finish(&mut self) -> Option<(HostIndex, Duration)> {
        self.running.take().map(|run| (run.host, run.spent))
    }

    /// Takes the program off its core. Returns the time of its next wake-up, if that has to be
    /// scheduled.
    pub(super) fn handle_done(&mut self, host: HostIndex, took: Duration, now: Instant) -> Option<Instant> {
        self.idle += 1;
        let own = &mut self.hosts[host];
        let next = own.next.take();
        // A program that finds something to do does not go to sleep. A program that takes no time
        // never finds anything.
        if !took.is_zero() && next.is_some_and(|at| at <= now) {
            own.state = State::Waiting { slept: false };
            self.waiting.push_back(host);
            return None;
        }
        own.state = State::Asleep;
        self.wake_at(host, next?, now)
    }
}

#[cfg(test)]
mod tests;
