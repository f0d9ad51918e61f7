//! [`LaneDialing`]: the connection of one lane, as the source sees it: connect, hold, connect again.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{id::Incarnation, time::Instant};

/// How long a lane waits before it tries again, doubled at each failure up to the limit, until a connection has lasted that
/// long (docs/reference/protocol.md CONN-11).
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LIMIT: Duration = Duration::from_secs(1);

/// How long a lane's TCP connection may take to come about. Behind a network that is cut, the kernel waits longer and longer
/// between its own tries; a new one comes through within a second of the network.
pub const OPENING: Duration = Duration::from_secs(2);

/// The connection of one lane, as the source sees it.
#[derive(Clone, Debug)]
pub struct LaneDialing {
    /// Whom it aims at: which life of the builder, and where.
    incarnation: Incarnation,
    address: String,
    state: State,
    wait: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be dialed then.
    Due(Instant),
    Dialing,
    Up(Instant),
    /// The builder is not in the roster.
    Over,
}

impl LaneDialing {
    /// A lane to that life of a builder, to be dialed at once.
    pub fn new(incarnation: Incarnation, address: String, now: Instant) -> Self {
        Self { incarnation, address, state: State::Due(now), wait: RETRY_FIRST }
    }

    /// Which life of the builder it is to reach.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Where it is to reach the builder.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether the connection stands.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Returns whether whoever drives it has a connection, or is making one.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::Up(_) | State::Dialing)
    }

    /// The roster has the builder so. Returns whether the connection is to be made anew: to another process, to another address, or
    /// because there was none.
    pub fn aim(&mut self, incarnation: Incarnation, address: &str, now: Instant) -> bool {
        let is_same = self.incarnation == incarnation && self.address == address;
        if is_same && self.state != State::Over {
            return false;
        }
        (self.incarnation, self.wait, self.state) = (incarnation, RETRY_FIRST, State::Due(now));
        address.clone_into(&mut self.address);
        true
    }

    /// The builder is not in the roster any more.
    pub fn end(&mut self) {
        self.state = State::Over;
    }

    /// The source is another process for builders: makes the connection anew, unless the lane is over. Returns whether it does.
    pub fn begin_anew(&mut self, now: Instant) -> bool {
        let is_over = self.state == State::Over;
        if !is_over {
            self.state = State::Due(now);
        }
        !is_over
    }

    /// Returns true when the lane is to be dialed now, once.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let is_due = matches!(self.state, State::Due(at) if at <= now);
        if is_due {
            self.state = State::Dialing;
        }
        is_due
    }

    /// Returns when the lane is to be dialed, if it waits for that.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Due(at) => Some(at),
            State::Dialing | State::Up(_) | State::Over => None,
        }
    }

    /// The dialed connection stands. Returns false if none was dialed.
    pub fn handle_connected(&mut self, now: Instant) -> bool {
        let was_dialed = self.state == State::Dialing;
        if was_dialed {
            self.state = State::Up(now);
        }
        was_dialed
    }

    /// The connection broke, or did not come about. Returns false if there was none to do so.
    pub fn handle_failed(&mut self, now: Instant) -> bool {
        match self.state {
            State::Due(_) | State::Over => return false,
            State::Up(since) if now.since(since) >= RETRY_LIMIT => self.wait = RETRY_FIRST,
            State::Up(_) | State::Dialing => {}
        }
        self.state = State::Due(now + self.wait);
        self.wait = (self.wait * 2).min(RETRY_LIMIT);
        true
    }
}
