//! A relay between sources and a builder that flips bits of datagrams. If `tc` flipped bits, the
//! UDP checksum would detect them. The relay receives every datagram and sends it again, so that
//! its UDP checksum is correct and only evb's own checksum can detect the damage.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::Arc,
    thread,
};

use anyhow::Result;
use serde_json::json;

use super::dice::Dice;

/// Size of a buffer that has room for any datagram, in bytes.
const DATAGRAM: usize = 65_536;
/// Number of damaged datagrams after which the relay prints their total again.
const SAY_EVERY: u64 = 10;

/// Relays TCP streams and UDP datagrams from `at` to `to` and back. Flips a bit in `percent` of the
/// datagrams towards the builder.
pub(crate) fn relay(at: SocketAddr, to: SocketAddr, percent: f64) -> Result<()> {
    let (listener, socket) = (TcpListener::bind(at)?, Arc::new(UdpSocket::bind(at)?));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // An error is ignored: if the builder is unreachable, the connection of the source
            // closes, and the source retries.
            let _ = relay_stream(stream, to);
        }
    });
    let mut ways: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    let (mut dice, mut damaged, mut datagram) = (Dice(1), 0u64, vec![0; DATAGRAM]);
    loop {
        let (length, source) = socket.recv_from(&mut datagram)?;
        let datagram = &mut datagram[..length];
        if dice.uniform() * 100.0 < percent {
            let bit = (dice.uniform() * (length * 8) as f64) as usize;
            datagram[bit / 8] ^= 1 << (bit % 8);
            damaged += 1;
            if damaged.is_multiple_of(SAY_EVERY) {
                println!("{}", json!({ "damaged": damaged }));
            }
        }
        let place = match ways.iter().position(|(known, _)| *known == source) {
            Some(place) => place,
            None => {
                ways.push((source, back(&socket, source, to)?));
                ways.len() - 1
            }
        };
        // An error is ignored, because a network may lose datagrams.
        let _ = ways[place].1.send(datagram);
    }
}

/// Opens a socket to the builder for one source, and starts a thread that relays the builder's
/// answers.
fn back(socket: &Arc<UdpSocket>, source: SocketAddr, to: SocketAddr) -> io::Result<UdpSocket> {
    let way = UdpSocket::bind((socket.local_addr()?.ip(), 0))?;
    way.connect(to)?;
    let (from_builder, socket) = (way.try_clone()?, Arc::clone(socket));
    thread::spawn(move || {
        let mut datagram = vec![0; DATAGRAM];
        loop {
            // An error is ignored, because receiving fails while the builder does not run.
            if let Ok(length) = from_builder.recv(&mut datagram) {
                let _ = socket.send_to(&datagram[..length], source);
            }
        }
    });
    Ok(way)
}

fn relay_stream(source: TcpStream, to: SocketAddr) -> io::Result<()> {
    let builder = TcpStream::connect(to)?;
    for (mut from, mut into) in
        [(source.try_clone()?, builder.try_clone()?), (builder.try_clone()?, source.try_clone()?)]
    {
        into.set_nodelay(true)?;
        thread::spawn(move || {
            let copied = io::copy(&mut from, &mut into);
            // When one direction ends, the connection is shut down in both directions.
            let _ = into.shutdown(std::net::Shutdown::Both);
            copied
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
