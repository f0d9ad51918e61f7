//! The log of the peers that one listener refused. Its limits ensure that a port scanner neither
//! fills the disk nor keeps other peers out.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::Display,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    time::Duration,
};

use evb_core::{
    session::Lines,
    time::Instant,
    wire::{control::RefusalReport, preamble::PreambleError},
};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::HandshakeError;
use crate::clock;

/// Number of failed handshakes in a row after which an address is blocked; each second, `FORGIVEN`
/// of an address's failures are forgotten.
const FAILURES: NonZeroU32 = NonZeroU32::new(32).expect("not zero");
const FORGIVEN: NonZeroU32 = NonZeroU32::new(8).expect("not zero");

/// Time for which an address is blocked after too many failed handshakes; the next failure blocks
/// the address again.
const BARRED: Duration = Duration::from_secs(1);

/// Number of log lines about one address in a burst; one more line is allowed every ten seconds.
const LINES: NonZeroU32 = NonZeroU32::new(3).expect("not zero");
const LINE_EACH: Duration = Duration::from_secs(10);

/// Number of addresses that are tracked. While more addresses are active than can be tracked, the
/// limits per address are suspended, and only the limit that all addresses share applies.
const ADDRESSES: usize = 1024;

/// Maximum number of handshakes that one address may have in progress at one listener, unless
/// [`RefusalLog::limit_of_one`] sets another.
const GREETINGS_OF_ONE: usize = 32;

/// Logs refused connections: on average at most one per second, with bursts of five, and fewer for
/// each address. Further refusals are only counted. The log also blocks addresses whose handshakes
/// fail again and again.
#[derive(Debug)]
pub struct RefusalLog {
    listener: &'static str,
    /// Maximum number of handshakes that one address may have in progress.
    most_of_one: usize,
    /// Limit of all lines together.
    all_lines: Lines,
    /// Number of lines that the limit of an address suppressed since the last line.
    unsaid: u64,
    lines: DefaultKeyedRateLimiter<IpAddr>,
    failures: DefaultKeyedRateLimiter<IpAddr>,
    barred: BTreeMap<IpAddr, Instant>,
    counts: RefusalReport,
    total: u64,
}

impl RefusalLog {
    /// Creates the log of a listener, which `listener` names in a sentence: `the supervisor`.
    pub fn new(listener: &'static str) -> Self {
        let lines = Quota::with_period(LINE_EACH).unwrap_or(Quota::per_second(LINES)).allow_burst(LINES);
        Self {
            listener,
            most_of_one: GREETINGS_OF_ONE,
            all_lines: Lines::default(),
            unsaid: 0,
            lines: RateLimiter::keyed(lines),
            failures: RateLimiter::keyed(Quota::per_second(FORGIVEN).allow_burst(FAILURES)),
            barred: BTreeMap::new(),
            counts: RefusalReport::default(),
            total: 0,
        }
    }

    /// Returns true if a new connection may be read: false if handshakes from its address failed
    /// too often lately, or if too many of the handshakes that are `under_way` are from its
    /// address. Loopback addresses are always admitted, since blocking one would block every
    /// process of this machine.
    pub fn admits(&mut self, peer: SocketAddr, under_way: impl Iterator<Item = SocketAddr>) -> bool {
        let ip = peer.ip();
        if ip.is_loopback() {
            return true;
        }
        let under_way = under_way.filter(|other| network(other.ip()) == network(ip)).count();
        let is_barred = self.barred.get(&network(ip)).is_some_and(|until| *until > clock::now());
        let admits = !is_barred && under_way < self.most_of_one;
        if !admits {
            self.counts.limited += 1;
            self.say(
                peer,
                &"too many connections from that address have failed or are not complete; if it belongs to this system, see in its log why its connections fail, and correct that; else block it in the firewall",
            );
        }
        admits
    }

    /// Sets the number of handshakes that one address may have in progress.
    #[must_use]
    pub fn limit_of_one(self, most: usize) -> Self {
        Self { most_of_one: most, ..self }
    }

    /// Records a failed handshake, which counts towards blocking the peer's address. A peer that
    /// closed the connection was not refused: if it belongs to this system, its own log says why.
    pub fn record_failure(&mut self, peer: SocketAddr, error: &HandshakeError) {
        *self.count_of(error) += 1;
        self.fail(peer);
        if let HandshakeError::Closed = error {
            let listener = self.listener;
            tracing::debug!(listener, %peer, "{peer} closed its connection to {listener} before it had said who it is");
        } else {
            self.say(peer, error);
        }
    }

