//! [`UdpCounts`]: what a datagram socket has seen.

use crate::pacing::SenderCounts;

/// Counts of a datagram socket since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams that were handed on.
    pub received: u64,
    /// Messages in which the kernel handed them over: on average `received / runs` datagrams were
    /// merged into one.
    pub runs: u64,
    /// Messages that were longer than their room, or from no internet address; all of their
    /// datagrams were dropped.
    pub unusable: u64,
    /// Reports of the network by ICMP on datagrams sent earlier, received as errors: no listener,
    /// no route, a router's MTU.
    pub icmp: u64,
    /// Those of them that report a datagram dropped by a router for its size.
    pub too_large_for_path: u64,
    /// Single datagrams that were sent by `send_to`.
    pub sent_to: u64,
    /// Single datagrams that this host dropped because the socket's buffer or the device's queue
    /// was full.
    pub dropped_to: u64,
    /// Outcome of trains.
    pub trains: SenderCounts,
}
