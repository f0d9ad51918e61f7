//! [`LaneDialing`]: decides when a source connects a lane, and when it tries again.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{id::Incarnation, time::Instant};

/// Time that a lane waits before the next attempt to connect. The wait doubles with each failure up
/// to `RETRY_LIMIT`, and starts over after a connection has lasted for `RETRY_LIMIT`
/// (docs/reference/protocol.md CONN-11).
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LIMIT: Duration = Duration::from_secs(1);

/// Time limit for opening a lane's TCP connection. While the network is interrupted, the kernel
/// doubles the intervals between its attempts. A new attempt of evb's connects within a second
/// after the network is back.
pub const OPENING: Duration = Duration::from_secs(2);

/// State of one lane's connection at a source.
#[derive(Clone, Debug)]
pub struct LaneDialing {
    /// The incarnation and address of the builder to connect to.
    incarnation: Incarnation,
    address: String,
    state: DialingState,
    wait: Duration,
    /// Time of the last attempt that a new entry in the roster caused.
    aimed: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialingState {
    /// The source has to connect at that time.
    Due(Instant),
    Dialing,
    Up(Instant),
    /// The builder is not in the roster.
    Over,
}

impl LaneDialing {
    /// Creates a lane to that incarnation of a builder, to be dialed at once.
    pub fn new(incarnation: Incarnation, address: String, now: Instant) -> Self {
        Self { incarnation, address, state: DialingState::Due(now), wait: RETRY_FIRST, aimed: None }
    }

    /// Returns the incarnation of the builder to connect to.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns the address of the builder to connect to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns true if the connection is up.
    pub fn is_up(&self) -> bool {
        matches!(self.state, DialingState::Up(_))
    }

    /// Returns true if the driver has a connection, or is opening one.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, DialingState::Up(_) | DialingState::Dialing)
    }

    /// Applies the builder's entry in a new roster. Returns true if the source has to connect
    /// again: the builder is another process, has another address, or was not in the previous
    /// roster. The first such entry lets the source connect at once; further ones once a second, so
    /// that rosters that change all the time cost no more than a builder that does not answer.
    pub fn aim(&mut self, incarnation: Incarnation, address: &str, now: Instant) -> bool {
        let is_same = self.incarnation == incarnation && self.address == address;
        if is_same && self.state != DialingState::Over {
            return false;
        }
        let at = match (self.state, self.aimed) {
            // The attempt that the entry before has caused is still to come.
            (DialingState::Due(at), Some(last)) if at == last => at,
            (_, Some(last)) => now.max(last + RETRY_LIMIT),
            (_, None) => now,
        };
        self.aimed = Some(at);
        (self.incarnation, self.wait, self.state) = (incarnation, RETRY_FIRST, DialingState::Due(at));
        address.clone_into(&mut self.address);
        true
    }

    /// Notes that the builder is no longer in the roster.
    pub fn end(&mut self) {
        self.state = DialingState::Over;
    }

    /// Requests a new connection, because builders now treat the source as another process. Returns
    /// false, and does nothing, if the builder is not in the roster.
    pub fn begin_anew(&mut self, now: Instant) -> bool {
        let is_over = self.state == DialingState::Over;
        if !is_over {
            self.state = DialingState::Due(now);
        }
        !is_over
    }

    /// Returns true once when it is time to connect.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let is_due = matches!(self.state, DialingState::Due(at) if at <= now);
        if is_due {
            self.state = DialingState::Dialing;
        }
        is_due
    }

    /// Returns the time at which to connect; `None` if the lane waits for no attempt.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            DialingState::Due(at) => Some(at),
            DialingState::Dialing | DialingState::Up(_) | DialingState::Over => None,
        }
    }

    /// Notes that the requested connection is up. Returns false if the lane had not requested a
    /// connection.
    pub fn handle_connected(&mut self, now: Instant) -> bool {
        let was_dialed = self.state == DialingState::Dialing;
        if was_dialed {
            self.state = DialingState::Up(now);
        }
        was_dialed
    }

    /// Notes that the connection broke, or could not be opened. Returns false if the lane had no
    /// connection and no attempt.
    pub fn handle_failed(&mut self, now: Instant) -> bool {
        match self.state {
            DialingState::Due(_) | DialingState::Over => return false,
            DialingState::Up(since) if now.since(since) >= RETRY_LIMIT => self.wait = RETRY_FIRST,
            DialingState::Up(_) | DialingState::Dialing => {}
        }
        self.state = DialingState::Due(now + self.wait);
        self.wait = (self.wait * 2).min(RETRY_LIMIT);
        true
    }
}
