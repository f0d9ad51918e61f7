//! [`UdpCounts`]: what a datagram socket has seen.

use crate::pacing::SenderCounts;

/// What a datagram socket has seen since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams that were handed on.
    pub received: u64,
    /// Messages in which the kernel handed them over: `received / runs` datagrams were merged into one.
    pub runs: u64,
    /// Messages that were longer than the room for them, or from no internet address; all of their datagrams were dropped.
    pub unusable: u64,
    /// What the network said by ICMP of datagrams sent earlier, told when receiving: nobody listens, no route, a router's MTU.
    pub icmp: u64,
    /// Of those, that a router had to drop a datagram for its size.
    pub too_large_for_path: u64,
    /// Single datagrams that were sent by `send_to`.
    pub sent_to: u64,
    /// Single datagrams that this host dropped because the socket's buffer or the device's queue was full.
    pub dropped_to: u64,
    /// What became of trains.
    pub trains: SenderCounts,
}
