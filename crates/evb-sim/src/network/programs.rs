//! [`Programs`]: which hosts' programs sleep, wait for a core or run.

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
    /// Cores that idle.
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
    /// On a core: since when there is something to do again. Asleep: since when there is, or will be.
    next: Option<Instant>,
    /// Asleep: when it wakes up for that.
    wakes: Instant,
}

/// The run of now, in virtual time.
#[derive(Debug)]
struct Run {
    host: HostIndex,
    spent: Duration,
    /// The socket of the last datagram: a train of them is one call.
    socket: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// For a core; `slept`: after a wake-up.
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

    /// There is something to do for the host at `at`. Returns when it wakes up for it, if that has to be scheduled.
    pub(super) fn wake_at(&mut self, host: HostIndex, at: Instant, now: Instant) -> Option<Instant> {
        let Host { program, state, next, wakes } = &mut self.hosts[host];
        match state {
            // It will see all that is there.
            State::Waiting { .. } => None,
            State::OnCore => {
                *next = earlier(*next, Some(at));
                None
            }
            State::Asleep => {
                let at = at.max(now);
                // A recorded wake-up is no shorter for what comes meanwhile.
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

    /// That time has come.
    pub(super) fn handle_wake(&mut self, host: HostIndex, now: Instant) {
        let own = &mut self.hosts[host];
        if own.state == State::Asleep && own.next.is_some() && own.wakes == now {
            own.next = None;
            own.state = State::Waiting { slept: true };
            self.waiting.push_back(host);
        }
    }

    /// The next program that gets a core.
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

    /// Charges the running program for its calls and bytes. Returns how long after the start of its run they
    /// are done; zero outside of runs.
    pub(super) fn spend(&mut self, calls: u32, bytes: Bytes) -> Duration {
        let Some(run) = &mut self.running else { return Duration::ZERO };
        run.spent += self.hosts[run.host].program.processor.of(calls, bytes);
        run.spent
    }

    /// The same for a datagram of a socket.
    pub(super) fn spend_on_datagram(&mut self, socket: usize, bytes: Bytes) -> Duration {
        let last = self.running.as_mut().and_then(|run| run.socket.replace(socket));
        self.spend(u32::from(last != Some(socket)), bytes)
    }

    /// The run is over, as far as the machines are concerned. Returns whose it was, and for how long it keeps its core.
    pub(super) fn finish(&mut self) -> Option<(HostIndex, Duration)> {
        self.running.take().map(|run| (run.host, run.spent))
    }

    /// The program leaves its core. Returns when it wakes up next, if that has to be scheduled.
    pub(super) fn handle_done(&mut self, host: HostIndex, took: Duration, now: Instant) -> Option<Instant> {
        self.idle += 1;
        let own = &mut self.hosts[host];
        let next = own.next.take();
        // A program that finds something to do does not go to sleep. One that takes no time never finds any.
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
