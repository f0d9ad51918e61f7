//! Ports for the programs that a test starts.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

/// The ports that tests use. The kernel takes the ports of outgoing connections from 32768 on
/// (ip(7), `ip_local_port_range`), so none of these takes a port that a program binds again.
const PORTS: std::ops::Range<u32> = 10_000..32_000;

/// Number of ports that this process has tried.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Returns free ports of loopback, which no other test of this process gets.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let first = std::process::id().wrapping_mul(1009);
    let tries = (0..PORTS.end - PORTS.start).map(|_| {
        let place = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        (PORTS.start + place % (PORTS.end - PORTS.start)) as u16
    });
    let free: Vec<u16> =
        tries.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect();
    assert_eq!(free.len(), count, "loopback has free ports");
    free
}
