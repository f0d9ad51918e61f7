//! One listener's log of the peers that it turned away: a port scanner must neither fill the disk
//! nor keep peers out.

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
    time::Instant,
    wire::{control::RefusalReport, preamble::PreambleError},
};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::HandshakeError;
use crate::clock;

/// Failed handshakes of one address in a row before it is barred, and how many a second are
/// forgiven.
const FAILURES: NonZeroU32 = NonZeroU32::new(32).expect("not zero");
const FORGIVEN: NonZeroU32 = NonZeroU32::new(8).expect("not zero");

/// Time for which an address is barred; its next failure bars it again.
const BARRED: Duration = Duration::from_secs(1);

/// Lines about one address at once; one more each ten seconds.
const LINES: NonZeroU32 = NonZeroU32::new(3).expect("not zero");
const LINE_EACH: Duration = Duration::from_secs(10);

/// Number of addresses that are remembered. Beyond it all are forgotten: a crowd is limited by the
/// budget that all addresses share.
const ADDRESSES: usize = 1024;

/// Handshakes that one address may have under way at once, of those that a listener takes.
const GREETINGS_OF_ONE: usize = 32;

/// Logs refusals: overall at most one a second on average and five in a row, fewer for each
/// address; it counts the others. It bars addresses whose handshakes fail again and again.
#[derive(Debug)]
pub struct RefusalLog {
    listener: &'static str,
    limiter: DefaultDirectRateLimiter,
    lines: DefaultKeyedRateLimiter<IpAddr>,
    failures: DefaultKeyedRateLimiter<IpAddr>,
    barred: BTreeMap<IpAddr, Instant>,
    counts: RefusalReport,
    unsaid: u64,
    total: u64,
}

impl RefusalLog {
    /// Creates the log of the listener of that name.
    pub fn new(listener: &'static str) -> Self {
        const BURST: NonZeroU32 = NonZeroU32::new(5).expect("five is not zero");
        let quota = Quota::per_second(NonZeroU32::MIN).allow_burst(BURST);
        let lines = Quota::with_period(LINE_EACH).unwrap_or(quota).allow_burst(LINES);
        Self {
            listener,
            limiter: RateLimiter::direct(quota),
            lines: RateLimiter::keyed(lines),
            failures: RateLimiter::keyed(Quota::per_second(FORGIVEN).allow_burst(FAILURES)),
            barred: BTreeMap::new(),
            counts: RefusalReport::default(),
            unsaid: 0,
            total: 0,
        }
    }

    /// Returns true if a connection may be read at all: not if its address failed too often lately,
    /// or has too many of the handshakes that are `under_way`. This machine's own addresses are
    /// always admitted, since barring one would bar every process of the machine.
    pub fn admits(&mut self, peer: SocketAddr, under_way: impl Iterator<Item = SocketAddr>) -> bool {
        let ip = peer.ip();
        if ip.is_loopback() {
            return true;
        }
        let under_way = under_way.filter(|other| network(other.ip()) == network(ip)).count();
        let is_barred = self.barred.get(&network(ip)).is_some_and(|until| *until > clock::now());
        let admits = !is_barred && under_way < GREETINGS_OF_ONE;
        if !admits {
            self.counts.limited += 1;
            self.say(
                peer,
                &"too many connections from that address failed or have not completed the handshake",
            );
        }
        admits
    }

    /// A handshake broke off, or its peer is none of ours.
    pub fn record_failure(&mut self, peer: SocketAddr, error: &HandshakeError) {
        *self.count_of(error) += 1;
        self.fail(peer);
        self.say(peer, error);
    }

    /// A connection said nothing while others waited.
    pub fn record_silence(&mut self, peer: SocketAddr) {
        self.counts.silent += 1;
        self.fail(peer);
        self.say(peer, &"the peer sent no hello while other connections waited");
    }

    /// A peer that speaks our protocol, and has the key if there is one, is turned away.
    pub fn record_refusal(&mut self, peer: SocketAddr, reason: &dyn Display) {
        self.counts.unwelcome += 1;
        self.say(peer, reason);
    }

    /// A connection that was let in ended by bytes without the right tag.
    pub fn count_forged(&mut self) {
        self.counts.forged += 1;
    }

    /// Logs a peer that was turned away and the reason, if the rate permits.
    pub fn record(&mut self, peer: impl Display, reason: &dyn Display) {
        if let Some(unsaid) = self.next_line() {
            tracing::warn!(listener = self.listener, %peer, %reason, unsaid, "connection refused");
        }
    }

    /// Counts an occasion for a line of log. Returns the number of lines left out before it, or
    /// `None` if this one is left out, too.
    pub fn next_line(&mut self) -> Option<u64> {
        self.total += 1;
        if self.limiter.check().is_err() {
            self.unsaid += 1;
            return None;
        }
        Some(std::mem::take(&mut self.unsaid))
    }

    /// Counts an occasion for a line about the peer at that address, which has a smaller budget.
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

    /// Returns the number of peers turned away.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of peers turned away, by reason.
    pub fn counts(&self) -> RefusalReport {
        self.counts
    }

    fn say(&mut self, peer: SocketAddr, reason: &dyn Display) {
        if let Some(unsaid) = self.next_line_of(peer) {
            tracing::warn!(listener = self.listener, %peer, %reason, unsaid, "connection refused");
        }
    }

    fn fail(&mut self, peer: SocketAddr) {
        let network = network(peer.ip());
        if self.failures.len() > ADDRESSES {
            self.failures.retain_recent();
        }
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

    fn count_of(&mut self, error: &HandshakeError) -> &mut u64 {
        let counts = &mut self.counts;
        match error {
            HandshakeError::Preamble(PreambleError::Foreign(_)) => &mut counts.foreign,
            HandshakeError::Timeout | HandshakeError::Closed | HandshakeError::Io(_) => &mut counts.silent,
            HandshakeError::Forged(_) => &mut counts.forged,
            error if error.is_about_keys() => &mut counts.keys,
            _ => &mut counts.malformed,
        }
    }
}

/// Returns the network of an address. An owner of one IPv6 address has 2⁶⁴ of them (RFC 4291
/// §2.5.4), so the upper half stands for all.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}
