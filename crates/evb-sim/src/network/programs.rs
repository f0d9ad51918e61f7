//! [`Programs`]: the programs of the hosts, each of which sleeps, waits for a core, or runs.

use core::time::Duration;
use std::collections::VecDeque;

use evb_core::{
    rng::Rng,
    time::{Instant, earlier},
    units::Bytes,
};

use super::HostIndex;
use crate::hosts::Program;

/// The programs of all hosts.
#[derive(Debug)]
pub(super) struct Programs {
    hosts: Vec<Host>,
    /// Number of idle cores.
    idle: usize,
    /// Programs that wait for a core, in the order in which they get one.
    waiting: VecDeque<HostIndex>,
    running: Option<Run>,
    rng: Rng,
}

#[derive(Debug)]
struct Host {
    program: Program,
    state: State,
    /// The earliest time at which there is new work for the program, if it sleeps or occupies a
    /// core; `None` if there is no new work.
    next: Option<Instant>,
    /// The time at which the sleeping program wakes up to do the work.
    wakes: Instant,
}

/// The run of the program that is executing now.
#[derive(Debug)]
struct Run {
    host: HostIndex,
    spent: Duration,
    /// The socket of the last datagram sent or received. Consecutive datagrams of one socket count
    /// as one system call.
    socket: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// The program waits for a core. `slept` is true if the program has just woken up, and false if
    /// it goes on without having slept.
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

    /// Notes that there is work for a host's program from `at` on. Returns the time of the
    /// program's wake-up if the caller must schedule a wake-up.
    pub(super) fn wake_at(&mut self, host: HostIndex, at: Instant, now: Instant) -> Option<Instant> {
        let Host { program, state, next, wakes } = &mut self.hosts[host];
        match state {
            // The program will find the work when it gets a core.
            State::Waiting { .. } => None,
            State::OnCore => {
                *next = earlier(*next, Some(at));
                None
            }
            State::Asleep => {
                let at = at.max(now);
                // With recorded delays, bytes that arrive before the wake-up do not make it
                // earlier.
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

    /// Wakes up a host's program, if `now` is the time of its wake-up; outdated wake-ups are
    /// ignored.
    pub(super) fn handle_wake(&mut self, host: HostIndex, now: Instant) {
        let own = &mut self.hosts[host];
        if own.state == State::Asleep && own.next.is_some() && own.wakes == now {
            own.next = None;
            own.state = State::Waiting { slept: true };
            self.waiting.push_back(host);
        }
    }

    /// Gives a free core to the next waiting program, and returns its host.
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

    /// Charges the running program for system calls and bytes. Returns the processor time of the
    /// present run so far; zero if no program is running.
    pub(super) fn spend(&mut self, calls: u32, bytes: Bytes) -> Duration {
        let Some(run) = &mut self.running else { return Duration::ZERO };
        run.spent += self.hosts[run.host].program.processor.of(calls, bytes);
        run.spent
    }

    /// Charges the running program for a datagram that it sends to or receives from a socket.
    /// Returns the processor time of the present run so far.
    pub(super) fn spend_on_datagram(&mut self, socket: usize, bytes: Bytes) -> Duration {
        let last = self.running.as_mut().and_then(|run| run.socket.replace(socket));
        self.spend(u32::from(last != Some(socket)), bytes)
    }

    /// Ends the current run, whose output is complete. Returns the host of the run, and the time
    /// for which the program occupies its core.
    pub(super) fn finish(&mut self) -> Option<(HostIndex, Duration)> {
        self.running.take().map(|run| (run.host, run.spent))
    }

    /// Takes a program off its core. Returns the time of the program's next wake-up if the caller
    /// must schedule a wake-up.
    pub(super) fn handle_done(&mut self, host: HostIndex, took: Duration, now: Instant) -> Option<Instant> {
        self.idle += 1;
        let own = &mut self.hosts[host];
        let next = own.next.take();
        // A program that finds new work does not go to sleep. A run that takes no time cannot have
        // received new work.
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