    /// Records a connection that sent no `Hello` while other connections waited.
    pub fn record_silence(&mut self, peer: SocketAddr) {
        self.counts.silent += 1;
        self.fail(peer);
        self.say(peer, &"it did not say who it is while other connections waited: it is frozen, or no role of evb; look at the program there");
    }

    /// Records the refusal of a peer that speaks the evb protocol, and has the key if one is
    /// configured.
    pub fn record_refusal(&mut self, peer: SocketAddr, reason: &dyn Display) {
        self.counts.unwelcome += 1;
        self.say(peer, reason);
    }

    /// Counts an accepted connection that ended because received bytes lacked the right tag.
    pub fn count_forged(&mut self) {
        self.counts.forged += 1;
    }

    /// Logs what the listener did, such as `refused a message`, and the reason, if the rate limit
    /// permits.
    pub fn record(&mut self, what: impl Display, reason: &dyn Display) {
        if let Some(unsaid) = self.next_line() {
            let listener = self.listener;
            tracing::warn!(listener, unsaid, "{listener} {what}: {reason}");
        }
    }

    /// Counts a log line that is due, whether it is written or not. Returns the number of lines
    /// left out before this line, or `None` if this line is left out, too.
    pub fn next_line(&mut self) -> Option<u64> {
        self.total += 1;
        let unsaid = self.all_lines.next(clock::now())?;
        Some(unsaid + std::mem::take(&mut self.unsaid))
    }

    /// Counts a log line that is due about the peer at the given address, whose limit is lower than
    /// the limit of all peers together. Returns the same as [`next_line`](Self::next_line).
    pub fn next_line_of(&mut self, peer: SocketAddr) -> Option<u64> {
        if self.lines.len() > ADDRESSES {
            self.lines.retain_recent();
        }
        let has_room = self.lines.len() <= ADDRESSES;
        if has_room && self.lines.check_key(&network(peer.ip())).is_err() {
            self.total += 1;
            self.unsaid += 1;
            return None;
        }
        self.next_line()
    }

    /// Returns the number of refused peers.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of refused peers, by reason.
    pub fn counts(&self) -> RefusalReport {
        self.counts
    }

    fn say(&mut self, peer: SocketAddr, reason: &dyn Display) {
        if let Some(unsaid) = self.next_line_of(peer) {
            let listener = self.listener;
            tracing::warn!(listener, %peer, unsaid, "{listener} refused a connection from {peer}, and goes on without it: {reason}");
        }
    }

    /// Counts a failed handshake of a peer's network, and bars the network for a while if it failed
    /// too often. Both lists are limited, because addresses can be forged.
    fn fail(&mut self, peer: SocketAddr) {
        let network = network(peer.ip());
        if self.failures.len() > ADDRESSES {
            self.failures.retain_recent();
        }
        // Networks beyond the limit are not watched, so that the lists stay small.
        let has_room = self.failures.len() <= ADDRESSES;
        if has_room && self.failures.check_key(&network).is_err() {
            let now = clock::now();
            if self.barred.len() >= ADDRESSES {
                self.barred.retain(|_, until| *until > now);
            }
            if self.barred.len() < ADDRESSES {
                self.barred.insert(network, now + BARRED);
            }
        }
    }

    /// Returns the count to which an error of the handshake belongs.
    fn count_of(&mut self, error: &HandshakeError) -> &mut u64 {
        let counts = &mut self.counts;
        match error {
            HandshakeError::Preamble(PreambleError::Foreign(_)) => &mut counts.foreign,
            HandshakeError::Preamble(PreambleError::Version { .. }) => &mut counts.version,
            HandshakeError::Timeout | HandshakeError::Closed | HandshakeError::Io(_) => &mut counts.silent,
            HandshakeError::Forged(_) => &mut counts.forged,
            error if error.is_about_keys() => &mut counts.keys,
            _ => &mut counts.malformed,
        }
    }
}

/// Returns the network by which an address is tracked: an IPv4 address itself, or the upper half of
/// an IPv6 address. The owner of one IPv6 address has 2⁶⁴ of them (RFC 4291 §2.5.4), so the upper
/// half stands for all of these.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}
