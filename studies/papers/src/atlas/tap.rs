//! A listener on a host that notes when trigger announcements arrive.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use evb_core::trigger::announcement::{Asked, parse_datagram};
use evb_net::clock;
use socket2::{Domain, Protocol, Socket, Type};

/// Bytes of announcements that the kernel keeps for the listener.
const BUFFER: usize = 1 << 20;
/// Interval at which the listener looks if its stdin is closed.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of the listener.
#[derive(Args, Clone, Debug)]
pub struct Tap {
    /// Multicast group and port of the announcements.
    group: SocketAddrV4,
    /// Address of this host in the network of the group.
    interface: Ipv4Addr,
    /// File for the arrivals.
    file: PathBuf,
}

/// Arrival of an announcement at one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    pub(super) number: u64,
    /// Time from sending to arrival in µs. All hosts of the lab share one clock.
    pub(super) after_sending_us: f64,
}

/// Notes arrivals until stdin is closed, and writes them to the file.
pub fn listen(tap: &Tap) -> Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // The source of evb on this host listens to the same group and port.
    socket.set_reuse_address(true)?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.bind(&tap.group.into())?;
    socket.join_multicast_v4(tap.group.ip(), &tap.interface)?;
    socket.set_read_timeout(Some(LOOK))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    thread::spawn(move || {
        // An error of stdin ends the listener as its end does.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    let heard = hear(&socket.into(), &is_over);
    let mut lines = String::new();
    for Arrival { number, after_sending_us } in heard {
        writeln!(lines, "{number} {after_sending_us:.3}")?;
    }
    fs::write(&tap.file, lines).with_context(|| tap.file.display().to_string())
}

fn hear(socket: &UdpSocket, is_over: &AtomicBool) -> Vec<Arrival> {
    let (mut heard, mut datagram) = (Vec::new(), [0; 64]);
    while !is_over.load(Ordering::Relaxed) {
        // The read fails only because its time is over.
        let Ok(length) = socket.recv(&mut datagram) else { continue };
        let now = clock::now().as_nanos();
        if let Ok(Asked::Announced(announcement)) = parse_datagram(&datagram[..length]) {
            let after_sending_us = now.saturating_sub(announcement.sent_ns) as f64 / 1e3;
            heard.push(Arrival { number: announcement.number, after_sending_us });
        }
    }
    heard
}

/// Reads the file of a listener.
pub(super) fn arrivals(file: &Path) -> Result<Vec<Arrival>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    text.lines().map(|line| arrival(line).with_context(|| format!("`{line}` is no arrival"))).collect()
}

fn arrival(line: &str) -> Option<Arrival> {
    let (number, after) = line.split_once(' ')?;
    Some(Arrival { number: number.parse().ok()?, after_sending_us: after.parse().ok()? })
}

#[cfg(test)]
mod tests;
