//! Ports for the programs that a test starts.

use std::net::TcpListener;

/// Returns free ports of loopback, all different, because all are bound at the same time.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback has a port")).collect();
    bound.iter().map(|listener| listener.local_addr().expect("a bound socket").port()).collect()
}
