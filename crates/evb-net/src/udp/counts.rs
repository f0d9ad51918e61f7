//! [`UdpCounts`]: statistics of a datagram socket.

use crate::pacing::SenderCounts;

/// Counts of a datagram socket since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams that were received and passed to the reader.
    pub received: u64,
    /// Messages in which the kernel delivered the received datagrams: on average, `received / runs`
    /// datagrams were merged into one message.
    pub runs: u64,
    /// Messages that were longer than their buffer, or whose sender has no internet address; all of
    /// their datagrams were dropped.
    pub unusable: u64,
    /// ICMP reports about datagrams sent earlier, received as errors: no listener, no route, or a
    /// router's MTU.
    pub icmp: u64,
    /// ICMP reports of a router that dropped a datagram because of its size; also counted in
    /// `icmp`.
    pub too_large_for_path: u64,
    /// Single datagrams that were sent by `send_to`.
    pub sent_to: u64,
    /// Single datagrams that this host dropped because the socket's buffer or the device's queue
    /// was full.
    pub dropped_to: u64,
    /// Outcome of the trains that were sent.
    pub trains: SenderCounts,
}
