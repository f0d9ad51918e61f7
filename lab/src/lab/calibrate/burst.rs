//! Sender of a burst of datagrams in trains, and receiver that counts the datagrams. Sender and
//! receiver are started as processes on the lab's hosts, in their network namespaces.

use std::{
    fs,
    io::{IoSlice, Read as _},
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use evb_net::pacing::{DatagramSender, Software};
use serde_json::json;

/// Largest train that a link of the lab carries whole, in bytes of IP packets.
const TRAIN: u64 = 16_384;
/// Number of trains that are sent through one socket.
const OF_SOCKET: usize = 4;
/// Time to wait for late datagrams before the count is reported.
const SETTLED: Duration = Duration::from_millis(60);

/// Returns the number of datagrams with this payload in a full train.
fn of_train(payload: u64) -> u64 {
    (TRAIN / (payload + 28)).max(1)
}

/// Sends `packets` datagrams as fast as possible, and prints the time taken as JSON.
pub(crate) fn send(to: SocketAddr, packets: u64, payload: u64) -> Result<()> {
    let trains = packets.div_ceil(of_train(payload)) as usize;
    // A socket's send buffer limits the datagrams that wait in this host's link, so several sockets
    // are used.
    let mut senders: Vec<_> = (0..trains.div_ceil(OF_SOCKET)).map(|_| connect(to)).collect::<Result<_>>()?;
    let bytes = vec![0; (of_train(payload) * payload) as usize];
    let segment = u16::try_from(payload).context("a payload is larger than a datagram")?;
    let (begun, mut left) = (Instant::now(), packets);
    for place in 0..trains {
        let next = left.min(of_train(payload));
        let train = &bytes[..(next * payload) as usize];
        let sent = senders[place / OF_SOCKET].send_train(&[IoSlice::new(train)], segment, None)?;
        anyhow::ensure!(sent == train.len(), "{sent} of {} bytes sent", train.len());
        left -= next;
    }
    println!("{}", json!({ "seconds": begun.elapsed().as_secs_f64() }));
    Ok(())
}

fn connect(to: SocketAddr) -> Result<DatagramSender> {
    let from = SocketAddr::from(([0, 0, 0, 0], 0));
    Ok(DatagramSender::connect(from, to, &Software::timer(), None, None)?)
}

/// Counts the datagrams that arrive at `at` until stdin is closed, and prints the number as JSON.
/// Datagrams for which the socket had no room are counted too, because the network has delivered
/// them.
pub(crate) fn count(at: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(at)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let counted = Arc::new(AtomicU64::new(0));
    let (reader, counter) = (socket.try_clone()?, Arc::clone(&counted));
    thread::spawn(move || {
        let mut memory = [0; 1];
        loop {
            if reader.recv(&mut memory).is_ok() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    thread::sleep(SETTLED);
    let refused = no_room(&fs::read_to_string("/proc/net/snmp")?).context("no counters of UDP")?;
    println!("{}", json!({ "datagrams": counted.load(Ordering::Relaxed) + refused }));
    Ok(())
}

/// Returns the number of datagrams that found no room in a socket of this network namespace, from
/// the content of `/proc/net/snmp`.
fn no_room(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "RcvbufErrors")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests;
